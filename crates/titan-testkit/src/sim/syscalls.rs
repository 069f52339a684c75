//! Files as system calls see them, to replay a recorded run on a real file system.
//!
//! The engine's interface only appends. An implementation over an operating system does more: it
//! overwrites zeros that it wrote ahead, writes padding, truncates. These calls are recorded in the
//! journal like all others, so crashes treat their bytes alike.

use std::path::Path;
use std::sync::Arc;

use titan::{Bytes, Error, Result};

use super::disk::Node;
use super::op::{Call, FileId, FsOp, OpKind, Purpose};
use super::vfs::{SimVfs, State};

/// A file open for writing at any offset. Closing it is not recorded.
pub struct CalledFile {
    vfs: SimVfs,
    file: FileId,
    path: Arc<Path>,
}

impl SimVfs {
    /// Opens a file for writing, as `open` with the flags `O_CREAT` (`create`) and `O_TRUNC`
    /// (`truncate`) does.
    ///
    /// # Errors
    /// `NotFound` if it is missing and must not be created.
    pub fn open_for_calls(&self, path: &Path, create: bool, truncate: bool) -> Result<CalledFile> {
        let mut state = self.state();
        let opened = open(&mut state, path, create, truncate);
        let file = opened.map_err(|e| Error::io(e, "open file", path))?;
        Ok(CalledFile {
            vfs: self.clone(),
            file,
            path: path.into(),
        })
    }
}

fn open(state: &mut State, path: &Path, create: bool, truncate: bool) -> std::io::Result<FileId> {
    let (file, changes) = match state.disk.find(path)? {
        Some(Node::File(file)) => (file, truncate),
        None if create => (state.disk.next_file(), true),
        other => (state.disk.find_file(path)?, other.is_none()),
    };
    if changes {
        state.run(FsOp::Create {
            path: path.into(),
            file,
            purpose: Purpose::Any,
        })?;
    }
    state.pin(file);
    Ok(file)
}

impl CalledFile {
    /// Writes at an offset.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let call = Call {
            offset,
            len: data.len(),
            ..Call::new(OpKind::Append, &self.path)
        };
        self.vfs.perform(&call, "write", |_| {
            Ok(FsOp::Write {
                path: Arc::clone(&self.path),
                file: self.file,
                offset,
                data: Bytes::copy_from_slice(data),
            })
        })
    }

    /// Truncates the file, or extends it with zeros.
    pub fn set_len(&self, len: u64) -> Result<()> {
        let call = Call::new(OpKind::Append, &self.path);
        self.vfs.perform(&call, "set the size", |_| {
            Ok(FsOp::SetLen {
                path: Arc::clone(&self.path),
                file: self.file,
                len,
            })
        })
    }

    /// Punches a hole.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        let call = Call {
            offset,
            len: len as usize,
            ..Call::new(OpKind::PunchHole, &self.path)
        };
        self.vfs.perform(&call, "punch hole", |_| {
            Ok(FsOp::PunchHole {
                path: Arc::clone(&self.path),
                file: self.file,
                offset,
                len,
            })
        })
    }

    /// Makes bytes and size durable.
    pub fn sync(&self) -> Result<()> {
        self.vfs
            .perform(&Call::new(OpKind::Sync, &self.path), "sync", |_| {
                Ok(FsOp::Sync {
                    path: Arc::clone(&self.path),
                    file: self.file,
                })
            })
    }
}

impl Drop for CalledFile {
    fn drop(&mut self) {
        self.vfs.state().unpin(self.file);
    }
}
