//! One strand of a ledger: operations with keys of their own that came one after the other.

use std::collections::BTreeMap;

use crate::history::{Diff, History};
use crate::model::Model;
use crate::ops::{Durability, Op};

/// An acknowledged operation.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) begun: u64,
    pub(super) done: u64,
    /// The length of the strand's history with it.
    pub(super) length: usize,
    /// It makes this many of the strand's operations durable.
    pub(super) durable: usize,
    /// Other operations that it makes durable, if it was acknowledged before this began.
    pub(super) reach: Reach,
}

/// Operations that an acknowledged one makes durable beyond its strand.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reach {
    Nothing,
    Logged,
    Everything,
}

#[derive(Clone)]
pub(super) struct Strand {
    pub(super) unlogged: bool,
    /// The acknowledged operations.
    pub(super) history: History,
    pub(super) entries: Vec<Entry>,
    /// For each family the length of the history up to the newest write to it.
    pub(super) newest: BTreeMap<String, usize>,
    /// The operations in doubt, with the times when they began.
    pub(super) doubts: Vec<(u64, Op)>,
}

/// Match of the contents found with a strand.
pub(super) struct Match {
    /// The greatest number of its acknowledged operations that may be there.
    pub(super) most: usize,
    /// When the last operation began that must be there.
    pub(super) begun: Option<u64>,
}

impl Strand {
    pub(super) fn starting_at(start: Model, unlogged: bool) -> Strand {
        Strand {
            unlogged,
            history: History::starting_at(start),
            entries: Vec::new(),
            newest: BTreeMap::new(),
            doubts: Vec::new(),
        }
    }

    /// Adds an acknowledged operation.
    pub(super) fn acknowledge(&mut self, op: &Op, begun: u64, done: u64) {
        let length = self.history.push(op);
        if let Op::Write { writes, .. } = op {
            let families = writes.iter().map(|write| write.family().to_owned());
            self.newest.extend(families.map(|family| (family, length)));
        }
        let newest = |family: &str| self.newest.get(family).copied().unwrap_or(0);
        let (durable, reach) = match op {
            Op::FlushAll | Op::Close | Op::Reopen => (length, Reach::Everything),
            Op::CreateCf { .. } | Op::DropCf { .. } => (length, Reach::Logged),
            Op::SyncWal
            | Op::Write {
                durability: Durability::Synced,
                ..
            } if !self.unlogged => (length, Reach::Logged),
            // A strand of unlogged writes has one family that is flushed.
            Op::Flush { .. } if self.unlogged => (length, Reach::Nothing),
            // Earlier writes are recovered with later ones.
            Op::Flush { family } => (newest(family), Reach::Nothing),
            _ => (0, Reach::Nothing),
        };
        self.entries.push(Entry {
            begun,
            done,
            length,
            durable,
            reach,
        });
    }

    /// The number of operations that were acknowledged at times for which `in_time` is true.
    pub(super) fn acknowledged(&self, in_time: impl Fn(u64) -> bool) -> usize {
        let count = self.entries.partition_point(|entry| in_time(entry.done));
        let last = count.checked_sub(1).and_then(|last| self.entries.get(last));
        last.map_or(0, |entry| entry.length)
    }

    /// The numbers of operations, at least `at_least`, after which the strand has the contents
    /// `found`.
    pub(super) fn find(&self, found: &Model, at_least: usize) -> Result<Match, Diff> {
        let equal = self.history.equal_to(found);
        if let (Some(fewest), Some(most)) = (equal.iter().find(|n| **n >= at_least), equal.last()) {
            let last = self.entries.partition_point(|entry| entry.length < *fewest);
            let last = self.entries.get(last).filter(|_| *fewest > 0);
            return Ok(Match {
                most: *most,
                begun: last.map(|entry| entry.begun),
            });
        }
        // With any of the operations in doubt.
        for chosen in 1_u32..1 << self.doubts.len().min(10) {
            let mut model = self.history.last().clone();
            let mut begun = None;
            for (n, (when, op)) in self.doubts.iter().enumerate() {
                if chosen & 1 << n != 0 {
                    model.apply(op);
                    begun = Some(*when);
                }
            }
            if model == *found {
                let most = self.history.len();
                return Ok(Match { most, begun });
            }
        }
        let most = self.history.matches_some_prefix(found, at_least)?;
        Ok(Match { most, begun: None })
    }
}
