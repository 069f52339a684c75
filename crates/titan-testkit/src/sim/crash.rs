//! The file system after the machine, or only the process, stops.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::disk::{Disk, NameOp};
use super::file::File;
use super::op::FileId;
use crate::mix;

/// Part of the unsynced state that a crash loses. Defined fully in the [module](super)
/// documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process stops, the machine does not: only the unsynced bytes of bulk files are lost,
    /// and what was unsynced still is. Logs that were open end in zeros.
    None,
    /// The machine stops, and only synced state survives.
    All,
    /// The machine stops, and an arbitrary part of the unsynced state survives. Equal seeds give
    /// equal parts at the same crash point, and unrelated ones at others, so one seed serves for
    /// all points.
    Random(u64),
}

impl Disk {
    /// The file system as found after a crash now, which is crash point number `point`.
    pub(super) fn after_crash(&self, loss: &Loss, point: usize) -> Disk {
        let mut disk = self.clone();
        disk.handles.clear();
        match *loss {
            Loss::None => {
                for file in disk.files.values_mut().filter(|f| f.needs_its_process()) {
                    *file = Arc::new(file.abandoned());
                }
                disk.sweep();
            }
            Loss::All => {
                disk.lose_names(|_| false);
                disk.lose_bytes(|_, file| file.synced_only());
            }
            Loss::Random(seed) => {
                let seed = mix(seed, point as u64);
                let mut rng = fastrand::Rng::with_seed(seed);
                if rng.bool() {
                    // Like a file system that journals its metadata in order.
                    let mut kept = rng.usize(..=disk.pending.len());
                    disk.lose_names(|_| {
                        let keep = kept > 0;
                        kept = kept.saturating_sub(1);
                        keep
                    });
                } else {
                    // Like one that does not; changes to the same name still keep their order.
                    let mut stopped = BTreeSet::new();
                    disk.lose_names(|op| {
                        let keep = rng.bool() && !op.names().any(|name| stopped.contains(name));
                        if !keep {
                            stopped.extend(op.names().cloned());
                        }
                        keep
                    });
                }
                // A generator per file: the outcome for one file does not depend on the others.
                disk.lose_bytes(|id, file| {
                    file.partly_synced(&mut fastrand::Rng::with_seed(mix(seed, id.0)))
                });
            }
        }
        disk
    }

    fn lose_names(&mut self, keep: impl FnMut(&NameOp) -> bool) {
        self.commit_chosen(keep);
        self.pending.clear();
        for dir in self.dirs.values_mut().filter(|d| d.now != d.medium) {
            let dir = Arc::make_mut(dir);
            dir.now = dir.medium.clone();
        }
        self.sweep();
    }

    fn lose_bytes(&mut self, survivor: impl Fn(FileId, &File) -> File) {
        for (id, file) in self.files.iter_mut().filter(|(_, f)| !f.is_durable()) {
            *file = Arc::new(survivor(*id, file));
        }
    }
}
