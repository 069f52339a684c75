//! A sample of point reads that the engine answered, and the ranges of their keys.
//!
//! A reader puts every seventeenth of its keys into a queue without locks, and drops it if the
//! queue is full. A pass of maintenance groups the keys: neighbours are one range if the engine has
//! little between them. So a table that is read all over becomes a range, and scattered reads do
//! not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use titan_mvcc::entries::AFTER_VERSIONS;

use crate::content::keys::EncodedRange;
use crate::segments::costs::{COUNTED, is_counted};

/// The most keys of a sample.
const MOST: usize = 512;
/// The most bytes of the engine between neighbours of one range: a few segments.
const GAP: u64 = 1 << 20;

/// The sample.
pub(crate) struct ColdPoints {
    sender: SyncSender<Vec<u8>>,
    keys: Mutex<Receiver<Vec<u8>>>,
    /// Keys dropped because the queue was full.
    missed: AtomicU64,
}

/// A range, and the estimated number of reads in it.
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
    /// Counts a point read of an encoded key by the engine.
    pub(crate) fn add(&self, encoded: &[u8]) {
        if is_counted() && self.sender.try_send(encoded.to_vec()).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The ranges with `least` or more reads since the last call. `size` returns the bytes of the
    /// engine between two keys.
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
