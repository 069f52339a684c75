//! What the files of a family measure, and what of that is needed.

use super::choose::Exempt;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// Bytes beyond `max_space_amp` times what lives that files may take for a time: outputs of jobs
/// that run, and what small databases have no other room for (GC-2).
pub(crate) const SPACE_CONSTANT: u64 = 256 << 20;

/// Bytes of a version's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Of tables.
    pub(crate) tables: u64,
    /// Of blob files.
    pub(crate) blob_files: u64,
    /// Of records in blob files that a table refers to.
    pub(crate) blob_live: u64,
    /// An estimate of those records among them that newer entries hide.
    pub(crate) hidden: u64,
}

impl Space {
    /// Without what cannot be helped: what older versions hold, and damaged files.
    pub(crate) fn of(version: &Version, exempt: &Exempt) -> Self {
        let (mut blob_files, mut blob_live) = (0u64, 0u64);
        for (number, (file, logical)) in version.physical_blob_files() {
            if exempt.damaged.contains(&number) {
                continue;
            }
            let held = exempt.held.get(&number).copied().unwrap_or(0);
            blob_files = blob_files.saturating_add(file.total_bytes.saturating_sub(held));
            let live = logical.iter().map(|meta| meta.live_bytes());
            blob_live = live.fold(blob_live, u64::saturating_add);
        }
        Space {
            tables: version.tables().map(|(_, table)| table.size()).sum(),
            blob_files,
            blob_live,
            hidden: version.hidden_garbage_bytes().min(blob_live),
        }
    }

    /// What is on disk.
    pub(crate) fn on_disk(&self) -> u64 {
        self.tables.saturating_add(self.blob_files)
    }

    /// What readers of now need of it.
    pub(crate) fn live(&self) -> u64 {
        self.tables.saturating_add(self.blob_live - self.hidden)
    }

    /// How far the files are beyond `max_space_amp` times what lives, as a part of the
    /// [constant](SPACE_CONSTANT) that they may be.
    pub(crate) fn excess(&self, options: &ColumnFamilyOptions) -> f64 {
        let bound = self.live() as f64 * options.max_space_amp;
        (self.on_disk() as f64 - bound) / SPACE_CONSTANT as f64
    }
}
