//! Dead ranges: stretches of the key space in which no key has a value, as reads have found out.
//!
//! Deleted keys stay until a compaction drops them. An iterator steps over them one by one, and
//! without more each later iterator would do so again: a queue whose first key is taken and
//! deleted, again and again, would cost the square of its length. So an iterator that has stepped
//! over many dead keys in a row says here from where to where, and later ones seek to the end
//! instead, whatever the memtables and tables have in between.
//!
//! Owns the ranges of one family, in memory only. Never touches files. Promises that no key of a
//! range that it returns to a reader has a value at the reader's snapshot. Assumes that
//!
//! 1. the leader of the commit queue calls [`DeadRanges::write`] for each group after it knows its
//!    sequence numbers, and before it publishes them, and
//! 2. a reader walks *every* key from the first to the last of a range that it
//!    [adds](DeadRanges::add), in all memtables and tables, and sees everything up to its snapshot:
//!    it has no older memtables than those to which the groups up to that number were written, and
//! 3. a key loses its value by a write alone. A compaction filter takes it from snapshots for which
//!    ranges hold already, and not from readers that have the tables from before: families with a
//!    filter have [no ranges](DeadRanges::unused).
//!
//! A reader has seen everything that was written up to its snapshot. Later writes are shown to
//! [`DeadRanges::write`], which cuts the range at the key. The only gap is a group that looked for
//! ranges before the reader added its range, and that the reader did not see. So the leader notes
//! the last number of its group *before* it looks whether there are ranges, and a reader says that
//! there are some *before* it reads that number:
//!
//! ```text
//! leader                            reader at snapshot s
//!   looked_to = last of the group     is_any = true
//!   is_any?  then cut                 looked_to <= s?  then nothing was missed: the range is known
//!                                     else it is pending until a reader at a snapshot >= looked_to
//!                                     has walked it again: that one sees what was missed. A key
//!                                     that is written meanwhile ends it
//! ```
//!
//! All four steps are sequentially consistent: if the reader reads an older number, the leader
//! finds that there are ranges.

mod range;
mod run;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;

use std::sync::OnceLock;

use crate::format::SequenceNumber;
use crate::format::internal_key::InternalKeyComparator;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use range::Edge;
use range::{DeadRange, Known};
pub(crate) use run::{DeadRun, Way};

/// Dead keys of a range from which on it is worth compacting its tables.
pub(crate) const LONG: u64 = 4096;
/// The most ranges that wait for a second walk.
const MAX_PENDING: usize = 8;
/// Longer keys are not kept in memory.
const MAX_KEY_LEN: usize = 4096;

/// See the module.
pub(crate) struct DeadRanges {
    comparator: InternalKeyComparator,
    /// Whether ranges are added.
    is_used: bool,
    /// The last sequence number of the last group that looked whether there are ranges.
    looked_to: AtomicU64,
    /// False only if there is no range, known or pending.
    is_any: AtomicBool,
    ranges: Mutex<Ranges>,
    /// Number of times that a range became [`LONG`], or so much longer.
    long_found: AtomicU64,
    on_long: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Entries that iterators stepped over without showing them.
    skipped: AtomicU64,
}

struct Ranges {
    known: Known,
    /// Not to be passed over yet: a group may have written to them that was not seen.
    pending: Vec<DeadRange>,
}

impl DeadRanges {
    pub(crate) fn new(comparator: InternalKeyComparator) -> Self {
        DeadRanges {
            looked_to: AtomicU64::new(0),
            is_any: AtomicBool::new(false),
            ranges: Mutex::new(Ranges {
                known: Known::default(),
                pending: Vec::new(),
            }),
            comparator,
            is_used: true,
            long_found: AtomicU64::new(0),
            on_long: OnceLock::new(),
            skipped: AtomicU64::new(0),
        }
    }

    /// Those of a family whose keys may lose their values without a write. There are none.
    pub(crate) fn unused(comparator: InternalKeyComparator) -> Self {
        DeadRanges {
            is_used: false,
            ..Self::new(comparator)
        }
    }

    /// Calls `found` from now on, on the thread of a reader, when a range has become long. Has no
    /// effect the second time.
    pub(crate) fn on_long(&self, found: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_long.set(Box::new(found));
    }

