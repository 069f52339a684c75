//! The operating system's file system.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, AtFlags, FallocateFlags, FlockOperation, OFlags, Stat};
use rustix::io::Errno;

use super::at::At;
use super::direct::DirectFile;
use super::directory_lock::DirectoryLock;
use super::log_file::LogFile;
use super::resources::{self, Resources};
use super::{
    Access, DeviceSpace, FileLock, PunchableFile, ReadableFile, Vfs, WritableFile, ends_early,
};
use crate::error::{Error, ErrorKind, Result};

/// [`Vfs`] over the operating system. Bulk files bypass the kernel's cache if the caller asks for
/// it and the file system supports it; everything else is ordinary buffered I/O.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdVfs;

fn failed<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |e| Error::io(e, action, path)
}

/// The same for calls that open a file or directory.
fn not_opened<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |e| Error::opening(e, action, path)
}

#[allow(clippy::unused_self, reason = "the same calls as of `Anchored`")]
impl StdVfs {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        At::of_process(path)
    }

    fn and(&self, dir: &Path, lock: &dyn FileLock) -> Option<Arc<dyn Vfs>> {
        Anchored::default().and(dir, lock)
    }
}

/// [`StdVfs`], but paths in some directories are relative to the directory that was opened. So they
/// lead there for as long as this is used, wherever the directory is moved, and never to another
/// that has taken its name.
///
/// Cost: none; the kernel has fewer names to look up.
#[derive(Clone, Default)]
struct Anchored {
    /// Paths and what they led to, a directory before those that it is in.
    directories: Vec<(PathBuf, Arc<OwnedFd>)>,
}

impl Anchored {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        for (dir, directory) in &self.directories {
            if let Ok(name) = path.strip_prefix(dir) {
                return At::in_directory(directory.as_fd(), name, path);
            }
        }
        At::of_process(path)
    }

    /// The same with one more.
    fn and(&self, dir: &Path, lock: &dyn FileLock) -> Option<Arc<dyn Vfs>> {
        let mut directories = self.directories.clone();
        directories.push((dir.to_owned(), Arc::clone(lock.directory()?)));
        directories.sort_by_key(|(dir, _)| std::cmp::Reverse(dir.components().count()));
        Some(Arc::new(Anchored { directories }))
    }
}

/// Implements [`Vfs`] for two types that differ in where a path leads.
macro_rules! implement_vfs {
    ($vfs:ty) => {
        impl Vfs for $vfs {
            fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
                Ok(Box::new(StdWritable::create(self.at(path))?))
            }

            fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
                let file = self.at(path).create(OFlags::empty());
                let file = file.map_err(not_opened("create file", path))?;
                Ok(Box::new(LogFile::new(file, path)))
            }

            fn create_bulk(&self, path: &Path, direct: bool) -> Result<Box<dyn WritableFile>> {
                let direct = match direct {
                    true => DirectFile::create(self.at(path))?,
                    false => None,
                };
                match direct {
                    Some(file) => Ok(Box::new(file)),
                    None => Ok(Box::new(BufferedBulk {
                        file: StdWritable::create(self.at(path))?,
                        unsynced: 0,
                    })),
                }
            }

            fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
                Ok(Arc::new(StdReadable::open(self.at(path), access)?))
            }

            /// Takes a shared `flock`. To punch a hole into the file takes an exclusive one.
            fn open_guarded(&self, path: &Path) -> Result<Arc<dyn ReadableFile>> {
                let opened = StdReadable::open(self.at(path), Access::Random)?;
                let lock = || rustix::fs::flock(&opened.file, FlockOperation::LockShared);
                match rustix::io::retry_on_intr(lock) {
                    // Where there are no such locks, no holes are punched either.
                    Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => {}
                    Err(e) => return Err(Error::io(e.into(), "guard file", path)),
                }
                Ok(Arc::new(opened))
            }

            fn open_to_punch(&self, path: &Path) -> Result<Box<dyn PunchableFile>> {
                let opened = self.at(path).open(OFlags::WRONLY);
                Ok(Box::new(StdWritable {
                    file: opened.map_err(not_opened("open file", path))?,
                    path: path.to_owned(),
                }))
            }

            fn remove(&self, path: &Path) -> Result<()> {
                let removed = self.at(path).remove(AtFlags::empty());
                removed.map_err(failed("remove file", path))
            }

            fn rename(&self, from: &Path, to: &Path) -> Result<()> {
                let renamed = self.at(from).rename(self.at(to));
                renamed.map_err(failed("rename file", from))
            }

            fn link(&self, from: &Path, to: &Path) -> Result<()> {
                self.at(from).link(self.at(to)).map_err(|e| {
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
                #[allow(clippy::useless_conversion, reason = "it differs by architecture")]
                Ok(self.stat(path)?.st_nlink.into())
            }

            fn sync_dir(&self, dir: &Path) -> Result<()> {
                let opened = self.at(dir).open(OFlags::RDONLY);
                let opened = opened.map_err(not_opened("sync directory", dir))?;
                if mutant!(std_names_not_synced) {
                    return Ok(());
                }
                opened.sync_all().map_err(failed("sync directory", dir))
            }

            fn create_dir_all(&self, dir: &Path) -> Result<()> {
                let created = self.at(dir).create_all();
                created.map_err(failed("create directory", dir))
            }

            fn remove_dir(&self, dir: &Path) -> Result<()> {
                let removed = self.at(dir).remove(AtFlags::REMOVEDIR);
                removed.map_err(failed("remove directory", dir))
            }

            fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
                let names = self.at(dir).names();
                names.map_err(not_opened("read directory", dir))
            }

            fn size(&self, path: &Path) -> Result<u64> {
                // No file has a size below 0.
                Ok(self.stat(path)?.st_size.unsigned_abs())
            }

            fn allocated_bytes(&self, path: &Path) -> Result<u64> {
                /// The unit of `st_blocks` at any block size of the file system.
                const UNIT: u64 = 512;
                Ok(self.stat(path)?.st_blocks.unsigned_abs() * UNIT)
            }

            fn exists(&self, path: &Path) -> Result<bool> {
                self.at(path).exists().map_err(failed("stat file", path))
            }

            fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
                self.at(path).canonical().map_err(failed("find", path))
            }

            fn sync_file(&self, path: &Path) -> Result<()> {
                let is_refused = |e: &io::Error| {
                    // A file system that copies on write needs room even for the same bytes.
                    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied];
                    kinds.contains(&e.kind())
                };
                let at = self.at(path);
                let file = match at.open(OFlags::RDWR) {
                    Err(e) if is_refused(&e) => at.open(OFlags::RDONLY),
                    opened => opened.and_then(|file| match write_again(&file) {
                        Err(e) if !is_refused(&e) => Err(e),
                        _ => Ok(file),
                    }),
                };
                let file = file.map_err(not_opened("open file", path))?;
                file.sync_data().map_err(failed("sync", path))
            }

            fn sync_closed(&self, path: &Path) -> Result<()> {
                let file = self.at(path).open(OFlags::RDONLY);
                let file = file.map_err(not_opened("open file", path))?;
                file.sync_data().map_err(failed("sync", path))
            }

            fn device_space(&self, dir: &Path) -> Result<Option<DeviceSpace>> {
                let found = self
                    .at(dir)
                    .device()
                    .map_err(not_opened("ask about", dir))?;
                let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
                Ok(Some(DeviceSpace {
                    total: bytes(found.f_blocks),
                    available: bytes(found.f_bavail),
                }))
            }

            fn resources(&self) -> Resources {
                resources::of_this_process()
            }

            fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
                let lock = DirectoryLock::take(self.at(path), false)?;
                Ok(Box::new(lock))
            }

            fn lock_shared(&self, path: &Path) -> Result<Box<dyn FileLock>> {
                let lock = DirectoryLock::take(self.at(path), true)?;
                Ok(Box::new(lock))
            }

            fn lock_directory(&self, dir: &Path) -> Result<Box<dyn FileLock>> {
                let lock = DirectoryLock::of_directory(self.at(dir))?;
                Ok(Box::new(lock))
            }

            fn anchored(&self, dir: &Path, lock: &dyn FileLock) -> Option<Arc<dyn Vfs>> {
                self.and(dir, lock)
            }
        }

        impl $vfs {
            fn stat(&self, path: &Path) -> Result<Stat> {
                self.at(path).stat().map_err(failed("stat file", path))
            }
        }
    };
}

