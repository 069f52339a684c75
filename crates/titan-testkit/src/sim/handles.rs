//! Open files and locks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::vfs::{FileLock, PunchableFile, ReadableFile, WritableFile};
use titan::{Bytes, Error, ErrorKind, Result};

use super::disk::parts;
use super::op::{Call, FileId, FsOp, OpKind, Purpose};
use super::vfs::{SimVfs, State, append_op};

/// A file open for appending or punching; the code that opened it has pinned it.
pub(super) struct Writer {
    vfs: SimVfs,
    file: FileId,
    path: Arc<Path>,
    purpose: Purpose,
    /// Bytes of the appends that succeeded.
    appended: u64,
}

impl Writer {
    pub(super) fn new(vfs: SimVfs, file: FileId, path: Arc<Path>, purpose: Purpose) -> Self {
        Writer {
            vfs,
            file,
            path,
            purpose,
            appended: 0,
        }
    }
}

impl WritableFile for Writer {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let call = Call {
            len: data.len(),
            ..Call::new(OpKind::Append, &self.path)
        };
        self.vfs.perform(&call, "append", |_| {
            Ok(append_op(&self.path, self.file, data))
        })?;
        self.appended += data.len() as u64;
        Ok(())
    }

    fn overwrite_start(&mut self, start: &[u8]) -> Result<()> {
        let call = Call {
            len: start.len(),
            ..Call::new(OpKind::Overwrite, &self.path)
        };
        self.vfs.perform(&call, "overwrite", |_| {
            Ok(FsOp::Write {
                path: Arc::clone(&self.path),
                file: self.file,
                offset: 0,
                data: Bytes::copy_from_slice(start),
            })
        })
    }

    fn cut_failed_append(&mut self) -> Result<()> {
        let call = Call::new(OpKind::Cut, &self.path);
        self.vfs.perform(&call, "cut", |_| {
            Ok(FsOp::SetLen {
                path: Arc::clone(&self.path),
                file: self.file,
                len: self.appended,
            })
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.vfs
            .perform(&Call::new(OpKind::Sync, &self.path), "sync", |_| {
                Ok(FsOp::Sync {
                    path: Arc::clone(&self.path),
                    file: self.file,
                })
            })
    }
}

impl PunchableFile for Writer {
    fn punch_hole(&mut self, offset: u64, len: u64) -> Result<()> {
        let call = Call {
            offset,
            len: len as usize,
            ..Call::new(OpKind::PunchHole, &self.path)
        };
        let outcome = self.vfs.perform(&call, "punch hole", |state| {
            state.disk.file(self.file)?.size()?;
            Ok(FsOp::PunchHole {
                path: Arc::clone(&self.path),
                file: self.file,
                offset,
                len,
            })
        });
        outcome.map_err(|e| e.at_offset(offset))
    }

    fn sync(&mut self) -> Result<()> {
        WritableFile::sync(self)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.vfs.state();
        if self.purpose == Purpose::Log {
            let closed = state.run(FsOp::Close {
                path: Arc::clone(&self.path),
                file: self.file,
            });
            debug_assert!(closed.is_ok(), "closing a log cannot fail: {closed:?}");
        }
        state.unpin(self.file);
    }
}

/// A file open for reading; `open` has pinned it.
pub(super) struct Reader {
    vfs: SimVfs,
    file: FileId,
    path: Arc<Path>,
}

impl Reader {
    pub(super) fn new(vfs: SimVfs, file: FileId, path: Arc<Path>) -> Self {
        Reader { vfs, file, path }
    }
}

impl ReadableFile for Reader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let call = Call {
            offset,
            len: buf.len(),
            ..Call::new(OpKind::Read, &self.path)
        };
        let outcome = self.vfs.observe_within(&call, "read", |state, limit| {
            let file = state.disk.file(self.file)?;
            let n = file.read_at(offset, &mut buf[..limit.min(call.len)])?;
            Ok((n, n))
        });
        outcome.map_err(|e| e.at_offset(offset))
    }

    fn prefetch(&self, _offset: u64, len: usize) {
        self.vfs.count_prefetched(&self.path, len);
    }

    fn size(&self) -> Result<u64> {
        self.vfs
            .observe(&Call::new(OpKind::Stat, &self.path), "stat file", |state| {
                Ok((state.disk.file(self.file)?.size()?, 0))
            })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.vfs.state().unpin(self.file);
    }
}

/// An exclusive lock.
pub(super) struct SimLock {
    vfs: SimVfs,
    key: PathBuf,
}

impl SimLock {
    /// Takes the lock on what has this path, once `find` has found or made it.
    pub(super) fn take(
        vfs: &SimVfs,
        path: &Path,
        find: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> Result<Box<dyn FileLock>> {
        let parts = parts(path).map_err(|e| Error::io(e, "lock file", path))?;
        let key: PathBuf = parts.iter().collect();
        let taken = vfs.observe(&Call::new(OpKind::Lock, path), "lock file", |state| {
            if state.locks.contains(&key) {
                return Ok((false, 0));
            }
            find(state)?;
            Ok((state.locks.insert(key.clone()), 0))
        })?;
        if !taken {
            let error = Error::new(ErrorKind::Locked, "the file is locked by another guard");
            return Err(error.in_file(path));
        }
        Ok(Box::new(SimLock {
            vfs: vfs.clone(),
            key,
        }))
    }
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.vfs.state().locks.remove(&self.key);
    }
}
