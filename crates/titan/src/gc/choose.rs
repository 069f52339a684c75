//! Which blob files to collect.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::format::BlobFileNumber;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;
use crate::version::files::{PhysicalBlobFile, SharedBlobFile};

/// What one collection is about.
pub(crate) struct Collection {
    /// Every logical file of the physical files that will be given up, by number.
    pub(crate) logical: Vec<Arc<SharedBlobFile>>,
    /// The physical files, the best to collect first.
    pub(crate) physical: Vec<BlobFileNumber>,
}

/// A physical file that could be given up.
struct Candidate<'v> {
    file: Arc<PhysicalBlobFile>,
    logical: Vec<&'v Arc<SharedBlobFile>>,
    live: u64,
    /// Bytes that only older versions see.
    held: u64,
}

impl Candidate<'_> {
    fn garbage(&self) -> u64 {
        let dead = self.file.total_bytes.saturating_sub(self.live);
        dead.saturating_sub(self.held)
    }

    /// Bytes freed for each byte that has to be copied, in units of 1/1024.
    fn gain(&self) -> u128 {
        (u128::from(self.garbage()) << 10) / u128::from(self.live.max(1))
    }
}

/// The best collection, if so much is garbage that one is due. `set_aside` are the physical files
/// that cannot be collected, `held` the bytes of files that a collection copied for older versions:
/// another one would copy them again.
///
/// Files are taken by what they free for each byte copied, as long as what is live in them fits one
/// output file, and none that frees less in proportion than the family as a whole would have to.
pub(crate) fn choose(
    version: &Version,
    options: &ColumnFamilyOptions,
    set_aside: &BTreeSet<BlobFileNumber>,
    held: &BTreeMap<BlobFileNumber, u64>,
) -> Option<Collection> {
    if !options.enable_blob_garbage_collection {
        return None;
    }
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let (mut total, mut garbage) = (0u64, 0u64);
    for (number, (file, logical)) in version.physical_blob_files() {
        let live = logical.iter().map(|meta| meta.live_bytes()).sum();
        let candidate = Candidate {
            file,
            logical: logical.iter().map(|meta| &meta.shared).collect(),
            live,
            held: held.get(&number).copied().unwrap_or(0),
        };
        if set_aside.contains(&number) {
            continue;
        }
        total = total.saturating_add(candidate.file.total_bytes);
        garbage = garbage.saturating_add(candidate.garbage());
        candidates.push(candidate);
    }
    let threshold = options.blob_garbage_collection_threshold;
    let due = |garbage: u64, total: u64| garbage > 0 && garbage as f64 > total as f64 * threshold;
    if !due(garbage, total) {
        return None;
    }
    candidates.retain(|c| due(c.garbage(), c.file.total_bytes));
    candidates.sort_by_key(|c| (Reverse(c.gain()), c.file.number));
    let mut room = options.blob_file_size;
    let mut logical: Vec<Arc<SharedBlobFile>> = Vec::new();
    let mut physical = Vec::new();
    for candidate in candidates {
        // The best one is taken whatever its size.
        if !physical.is_empty() && candidate.live > room {
            continue;
        }
        room = room.saturating_sub(candidate.live);
        physical.push(candidate.file.number);
        logical.extend(candidate.logical.into_iter().map(Arc::clone));
    }
    logical.sort_by_key(|file| file.number);
    (!physical.is_empty()).then(|| Collection { logical, physical })
}
