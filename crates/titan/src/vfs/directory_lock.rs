//! The lock on the directory of a database.
//!
//! RocksDB's lock is one of the file LOCK, and anybody may remove that file: a process that locks
//! the next one excludes nobody. So the directory itself is locked, too, by `flock`. It goes
//! wherever the directory is moved, and with it alone. A directory that has nothing but WAL files
//! of a database is locked by `flock` alone: no file appears in it.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};

use super::FileLock;
use super::at::At;
use crate::error::{Error, ErrorKind, Result};
use crate::process::Process;

/// Locks of a directory and of the file LOCK in it, each on the whole of it. They belong to these
/// open file descriptions. The lock of the file excludes other locks of its kind, in this process
/// too, and locks that belong to a process, as RocksDB takes them. A forked process shares the
/// descriptions until it runs another program, so dropping this unlocks explicitly: closing alone
/// would leave the locks with such a process. That process must not unlock them, because they are
/// not its locks.
pub(super) struct DirectoryLock {
    directory: Arc<OwnedFd>,
    /// `None` if it is missing, and the lock is a shared one, or one of the directory alone.
    file: Option<File>,
    taken_by: Process,
}

impl DirectoryLock {
    /// Locks the file at `place`, and the directory that it is in. The file is created, unless the
    /// lock is shared.
    pub(super) fn take(place: At<'_>, shared: bool) -> Result<Self> {
        loop {
            let lock = Self::attempt(place, shared)?;
            // Between opening and locking, the directory may have been deleted and made anew: then
            // another process can lock the new one.
            if lock.has_names(place) {
                return Ok(lock);
            }
        }
    }

    /// Locks the directory at `place` alone, which has the WAL files of a database.
    ///
    /// # Errors
    /// `Locked`; `NotFound`; failures to open it.
    pub(super) fn of_directory(place: At<'_>) -> Result<Self> {
        loop {
            let lock = Self::open(place, |e| Error::opening(e, "open directory", place.path))?;
            let in_use = || {
                let message = "another database has its WAL files in this directory";
                Error::new(ErrorKind::Locked, message).in_file(place.path)
            };
            if !mutant!(directory_of_logs_not_locked) {
                lock.lock_directory(false, in_use)?;
            }
            if lock.is_at(place) {
                return Ok(lock);
            }
        }
    }

    /// The directory at `place`, open and not yet locked.
    fn open(place: At<'_>, failed: impl FnOnce(std::io::Error) -> Error) -> Result<Self> {
        let directory = place.open(OFlags::RDONLY | OFlags::DIRECTORY);
        Ok(DirectoryLock {
            directory: Arc::new(directory.map_err(failed)?.into()),
            file: None,
            taken_by: Process::current(),
        })
    }

    fn attempt(place: At<'_>, shared: bool) -> Result<Self> {
        let failed = |e| Error::opening(e, "open lock file", place.path);
        let mut lock = Self::open(place.parent(), failed)?;
        if !mutant!(directory_not_locked) {
            lock.lock_directory(shared, || in_use(place))?;
        }
        let flags = match shared {
            true => OFlags::RDONLY,
            false => OFlags::RDWR | OFlags::CREATE,
        };
        let file = match place.open(flags) {
            Err(e) if shared && e.kind() == std::io::ErrorKind::NotFound => return Ok(lock),
            opened => opened.map_err(failed)?,
        };
        let kind = if shared { libc::F_RDLCK } else { libc::F_WRLCK };
        match set_lock(&file, kind) {
            Ok(_) => {}
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => return Err(in_use(place)),
            Err(e) => return Err(Error::io(e.into(), "lock file", place.path)),
        }
        lock.file = Some(file);
        Ok(lock)
    }

