//! The operating system's file system.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{Advice, FallocateFlags, FlockOperation};
use rustix::io::Errno;

use super::direct::DirectFile;
use super::log_file::LogFile;
use super::{Access, FileLock, PunchableFile, ReadableFile, Vfs, WritableFile};
use crate::error::{Error, ErrorKind, Result};

/// [`Vfs`] over the operating system. Bulk files are written around the kernel's cache where the
/// file system can; everything else is ordinary buffered I/O.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdVfs;

fn failed<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |e| Error::io(e, action, path)
}

impl Vfs for StdVfs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(StdWritable {
            file: File::create(path).map_err(failed("create file", path))?,
            path: path.to_owned(),
        }))
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = File::create(path).map_err(failed("create file", path))?;
        Ok(Box::new(LogFile::new(file, path)))
    }

    fn create_bulk(&self, path: &Path, direct: bool) -> Result<Box<dyn WritableFile>> {
        let direct = if direct {
            DirectFile::create(path)?
        } else {
            None
        };
        match direct {
            Some(file) => Ok(Box::new(file)),
            None => self.create(path),
        }
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        let file = File::open(path).map_err(failed("open file", path))?;
        let advice = match access {
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
        };
        // Only advice: a file system that does not take it still reads correctly.
        let _ = rustix::fs::fadvise(&file, 0, None, advice);
        Ok(Arc::new(StdReadable {
            file,
            path: path.to_owned(),
        }))
    }

    fn open_to_punch(&self, path: &Path) -> Result<Box<dyn PunchableFile>> {
        let opened = OpenOptions::new().write(true).open(path);
        Ok(Box::new(StdWritable {
            file: opened.map_err(failed("open file", path))?,
            path: path.to_owned(),
        }))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(failed("remove file", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(failed("rename file", from))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        rustix::fs::link(from, to).map_err(|e| {
            // What Linux says of a file system that has no links.
            let e = if e == Errno::PERM {
                Errno::OPNOTSUPP
            } else {
                e
            };
            Error::io(e.into(), "link file", to)
        })
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        Ok(std::fs::metadata(path)
            .map_err(failed("stat file", path))?
            .nlink())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        File::open(dir)
            .and_then(|d| d.sync_all())
            .map_err(failed("sync directory", dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).map_err(failed("create directory", dir))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        std::fs::remove_dir(dir).map_err(failed("remove directory", dir))
    }

    fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed("read directory", dir))? {
            let entry = entry.map_err(failed("read directory", dir))?;
            // A name that is not UTF-8 cannot be one of the engine's.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn size(&self, path: &Path) -> Result<u64> {
        Ok(std::fs::metadata(path)
            .map_err(failed("stat file", path))?
            .len())
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        /// What `st_blocks` counts in, whatever the file system's blocks are.
        const UNIT: u64 = 512;
        let meta = std::fs::metadata(path).map_err(failed("stat file", path))?;
        Ok(meta.blocks() * UNIT)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(failed("stat file", path))
    }

    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        std::fs::canonicalize(path).map_err(failed("find", path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        StdLock::take(path, false).map(|lock| Box::new(lock) as _)
    }

    fn lock_shared(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        StdLock::take(path, true).map(|lock| Box::new(lock) as _)
    }
}

struct StdWritable {
    file: File,
    path: PathBuf,
}

impl WritableFile for StdWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.file
            .write_all(data)
            .map_err(failed("append", &self.path))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(failed("sync", &self.path))
    }
}

impl PunchableFile for StdWritable {
    fn punch_hole(&mut self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, mode, offset, len))
            .map_err(|e| Error::io(e.into(), "punch hole", &self.path).at_offset(offset))
    }

    fn sync(&mut self) -> Result<()> {
        WritableFile::sync(self)
    }
}

struct StdReadable {
    file: File,
    path: PathBuf,
}

impl ReadableFile for StdReadable {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(e, "read", &self.path).at_offset(offset)),
            }
        }
        Ok(done)
    }

    fn size(&self) -> Result<u64> {
        Ok(self
            .file
            .metadata()
            .map_err(failed("stat file", &self.path))?
            .len())
    }

    fn prefetch(&self, offset: u64, len: usize) {
        if let Some(len) = std::num::NonZeroU64::new(len as u64) {
            // Advice: a kernel that refuses it reads later instead.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(len), Advice::WillNeed);
        }
    }
}

/// A lock of this process: what RocksDB takes, `fcntl(F_SETLK)` on the whole file, so that the two
/// exclude each other; `F_RDLCK` if it is shared. See [`HELD`].
struct StdLock {
    identity: (u64, u64),
}

/// A locked file.
struct Held {
    _file: File,
    sharers: usize,
    shared: bool,
}

/// The files that this process has locked, by device and inode. Such locks belong to the process,
/// never conflict within it, and all go when it closes any descriptor of the file: so there is one
/// for all who share a lock, and this table is consulted before a file is opened.
static HELD: Mutex<BTreeMap<(u64, u64), Held>> = Mutex::new(BTreeMap::new());

