//! The database and the family that a command writes to, and creates if they are missing.

use std::path::Path;

use titan::{ColumnFamily, Db, Error, Options, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::{config, output, owner};

/// A database and a family of it, one or both of which may be new.
pub(crate) struct Target<'a> {
    pub(crate) db: Db,
    pub(crate) family: ColumnFamily,
    path: &'a Path,
    global: &'a Global,
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
        global: &'a Global,
    ) -> Result<Self> {
        let had_database = has_database(path);
        let db = open::open(path, global, Access::Create)?;
        // Another process may have made one meanwhile.
        let had_database = had_database || db.latest_sequence_number().0 > 0;
        let mut target = Target {
            family: (*db).clone(),
            db,
            path,
            global,
            has_made_database: !had_database,
            has_made_family: false,
        };
        let db = &target.db;
        let is_new = family.is_some_and(|name| db.column_family(name).is_none());
        let found = owner::refuse_owned(db, force);
        match found.and_then(|()| open::family_or_new(db, family, global)) {
            Ok(family) => target.family = family,
            Err(e) => return Err(target.undo_after(e)),
        }
        target.has_made_family = is_new;
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
            // What it cannot write any more is not wanted.
            let _ = db.close();
            drop((family, db));
            return Db::destroy(self.path, &config::options(self.global)?);
        }
        if self.has_made_family {
            db.drop_column_family(&family)?;
            db.close()?;
        }
        Ok(())
    }
}

/// Whether there is a database already, perhaps one that cannot be opened. The configuration, which
/// may come from a pipe, is left to the opening.
fn has_database(path: &Path) -> bool {
    let listed = Db::list_column_families(path, &Options::default());
    !listed.is_err_and(|e| e.is_not_found())
}
