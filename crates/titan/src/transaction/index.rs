//! Writes of a transaction to one family, sorted.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::Comparator;
use crate::format::ordered_key::OrderedKey;
use crate::shared_map::{Place, SharedMap};
use crate::wide_columns::WideColumns;

/// The last write of a key.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    Value(Bytes),
    Entity(WideColumns),
    Deleted,
}

/// The last write of each key that has any, in the order of the family. A copy shares its common
/// parts with the original, and does not change with it.
#[derive(Clone)]
pub(super) struct Index {
    order: Arc<dyn Comparator>,
    writes: SharedMap<OrderedKey, Pending>,
}

impl Index {
    pub(super) fn new(order: Arc<dyn Comparator>) -> Self {
        Index {
            order,
            writes: SharedMap::default(),
        }
    }

    pub(super) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.order.compare(a, b)
    }

    pub(super) fn insert(&mut self, key: Bytes, write: Pending) {
        let order = Arc::clone(&self.order);
        self.writes.insert(OrderedKey { key, order }, write);
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Pending> {
        let (found, write) = self.entry(self.first_from(key))?;
        (found == key).then_some(write)
    }

    /// The place of the first key not before `key`.
    pub(super) fn first_from(&self, key: &[u8]) -> Place {
        let order = &self.order;
        self.writes
            .partition_point(|other| order.compare(&other.key, key).is_lt())
    }

    /// The place of the first key after `key`.
    pub(super) fn first_after(&self, key: &[u8]) -> Place {
        let order = &self.order;
        self.writes
            .partition_point(|other| order.compare(&other.key, key).is_le())
    }

    /// The place of the first key.
    pub(super) fn first(&self) -> Place {
        self.writes.partition_point(|_| false)
    }

    /// The place after the last key.
    pub(super) fn end(&self) -> Place {
        self.writes.partition_point(|_| true)
    }

    pub(super) fn entry(&self, place: Place) -> Option<(&[u8], &Pending)> {
        let entry = self.writes.at(place);
        entry.map(|(key, write)| (&*key.key, write))
    }

    pub(super) fn after(&self, place: Place) -> Place {
        self.writes.after(place)
    }

    pub(super) fn before(&self, place: Place) -> Option<Place> {
        self.writes.before(place)
    }
}
