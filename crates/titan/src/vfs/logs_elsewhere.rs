//! A file system that shows the WAL files of another directory in the directory of the database.
//!
//! So the engine need not know where they are. A WAL file in the directory of the database itself,
//! from before another one was chosen, is found there too; new ones are created in the other.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    Access, FileLock, PunchableFile, ReadableFile, Vfs, WritableFile, at_place, forward, in_locked,
};
use crate::error::Result;
use crate::sorting;

/// The extension of WAL files.
const EXTENSION: &str = "log";

/// See the [module](self).
pub(crate) struct LogsElsewhere {
    inner: Arc<dyn Vfs>,
    dir: PathBuf,
    logs: PathBuf,
}

impl LogsElsewhere {
    /// Shows the WAL files of `logs` in `dir`.
    pub(crate) fn new(inner: Arc<dyn Vfs>, dir: &Path, logs: &Path) -> Self {
        LogsElsewhere {
            inner,
            dir: dir.to_owned(),
            logs: logs.to_owned(),
        }
    }

    /// The path at which a file with this name is created.
    fn new_place(&self, path: &Path) -> PathBuf {
        match path.file_name() {
            Some(name) if path.parent() == Some(&self.dir) && is_log(Path::new(name)) => {
                self.logs.join(name)
            }
            _ => path.to_owned(),
        }
    }

    /// The lock of the database, and one of the directory with its WAL files: no other database
    /// has any there. That directory is not locked if it is missing, as of a database that is to be
    /// deleted, and is created before the lock of one that is to be written. Nor is it locked if it
    /// is the one of the database by another name, which is locked already.
    fn and_logs(&self, path: &Path, directory: Box<dyn FileLock>) -> Result<Box<dyn FileLock>> {
        if path.parent() != Some(&self.dir) {
            return Ok(directory);
        }
        let place = |dir: &Path| self.inner.canonicalize(dir).ok();
        if place(&self.logs).is_some_and(|logs| place(&self.dir) == Some(logs)) {
            return Ok(directory);
        }
        match self.inner.lock_directory(&self.logs) {
            Ok(logs) => Ok(Box::new(BothLocks { directory, logs })),
            Err(e) if e.is_not_found() => Ok(directory),
            Err(e) => Err(e),
        }
    }

    /// The path of the file that has this name.
    fn place(&self, path: &Path) -> Result<PathBuf> {
        let elsewhere = self.new_place(path);
        let is_here =
            elsewhere != path && !self.inner.exists(&elsewhere)? && self.inner.exists(path)?;
        Ok(if is_here { path.to_owned() } else { elsewhere })
    }
}

/// Locks of the directory of a database and of the one that has its WAL files.
struct BothLocks {
    directory: Box<dyn FileLock>,
    logs: Box<dyn FileLock>,
}

impl FileLock for BothLocks {
    fn directory(&self) -> Option<&Arc<OwnedFd>> {
        self.directory.directory()
    }

    fn of_logs(&self) -> Option<&dyn FileLock> {
        Some(&*self.logs)
    }
}

fn is_log(name: &Path) -> bool {
    name.extension() == Some(OsStr::new(EXTENSION))
}

impl Vfs for LogsElsewhere {
    at_place! {}

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.inner.create(&self.new_place(path))
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.inner.create_log(&self.new_place(path))
    }

    fn create_bulk(&self, path: &Path, direct: bool) -> Result<Box<dyn WritableFile>> {
        self.inner.create_bulk(&self.new_place(path), direct)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(&self.place(from)?, &self.new_place(to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(&self.place(from)?, &self.new_place(to))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if dir == self.dir {
            self.inner.sync_dir(&self.logs)?;
        }
        self.inner.sync_dir(dir)
    }

    forward! {
        self, self.inner;
        create_dir_all remove_dir canonicalize device_space resources lock_directory
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.and_logs(path, self.inner.lock(path)?)
    }

    /// The lock of the database alone: a copy that is only read may still name the directory of the
    /// original.
    fn lock_shared(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock_shared(path)
    }

    fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = self.inner.read_dir(dir)?;
        if dir == self.dir {
            let logs = match self.inner.read_dir(&self.logs) {
                // A new database has not created it yet.
                Err(e) if e.is_not_found() => Vec::new(),
                logs => logs?,
            };
            names.extend(logs.into_iter().filter(|name| is_log(Path::new(name))));
            sorting::sort(&mut names);
            names.dedup();
        }
        Ok(names)
    }

    fn anchored(&self, dir: &Path, lock: &dyn FileLock) -> Option<Arc<dyn Vfs>> {
        let mut inner = self.inner.anchored(dir, lock)?;
        if let Some(lock) = lock.of_logs() {
            inner = in_locked(inner, &self.logs, lock);
        }
        Some(Arc::new(LogsElsewhere::new(inner, &self.dir, &self.logs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::StdVfs;

    #[test]
    fn logs_are_shown_where_they_are_not() {
        let (dir, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (dir, logs) = (dir.path(), logs.path());
        let vfs = LogsElsewhere::new(Arc::new(StdVfs), dir, logs);
        std::fs::write(dir.join("1.log"), "old").unwrap();
        std::fs::write(logs.join("notes"), "not ours").unwrap();
        for name in ["2.log", "3.sst"] {
            vfs.create(&dir.join(name)).unwrap();
        }
        assert_eq!(vfs.read_dir(dir).unwrap(), ["1.log", "2.log", "3.sst"]);
        assert!(logs.join("2.log").exists() && dir.join("3.sst").exists());
        assert_eq!(vfs.size(&dir.join("1.log")).unwrap(), 3);
        vfs.sync_dir(dir).unwrap();
        for name in ["1.log", "2.log", "3.sst"] {
            assert!(vfs.exists(&dir.join(name)).unwrap());
            vfs.remove(&dir.join(name)).unwrap();
            assert!(!vfs.exists(&dir.join(name)).unwrap());
        }
        assert_eq!(StdVfs.read_dir(logs).unwrap(), ["notes"]);
    }
}
