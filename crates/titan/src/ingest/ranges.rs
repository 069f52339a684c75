//! Ranges of user keys, and sets of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::internal_key::InternalKeyComparator;
use crate::format::ordered_key::OrderedKey;

/// A range of user keys; its begin is included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    begin: Vec<u8>,
    end: Bound<Vec<u8>>,
}

impl Keys {
    pub(super) fn new(begin: &[u8], end: Bound<&[u8]>) -> Self {
        Keys {
            begin: begin.to_vec(),
            end: end.map(<[u8]>::to_vec),
        }
    }

    pub(super) fn overlaps(
        &self,
        begin: &[u8],
        end: Bound<&[u8]>,
        order: &InternalKeyComparator,
    ) -> bool {
        !order.is_beyond(begin, self.end()) && !order.is_beyond(&self.begin, end)
    }

    /// Grows to a range that has another one too.
    pub(super) fn include(&mut self, other: Keys, order: &InternalKeyComparator) {
        if order.compare_user(&other.begin, &self.begin).is_lt() {
            self.begin = other.begin;
        }
        if compare_ends(other.end.as_ref(), self.end.as_ref(), order).is_gt() {
            self.end = other.end;
        }
    }

    fn end(&self) -> Bound<&[u8]> {
        self.end.as_ref().map(Vec::as_slice)
    }
}

fn compare_ends(a: Bound<&Vec<u8>>, b: Bound<&Vec<u8>>, order: &InternalKeyComparator) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Greater,
        (_, Bound::Unbounded) => Ordering::Less,
        (Bound::Included(a), Bound::Included(b)) | (Bound::Excluded(a), Bound::Excluded(b)) => {
            order.compare_user(a, b)
        }
        (Bound::Included(a), Bound::Excluded(b)) => {
            order.compare_user(a, b).then(Ordering::Greater)
        }
        (Bound::Excluded(a), Bound::Included(b)) => order.compare_user(a, b).then(Ordering::Less),
    }
}

/// A set of keys as ranges of which no two overlap.
#[derive(Clone)]
pub(super) struct Ranges {
    order: InternalKeyComparator,
    by_begin: BTreeMap<OrderedKey, Keys>,
}

impl Ranges {
    pub(super) fn new(order: InternalKeyComparator) -> Self {
        Ranges {
            order,
            by_begin: BTreeMap::new(),
        }
    }

    /// Cost: O(log ranges).
    pub(super) fn overlaps(&self, begin: &[u8], end: Bound<&[u8]>) -> bool {
        self.overlapping(begin, end).is_some()
    }

    /// Adds keys. Cost: O(log ranges), for each range with which they become one.
    pub(super) fn add(&mut self, mut keys: Keys) {
        while let Some(begin) = self.overlapping(&keys.begin, keys.end()) {
            if let Some(found) = self.by_begin.remove(&begin) {
                keys.include(found, &self.order);
            }
        }
        self.by_begin.insert(self.begin(&keys.begin), keys);
    }

    /// The begin of a range that overlaps this one.
    fn overlapping(&self, begin: &[u8], end: Bound<&[u8]>) -> Option<OrderedKey> {
        let at = self.begin(begin);
        let before = self.by_begin.range(..=&at).next_back();
        let after = self.by_begin.range(&at..).next();
        let mut near = before.into_iter().chain(after);
        let found = near.find(|(_, keys)| keys.overlaps(begin, end, &self.order));
        found.map(|(begin, _)| begin.clone())
    }

    fn begin(&self, key: &[u8]) -> OrderedKey {
        OrderedKey {
            key: Bytes::copy_from_slice(key),
            order: Arc::clone(self.order.user()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{BytewiseComparator, Comparator, ReverseBytewiseComparator};

    fn bound(rng: &mut fastrand::Rng) -> Bound<u8> {
        match rng.u8(..8) {
            0 => Bound::Unbounded,
            1..4 => Bound::Excluded(rng.u8(..40)),
            _ => Bound::Included(rng.u8(..40)),
        }
    }

    /// Random ranges, against the list of all of them.
    #[test]
    fn a_set_overlaps_a_range_if_one_of_its_ranges_does() {
        let orders: [Arc<dyn Comparator>; 2] = [
            Arc::new(BytewiseComparator),
            Arc::new(ReverseBytewiseComparator),
        ];
        for (seed, user) in (0..200).zip(orders.iter().cycle()) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let order = InternalKeyComparator::new(Arc::clone(user));
            let mut set = Ranges::new(order.clone());
            let mut all: Vec<Keys> = Vec::new();
            for _ in 0..12 {
                let (begin, end) = (rng.u8(..40), bound(&mut rng));
                let end = end.as_ref().map(std::slice::from_ref);
                let is_real = match end {
                    // One of them hides all that follow.
                    Bound::Unbounded => rng.u8(..8) == 0,
                    end => !order.is_beyond(&[begin], end),
                };
                if !is_real {
                    continue;
                }
                let overlaps = all.iter().any(|keys| keys.overlaps(&[begin], end, &order));
                assert_eq!(set.overlaps(&[begin], end), overlaps, "seed {seed}");
                let keys = Keys::new(&[begin], end);
                all.push(keys.clone());
                set.add(keys);
            }
        }
    }
}
