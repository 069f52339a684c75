//! The operating system's file system.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, FallocateFlags, FlockOperation};
use rustix::io::Errno;

use super::direct::DirectFile;
use super::log_file::LogFile;
use super::resources::{self, Resources};
use super::{Access, FileLock, PunchableFile, ReadableFile, Vfs, WritableFile, ends_early};
use crate::error::{Error, ErrorKind, Result};

/// [`Vfs`] over the operating system. Bulk files bypass the kernel's cache if the caller asks for it
/// and the file system supports it; everything else is ordinary buffered I/O.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdVfs;

fn failed<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |e| Error::io(e, action, path)
}

/// The same for what opens a file or directory.
fn not_opened<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |e| Error::opening(e, action, path)
}

impl Vfs for StdVfs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(StdWritable::create(path)?))
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = File::create(path).map_err(not_opened("create file", path))?;
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
            None => Ok(Box::new(BufferedBulk {
                file: StdWritable::create(path)?,
                unsynced: 0,
            })),
        }
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        let file = File::open(path).map_err(not_opened("open file", path))?;
        let advice = match access {
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
        };
        // Advice only: a file system that ignores it still reads correctly.
        let _ = rustix::fs::fadvise(&file, 0, None, advice);
        Ok(Arc::new(StdReadable {
            file,
            path: path.to_owned(),
        }))
    }

    /// Takes a shared `flock`. To punch a hole into the file takes an exclusive one.
    fn open_guarded(&self, path: &Path) -> Result<Arc<dyn ReadableFile>> {
        let file = File::open(path).map_err(not_opened("open file", path))?;
        let lock = || rustix::fs::flock(&file, FlockOperation::LockShared);
        match rustix::io::retry_on_intr(lock) {
            // Where there are no such locks, no holes are punched either.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => {}
            Err(e) => return Err(Error::io(e.into(), "guard file", path)),
        }
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        Ok(Arc::new(StdReadable {
            file,
            path: path.to_owned(),
        }))
    }

    fn open_to_punch(&self, path: &Path) -> Result<Box<dyn PunchableFile>> {
        let opened = OpenOptions::new().write(true).open(path);
        Ok(Box::new(StdWritable {
            file: opened.map_err(not_opened("open file", path))?,
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
            // Linux's error for a file system that has no links.
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
        let opened = File::open(dir).map_err(not_opened("sync directory", dir))?;
        // MUTANT: the names in a directory are not synced.
        if mutant!(
            "std-names-not-synced",
            "-p titan-campaigns --test it real_fs::"
        ) {
            return Ok(());
        }
        opened.sync_all().map_err(failed("sync directory", dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).map_err(failed("create directory", dir))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        std::fs::remove_dir(dir).map_err(failed("remove directory", dir))
    }

    fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(not_opened("read directory", dir))? {
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
        /// The unit of `st_blocks`, whatever the file system's block size is.
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

    fn resources(&self) -> Resources {
        resources::of_this_process()
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

impl StdWritable {
    fn create(path: &Path) -> Result<Self> {
        Ok(StdWritable {
            file: File::create(path).map_err(not_opened("create file", path))?,
            path: path.to_owned(),
        })
    }
}

impl WritableFile for StdWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.file
            .write_all(data)
            .map_err(failed("append", &self.path))
    }

    fn sync(&mut self) -> Result<()> {
        // MUTANT: a buffered file is not synced.
        if mutant!(
            "std-file-not-synced",
            "-p titan-campaigns --test it real_fs::"
        ) {
            return Ok(());
        }
        self.file.sync_data().map_err(failed("sync", &self.path))
    }
}

impl PunchableFile for StdWritable {
    fn punch_hole(&mut self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        // Locked for each hole separately: a caller that opens the file guarded waits for one at most.
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let message = "a reader still needs the old content of the file";
                return Err(Error::new(ErrorKind::Locked, message).in_file(&self.path));
            }
            Err(e) => return Err(Error::io(e.into(), "lock file", &self.path)),
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched =
            rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, mode, offset, len));
        let unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        let failed = |e: Errno| Error::io(e.into(), "punch hole", &self.path).at_offset(offset);
        punched.and(unlocked).map_err(failed)
    }

    fn sync(&mut self) -> Result<()> {
        WritableFile::sync(self)
    }
}

/// Dirty bytes of a bulk file after which it is synced. A sync of another file, such as the WAL, may
/// have to wait until that many are written.
const MAX_UNSYNCED: usize = 8 << 20;

/// A bulk file written through the kernel's cache.
struct BufferedBulk {
    file: StdWritable,
    /// Bytes since the last sync.
    unsynced: usize,
}

impl WritableFile for BufferedBulk {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.file.append(data)?;
        self.unsynced += data.len();
        match self.unsynced >= MAX_UNSYNCED {
            true => self.sync(),
            false => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.unsynced = 0;
        // MUTANT: a bulk file written through the cache is not synced.
        if mutant!(
            "std-bulk-not-synced",
            "-p titan-campaigns --test it real_fs::"
        ) {
            return Ok(());
        }
        WritableFile::sync(&mut self.file)
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

    /// Reads into memory that is not cleared first.
    fn read_exact_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut buf = Vec::with_capacity(len);
        while buf.len() < len {
            let at = offset + buf.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut buf), at) {
                Ok(0) => return Err(ends_early(offset, buf.len(), len)),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(Error::io(e.into(), "read", &self.path).at_offset(offset)),
            }
        }
        buf.truncate(len);
        Ok(Bytes::from(buf))
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
            // Advice only: a kernel that ignores it reads later instead.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(len), Advice::WillNeed);
        }
    }
}

