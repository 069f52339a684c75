//! The file system as the engine sees it.
//!
//! Every byte the engine reads or writes passes through [`Vfs`], so tests can crash it, fill it
//! or make it fail at any operation. `std::fs` appears nowhere else in the crate.
//!
//! The engine assumes these properties of an implementation, and the simulated one models them:
//!
//! 1. Appended bytes are readable at once, and survive a crash of the *process* (for
//!    [`Vfs::create_bulk`] files neither holds before their next sync); they survive a crash of the
//!    *machine* after [`WritableFile::sync`] returned.
//! 2. A created, renamed, linked or removed name survives a crash of the machine after
//!    [`Vfs::sync_dir`] of its directory returned. Syncing a file does not make its name durable.
//! 3. A rename replaces its target atomically.
//! 4. After a failed sync nothing is known about the file's unsynced bytes, and a later sync that
//!    succeeds proves nothing about them: the engine never syncs such a file again.
//! 5. An open file stays readable after its name was removed.
//! 6. Zeros may follow the bytes appended to a [`Vfs::create_log`] file, after a crash too.
//! 7. A punched hole reads as zeros at once; until a sync, a crash of the machine may restore the
//!    old content, for each block separately. So it may after [`WritableFile::overwrite_start`].

mod at;
mod copy;
mod descriptors;
mod direct;
mod directory_lock;
mod forward;
mod frozen;
mod level_db_names;
mod log_file;
mod logs_elsewhere;
pub(crate) mod memory_file;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod memory_vfs;
mod overlay;
mod reclaiming;
#[cfg(test)]
pub(crate) mod requirement;
mod resources;
mod std_vfs;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};

pub(crate) use copy::copy;
pub use copy::link_or_copy;
pub use descriptors::raise_open_files_limit;
pub(crate) use forward::{at_place, forward};
pub(crate) use frozen::Frozen;
pub(crate) use level_db_names::LevelDbNames;
pub(crate) use logs_elsewhere::LogsElsewhere;
pub(crate) use memory_file::MemoryFile;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
pub(crate) use memory_vfs::MemoryVfs;
pub(crate) use overlay::Overlay;
pub(crate) use reclaiming::Reclaiming;
pub use resources::{DeviceSpace, Memory, Resources};
pub use std_vfs::StdVfs;

