//! Keys of a scan that other transactions have locked.
//!
//! A lock that a scan must look at is there when the scan begins: a transaction that locks a key later commits after
//! the timestamp of the scan. So the keys are listed once. When the scan comes to one, it settles with the lock
//! and reads the key by itself, since the iterator of the scan may be older than what the lock was turned into.

use std::cmp::Ordering;
use std::vec;

use bytes::Bytes;

use super::engine_scan::Row;
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::lookup::{Direction, ReadStats};

/// See the module. Empty for most scans, which then costs a look at one number for each row.
#[derive(Default)]
pub(super) struct LockedKeys {
    /// In the direction of the scan.
    keys: vec::IntoIter<Bytes>,
    /// The next row of the iterator, if it has been read.
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
        // MUTANT: scans overlook locks.
        if mutant!("scan-over-locks", "-p titan-mvcc --test it two_phase::") {
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

    /// The next row of the scan; `next_stored` gives those of the iterator. Adds what point reads cost to `points`.
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
