//! Point reads of keys that are not held: a sample of them, and the ranges that they are in.
//!
//! Owns the sample. A reader puts a copy of its key into a queue without locks, at every seventeenth of its reads, and goes on
//! if that is full. A look takes the keys out and groups them: neighbours are of one range if the engine has little between
//! them. So the range of a table that is read all over is found, and what is read here and there is not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use titan_mvcc::entries::AFTER_VERSIONS;

use crate::content::keys::EncodedRange;
use crate::segments::costs::{COUNTED, is_counted};

/// Keys of a sample at most.
const MOST: usize = 512;
/// Bytes that the engine may have between neighbours of a range: a segment or some.
const GAP: u64 = 1 << 20;

/// See the module.
pub(crate) struct ColdPoints {
    sender: SyncSender<Vec<u8>>,
    keys: Mutex<Receiver<Vec<u8>>>,
    /// Keys that found no room.
    missed: AtomicU64,
}

/// A range, and how many reads of keys in it there were, about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PointRange {
    pub(crate) range: EncodedRange,
    pub(crate) reads: u64,
}

impl Default for ColdPoints {
    fn default() -> Self {
        let (sender, keys) = sync_channel(MOST);
        ColdPoints {
            sender,
            keys: Mutex::new(keys),
            missed: AtomicU64::new(0),
        }
    }
}

impl ColdPoints {
    /// A point read of an encoded key went to the engine.
    pub(crate) fn add(&self, encoded: &[u8]) {
        if is_counted() && self.sender.try_send(encoded.to_vec()).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The ranges of the reads since the last call that had `least` reads or more. `size` says how many bytes the engine has between two keys.
    pub(crate) fn take(&self, least: u64, size: impl Fn(&[u8], &[u8]) -> u64) -> Vec<PointRange> {
        let mut keys: Vec<Vec<u8>> = self.keys.lock().try_iter().take(MOST).collect();
        let taken = keys.len() as u64;
        let missed = self.missed.swap(0, Ordering::Relaxed);
        // What a key stands for.
        let each = COUNTED * (taken + missed) / taken.max(1);
        if taken * each < least {
            return Vec::new();
        }
        keys.sort_unstable();
        let mut ranges = Vec::new();
        for of_range in keys.chunk_by(|a, b| a == b || size(a, b) <= GAP) {
            let reads = of_range.len() as u64 * each;
            if let [first, ..] = of_range
                && let [.., last] = of_range
                && reads >= least
            {
                let upper = [last, &AFTER_VERSIONS[..]].concat();
                ranges.push(PointRange {
                    range: (first.clone(), Some(upper)),
                    reads,
                });
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u8, last: u8) -> EncodedRange {
        let upper = [&[last][..], &AFTER_VERSIONS].concat();
        (vec![first], Some(upper))
    }

    #[test]
    fn neighbours_are_of_one_range_if_little_is_between_them() {
        let points = ColdPoints::default();
        for n in 0..100 * COUNTED as usize {
            points.add(&[[10, 20, 30, 200, 210][n / COUNTED as usize % 5]]);
        }
        points.add(&[0]);
        let size = |a: &[u8], b: &[u8]| u64::from(b[0] - a[0]) * (GAP / 10);
        let mut ranges = points.take(500, size);
        ranges.sort_by(|a, b| a.range.cmp(&b.range));
        let [low, high] = &*ranges else {
            panic!("{ranges:?}");
        };
        assert_eq!((&low.range, low.reads), (&range(10, 30), 60 * COUNTED));
        assert_eq!((&high.range, high.reads), (&range(200, 210), 40 * COUNTED));
        assert_eq!(points.take(1, size), []);
    }

    #[test]
    fn reads_that_find_no_room_in_the_sample_are_counted() {
        let points = ColdPoints::default();
        for _ in 0..4 * MOST as u64 * COUNTED {
            points.add(&[7]);
        }
        let ranges = points.take(1, |_, _| 0);
        assert_eq!((ranges.len(), &ranges[0].range), (1, &range(7, 7)));
        assert_eq!(ranges[0].reads, 4 * MOST as u64 * COUNTED);
    }
}