/// A file system. Paths are absolute or relative to the process, as in `std::fs`.
pub trait Vfs: Send + Sync + 'static {
    /// Creates a file for appending; an existing one is truncated.
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// Creates a file for many small appends: a WAL. Until it is dropped, and after a crash, zeros
    /// may follow the appended bytes. The default is [`Vfs::create`].
    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.create(path)
    }

    /// Creates a file that is written in large pieces and read only after a sync: SSTs and blob
    /// files. Until then the implementation may buffer appended bytes, and the file's size is
    /// undefined; `direct` asks it to bypass the kernel's cache if it can. The default is
    /// [`Vfs::create`].
    fn create_bulk(&self, path: &Path, direct: bool) -> Result<Box<dyn WritableFile>> {
        let _ = direct;
        self.create(path)
    }

    /// Opens a file for positioned reads.
    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>>;

    /// Opens a file for positioned reads at scattered places, and prevents this process and others
    /// from punching holes into it for as long as it is open. May wait until a hole in progress has
    /// been punched. The default prevents nothing: enough where [`Vfs::open_to_punch`] is
    /// unsupported.
    fn open_guarded(&self, path: &Path) -> Result<Arc<dyn ReadableFile>> {
        self.open(path, Access::Random)
    }

    /// Opens a file to give ranges of it back to the file system. Unsupported by default.
    ///
    /// # Errors
    /// `Unsupported` where files have no holes; some file systems report it only when one is
    /// punched.
    fn open_to_punch(&self, path: &Path) -> Result<Box<dyn PunchableFile>> {
        Err(Error::unsupported("the file system punches no holes").in_file(path))
    }

    /// Removes a file's name. Open handles stay usable.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Atomically renames `from`, a file or a directory, to `to`. A file replaces a file that had
    /// that name.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives the file `from` another name `to`, a hard link: the file exists as long as it has a
    /// name. Unsupported by default.
    ///
    /// # Errors
    /// `AlreadyExists` if `to` exists. `Unsupported` if the file system has no links or allows no
    /// more of them for this file, or if `to` is in another file system: copying may work.
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let _ = to;
        Err(Error::unsupported("the file system has no hard links").in_file(from))
    }

    /// The number of names of a file. The default assumes no links: one.
    fn link_count(&self, path: &Path) -> Result<u64> {
        self.size(path).map(|_| 1)
    }

    /// Makes all bytes of an existing file and its size durable, regardless of the process that
    /// appended them, and also if a sync of them has failed: then the kernel takes them for
    /// written, so that a sync alone would succeed and write nothing. They are written again, where
    /// they are. If that needs room that there is not, as with copies on write, or is not
    /// permitted, a sync alone must do. Unsupported by default. Cost: a read and a write of the
    /// file.
    fn sync_file(&self, path: &Path) -> Result<()> {
        Err(Error::unsupported("the file system syncs no closed files").in_file(path))
    }

    /// Makes all bytes of an existing file and its size durable, regardless of the process that
    /// appended them, unless a sync of them has failed. The default is [`Vfs::sync_file`], which
    /// writes all of them again.
    fn sync_closed(&self, path: &Path) -> Result<()> {
        self.sync_file(path)
    }

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Creates a directory and its missing parents; one that exists is fine.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()>;

    /// The names in a directory, in no particular order.
    fn read_dir(&self, dir: &Path) -> Result<Vec<String>>;

    /// A file's size in bytes.
    fn size(&self, path: &Path) -> Result<u64>;

    /// Bytes that a file takes on the device: about its size, in whole blocks, less its holes. The
    /// default assumes no holes: the size.
    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        self.size(path)
    }

    /// The room on the device that has a directory. The default knows no limit, and jobs of the
    /// engine then write until the device is full. Called before each background job.
    ///
    /// # Errors
    /// The device cannot be asked. Then no limit is assumed.
    fn device_space(&self, dir: &Path) -> Result<Option<DeviceSpace>> {
        let _ = dir;
        Ok(None)
    }

    /// Whether a file or directory of this name exists.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The absolute path of an existing file or directory, without `.`, `..` and symbolic links.
    /// The default assumes no links.
    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        let absolute = std::path::absolute(path).map_err(|e| Error::io(e, "find", path))?;
        let mut canonical = PathBuf::new();
        for component in absolute.components() {
            match component {
                Component::ParentDir => drop(canonical.pop()),
                other => canonical.push(other),
            }
        }
        Ok(canonical)
    }

    /// Resources of the machine for the process at present. `memory` bounds the cache through which
    /// files of this file system are read. The default knows no limits: no file is cached.
    fn resources(&self) -> Resources {
        Resources::default()
    }

    /// Takes the exclusive lock on `path`, creating the file, and on the directory that it is in,
    /// if the implementation can; held until the guard is dropped.
    ///
    /// # Errors
    /// `Locked` if another process or another guard of this one holds one of them.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// Takes locks that only exclude [`Vfs::lock`] of the same path; held until the guard is
    /// dropped. The default takes the exclusive ones.
    ///
    /// # Errors
    /// `Locked` if another guard has the exclusive locks; `NotFound` if there is no such file and
    /// the implementation locks no directories.
    fn lock_shared(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        match self.exists(path)? {
            true => self.lock(path),
            false => Err(Error::new(ErrorKind::NotFound, "no such lock file").in_file(path)),
        }
    }

    /// Takes the lock on a directory alone, as [`Vfs::lock`] takes it; held until the guard is
    /// dropped. The default locks nothing.
    ///
    /// # Errors
    /// `Locked` if another process or another guard of this one holds it; `NotFound` if there is no
    /// such directory.
    fn lock_directory(&self, dir: &Path) -> Result<Box<dyn FileLock>> {
        let _ = dir;
        Ok(Box::new(NotLocked))
    }

    /// This file system with paths in `dir` relative to the directory that `lock` has open: they
    /// lead there even if `dir` is moved. `lock` is the result of [`Vfs::lock`] for a file in
    /// `dir`, or [`Vfs::lock_directory`] for it. Directories that were anchored before stay so.
    /// `None`, the default, if an implementation has only paths.
    fn anchored(&self, dir: &Path, lock: &dyn FileLock) -> Option<Arc<dyn Vfs>> {
        let _ = (dir, lock);
        None
    }
}

impl fmt::Debug for dyn Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vfs")
    }
}

/// Expected access to a file: advice for the kernel's readahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Single reads at scattered places.
    Random,
    /// From front to back.
    Sequential,
}

/// A file being written from front to back; only its start may be written again.
pub trait WritableFile: Send + Sync {
    /// Appends all of `data`. On an error an unknown prefix of it may have been appended.
    fn append(&mut self, data: &[u8]) -> Result<()>;

    /// Makes all appended bytes and the file's size durable.
    fn sync(&mut self) -> Result<()>;

    /// Replaces the first bytes of the file by as many others. They are whole blocks of 4 KiB, and
    /// all of them were appended before. Unsupported by default: then
    /// [`put_reader`](crate::ColumnFamily::put_reader) stores no value that it would have to write
    /// piece by piece.
    fn overwrite_start(&mut self, start: &[u8]) -> Result<()> {
        let _ = start;
        Err(Error::unsupported(
            "the file system changes no bytes of a file",
        ))
    }

    /// Cuts off the bytes that a failed append has left: the file ends with the last append that
    /// succeeded. A crash of the machine may bring it back until a sync has returned. Needs no
    /// room. Unsupported by default.
    fn cut_failed_append(&mut self) -> Result<()> {
        Err(Error::unsupported("the file system cuts no files"))
    }

