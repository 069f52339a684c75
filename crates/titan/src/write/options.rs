//! Options of a write.

use crate::error::{Error, Result};

/// Durability and waiting of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Return only after the write survives a power failure. Without it, a write survives a crash
    /// of the process, but a crash of the machine may lose the last ones. Default: false.
    pub sync: bool,
    /// Do not write to the WAL: the write is lost if the process ends before the next flush of its
    /// column family. Contradicts `sync`. Default: false.
    pub disable_wal: bool,
    /// Fail with `Busy` instead of waiting while writes are stalled. Default: false.
    pub no_slowdown: bool,
}

impl WriteOptions {
    /// Options of a write that survives a power failure.
    pub fn synced() -> Self {
        WriteOptions {
            sync: true,
            ..WriteOptions::default()
        }
    }

    /// Fails with `InvalidArgument` if the options contradict each other.
    pub(crate) fn validate(&self) -> Result<()> {
        match self.sync && self.disable_wal {
            true => Err(Error::invalid_argument(
                "a write without WAL cannot be synced",
            )),
            false => Ok(()),
        }
    }
}
