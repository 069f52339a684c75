//! The writes and guards of a transaction that is not committed yet, for stores that keep them in
//! memory until then.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Space;

/// A key with its space.
pub(super) type Key = (Space, Vec<u8>);

/// Writes: values, or that there is none.
pub(super) type Writes = BTreeMap<Key, Option<Bytes>>;

/// See the module.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) writes: Writes,
    pub(super) guards: BTreeSet<Key>,
}

impl Pending {
    /// Whether there is nothing to commit.
    #[cfg(any(feature = "etcd", feature = "tikv"))]
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.guards.is_empty()
    }

    /// The keys that nobody else may have written.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.writes.keys().chain(&self.guards)
    }

    pub(super) fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        debug_assert!(!value.is_empty(), "values are not empty");
        let value = Some(Bytes::copy_from_slice(value));
        self.writes.insert((space, key.to_vec()), value);
    }

    pub(super) fn delete(&mut self, space: Space, key: &[u8]) {
        self.writes.insert((space, key.to_vec()), None);
    }

    pub(super) fn guard(&mut self, space: Space, key: &[u8]) {
        self.guards.insert((space, key.to_vec()));
    }
}