/// A lock on the whole file that belongs to this open file description. It excludes other locks of its
/// kind, in this process too, and locks that belong to a process, as RocksDB takes them. A forked
/// process shares the description until it runs another program, so dropping the lock unlocks
/// explicitly: closing alone would leave the lock with such a process.
struct StdLock {
    file: File,
}

impl StdLock {
    fn take(path: &Path, shared: bool) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true);
        if !shared {
            options.write(true).create(true).truncate(false);
        }
        let kind = if shared { libc::F_RDLCK } else { libc::F_WRLCK };
        loop {
            let file = options
                .open(path)
                .map_err(not_opened("open lock file", path))?;
            match set_lock(&file, kind) {
                // Between opening and locking, the directory may have been deleted and made anew:
                // then another process can lock the new file.
                Ok(_) if has_name(&file, path) => return Ok(StdLock { file }),
                Ok(_) => {}
                Err(nix::Error::EAGAIN | nix::Error::EACCES) => {
                    return Err(
                        Error::new(ErrorKind::Locked, "the database is in use").in_file(path)
                    );
                }
                Err(e) => return Err(Error::io(e.into(), "lock file", path)),
            }
        }
    }
}

/// Whether `path` still names this file.
fn has_name(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

impl Drop for StdLock {
    fn drop(&mut self) {
        // Closing the file does the same, unless a process that was forked just now has it open too.
        let _ = set_lock(&self.file, libc::F_UNLCK);
    }
}

fn set_lock(file: &File, kind: libc::c_int) -> nix::Result<libc::c_int> {
    let whole_file = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file))
}

impl FileLock for StdLock {}

#[cfg(test)]
mod tests {
    use titan_testkit::requirement;

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
        let e = r.read_exact_at(9, 3).unwrap_err();
        assert!(e.is_corruption() && e.offset() == Some(9), "{e}");
        assert!(r.read_exact_at(11, 0).unwrap().is_empty());
        StdVfs.remove(&path).unwrap();
        assert_eq!(
            &r.read_exact_at(0, 5).unwrap()[..],
            b"hello",
            "open files outlive their name"
        );
    }

    /// A forked process shares the open file description until it runs another program.
    #[test]
    fn a_lock_goes_with_its_guard_though_another_process_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = StdLock::take(&path, false).unwrap();
        let _of_the_child = lock.file.try_clone().unwrap();
        let refused = StdLock::take(&path, false).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
        drop(lock);
        StdLock::take(&path, false).unwrap();
    }

    #[test]
    fn a_file_that_has_lost_its_name_is_not_the_one_that_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = StdLock::take(&path, false).unwrap();
        assert!(has_name(&lock.file, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!has_name(&lock.file, &path));
        let other = StdLock::take(&path, false).unwrap();
        assert!(has_name(&other.file, &path) && !has_name(&lock.file, &path));
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
        let guarding = StdVfs.open_guarded(&path).unwrap();
        let other = StdVfs.open_guarded(&path).unwrap();
        let mut file = StdVfs.open_to_punch(&path).unwrap();
        for guarding in [guarding, other] {
            let refused = file.punch_hole(0, 4096).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Locked);
            drop(guarding);
        }
        let holes = file.punch_hole(4000, 40 << 10);
        if let Err(e) = &holes {
            assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        }
        if requirement::met("a file system with holes", holes).is_none() {
            return;
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
    fn a_hole_beyond_4_gib_frees_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("huge");
        let file = File::create(&path).unwrap();
        // A low address would be hit if the offset lost its upper half.
        let start = 1 << 32;
        for at in [0, start] {
            file.write_all_at(&[1; 64 << 10], at).unwrap();
        }
        let mut punched = StdVfs.open_to_punch(&path).unwrap();
        let hole = punched.punch_hole(start + (16 << 10), 32 << 10);
        if let Err(e) = &hole {
            assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        }
        if requirement::met("a file system with holes", hole).is_none() {
            return;
        }
        let read = |at| {
            StdVfs
                .open(&path, Access::Random)
                .unwrap()
                .read_exact_at(at, 64 << 10)
        };
        assert!(read(0).unwrap().iter().all(|byte| *byte == 1));
        let mut expected = vec![1; 64 << 10];
        expected[16 << 10..48 << 10].fill(0);
        assert!(read(start).unwrap() == expected);
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
