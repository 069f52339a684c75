//! The files of a directory as they were opened at one moment: even if their names change later,
//! each keeps its content here, and there are no others. Nothing can be changed; an
//! [`Overlay`](super::Overlay) on top takes changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Access, FileLock, NotLocked, ReadableFile, Vfs, WritableFile, forward, only_read};
use crate::error::{Error, ErrorKind, Result};

/// [`Vfs`] in which one directory contains just the given files. The base serves all other paths.
pub struct Frozen {
    base: Arc<dyn Vfs>,
    dir: PathBuf,
    files: BTreeMap<PathBuf, Arc<dyn ReadableFile>>,
}

impl Frozen {
    /// Shows `files`, which are in the directory `dir` of `base`, as its only content.
    pub(crate) fn new(
        base: Arc<dyn Vfs>,
        dir: &Path,
        files: BTreeMap<PathBuf, Arc<dyn ReadableFile>>,
    ) -> Self {
        Frozen {
            base,
            dir: dir.to_owned(),
            files,
        }
    }

    /// The file; `None` if the base serves the path.
    fn file(&self, path: &Path) -> Option<Result<&Arc<dyn ReadableFile>>> {
        if path.parent() != Some(&self.dir) {
            return None;
        }
        let file = self.files.get(path);
        Some(file.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the file is not in this view").in_file(path)
        }))
    }
}

impl Vfs for Frozen {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Err(only_read(path))
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        match self.file(path) {
            Some(file) => file.cloned(),
            None => self.base.open(path, access),
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        Err(only_read(path))
    }

    fn rename(&self, from: &Path, _: &Path) -> Result<()> {
        Err(only_read(from))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        Err(only_read(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        Err(only_read(dir))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        Err(only_read(dir))
    }

    fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
        if dir != self.dir {
            return self.base.read_dir(dir);
        }
        let names = self.files.keys().filter_map(|path| path.file_name());
        Ok(names
            .filter_map(|n| n.to_str())
            .map(str::to_owned)
            .collect())
    }

    fn size(&self, path: &Path) -> Result<u64> {
        match self.file(path) {
            Some(file) => file?.size(),
            None => self.base.size(path),
        }
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        let Some(file) = self.file(path) else {
            return self.base.allocated_bytes(path);
        };
        let size = file?.size()?;
        // If the name is gone by now, the file cannot be asked for its holes.
        match self.base.allocated_bytes(path) {
            Err(e) if e.is_not_found() => Ok(size),
            bytes => bytes,
        }
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        if let Some(file) = self.file(path) {
            file?;
        }
        self.base.link_count(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.file(path) {
            Some(file) => Ok(file.is_ok()),
            None => self.base.exists(path),
        }
    }

    forward! {
        self, self.base;
        canonicalize resources
    }

    /// Nothing can be changed here, so there is nothing to lock.
    fn lock(&self, _: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(NotLocked))
    }

    fn lock_shared(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.lock(path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MemoryFile, StdVfs, read_file};
    use super::*;

    #[test]
    fn there_is_what_was_given_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["open", "other"] {
            std::fs::write(path(name), "as it was").unwrap();
        }
        let files = BTreeMap::from([
            (
                path("open"),
                StdVfs.open(&path("open"), Access::Random).unwrap(),
            ),
            (path("memory"), MemoryFile::open("in memory")),
        ]);
        let vfs = Frozen::new(Arc::new(StdVfs), dir.path(), files);
        std::fs::remove_file(path("open")).unwrap();
        std::fs::write(path("new"), "new").unwrap();

        assert_eq!(vfs.read_dir(dir.path()).unwrap(), ["memory", "open"]);
        assert_eq!(read_file(&vfs, &path("open")).unwrap(), "as it was");
        assert_eq!(read_file(&vfs, &path("memory")).unwrap(), "in memory");
        assert_eq!(vfs.size(&path("open")).unwrap(), 9);
        assert_eq!(vfs.allocated_bytes(&path("open")).unwrap(), 9);
        for gone in ["other", "new"] {
            assert!(!vfs.exists(&path(gone)).unwrap());
            assert!(vfs.size(&path(gone)).unwrap_err().is_not_found());
            assert!(
                vfs.open(&path(gone), Access::Random)
                    .err()
                    .unwrap()
                    .is_not_found()
            );
        }
        let parent = dir.path().parent().unwrap();
        assert!(!vfs.read_dir(parent).unwrap().is_empty());
        assert!(vfs.exists(dir.path()).unwrap());
        assert!(vfs.create(&path("a")).is_err() && vfs.remove(&path("memory")).is_err());
    }
}
