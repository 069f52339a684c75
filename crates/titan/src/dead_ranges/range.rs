//! Ranges of keys, and a list of those that do not touch each other.

use std::cmp::Ordering;

use crate::format::SequenceNumber;
use crate::format::internal_key::InternalKeyComparator;

/// The most ranges that are known. Beyond that the one with the fewest dead keys is forgotten.
const MAX_KNOWN: usize = 64;
/// Dead keys of a range from which on it is worth compacting its tables.
pub(crate) const LONG: u64 = 4096;
/// Longer keys are not kept in memory.
pub(super) const MAX_KEY_LEN: usize = 4096;
/// Parts with fewer dead keys are not worth a place in the list.
pub(super) const MIN_KEYS: u64 = 16;

/// The direction in which a reader goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Backward,
}

/// The part of a family's history that a reader sees.
#[derive(Clone, Copy)]
pub(crate) struct ReadPoint {
    pub(crate) snapshot: SequenceNumber,
    /// The generation of its super version.
    pub(crate) generation: u64,
}

/// Where a range starts or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) key: Vec<u8>,
    /// Whether the range has that key too.
    pub(crate) included: bool,
}

impl Edge {
    fn included(key: &[u8]) -> Self {
        Edge {
            key: key.to_vec(),
            included: true,
        }
    }

    fn excluded(key: &[u8]) -> Self {
        Edge {
            key: key.to_vec(),
            included: false,
        }
    }

    /// The order of the starts of two ranges.
    fn cmp_start(&self, other: &Edge, order: &InternalKeyComparator) -> Ordering {
        let keys = order.compare_user(&self.key, &other.key);
        keys.then(other.included.cmp(&self.included))
    }

    /// The order of the ends of two ranges.
    fn cmp_end(&self, other: &Edge, order: &InternalKeyComparator) -> Ordering {
        let keys = order.compare_user(&self.key, &other.key);
        keys.then(self.included.cmp(&other.included))
    }

    /// Whether a range that starts here starts after a key.
    fn starts_after(&self, key: &[u8], order: &InternalKeyComparator) -> bool {
        match order.compare_user(&self.key, key) {
            Ordering::Equal => !self.included,
            order => order.is_gt(),
        }
    }

    /// Whether a range that ends here ends before a key.
    fn ends_before(&self, key: &[u8], order: &InternalKeyComparator) -> bool {
        match order.compare_user(&self.key, key) {
            Ordering::Equal => !self.included,
            order => order.is_lt(),
        }
    }
}

/// A range in which no key has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadRange {
    pub(super) first: Edge,
    pub(super) last: Edge,
    /// An estimate of the deleted keys that a reader stepped over in it.
    pub(super) keys: u64,
    /// Their number when it was said that there are many.
    told: u64,
    /// The oldest snapshot for which it holds.
    pub(super) since: SequenceNumber,
    /// The first generation of tables for which it holds.
    pub(super) generation: u64,
}

impl DeadRange {
    /// From one key to another, both included.
    pub(super) fn of(first: &[u8], last: &[u8], keys: u64, since: ReadPoint) -> Self {
        DeadRange {
            first: Edge::included(first),
            last: Edge::included(last),
            keys,
            told: 0,
            since: since.snapshot,
            generation: since.generation,
        }
    }

    /// The part that it has in common with another range; both must hold.
    pub(super) fn common(&self, other: &Self, order: &InternalKeyComparator) -> Option<Self> {
        let first = match self.first.cmp_start(&other.first, order) {
            Ordering::Less => &other.first,
            _ => &self.first,
        };
        let last = match self.last.cmp_end(&other.last, order) {
            Ordering::Greater => &other.last,
            _ => &self.last,
        };
        let exists = match order.compare_user(&first.key, &last.key) {
            Ordering::Equal => first.included && last.included,
            order => order.is_lt(),
        };
        exists.then(|| DeadRange {
            first: first.clone(),
            last: last.clone(),
            keys: self.keys.min(other.keys),
            told: 0,
            since: self.since,
            generation: self.generation.max(other.generation),
        })
    }

    /// The same, from this snapshot on.
    pub(super) fn since(self, snapshot: SequenceNumber) -> Self {
        DeadRange {
            since: snapshot,
            ..self
        }
    }

    pub(super) fn has(&self, key: &[u8], order: &InternalKeyComparator) -> bool {
        !self.first.starts_after(key, order) && !self.last.ends_before(key, order)
    }