implement_vfs!(StdVfs);
implement_vfs!(Anchored);

struct StdWritable {
    file: File,
    path: PathBuf,
}

impl StdWritable {
    fn create(at: At<'_>) -> Result<Self> {
        let file = at.create(OFlags::empty());
        Ok(StdWritable {
            file: file.map_err(not_opened("create file", at.path))?,
            path: at.path.to_owned(),
        })
    }
}

impl WritableFile for StdWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.file
            .write_all(data)
            .map_err(failed("append", &self.path))
    }

    fn overwrite_start(&mut self, start: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(start, 0);
        written.map_err(failed("overwrite", &self.path))
    }

    fn sync(&mut self) -> Result<()> {
        if mutant!(std_file_not_synced) {
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
        // Locked for each hole separately: a caller that opens the file guarded waits for one at
        // most.
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

/// Dirty bytes of a bulk file after which it is synced. A sync of another file, such as the WAL,
/// may have to wait until that many are written.
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

    fn overwrite_start(&mut self, start: &[u8]) -> Result<()> {
        self.file.overwrite_start(start)
    }

    fn sync(&mut self) -> Result<()> {
        self.unsynced = 0;
        if mutant!(std_bulk_not_synced) {
            return Ok(());
        }
        WritableFile::sync(&mut self.file)
    }
}

struct StdReadable {
    file: File,
    path: PathBuf,
}

impl StdReadable {
    fn open(at: At<'_>, access: Access) -> Result<Self> {
        let file = at.open(OFlags::RDONLY);
        let file = file.map_err(not_opened("open file", at.path))?;
        let advice = match access {
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
        };
        // Advice only: a file system that ignores it still reads correctly.
        let _ = rustix::fs::fadvise(&file, 0, None, advice);
        Ok(StdReadable {
            file,
            path: at.path.to_owned(),
        })
    }
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

/// Writes the bytes of a file over themselves.
fn write_again(file: &File) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let read = file.read_at(&mut buffer, at)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        file.write_all_at(bytes, at)?;
        at += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::requirement;
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
    fn missing_files_say_which() {
        let e = StdVfs
            .open(Path::new("/nowhere/x"), Access::Random)
            .err()
            .unwrap();
        assert!(e.is_not_found() && e.path() == Some(Path::new("/nowhere/x")));
    }
}
