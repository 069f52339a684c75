//! The model of locks.

use std::collections::{BTreeMap, BTreeSet};

use super::Key;

/// Lock mode of a key, and the transactions: by which transactions.
#[derive(Default)]
pub(super) struct Locks(BTreeMap<Key, (bool, BTreeSet<usize>)>);

impl Locks {
    /// Locks a key if that is possible.
    pub(super) fn acquire(&mut self, owner: usize, key: Key, exclusive: bool) -> bool {
        let (mode, owners) = self.0.entry(key).or_default();
        let others = owners.iter().any(|other| *other != owner);
        let had = owners.contains(&owner);
        if others && (exclusive || *mode) {
            return false;
        }
        *mode = exclusive || had && *mode;
        owners.insert(owner);
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn release(&mut self, owner: usize, key: Key) {
        if let Some((_, owners)) = self.0.get_mut(&key) {
            owners.remove(&owner);
            if owners.is_empty() {
                self.0.remove(&key);
            }
        }
    }
}
