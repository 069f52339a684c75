//! What of blob files only older versions see: a collection would copy it, and free none of it.
//!
//! It is known by version, and counts for as long as that lives. So nothing needs to be told of the
//! end of a version, but for whoever waits for there to be garbage.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::format::{BlobFileNumber, total};
use crate::version::Version;
use crate::version::files::BlobFileMeta;

/// Bytes of records, by the physical file that they are in.
#[derive(Default)]
pub(crate) struct Held {
    files: BTreeMap<BlobFileNumber, HeldInFile>,
}

impl Held {
    /// Notes what `older` sees, and `current` does not, of logical files as `older` has them;
    /// whether there is any. To be called under the lock of the version set: collections change
    /// where records are.
    pub(crate) fn add<'v>(
        &mut self,
        older: &'v Arc<Version>,
        seen: impl IntoIterator<Item = &'v BlobFileMeta>,
        current: &Version,
    ) -> bool {
        let mut holds = false;
        for file in seen {
            let logical = file.shared.number;
            let live = current.blob_files.get(&logical);
            let live = live.map_or(0, BlobFileMeta::live_bytes);
            let bytes = file.live_bytes().saturating_sub(live);
            if bytes > 0 {
                let place = self.files.entry(file.shared.place().number).or_default();
                let seen = place.logical.entry(logical).or_default();
                seen.push((Arc::downgrade(older), bytes));
                holds = true;
            }
        }
        holds
    }

    /// Bytes in a file that are still held.
    pub(crate) fn bytes(&self, file: BlobFileNumber) -> u64 {
        self.files.get(&file).map_or(0, HeldInFile::bytes)
    }

    /// Adds what is known of other files.
    pub(crate) fn extend(&mut self, other: Held) {
        self.files.extend(other.files);
    }

    /// Forgets files that are not `there`, and those of which nothing is held any more.
    pub(crate) fn retain(&mut self, there: impl Fn(BlobFileNumber) -> bool) {
        self.files
            .retain(|file, held| there(*file) && held.bytes() > 0);
    }
}

/// What is held in one physical file.
#[derive(Default)]
struct HeldInFile {
    /// By logical file: who sees how many bytes that the current version does not.
    logical: BTreeMap<BlobFileNumber, Vec<(Weak<Version>, u64)>>,
}

impl HeldInFile {
    /// A record that a version refers to every version before does too, from the one on that
    /// brought its file: so of a logical file's, one of those alive has what all have.
    fn bytes(&self) -> u64 {
        let most = self.logical.values().map(|seen| {
            let alive = seen.iter().filter(|(by, _)| by.strong_count() > 0);
            alive.map(|(_, bytes)| *bytes).max().unwrap_or(0)
        });
        total(most)
    }
}
