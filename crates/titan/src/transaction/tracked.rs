//! The keys that a transaction has touched: since when each must be unchanged, and how often it was
//! read and written, so that save points and undone reads give up just the later touches.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::locks::LockKey;

/// Use of a key by a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

/// A key of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tracked {
    /// No other write of the key may be newer than this.
    pub(super) since: SequenceNumber,
    reads: u32,
    writes: u32,
    /// Number of save points that had been set when the key was first touched.
    at: u64,
}

impl Tracked {
    /// Whether the transaction has written the key.
    pub(super) fn is_written(&self) -> bool {
        self.writes > 0
    }
}

/// A save point.
#[derive(Clone, Copy)]
struct SavePoint {
    /// The length of the journal when it was set.
    journal: usize,
    /// Its number: how many save points had been set by then, itself included.
    number: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct TrackedKeys {
    keys: BTreeMap<LockKey, Tracked>,
    /// State of keys before each change, since the first save point.
    journal: Vec<(LockKey, Option<Tracked>)>,
    save_points: Vec<SavePoint>,
    save_points_set: u64,
}

impl TrackedKeys {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn get(&self, key: &LockKey) -> Option<&Tracked> {
        self.keys.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&LockKey, &Tracked)> {
        self.keys.iter()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &LockKey> {
        self.keys.keys()
    }

    /// Notes a use of a key. If it is the first one, the key must be unchanged since `since`.
    pub(super) fn note(&mut self, key: &LockKey, since: SequenceNumber, used: Use) {
        let before = self.keys.get(key).copied();
        let mut now = before.unwrap_or(Tracked {
            since,
            reads: 0,
            writes: 0,
            at: self.save_points_set,
        });
        let uses = match used {
            Use::Read => &mut now.reads,
            Use::Write => &mut now.writes,
        };
        *uses = uses.saturating_add(1);
        self.record(key, before);
        self.keys.insert(key.clone(), now);
    }

    /// Takes back one read. Returns whether the key need not be unchanged any more: it was not read
    /// otherwise, never written, and first touched after the last save point.
    pub(super) fn undo_read(&mut self, key: &LockKey) -> bool {
        let Some(before) = self.keys.get(key).copied() else {
            return false;
        };
        let Some(reads) = before.reads.checked_sub(1) else {
            return false;
        };
        self.record(key, Some(before));
        let is_of_save_point = self
            .save_points
            .last()
            .is_none_or(|p| before.at >= p.number);
        let forgets = mutant!(undo_forgets_writes);
        if reads == 0 && (before.writes == 0 || forgets) && is_of_save_point {
            self.keys.remove(key);
            return true;
        }
        if let Some(now) = self.keys.get_mut(key) {
            now.reads = reads;
        }
        false
    }

    pub(super) fn set_save_point(&mut self) {
        self.save_points_set += 1;
        self.save_points.push(SavePoint {
            journal: self.journal.len(),
            number: self.save_points_set,
        });
        invariant!(
            self.save_points.is_sorted_by_key(|p| (p.journal, p.number)),
            "save points are out of order"
        );
    }

    /// Takes back everything since the last save point, which ends. Returns the keys that need not
    /// be unchanged any more.
    pub(super) fn rollback_to_save_point(&mut self) -> Result<Vec<LockKey>> {
        let point = self.take_save_point()?;
        let mut released = Vec::new();
        while self.journal.len() > point.journal {
            let Some((key, before)) = self.journal.pop() else {
                break;
            };
            match before {
                Some(before) => {
                    self.keys.insert(key, before);
                }
                None => {
                    self.keys.remove(&key);
                    released.push(key);
                }
            }
        }
        // A key may have been given up and touched again.
        released.retain(|key| !self.keys.contains_key(key));
        invariant!(
            self.journal.len() == point.journal,
            "{} changes of keys are left after a rollback to {}",
            self.journal.len(),
            point.journal
        );
        Ok(released)
    }

    /// Ends the last save point.
    pub(super) fn pop_save_point(&mut self) -> Result<()> {
        self.take_save_point()?;
        if self.save_points.is_empty() {
            self.journal.clear();
        }
        Ok(())
    }

    fn take_save_point(&mut self) -> Result<SavePoint> {
        self.save_points
            .pop()
            .ok_or_else(|| Error::invalid_argument("the transaction has no save point"))
    }

    fn record(&mut self, key: &LockKey, before: Option<Tracked>) {
        if !self.save_points.is_empty() {
            self.journal.push((key.clone(), before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ColumnFamilyId;

    fn key(n: u8) -> LockKey {
        LockKey::new(ColumnFamilyId(0), &[n])
    }

    /// Random uses of a few keys, against copies of the whole state at save points.
    #[test]
    fn a_rollback_restores_exactly_what_was_at_the_save_point() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut tracked = TrackedKeys::default();
            let mut copies: Vec<BTreeMap<LockKey, Tracked>> = Vec::new();
            for step in 0..500 {
                let key = key(rng.u8(..6));
                match rng.u8(..8) {
                    0..=2 => tracked.note(&key, SequenceNumber(step), Use::Read),
                    3 => tracked.note(&key, SequenceNumber(step), Use::Write),
                    4 => {
                        let at_save_point = copies.last().is_some_and(|c| c.contains_key(&key));
                        let gone = tracked.undo_read(&key);
                        assert!(!(gone && at_save_point), "seed {seed}");
                        assert!(!gone || tracked.get(&key).is_none(), "seed {seed}");
                    }
                    5 if copies.len() < 5 => {
                        tracked.set_save_point();
                        copies.push(tracked.keys.clone());
                    }
                    6 => {
                        let popped = tracked.pop_save_point();
                        assert_eq!(popped.is_ok(), copies.pop().is_some(), "seed {seed}");
                    }
                    _ => {
                        let before: Vec<_> = tracked.keys().cloned().collect();
                        let released = tracked.rollback_to_save_point();
                        let Some(copy) = copies.pop() else {
                            assert!(released.is_err(), "seed {seed}");
                            continue;
                        };
                        assert_eq!(tracked.keys, copy, "seed {seed}");
                        let released = released.unwrap();
                        for key in before {
                            let kept = copy.contains_key(&key);
                            assert_eq!(released.contains(&key), !kept, "seed {seed}");
                        }
                    }
                }
                if copies.is_empty() {
                    assert!(tracked.journal.is_empty(), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn a_read_must_be_undone_as_often_as_it_was_done() {
        let mut tracked = TrackedKeys::default();
        tracked.note(&key(1), SequenceNumber(5), Use::Read);
        tracked.note(&key(1), SequenceNumber(7), Use::Read);
        assert_eq!(
            tracked.get(&key(1)).map(|t| t.since),
            Some(SequenceNumber(5))
        );
        assert!(!tracked.undo_read(&key(1)));
        assert!(tracked.undo_read(&key(1)));
        assert!(!tracked.undo_read(&key(1)));
        assert!(tracked.is_empty());
        assert_eq!(tracked.len(), 0);
    }
}
