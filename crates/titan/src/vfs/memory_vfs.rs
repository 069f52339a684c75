//! A file system in memory, for unit tests: fast, and can be copied as it is at any moment.
//! Appended bytes and new names are there at once and for ever, so a copy is the state that a
//! killed process leaves. Crashes of the machine and failures are the business of `titan-testkit`,
//! which unit tests cannot use: it has another build of this crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::memory_file::MemoryFile;
use super::{Access, FileLock, ReadableFile, Vfs, WritableFile};
use crate::error::{Error, ErrorKind, Result};

/// Clones show the same files.
#[derive(Clone, Default)]
pub(crate) struct MemoryVfs {
    names: Arc<Mutex<Names>>,
    syncs_to_fail: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Names {
    files: BTreeMap<PathBuf, MemoryFile>,
    directories: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
}

impl MemoryVfs {
    /// A copy of everything but the locks. Changes of one are not seen in the other.
    pub(crate) fn image(&self) -> MemoryVfs {
        let names = self.names.lock();
        let copied = names.files.iter().map(|(path, file)| {
            let mut copy = MemoryFile::default();
            let _ = copy.append(&file.content());
            (path.clone(), copy)
        });
        let copy = Names {
            files: copied.collect(),
            directories: names.directories.clone(),
            locked: BTreeSet::new(),
        };
        MemoryVfs {
            names: Arc::new(Mutex::new(copy)),
            syncs_to_fail: Arc::default(),
        }
    }

    /// Makes the next `count` syncs of files fail.
    pub(crate) fn fail_syncs(&self, count: usize) {
        self.syncs_to_fail.store(count, Ordering::SeqCst);
    }

    fn file(&self, path: &Path) -> Result<MemoryFile> {
        let names = self.names.lock();
        let file = names.files.get(path).cloned();
        file.ok_or_else(|| missing(path))
    }
}

fn missing(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "no such file").in_file(path)
}

impl Vfs for MemoryVfs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = MemoryFile::default();
        let mut names = self.names.lock();
        names.files.insert(path.to_owned(), file.clone());
        Ok(Box::new(Writing {
            file,
            syncs_to_fail: Arc::clone(&self.syncs_to_fail),
        }))
    }

    fn open(&self, path: &Path, _: Access) -> Result<Arc<dyn ReadableFile>> {
        Ok(Arc::new(self.file(path)?))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.names.lock().files.remove(path);
        removed.map(drop).ok_or_else(|| missing(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut names = self.names.lock();
        if let Some(file) = names.files.remove(from) {
            names.files.insert(to.to_owned(), file);
            return Ok(());
        }
        if !names.directories.remove(from) {
            return Err(missing(from));
        }
        names.directories.insert(to.to_owned());
        let files = std::mem::take(&mut names.files);
        let renamed = files
            .into_iter()
            .map(|(path, file)| match path.strip_prefix(from) {
                Ok(name) => (to.join(name), file),
                Err(_) => (path, file),
            });
        names.files = renamed.collect();
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let file = self.file(from)?;
        let mut names = self.names.lock();
        if names.files.contains_key(to) {
            return Err(Error::new(ErrorKind::AlreadyExists, "the name is taken").in_file(to));
        }
        names.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let parents = dir.ancestors().map(Path::to_owned);
        self.names.lock().directories.extend(parents);
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.names.lock().directories.remove(dir);
        Ok(())
    }

    fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
        let names = self.names.lock();
        let all = names.files.keys().chain(&names.directories);
        let inside = all.filter(|path| path.parent() == Some(dir));
        let inside = inside.filter_map(|path| path.file_name()?.to_str());
        Ok(inside.map(str::to_owned).collect())
    }

    fn size(&self, path: &Path) -> Result<u64> {
        self.file(path)?.size()
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let names = self.names.lock();
        Ok(names.files.contains_key(path) || names.directories.contains(path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let mut names = self.names.lock();
        if !names.locked.insert(path.to_owned()) {
            return Err(Error::new(ErrorKind::Locked, "the lock is taken").in_file(path));
        }
        names.files.entry(path.to_owned()).or_default();
        Ok(Box::new(Locked {
            names: Arc::clone(&self.names),
            path: path.to_owned(),
        }))
    }
}

/// A file that is being written.
struct Writing {
    file: MemoryFile,
    syncs_to_fail: Arc<AtomicUsize>,
}

impl WritableFile for Writing {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.file.append(data)
    }

    fn overwrite_start(&mut self, start: &[u8]) -> Result<()> {
        self.file.overwrite_start(start)
    }

    fn sync(&mut self) -> Result<()> {
        let one_less = |count: usize| count.checked_sub(1);
        let failing = self
            .syncs_to_fail
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        match failing {
            Ok(_) => Err(Error::new(ErrorKind::Io, "the sync fails")),
            Err(_) => self.file.sync(),
        }
    }
}

struct Locked {
    names: Arc<Mutex<Names>>,
    path: PathBuf,
}

impl FileLock for Locked {}

impl Drop for Locked {
    fn drop(&mut self) {
        self.names.lock().locked.remove(&self.path);
    }
}
