//! User keys that know their order, for sorted maps over any order.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::comparator::Comparator;

/// A user key that knows its order. It is compared with keys of the same order only.
#[derive(Clone)]
pub(crate) struct OrderedKey {
    pub(crate) key: Bytes,
    pub(crate) order: Arc<dyn Comparator>,
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&self.key, &other.key)
    }
}