    /// Bytes of the hole that the file has after its header, or at its start if it has no header:
    /// in tests of files that no test could fill.
    #[cfg(test)]
    fn gap(&self) -> u64 {
        0
    }
}

/// A file open to have holes punched into it.
pub trait PunchableFile: Send + Sync {
    /// Makes a range read as zeros, and gives back the blocks that lie in it as a whole. The file
    /// keeps its size; a part of the range after the end of the file has no effect, nor has an
    /// empty range.
    ///
    /// # Errors
    /// `Unsupported` where files have no holes; `Locked` while the file is open by
    /// [`Vfs::open_guarded`].
    fn punch_hole(&mut self, offset: u64, len: u64) -> Result<()>;

    /// Makes the holes durable, with everything else in the file.
    fn sync(&mut self) -> Result<()>;
}

/// A file open for positioned reads.
pub trait ReadableFile: Send + Sync {
    /// Fills `buf` from `offset` and returns how many bytes there were: less than `buf.len()`
    /// only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// The file's size in bytes now.
    fn size(&self) -> Result<u64>;

    /// Asks the kernel to bring a range into its cache without waiting for it. Best effort.
    fn prefetch(&self, offset: u64, len: usize) {
        let _ = (offset, len);
    }

    /// Reads exactly `len` bytes.
    ///
    /// # Errors
    /// `Corruption` if the file ends early: the position comes from stored data.
    fn read_exact_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut buf = vec![0; len];
        self.fill_at(offset, &mut buf)?;
        Ok(Bytes::from(buf))
    }

    /// Fills all of `buf`.
    ///
    /// # Errors
    /// As [`ReadableFile::read_exact_at`].
    fn fill_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (len, n) = (buf.len(), self.read_at(offset, buf)?);
        if n < len {
            return Err(ends_early(offset, n, len));
        }
        Ok(())
    }
}

/// The error of a read beyond the end of a file.
fn ends_early(offset: u64, n: usize, len: usize) -> Error {
    Error::corruption(format!("file ends after {n} of {len} bytes")).at_offset(offset)
}

/// Holds a lock until dropped.
pub trait FileLock: Send + Sync {
    /// The locked directory, open, if the implementation locks it.
    fn directory(&self) -> Option<&Arc<OwnedFd>> {
        None
    }

    /// The lock on the directory that has the WAL files, if that is another one.
    fn of_logs(&self) -> Option<&dyn FileLock> {
        None
    }
}

/// The guard to return where there is nothing to lock.
struct NotLocked;

impl FileLock for NotLocked {}

fn only_read(path: &Path) -> Error {
    Error::new(ErrorKind::ReadOnly, "the file system is read-only here").in_file(path)
}

/// Takes a lock for a reader; other readers may have it at the same time. Where directories cannot
/// be locked and there is no lock file, nobody writes now, and nothing prevents a writer from
/// starting.
pub fn lock_to_read(vfs: &dyn Vfs, path: &Path) -> Result<Box<dyn FileLock>> {
    match vfs.lock_shared(path) {
        Err(e) if e.is_not_found() => Ok(Box::new(NotLocked)),
        lock => lock,
    }
}

/// The file system `vfs`, in which paths in `dir` lead to the directory that `lock` has locked, if
/// it can be reached so.
pub fn in_locked(vfs: Arc<dyn Vfs>, dir: &Path, lock: &dyn FileLock) -> Arc<dyn Vfs> {
    vfs.anchored(dir, lock).unwrap_or(vfs)
}

/// Opens a file that the database needs.
///
/// # Errors
/// `Corruption` if it is missing: that is damage, not a caller's mistake.
pub fn open_live(vfs: &dyn Vfs, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
    vfs.open(path, access).map_err(|e| e.of_live_file(path))
}

/// Reads a whole file. For small ones: CURRENT, IDENTITY.
pub fn read_file(vfs: &dyn Vfs, path: &Path) -> Result<Bytes> {
    let file = vfs.open(path, Access::Sequential)?;
    let len = file.size()?;
    file.read_exact_at(0, len as usize)
        .map_err(|e| e.in_file(path))
}

/// Replaces a file's content atomically and durably: the old content or the new, whole, is there
/// after any crash. `temp` must be in the same directory.
pub fn replace_file(vfs: &dyn Vfs, temp: &Path, path: &Path, data: &[u8]) -> Result<()> {
    let mut file = vfs.create(temp)?;
    file.append(data)?;
    // ORDER: the content is durable before the name points to it.
    if !mutant!(current_content_not_synced) {
        file.sync()?;
    }
    drop(file);
    vfs.rename(temp, path)?;
    let left_out = mutant!(replaced_name_not_synced);
    match path.parent().filter(|_| !left_out) {
        Some(dir) => vfs.sync_dir(dir).map_err(Error::after_a_change),
        None => Ok(()),
    }
}