    fn lock_directory(&self, shared: bool, in_use: impl FnOnce() -> Error) -> Result<()> {
        let operation = match shared {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        match retry_on_intr(|| flock(&self.directory, operation)) {
            Err(Errno::WOULDBLOCK) => Err(in_use()),
            // Not every file system can lock a directory, such as NFS. There LOCK has to do.
            _ => Ok(()),
        }
    }

    /// Whether `place` still leads to the locked file and directory.
    fn has_names(&self, place: At<'_>) -> bool {
        let file_is_there = match &self.file {
            Some(file) => leads_to(place, file),
            None => true,
        };
        file_is_there && self.is_at(place.parent())
    }

    /// Whether `place` leads to the directory.
    fn is_at(&self, place: At<'_>) -> bool {
        leads_to(place, &self.directory)
    }
}

/// Whether `place` leads to what is open.
fn leads_to(place: At<'_>, open: impl AsFd) -> bool {
    matches!((rustix::fs::fstat(open), place.stat()), (Ok(own), Ok(named))
        if (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino))
}

fn in_use(place: At<'_>) -> Error {
    Error::new(ErrorKind::Locked, "the database is in use").in_file(place.path)
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if !self.taken_by.is_current() {
            return;
        }
        // Closing does the same, unless a process that was forked just now has them open too.
        if let Some(file) = &self.file {
            let _ = set_lock(file, libc::F_UNLCK);
        }
        let _ = flock(&self.directory, FlockOperation::Unlock);
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

impl FileLock for DirectoryLock {
    fn directory(&self) -> Option<&Arc<OwnedFd>> {
        Some(&self.directory)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::vfs::{StdVfs, Vfs, lock_to_read};

    fn take(path: &Path) -> DirectoryLock {
        DirectoryLock::take(At::of_process(path), false).unwrap()
    }

    fn is_refused(path: &Path) {
        for lock in [StdVfs.lock(path), lock_to_read(&StdVfs, path)] {
            let refused = lock.err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
        }
    }

    /// A forked process shares the open file descriptions until it runs another program.
    #[test]
    fn a_lock_goes_with_its_guard_though_another_process_has_the_files_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = take(&path);
        let _of_the_child = lock.file.as_ref().map(|file| file.try_clone().unwrap());
        let _also = lock.directory.try_clone().unwrap();
        is_refused(&path);
        drop(lock);
        take(&path);
    }

    #[test]
    fn a_directory_is_locked_though_its_lock_file_is_gone_or_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for shared in [false, true] {
            let lock = DirectoryLock::take(At::of_process(&path), shared).unwrap();
            let is_refused = || match shared {
                false => is_refused(&path),
                true => {
                    let refused = StdVfs.lock(&path).err().unwrap();
                    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
                    StdVfs.lock_shared(&path).unwrap();
                }
            };
            let _ = std::fs::remove_file(&path);
            is_refused();
            std::fs::write(&path, "").unwrap();
            is_refused();
            drop(lock);
            take(&path);
        }
    }

    #[test]
    fn a_lock_moves_with_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (here, there) = (dir.path().join("here"), dir.path().join("there"));
        std::fs::create_dir(&here).unwrap();
        let lock = take(&here.join("LOCK"));
        let vfs = StdVfs.anchored(&here, &lock).unwrap();
        std::fs::rename(&here, &there).unwrap();
        is_refused(&there.join("LOCK"));
        std::fs::create_dir(&here).unwrap();
        assert!(!lock.has_names(At::of_process(&here.join("LOCK"))));
        take(&here.join("LOCK"));
        // The anchored file system reaches the directory where it was moved.
        assert_eq!(
            vfs.lock(&here.join("LOCK")).err().unwrap().kind(),
            ErrorKind::Locked
        );
        vfs.create(&here.join("a")).unwrap().append(b"x").unwrap();
        vfs.rename(&here.join("a"), &here.join("b")).unwrap();
        vfs.link(&here.join("b"), &dir.path().join("outside"))
            .unwrap();
        vfs.create_dir_all(&here.join("lost/found")).unwrap();
        vfs.sync_dir(&here).unwrap();
        let names = |vfs: &dyn Vfs, dir| {
            let mut names = vfs.read_dir(dir).unwrap();
            names.sort();
            names
        };
        assert_eq!(names(&*vfs, &here), ["LOCK", "b", "lost"]);
        assert_eq!(names(&StdVfs, &there), ["LOCK", "b", "lost"]);
        assert_eq!(names(&StdVfs, &here), ["LOCK"]);
        assert_eq!(vfs.link_count(&here.join("b")).unwrap(), 2);
        assert_eq!(vfs.size(&dir.path().join("outside")).unwrap(), 1);
        assert_eq!(
            vfs.canonicalize(&here).unwrap(),
            there.canonicalize().unwrap()
        );
        vfs.remove_dir(&here.join("lost/found")).unwrap();
        vfs.remove(&here.join("b")).unwrap();
        // A directory is removed by its name, which another has now.
        vfs.remove(&here.join("LOCK")).unwrap();
        std::fs::remove_file(here.join("LOCK")).unwrap();
        vfs.remove_dir(&here).unwrap();
        assert!(!here.exists() && there.exists());
        assert!(!vfs.exists(&there.join("b")).unwrap());
    }

    #[test]
    fn a_file_that_has_lost_its_name_is_not_the_one_that_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let place = At::of_process(&path);
        let lock = take(&path);
        assert!(lock.has_names(place));
        std::fs::remove_file(&path).unwrap();
        assert!(!lock.has_names(place));
        std::fs::write(&path, "").unwrap();
        assert!(!lock.has_names(place));
    }

    #[test]
    fn a_lock_excludes_this_process_too_and_ends_with_its_guard() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let guard = StdVfs.lock(&path).unwrap();
        is_refused(&path);
        drop(guard);
        StdVfs.lock(&path).unwrap();
    }
}
