//! The database and the family that a command writes to, and creates if they are missing.

use std::path::Path;

use titan::{ColumnFamily, Db, Error, Options, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::{output, owner};

/// A database and a family of it, one or both of which may be new.
pub(crate) struct Target<'a> {
    pub(crate) db: Db,
    pub(crate) family: ColumnFamily,
    path: &'a Path,
    /// Those of the opening. A configuration may come from a pipe, and is read once.
    options: Options,
    has_made_database: bool,
    has_made_family: bool,
}

impl<'a> Target<'a> {
    /// Opens or creates them.
    ///
    /// # Errors
    /// Those of the engine; `InvalidArgument` for the entries of another program, without `force`.
    pub(crate) fn open(
        path: &'a Path,
        family: Option<&str>,
        force: bool,
        global: &Global,
    ) -> Result<Self> {
        let options = open::options(path, global)?;
        let had_database = open::has_database(path);
        let had_family = !had_database || family.is_none_or(|it| may_have(path, &options, it));
        let db = open::opened(path, options.clone(), global, Access::Create, Vec::new())?;
        // Another process may have made one meanwhile.
        let has_made_database = !had_database && db.latest_sequence_number().0 == 0;
        let mut target = Target {
            family: (*db).clone(),
            db,
            path,
            options,
            has_made_database,
            has_made_family: false,
        };
        let found = owner::refuse_owned(&target.db, force);
        match found.and_then(|()| open::family_or_new(&target.db, family, global)) {
            Ok(family) => target.family = family,
            Err(e) => return Err(target.undo_after(e)),
        }
        target.has_made_family = !had_family;
        Ok(target)
    }

    /// Whether the opening made something.
    pub(crate) fn was_made(&self) -> bool {
        self.has_made_database || self.has_made_family
    }

    /// Removes what the opening made, since nothing came to be stored there. Returns the error for
    /// which nothing did.
    pub(crate) fn undo_after(self, error: Error) -> Error {
        if let Err(e) = self.undo() {
            output::complain(&e);
        }
        error
    }

    fn undo(self) -> Result<()> {
        let Target { db, family, .. } = self;
        if self.has_made_database {
            // Another process may open it as soon as it is closed, and write to it.
            let known = self.options.db.vfs.read_dir(self.path)?;
            // Writes that it cannot finish any more are not wanted.
            let _ = db.close();
            drop((family, db));
            return Db::destroy_if_unchanged(self.path, &self.options, &known).map(drop);
        }
        // Another process may have made it meanwhile, and written to it.
        if self.has_made_family && family.first_key_value()?.is_none() {
            db.drop_column_family(&family)?;
            db.close()?;
        }
        Ok(())
    }
}

/// Whether the database has a family, as far as one can tell. The opening makes one that the
/// configuration describes, so it cannot tell afterwards.
fn may_have(path: &Path, options: &Options, family: &str) -> bool {
    let listed = Db::list_column_families(path, options);
    listed.map_or(true, |names| names.iter().any(|name| name == family))
}
