//! Scans of transactions, at once or step by step.

use super::{KEYS, World, decode};
use crate::{ColumnFamily, ReadOptions, TransactionIterator};

/// An iterator that was begun earlier.
pub(super) struct Scan {
    iter: TransactionIterator,
    /// Rows that it must show.
    expected: Vec<(u8, u32)>,
    /// Number of rows that it has left behind.
    place: usize,
}

impl World {
    /// Everything in a family, as a transaction sees it.
    fn visible(&self, at: usize, family: usize) -> Vec<(u8, u32)> {
        let keys = (0..KEYS).map(|key| (key, self.seen(at, (family, key))));
        keys.filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }

    pub(super) fn scan(&mut self, at: usize, index: usize, family: &ColumnFamily) {
        self.used(at);
        let expected = self.visible(at, index);
        let t = &mut self.open[at];
        let options = ReadOptions::default();
        let mut iter = t.transaction.iter(family, &options).unwrap();
        if self.rng.bool() {
            iter.seek_to_first().unwrap();
            t.scan = Some(Scan {
                iter,
                expected,
                place: 0,
            });
            return;
        }
        let mut found = Vec::new();
        iter.seek_to_last().unwrap();
        while iter.valid() {
            found.push((iter.key()[0], decode(&iter.value().unwrap())));
            iter.prev().unwrap();
        }
        found.reverse();
        assert_eq!(found, expected);
    }

    /// Goes on with an iterator that was begun earlier.
    pub(super) fn step_iterator(&mut self, at: usize) {
        let Some(scan) = &mut self.open[at].scan else {
            return;
        };
        for _ in 0..self.rng.usize(1..4) {
            let shown = scan.expected.get(scan.place);
            assert_eq!(scan.iter.valid(), shown.is_some());
            let Some(shown) = shown else {
                return;
            };
            let value = decode(&scan.iter.value().unwrap());
            assert_eq!((scan.iter.key()[0], value), *shown);
            scan.iter.next().unwrap();
            scan.place += 1;
        }
    }
}