impl StdLock {
    fn take(path: &Path, shared: bool) -> Result<Self> {
        let locked = |who: &str| {
            Error::new(
                ErrorKind::Locked,
                format!("the database is in use by {who}"),
            )
            .in_file(path)
        };
        // Held until the outcome is recorded.
        let mut held = HELD.lock();
        if let Ok(meta) = std::fs::metadata(path)
            && let Some(there) = held.get_mut(&(meta.dev(), meta.ino()))
        {
            if !(shared && there.shared) {
                return Err(locked("this process"));
            }
            there.sharers += 1;
            let identity = (meta.dev(), meta.ino());
            return Ok(StdLock { identity });
        }
        let mut options = OpenOptions::new();
        options.read(true);
        let operation = if shared {
            FlockOperation::NonBlockingLockShared
        } else {
            options.write(true).create(true).truncate(false);
            FlockOperation::NonBlockingLockExclusive
        };
        let file = options.open(path).map_err(failed("open lock file", path))?;
        match rustix::fs::fcntl_lock(&file, operation) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                return Err(locked("another process"));
            }
            Err(e) => return Err(Error::io(e.into(), "lock file", path)),
        }
        let meta = file.metadata().map_err(failed("stat file", path))?;
        let identity = (meta.dev(), meta.ino());
        let now_held = Held {
            _file: file,
            sharers: 1,
            shared,
        };
        held.insert(identity, now_held);
        Ok(StdLock { identity })
    }
}

impl FileLock for StdLock {}

impl Drop for StdLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        let Some(file) = held.get_mut(&self.identity) else {
            return;
        };
        file.sharers -= 1;
        if file.sharers == 0 {
            // Closed under the table's lock: another thread that took the lock before the
            // descriptor is closed would lose it by that.
            held.remove(&self.identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut w = StdVfs.create(&path).unwrap();
        w.append(b"hello ").unwrap();
        w.append(b"world").unwrap();
        w.sync().unwrap();
        let r = StdVfs.open(&path, Access::Random).unwrap();
        assert_eq!(r.size().unwrap(), 11);
        assert_eq!(&r.read_exact_at(6, 5).unwrap()[..], b"world");
        let mut buf = [0; 10];
        assert_eq!(r.read_at(9, &mut buf).unwrap(), 2);
        assert!(r.read_exact_at(9, 3).unwrap_err().is_corruption());
        StdVfs.remove(&path).unwrap();
        assert_eq!(
            &r.read_exact_at(0, 5).unwrap()[..],
            b"hello",
            "open files outlive their name"
        );
    }

    #[test]
    fn replacing_a_file_leaves_no_trace_of_the_temporary_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("CURRENT");
        for text in ["one", "two"] {
            super::super::replace_file(&StdVfs, &dir.path().join("t"), &path, text.as_bytes())
                .unwrap();
            assert_eq!(
                &super::super::read_file(&StdVfs, &path).unwrap()[..],
                text.as_bytes()
            );
        }
        assert_eq!(StdVfs.read_dir(dir.path()).unwrap(), ["CURRENT"]);
    }

    #[test]
    fn a_file_stays_as_long_as_it_has_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        StdVfs.create(&a).unwrap().append(b"x").unwrap();
        StdVfs.link(&a, &b).unwrap();
        assert_eq!(StdVfs.link_count(&a).unwrap(), 2);
        let e = StdVfs.link(&a, &b).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::AlreadyExists);
        StdVfs.remove(&a).unwrap();
        assert!(StdVfs.link(&a, &b).unwrap_err().is_not_found());
        assert_eq!(StdVfs.link_count(&b).unwrap(), 1);
        assert_eq!(StdVfs.size(&b).unwrap(), 1);
    }

    #[test]
    fn holes_read_as_zeros_and_take_no_space() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("f");
        let mut w = StdVfs.create(&path).unwrap();
        w.append(&[1; 64 << 10]).unwrap();
        w.sync().unwrap();
        let before = StdVfs.allocated_bytes(&path).unwrap();
        assert!(before >= 64 << 10, "{before}");
        let mut file = StdVfs.open_to_punch(&path).unwrap();
        match file.punch_hole(4000, 40 << 10) {
            Err(e) if e.kind() == ErrorKind::Unsupported => return eprintln!("skipped: {e}"),
            other => other.unwrap(),
        }
        file.punch_hole(1 << 20, 1 << 20).unwrap();
        file.punch_hole(0, 0).unwrap();
        file.sync().unwrap();
        let after = StdVfs.allocated_bytes(&path).unwrap();
        assert!(after <= before - (32 << 10), "{before} {after}");
        let bytes = super::super::read_file(&StdVfs, &path).unwrap();
        let mut expected = vec![1; 64 << 10];
        expected[4000..4000 + (40 << 10)].fill(0);
        assert!(bytes == expected);
    }

    #[test]
    fn what_cannot_be_linked_is_unsupported() {
        let dir = tempfile::tempdir().unwrap();
        let e = StdVfs.link(dir.path(), &dir.path().join("b")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    }

    #[test]
    fn a_lock_excludes_this_process_too_and_ends_with_its_guard() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let guard = StdVfs.lock(&path).unwrap();
        let e = StdVfs.lock(&path).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Locked);
        drop(guard);
        StdVfs.lock(&path).unwrap();
    }

    #[test]
    fn missing_files_say_which() {
        let e = StdVfs
            .open(Path::new("/nowhere/x"), Access::Random)
            .err()
            .unwrap();
        assert!(e.is_not_found() && e.path() == Some(Path::new("/nowhere/x")));
    }
}
