//! Directories and names of the files of a database, if not those that this engine would choose.

use std::path::Path;
use std::sync::Arc;

use super::wal_dir::with_wal_dir;
use crate::error::Result;
use crate::options::Options;
use crate::vfs::LevelDbNames;

/// The options to work on the database in `dir` with: their file system shows WAL files that are in
/// another directory ([`with_wal_dir`], which defines `looking`) and tables of LevelDB
/// ([`LevelDbNames`]) under the names that the engine uses.
///
/// # Errors
/// Those of [`with_wal_dir`].
pub fn with_layout(dir: &Path, options: &Options, looking: bool) -> Result<Options> {
    let mut options = with_wal_dir(dir, options, looking)?;
    options.db.vfs = LevelDbNames::shown(Arc::clone(&options.db.vfs), dir)?;
    Ok(options)
}
