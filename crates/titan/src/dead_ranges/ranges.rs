//! The dead ranges of a family.

use std::sync::OnceLock;

use super::range::{DeadRange, Edge, Known, LONG, MAX_KEY_LEN, ReadPoint, Way};
use crate::format::SequenceNumber;
use crate::format::internal_key::InternalKeyComparator;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The most ranges that wait for a second walk.
pub(super) const MAX_PENDING: usize = 8;

/// See the [module](super).
pub(crate) struct DeadRanges {
    comparator: InternalKeyComparator,
    /// The last sequence number of the last group that looked whether there are ranges.
    looked_to: AtomicU64,
    /// False only if there is no range, known or pending.
    is_any: AtomicBool,
    pub(super) ranges: Mutex<Ranges>,
    /// Number of times that a range became [`LONG`], or so much longer.
    long_found: AtomicU64,
    on_long: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Entries that iterators stepped over without showing them.
    skipped: AtomicU64,
}

pub(super) struct Ranges {
    pub(super) known: Known,
    /// Not to be passed over yet: a group may have written to them that was not seen.
    pub(super) pending: Vec<DeadRange>,
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
            long_found: AtomicU64::new(0),
            on_long: OnceLock::new(),
            skipped: AtomicU64::new(0),
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

    /// Keys get values by a write whose last sequence number is `last`, and it would be long to say
    /// which. It is about to be published.
    pub(crate) fn write_unnamed(&self, last: SequenceNumber) {
        // ORDER: before it looks. See the module.
        self.looked_to.store(last.0, Ordering::SeqCst);
        if self.is_any.load(Ordering::SeqCst) && !mutant!(dead_range_ignores_ingestion) {
            let mut ranges = self.ranges.lock();
            ranges.known = Known::default();
            ranges.pending.clear();
            self.note_any(&ranges);
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
            invariant!(
                ranges.known.around(key, order).is_none(),
                "a key that is written is in a dead range"
            );
        }
        invariant!(
            ranges.known.are_apart(order),
            "dead ranges overlap after a write"
        );
        self.note_any(&ranges);
    }

    fn note_any(&self, ranges: &Ranges) {
        let is_any = !ranges.known.is_empty() || !ranges.pending.is_empty();
        self.is_any.store(is_any, Ordering::SeqCst);
    }

    /// A reader has walked from the key `first` to the key `last`, and found no value; `keys` of
    /// them were deleted.
    pub(crate) fn add(&self, first: &[u8], last: &[u8], keys: u64, reader: ReadPoint) {
        if first.len().max(last.len()) > MAX_KEY_LEN {
            return;
        }
        let order = &self.comparator;
        let mut ranges = self.ranges.lock();
        // ORDER: before the number is read. See the module.
        self.is_any.store(true, Ordering::SeqCst);
        let looked_to = SequenceNumber(self.looked_to.load(Ordering::SeqCst));
        let ReadPoint {
            snapshot,
            generation,
        } = reader;
        let since = ReadPoint {
            snapshot: looked_to,
            generation,
        };
        let walked = DeadRange::of(first, last, keys, since);
        let hasty = mutant!(dead_range_known_too_early);
        let mut grown = false;
        if looked_to <= snapshot || hasty {
            // Ranges that wait there need not wait any more.
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
        invariant!(
            ranges.known.are_apart(order),
            "dead ranges overlap or are out of order"
        );
        invariant!(
            ranges.pending.len() <= MAX_PENDING,
            "{} dead ranges wait",
            ranges.pending.len()
        );
        drop(ranges);
        if grown {
            self.long_found.fetch_add(1, Ordering::Relaxed);
            if let Some(found) = self.on_long.get() {
                found();
            }
        }
    }

    /// Where the range around `key` ends, in the direction of `way`, if a reader may pass it.
    pub(crate) fn end(&self, key: &[u8], reader: ReadPoint, way: Way) -> Option<Edge> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        let ranges = self.ranges.lock();
        let range = ranges.known.around(key, &self.comparator)?;
        let sees_older = range.since > reader.snapshot && !mutant!(dead_range_hides_from_snapshots);
        let sees_removed =
            range.generation > reader.generation && !mutant!(dead_range_ignores_filters);
        let end = match way {
            Way::Forward => &range.last,
            Way::Backward => &range.first,
        };
        (!sees_older && !sees_removed).then(|| end.clone())
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
