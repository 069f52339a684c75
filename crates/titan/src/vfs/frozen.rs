//! The files of a directory as somebody has taken hold of them: whatever happens to their names since,
//! here each keeps its content, and there are no others. Nothing can be changed; what is to be is for
//! an [`Overlay`](super::Overlay) above.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Access, FileLock, NotLocked, ReadableFile, Resources, Vfs, WritableFile, only_read};
use crate::error::{Error, ErrorKind, Result};

/// [`Vfs`] in which one directory has just the files given. Everything outside of it is the base's.
pub(crate) struct Frozen {
    base: Arc<dyn Vfs>,
    dir: PathBuf,
    files: BTreeMap<PathBuf, Arc<dyn ReadableFile>>,
}

impl Frozen {
    /// `dir` of `base` with nothing but `files`, which are in it.
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

    /// The file; `None` leaves it to the base.
    fn file(&self, path: &Path) -> Option<Result<&Arc<dyn ReadableFile>>> {
        if path.parent() != Some(&self.dir) {
            return None;
        }
        let file = self.files.get(path);
        Some(file.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the file is not of this moment").in_file(path)
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
        // Of a file whose name is gone by now, nothing says which holes it has.
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

    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        self.base.canonicalize(path)
    }

    fn resources(&self) -> Resources {
        self.base.resources()
    }

    /// Nobody changes anything here.
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
