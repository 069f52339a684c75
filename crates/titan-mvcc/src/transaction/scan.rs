//! Scans of a transaction: the rows of its snapshot, with its own writes above them.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Bound;

use super::writes::{Writes, WritesInRange, value_of};
use crate::error::Result;
use crate::lookup::{Direction, ReadStats};
use crate::percolator::Mutation;
use crate::read::{Row, Scan, Snapshot};

/// The rows of a range, from [`Transaction::scan`](crate::Transaction::scan). Ends after the first
/// error.
pub struct TransactionScan<'t> {
    own: Peekable<OwnWrites<'t>>,
    stored: Scan,
    /// The next row of the snapshot, read ahead.
    next_stored: Option<Row>,
    direction: Direction,
    has_failed: bool,
}

impl<'t> TransactionScan<'t> {
    pub(super) fn new(
        snapshot: &Snapshot,
        writes: &'t Writes,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Self> {
        // Makes a reversed range empty, because `BTreeMap` would panic.
        let to = match (from, to) {
            (Some(from), Some(to)) => Some(from.max(to)),
            _ => to,
        };
        let from_bound = from.map_or(Bound::Unbounded, Bound::Included);
        let to_bound = to.map_or(Bound::Unbounded, Bound::Excluded);
        let range = writes.range(from_bound, to_bound);
        Ok(TransactionScan {
            own: OwnWrites { range, direction }.peekable(),
            stored: snapshot.scan(from, to, direction)?,
            next_stored: None,
            direction,
            has_failed: false,
        })
    }

    /// The cost of the snapshot's scan so far. It may be one row ahead.
    pub fn stats(&self) -> ReadStats {
        self.stored.stats()
    }

    fn next_row(&mut self) -> Result<Option<Row>> {
        loop {
            if self.next_stored.is_none() {
                self.next_stored = self.stored.next().transpose()?;
            }
            let Some(key) = self.own.peek().map(Mutation::key) else {
                return Ok(self.next_stored.take());
            };
            let order = match &self.next_stored {
                Some(row) => self.direction.order(key, &row.key),
                None => Ordering::Less,
            };
            if order == Ordering::Greater {
                return Ok(self.next_stored.take());
            }
            if order == Ordering::Equal {
                self.next_stored = None;
            }
            let Some(write) = self.own.next() else {
                continue;
            };
            if let Some(Some(value)) = value_of(&write) {
                let key = write.key().to_vec();
                return Ok(Some(Row { key, value }));
            }
        }
    }
}

impl Iterator for TransactionScan<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let row = self.next_row();
        self.has_failed = row.is_err();
        row.transpose()
    }
}

impl std::fmt::Debug for TransactionScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionScan")
            .field("stored", &self.stored)
            .finish_non_exhaustive()
    }
}

/// The puts and deletions of a transaction in a range.
struct OwnWrites<'t> {
    range: WritesInRange<'t>,
    direction: Direction,
}

impl<'t> Iterator for OwnWrites<'t> {
    type Item = Mutation<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let write = match self.direction {
                Direction::Forward => self.range.next()?,
                Direction::Backward => self.range.next_back()?,
            };
            // A lock keeps the value of the snapshot.
            if !matches!(write, Mutation::Lock { .. }) {
                return Some(write);
            }
        }
    }
}
