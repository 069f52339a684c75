//! Keys of a scan that other transactions have locked.
//!
//! All locks that matter to a scan exist when it begins, because a transaction that locks a key
//! later commits after the scan's timestamp. So the scan lists their keys once. When it reaches
//! one, it resolves the lock and reads the key by itself: the scan's iterator may be older than the
//! version that replaced the lock.

use std::cmp::Ordering;
use std::vec;

use bytes::Bytes;

use super::row::Row;
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::lookup::{Direction, ReadStats};

/// The locked keys of a scan. Usually empty, which costs one comparison for each row.
#[derive(Default)]
pub(super) struct LockedKeys {
    /// In the direction of the scan.
    keys: vec::IntoIter<Bytes>,
    /// The next row of the iterator, if it was read ahead.
    next_stored: Option<Row>,
}

impl LockedKeys {
    pub(super) fn new(
        snapshot: &Snapshot,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Self {
        let locks = &snapshot.core().locks;
        let mut keys = locks.affecting_reads(from, to, snapshot.timestamp());
        if mutant!(scan_over_locks) {
            keys.clear();
        }
        if direction == Direction::Backward {
            keys.reverse();
        }
        LockedKeys {
            keys: keys.into_iter(),
            next_stored: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.as_slice().is_empty() && self.next_stored.is_none()
    }

    /// The next row of the scan, from `next_stored` or from a locked key. Adds the cost of point
    /// reads to `points`.
    pub(super) fn next_row(
        &mut self,
        snapshot: &Snapshot,
        direction: Direction,
        points: &mut ReadStats,
        mut next_stored: impl FnMut() -> Result<Option<Row>>,
    ) -> Result<Option<Row>> {
        loop {
            if self.next_stored.is_none() {
                self.next_stored = next_stored()?;
            }
            let Some(key) = self.keys.as_slice().first() else {
                return Ok(self.next_stored.take());
            };
            let order = match &self.next_stored {
                Some(row) => direction.order(key, &row.key),
                None => Ordering::Less,
            };
            match order {
                Ordering::Greater => return Ok(self.next_stored.take()),
                Ordering::Equal => self.next_stored = None,
                Ordering::Less => {}
            }
            let Some(key) = self.keys.next() else {
                continue;
            };
            if let Some(value) = snapshot.read(&key, points)? {
                let key = key.into();
                return Ok(Some(Row { key, value }));
            }
        }
    }
}
