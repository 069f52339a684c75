//! The contents of one actor's keys.

use std::collections::BTreeMap;

use crate::op::{Cell, Change, Family, Key, Op};

/// The contents of one actor's keys, and whether it has a family of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Whether the actor's own family exists.
    pub own: bool,
    /// The existing keys.
    pub cells: BTreeMap<Key, Cell>,
}

impl State {
    /// Applies an operation of the given version, and calls `touched` for every key it
    /// changes.
    pub fn apply(&mut self, version: u64, op: &Op, touched: &mut dyn FnMut(Key)) {
        match op {
            Op::Write(_, changes) => changes
                .iter()
                .for_each(|change| self.change(version, change, touched)),
            Op::Create => self.own = true,
            Op::Drop => {
                self.own = false;
                self.remove(Family::Own, 0, u32::MAX, touched);
            }
            Op::Flush | Op::SyncWal | Op::FlushAll | Op::Close => {}
        }
    }

    fn change(&mut self, version: u64, change: &Change, touched: &mut dyn FnMut(Key)) {
        match *change {
            Change::Put { key, amount } => {
                self.cells.insert(key, Cell { version, amount });
                touched(key);
            }
            Change::Delete(key) | Change::SingleDelete(key) => {
                self.cells.remove(&key);
                touched(key);
            }
            Change::DeleteRange { family, from, to } => self.remove(family, from, to, touched),
        }
    }

    fn remove(&mut self, family: Family, from: u32, to: u32, touched: &mut dyn FnMut(Key)) {
        if from >= to {
            return;
        }
        let at = |number| Key { family, number };
        let gone: Vec<Key> = self
            .cells
            .range(at(from)..at(to))
            .map(|(k, _)| *k)
            .collect();
        for key in gone {
            self.cells.remove(&key);
            touched(key);
        }
    }

    /// The families in which the actor's keys may be.
    pub fn families(&self) -> Vec<Family> {
        let exists = |family: &Family| self.own || *family != Family::Own;
        Family::ALL.into_iter().filter(exists).collect()
    }

    /// The accounts with their balances.
    pub fn accounts(&self) -> impl Iterator<Item = (Key, u64)> + '_ {
        let accounts = self.cells.iter().filter(|(key, _)| key.is_account());
        accounts.map(|(key, cell)| (*key, cell.amount))
    }
}
