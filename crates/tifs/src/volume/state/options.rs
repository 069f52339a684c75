//! The options of a volume, and the space of its device.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use titan::{StdClock, SystemClock};

use crate::error::Result;

/// Bytes that the device below the store still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpace {
    /// Bytes of the device.
    pub total: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that are free for all users.
    pub available: u64,
}

/// The rule for the time of the last access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTime {
    /// Never.
    Never,
    /// If it is not later than the last change, or a day old.
    #[default]
    Relative,
    /// Always, for reads that reach the volume. Those that the kernel's cache answers do not.
    Strict,
}

/// The options of an open volume.
#[derive(Clone)]
pub struct VolumeOptions {
    /// The clock of all times.
    pub clock: Arc<dyn SystemClock>,
    /// When reads change the time of the last access.
    pub access_time: AccessTime,
    /// Refuse all changes.
    pub read_only: bool,
    /// Returns the space of the device.
    pub host_space: Arc<dyn Fn() -> Result<HostSpace> + Send + Sync>,
    /// The space is asked for again after so many bytes: at most a part of what is kept, also of
    /// what nobody else may fill meanwhile.
    pub ask_each: u64,
    /// Returns the present directory of the store, for statistics.
    pub directory: Arc<dyn Fn() -> Option<PathBuf> + Send + Sync>,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        VolumeOptions {
            clock: Arc::new(StdClock),
            access_time: AccessTime::default(),
            read_only: false,
            host_space: Arc::new(|| {
                Ok(HostSpace {
                    total: 1 << 41,
                    free: 1 << 40,
                    available: 1 << 40,
                })
            }),
            ask_each: 16 << 20,
            directory: Arc::new(|| None),
        }
    }
}

impl fmt::Debug for VolumeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeOptions")
            .field("access_time", &self.access_time)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
