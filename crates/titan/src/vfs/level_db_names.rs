//! A file system that shows tables which LevelDB wrote under the names of RocksDB's.
//!
//! LevelDB names a table `NNNNNN.ldb`. RocksDB, which opens such a directory in place, goes on
//! reading these files until compactions have replaced them. Both names have numbers from the same
//! sequence, and a file is found under either.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Access, FileLock, PunchableFile, ReadableFile, Vfs, WritableFile, at_place, forward};
use crate::error::Result;

/// The extensions of tables, and of those that LevelDB wrote.
const EXTENSION: &str = "sst";
const OF_LEVEL_DB: &str = "ldb";

/// See the [module](self).
pub(crate) struct LevelDbNames {
    inner: Arc<dyn Vfs>,
    dir: PathBuf,
}

impl LevelDbNames {
    /// Shows the tables in `dir`, if there are any of LevelDB's; otherwise returns `inner`. Cost:
    /// lists the directory.
    pub(crate) fn shown(inner: Arc<dyn Vfs>, dir: &Path) -> Result<Arc<dyn Vfs>> {
        let names = match inner.read_dir(dir) {
            Ok(names) => names,
            // A directory that is missing, or none, is refused by the callers that need it.
            Err(e) if e.is_out_of_descriptors() => return Err(e),
            Err(_) => Vec::new(),
        };
        let is_of_level_db = |name: &String| has_extension(Path::new(name), OF_LEVEL_DB);
        Ok(match names.iter().any(is_of_level_db) {
            true => Arc::new(LevelDbNames {
                inner,
                dir: dir.to_owned(),
            }),
            false => inner,
        })
    }

    /// The path of the file that has this name.
    fn place(&self, path: &Path) -> Result<PathBuf> {
        if path.parent() != Some(&self.dir) || !has_extension(path, EXTENSION) {
            return Ok(path.to_owned());
        }
        let of_level_db = path.with_extension(OF_LEVEL_DB);
        let is_so = !self.inner.exists(path)? && self.inner.exists(&of_level_db)?;
        Ok(if is_so { of_level_db } else { path.to_owned() })
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension() == Some(OsStr::new(extension))
}

impl Vfs for LevelDbNames {
    at_place! {}

    forward! {
        self, self.inner;
        create create_log sync_dir create_dir_all remove_dir read_dir canonicalize device_space
        resources lock lock_shared lock_directory
    }

    fn create_bulk(&self, path: &Path, direct: bool) -> Result<Box<dyn WritableFile>> {
        self.inner.create_bulk(path, direct)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(&self.place(from)?, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(&self.place(from)?, to)
    }

    fn anchored(&self, dir: &Path, lock: &dyn FileLock) -> Option<Arc<dyn Vfs>> {
        Some(Arc::new(LevelDbNames {
            inner: self.inner.anchored(dir, lock)?,
            dir: self.dir.clone(),
        }))
    }
}
