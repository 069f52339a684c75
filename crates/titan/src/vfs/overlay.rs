//! A file system over another one that it only reads: writes stay in memory and are lost with it.
//! So a database can be opened, recovered and inspected without changing a byte of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::memory_file::MemoryFile;
use super::{
    Access, FileLock, NotLocked, ReadableFile, Vfs, WritableFile, forward, lock_to_read, only_read,
};
use crate::error::{Error, ErrorKind, Result};

/// [`Vfs`] whose changes are in memory. Directories cannot be created, removed or renamed.
pub(crate) struct Overlay {
    base: Arc<dyn Vfs>,
    /// Differences from the base: a file's content, or `None` for a name that was removed. Shared
    /// with anchored overlays.
    changed: Arc<Mutex<BTreeMap<PathBuf, Option<MemoryFile>>>>,
}

impl Overlay {
    pub(crate) fn new(base: Arc<dyn Vfs>) -> Self {
        Overlay {
            base,
            changed: Arc::default(),
        }
    }

    /// The file in memory that has this name; the outer `None` if the base serves the path.
    fn changed(&self, path: &Path) -> Option<Result<MemoryFile>> {
        let changed = self.changed.lock();
        let file = changed.get(path)?.clone();
        Some(file.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the file has been removed").in_file(path)
        }))
    }
}

impl Vfs for Overlay {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = MemoryFile::default();
        let mut changed = self.changed.lock();
        changed.insert(path.to_owned(), Some(file.clone()));
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        match self.changed(path) {
            Some(file) => Ok(Arc::new(file?)),
            None => self.base.open(path, access),
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.size(path)?;
        if mutant!(looking_deletes_files) {
            let _ = self.base.remove(path);
        }
        self.changed.lock().insert(path.to_owned(), None);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let Some(file) = self.changed(from) else {
            return Err(only_read(from));
        };
        let file = file?;
        let mut changed = self.changed.lock();
        changed.insert(from.to_owned(), None);
        changed.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        match self.base.exists(dir)? {
            true => Ok(()),
            false => Err(only_read(dir)),
        }
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        Err(only_read(dir))
    }

    fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = BTreeSet::from_iter(self.base.read_dir(dir)?);
        for (path, file) in &*self.changed.lock() {
            let name = path.file_name().and_then(|name| name.to_str());
            let (Some(name), true) = (name, path.parent() == Some(dir)) else {
                continue;
            };
            match file {
                Some(_) => names.insert(name.to_owned()),
                None => names.remove(name),
            };
        }
        Ok(names.into_iter().collect())
    }

    fn size(&self, path: &Path) -> Result<u64> {
        match self.changed(path) {
            Some(file) => file?.size(),
            None => self.base.size(path),
        }
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        match self.changed(path) {
            Some(file) => file?.size(),
            None => self.base.allocated_bytes(path),
        }
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        match self.changed(path) {
            Some(file) => file.map(|_| 1),
            None => self.base.link_count(path),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.changed(path) {
            Some(file) => Ok(file.is_ok()),
            None => self.base.exists(path),
        }
    }

    forward! {
        self, self.base;
        canonicalize resources
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        lock_to_read(&*self.base, path)
    }

    /// Locks nothing: nothing is written there, and a copy may still name the directory of the
    /// original.
    fn lock_directory(&self, _: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(NotLocked))
    }

    fn anchored(&self, dir: &Path, lock: &dyn FileLock) -> Option<Arc<dyn Vfs>> {
        Some(Arc::new(Overlay {
            base: self.base.anchored(dir, lock)?,
            changed: Arc::clone(&self.changed),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StdVfs, read_file, replace_file};
    use super::*;

    #[test]
    fn changes_are_seen_and_leave_the_base_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a"), "base").unwrap();
        std::fs::write(path("b"), "base").unwrap();
        let vfs = Overlay::new(Arc::new(StdVfs));
        let names = || {
            let mut names = vfs.read_dir(dir.path()).unwrap();
            names.sort();
            names
        };

        replace_file(&vfs, &path("t"), &path("a"), b"changed").unwrap();
        assert_eq!(read_file(&vfs, &path("a")).unwrap(), "changed");
        assert_eq!(vfs.size(&path("a")).unwrap(), 7);
        assert_eq!(read_file(&vfs, &path("b")).unwrap(), "base");
        assert_eq!(names(), ["a", "b"]);
        vfs.remove(&path("b")).unwrap();
        assert!(
            vfs.open(&path("b"), Access::Random)
                .err()
                .unwrap()
                .is_not_found()
        );
        assert!(vfs.remove(&path("b")).unwrap_err().is_not_found());
        assert!(!vfs.exists(&path("b")).unwrap());
        assert_eq!(names(), ["a"]);
        vfs.create(&path("b")).unwrap().append(b"again").unwrap();
        assert_eq!(names(), ["a", "b"]);

        let file = vfs.open(&path("b"), Access::Random).unwrap();
        let mut buf = [0; 4];
        assert_eq!(file.read_at(2, &mut buf).unwrap(), 3);
        assert_eq!(&buf[..3], b"ain");
        assert_eq!(file.read_at(9, &mut buf).unwrap(), 0);

        for refused in [
            vfs.create_dir_all(&path("d")),
            vfs.remove_dir(dir.path()),
            vfs.rename(dir.path(), &path("e")),
            vfs.link(&path("a"), &path("c")),
        ] {
            assert!(refused.is_err());
        }
        for name in ["a", "b"] {
            assert_eq!(std::fs::read(path(name)).unwrap(), b"base");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
