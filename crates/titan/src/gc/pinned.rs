//! Records that collections copied for older versions only: garbage of the file that has it, and
//! nothing that another collection would free.
//!
//! It is recorded by version, and counts for as long as that lives. So nothing needs to be called
//! back at the end of a version, except for threads that wait for garbage.

use std::sync::{Arc, Weak};

use crate::format::{BlobFileNumber, total};
use crate::number_map::NumberMap;
use crate::version::Version;
use crate::version::state::files::BlobFileMeta;

/// Bytes that were copied for older versions, too, by the physical file that has it.
#[derive(Clone, Default)]
pub(crate) struct CopiedForOlder {
    files: NumberMap<BlobFileNumber, LogicalFiles>,
}

/// Which older version points to how many bytes of a logical file. How much of that the current
/// version does not point to changes from version to version.
type LogicalFiles = NumberMap<BlobFileNumber, Vec<(Weak<Version>, u64)>>;

impl CopiedForOlder {
    /// Notes the bytes to which `older` points in its logical files `files`, each with the physical
    /// file that has its records; returns whether there are any. To be called under the lock of the
    /// version set: collections change locations.
    pub(crate) fn note<'v>(
        &mut self,
        older: &'v Arc<Version>,
        files: impl IntoIterator<Item = (BlobFileNumber, &'v BlobFileMeta)>,
    ) -> bool {
        let mut any = false;
        for (physical, file) in files {
            let bytes = file.live_bytes();
            if bytes > 0 {
                let physical = self.files.get_or_default(physical);
                let seen = physical.get_or_default(file.shared.number);
                seen.push((Arc::downgrade(older), bytes));
                any = true;
            }
        }
        any
    }

    /// The physical files that have such records.
    pub(crate) fn files(&self) -> impl Iterator<Item = BlobFileNumber> {
        self.files.keys().copied()
    }

    /// Bytes in a physical file to which older versions still point, and `current` does not.
    pub(crate) fn bytes(&self, file: BlobFileNumber, current: &Version) -> u64 {
        let logical = self.files.get(&file).into_iter().flatten();
        total(logical.map(|(logical, seen)| {
            let alive = seen.iter().filter(|seen| is_alive(seen));
            // The version with the most records has all that the others have.
            let most = alive.map(|(_, bytes)| *bytes).max().unwrap_or(0);
            most.saturating_sub(current.live_bytes_of(*logical))
        }))
    }

    /// Takes over the notes on other files.
    pub(crate) fn append(&mut self, other: &mut CopiedForOlder) {
        self.files.extend(std::mem::take(&mut other.files));
    }

    /// Forgets the versions that have ended, and the files in which `current` has nothing.
    pub(crate) fn retain(&mut self, current: &Version) {
        let there = current.blob_files.physical();
        self.files.retain(|file, logical| {
            logical.retain(|_, seen| {
                seen.retain(is_alive);
                !seen.is_empty()
            });
            !logical.is_empty() && there.contains_key(file)
        });
    }
}

fn is_alive((version, _): &(Weak<Version>, u64)) -> bool {
    version.strong_count() > 0
}
