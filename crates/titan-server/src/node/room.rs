//! The room that is kept on the device.
//!
//! A device is *almost full* when it has less than that left. Then calls that begin something are
//! refused, as TiKV refuses them. The rest is for calls that end what was begun, and for deletions,
//! which give room back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::vfs::{DeviceSpace, Vfs};

/// The part of the device that is kept.
const PART: u64 = 20;
/// The most bytes that are kept: enough for a flush and many commits.
const MOST: u64 = 256 << 20;

/// The device of a node.
pub(crate) struct Room {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
}

impl Room {
    pub(super) fn new(vfs: Arc<dyn Vfs>, dir: &Path) -> Self {
        let dir = dir.to_owned();
        Room { vfs, dir }
    }

    /// Says how little is left, if the device is almost full. Cost: asks the device.
    pub(crate) fn lack(&self) -> Option<String> {
        // Where it is not known, writes find out.
        let space = self.vfs.device_space(&self.dir).ok().flatten()?;
        let DeviceSpace { total, available } = space;
        let kept = MOST.min(total / PART);
        (available < kept).then(|| {
            let (available, kept) = (available >> 10, kept >> 10);
            format!("{available} KiB are left, and {kept} KiB are kept for commits and deletions")
        })
    }
}