    /// A group whose last sequence number is `last` is about to be published. `keys` are those to
    /// which it gives values; they are asked for only if there are ranges.
    #[inline]
    pub(crate) fn write<'k, K: Iterator<Item = &'k [u8]>>(
        &self,
        last: SequenceNumber,
        keys: impl FnOnce() -> K,
    ) {
        // ORDER: before it looks. See the module.
        self.looked_to.store(last.0, Ordering::SeqCst);
        if self.is_any.load(Ordering::SeqCst) {
            self.cut(keys());
        }
    }

    fn cut<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        if mutant!(dead_range_ignores_writes) {
            return;
        }
        let order = &self.comparator;
        let mut ranges = self.ranges.lock();
        for key in keys {
            ranges.known.cut(key, order);
            // A range that waits is a hint, not worth being divided.
            ranges.pending.retain(|range| !range.has(key, order));
        }
        self.note_any(&ranges);
    }

    fn note_any(&self, ranges: &Ranges) {
        let is_any = !ranges.known.is_empty() || !ranges.pending.is_empty();
        self.is_any.store(is_any, Ordering::SeqCst);
    }

    /// A reader at `snapshot` has walked from the key `first` to the key `last`, and found no
    /// value; `keys` of them were deleted.
    pub(crate) fn add(&self, first: &[u8], last: &[u8], keys: u64, snapshot: SequenceNumber) {
        if !self.is_used || first.len().max(last.len()) > MAX_KEY_LEN {
            return;
        }
        let order = &self.comparator;
        let mut ranges = self.ranges.lock();
        // ORDER: before the number is read. See the module.
        self.is_any.store(true, Ordering::SeqCst);
        let looked_to = SequenceNumber(self.looked_to.load(Ordering::SeqCst));
        let walked = DeadRange::of(first, last, keys, looked_to);
        let hasty = mutant!(dead_range_known_too_early);
        let mut grown = false;
        if looked_to <= snapshot || hasty {
            // What waits there need not wait any more.
            let is_apart = |range: &DeadRange| range.common(&walked, order).is_none();
            ranges.pending.retain(is_apart);
            grown |= ranges.known.add(walked, order);
        } else {
            let pending = std::mem::take(&mut ranges.pending);
            let (seen, unseen): (Vec<_>, Vec<_>) = pending
                .into_iter()
                .partition(|range| range.since <= snapshot);
            ranges.pending = unseen;
            for range in seen {
                match range.common(&walked, order) {
                    // Not from the number on for which it waited: deletions may have come since.
                    Some(common) => grown |= ranges.known.add(common.since(snapshot), order),
                    None => ranges.pending.push(range),
                }
            }
            let waits = |range: &DeadRange| range.common(&walked, order).is_some();
            if !ranges.pending.iter().any(waits) {
                while ranges.pending.len() >= MAX_PENDING {
                    ranges.pending.remove(0);
                }
                ranges.pending.push(walked);
            }
        }
        self.note_any(&ranges);
        drop(ranges);
        if grown {
            self.long_found.fetch_add(1, Ordering::Relaxed);
            if let Some(found) = self.on_long.get() {
                found();
            }
        }
    }

    /// Where the range around `key` ends, in the direction of `way`, if a reader at `snapshot` may
    /// pass it.
    pub(crate) fn end(&self, key: &[u8], snapshot: SequenceNumber, way: Way) -> Option<Edge> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        let ranges = self.ranges.lock();
        let range = ranges.known.around(key, &self.comparator)?;
        let sees = range.since > snapshot && !mutant!(dead_range_hides_from_snapshots);
        let end = match way {
            Way::Forward => &range.last,
            Way::Backward => &range.first,
        };
        (!sees).then(|| end.clone())
    }

    /// The first and the last key of each long range.
    pub(crate) fn long(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let ranges = self.ranges.lock();
        let long = ranges.known.iter().filter(|range| range.keys >= LONG);
        let ends = long.map(|range| (range.first.key.clone(), range.last.key.clone()));
        ends.collect()
    }

    /// Grows when a range has become long.
    pub(crate) fn long_found(&self) -> u64 {
        self.long_found.load(Ordering::Relaxed)
    }

    /// Number of known ranges, and of deleted keys that were found in them.
    pub(crate) fn known(&self) -> (usize, u64) {
        let ranges = self.ranges.lock();
        let keys = ranges.known.iter().map(|range| range.keys);
        (keys.clone().count(), keys.sum())
    }

    /// Adds entries that an iterator stepped over.
    pub(crate) fn count_skipped(&self, entries: u64) {
        self.skipped.fetch_add(entries, Ordering::Relaxed);
    }

    /// Entries that iterators stepped over without showing them.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}
