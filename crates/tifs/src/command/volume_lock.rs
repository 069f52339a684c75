//! The locks of a process that has a volume open.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::{Errno, retry_on_intr};

/// The file that a process locks while it has the volume open.
fn lock_file(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

/// Whether another process has the volume in a directory open for writing.
pub(super) fn is_locked(dir: &Path) -> bool {
    VolumeLock::open(dir).is_ok_and(|lock| !lock.is_free(FlockOperation::NonBlockingLockShared))
}

/// The locks that a process has while it has a volume open: one on the directory, and one on a file
/// in it that somebody may have removed.
pub(super) struct VolumeLock {
    directory: File,
    file: Option<File>,
}

impl VolumeLock {
    /// Opens the locked files without locking them. They stay the same even if the directory is
    /// moved.
    pub(super) fn open(dir: &Path) -> io::Result<VolumeLock> {
        let directory = File::open(dir)?;
        let both = File::options().read(true).write(true).open(lock_file(dir));
        // On a read-only file system, only reading is possible, and only readers have the volume.
        let file = both.or_else(|_| File::open(lock_file(dir)));
        Ok(VolumeLock {
            directory,
            file: file.ok(),
        })
    }

    /// Tries to take both locks, which end with this. False if a process has one of them.
    pub(super) fn is_free(&self, how: FlockOperation) -> bool {
        let taken = retry_on_intr(|| flock(&self.directory, how));
        if matches!(taken, Err(Errno::WOULDBLOCK)) {
            return false;
        }
        // Where directories cannot be locked, the file has to do. It must be open for writing for
        // that.
        let taken = self.file.as_ref().map(|file| fcntl_lock(file, how));
        !matches!(taken, Some(Err(Errno::AGAIN | Errno::ACCESS)))
    }

    /// Waits until it can have both locks.
    pub(super) fn wait(&self) -> rustix::io::Result<()> {
        let how = FlockOperation::LockExclusive;
        let _ = retry_on_intr(|| flock(&self.directory, how));
        match &self.file {
            Some(file) => match retry_on_intr(|| fcntl_lock(file, how)) {
                // It is open for reading only.
                Err(Errno::BADF) => Ok(()),
                locked => locked,
            },
            None => Ok(()),
        }
    }
}

/// Another process that has the volume in a directory open, with its name. Only the superuser finds
/// those of others. Cost: looks at the open files of each process.
pub(super) fn process_of(dir: &Path) -> Option<String> {
    let lock = lock_file(&dir.canonicalize().ok()?);
    let removed = format!("{} (deleted)", lock.display());
    let has_it = |process: &u32| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd"));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| {
            let path = std::fs::read_link(file.path());
            path.is_ok_and(|path| path == lock || path.as_os_str() == removed.as_str())
        })
    };
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let process = processes.find(|process| *process != std::process::id() && has_it(process))?;
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(format!("process {process} ({})", name.trim_end()))
}