    /// The rest of it without a key: itself, or the parts before and after the key that are worth
    /// it; nothing if the key is too long to be kept.
    pub(super) fn without(
        self,
        key: &[u8],
        order: &InternalKeyComparator,
    ) -> impl Iterator<Item = Self> + use<> {
        if !self.has(key, order) {
            return [Some(self), None].into_iter().flatten();
        }
        let has_before = order.compare_user(&self.first.key, key).is_lt();
        let has_after = order.compare_user(&self.last.key, key).is_gt();
        // How many there are on which side is not known.
        let keys = match has_before && has_after {
            true => self.keys / 2,
            false => self.keys,
        };
        let is_worth = keys >= MIN_KEYS && key.len() <= MAX_KEY_LEN;
        let part = |first: &Edge, last: &Edge| DeadRange {
            first: first.clone(),
            last: last.clone(),
            keys,
            told: self.told.min(keys),
            since: self.since,
            generation: self.generation,
        };
        let cut = Edge::excluded(key);
        let before = (has_before && is_worth).then(|| part(&self.first, &cut));
        let after = (has_after && is_worth).then(|| part(&cut, &self.last));
        [before, after].into_iter().flatten()
    }
}

/// Ranges in order, of which no two have anything in common or touch each other.
#[derive(Default)]
pub(super) struct Known(Vec<DeadRange>);

impl Known {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &DeadRange> + Clone {
        self.0.iter()
    }

    /// Whether each range ends before the next one starts.
    pub(super) fn are_apart(&self, order: &InternalKeyComparator) -> bool {
        self.0.windows(2).all(|pair| match pair {
            [a, b] => a.common(b, order).is_none() && !a.first.cmp_start(&b.first, order).is_gt(),
            _ => true,
        })
    }

    /// The index of the last range that does not start after a key.
    fn position(&self, key: &[u8], order: &InternalKeyComparator) -> Option<usize> {
        let starts_until = |range: &DeadRange| !range.first.starts_after(key, order);
        self.0.partition_point(starts_until).checked_sub(1)
    }

    /// The range that has a key.
    pub(super) fn around(&self, key: &[u8], order: &InternalKeyComparator) -> Option<&DeadRange> {
        let range = self.0.get(self.position(key, order)?)?;
        (!range.last.ends_before(key, order)).then_some(range)
    }

    /// Adds a range, and joins it with those that it meets. Returns whether the result is so long
    /// that it should be said, and longer by as much than when it was said last.
    pub(super) fn add(&mut self, mut new: DeadRange, order: &InternalKeyComparator) -> bool {
        // Those that end before it starts, and that start after it ends, stay as they are. Of two
        // that meet at a key, one has it.
        let ends_before = |range: &DeadRange| {
            let keys = order.compare_user(&range.last.key, &new.first.key);
            keys.is_lt() || keys.is_eq() && !range.last.included && !new.first.included
        };
        let starts_until = |range: &DeadRange| {
            let keys = order.compare_user(&range.first.key, &new.last.key);
            keys.is_lt() || keys.is_eq() && (range.first.included || new.last.included)
        };
        let from = self.0.partition_point(ends_before);
        let to = self.0.partition_point(starts_until).max(from);
        for met in self.0.drain(from..to) {
            if met.first.cmp_start(&new.first, order).is_lt() {
                new.first = met.first;
            }
            if met.last.cmp_end(&new.last, order).is_gt() {
                new.last = met.last;
            }
            new.keys = new.keys.saturating_add(met.keys);
            new.told = new.told.saturating_add(met.told);
            new.since = new.since.max(met.since);
            new.generation = new.generation.max(met.generation);
        }
        let is_longer = new.keys >= new.told.saturating_add(LONG);
        if is_longer {
            new.told = new.keys;
        }
        self.0.insert(from, new);
        self.forget();
        is_longer
    }

    /// Takes a key out of the range that has it.
    pub(super) fn cut(&mut self, key: &[u8], order: &InternalKeyComparator) {
        let Some(at) = self.position(key, order) else {
            return;
        };
        if !self.0.get(at).is_some_and(|range| range.has(key, order)) {
            return;
        }
        let range = self.0.remove(at);
        self.0.splice(at..at, range.without(key, order));
        self.forget();
    }

    fn forget(&mut self) {
        while self.0.len() > MAX_KNOWN {
            let shortest = self
                .0
                .iter()
                .enumerate()
                .min_by_key(|(_, range)| range.keys);
            let Some((at, _)) = shortest else {
                return;
            };
            self.0.remove(at);
        }
    }
}
