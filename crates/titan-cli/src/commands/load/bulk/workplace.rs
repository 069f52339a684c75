//! The directory for tables that are not in the database yet.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::json;
use titan::{Error, Result};

use crate::output;

/// Directories of other loads that are passed over.
const MOST_OTHERS: u32 = 99;

/// A new directory. It is removed, with all that it has, when this is dropped.
pub(super) struct Workplace {
    path: PathBuf,
    tables: usize,
}

impl Workplace {
    /// Makes it beside the database, or in `parent`, under a name that nothing has. A directory of
    /// an earlier load, whose process was killed, is left alone, since it may be another's, and
    /// standard error names it.
    pub(super) fn new(database: &Path, parent: Option<&Path>) -> Result<Self> {
        let found = fs::canonicalize(database);
        let database = found.map_err(|e| Error::io(e, "look at", database))?;
        let name = database.file_name().unwrap_or_default();
        let beside = database.parent().unwrap_or(&database);
        let parent = parent.unwrap_or(beside);
        for nth in 1..=MOST_OTHERS + 1 {
            let mut name = name.to_owned();
            name.push(format!(".bulk-{nth}"));
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Workplace { path, tables: 0 }),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => tell_of_other(&path),
                Err(e) => return Err(Error::io(e, "create", &path)),
            }
        }
        let why = "there are too many directories of loads that were killed";
        Err(Error::invalid_argument(why).in_file(parent))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A path for the next table.
    pub(super) fn next_table(&mut self) -> PathBuf {
        self.tables += 1;
        self.path.join(format!("{:06}.sst", self.tables))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.path) {
            output::complain(&Error::io(e, "remove", &self.path));
        }
    }
}

/// Says that something has a name that this load would take. It may be what a load that was killed
/// has left, and large.
fn tell_of_other(path: &Path) {
    match output::is_json() {
        true => output::tell(json!({ "left": path.to_string_lossy() })),
        false => output::tell(format_args!(
            "titan: {} exists; if a load that was killed has left it, it can be removed",
            path.display()
        )),
    }
}
