//! The versions written to a leaf since it was made.
//!
//! A leaf never changes, so up to fifteen new versions stand beside it, in slots that are filled
//! once. One number has the count of filled slots and their order, as in Masstree (Mao, Kohler and
//! Morris, EuroSys 2012). A reader loads the number once, and then sees every write up to that
//! moment in the order of the keys, without a lock or a copy.
//!
//! One writer at a time: the caller holds the lock of the segment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use titan::invariant;
use titan_mvcc::Timestamp;

use crate::content::memory::{BLOCK, Budget, Charge};
use crate::content::versions::{Seen, Tag};
use crate::content::write::Write;

/// Slots of a tail, as many as one number can order.
pub(crate) const SLOTS: usize = 15;

/// The slots and their order.
pub(crate) struct Tail {
    order: AtomicU64,
    slots: [OnceLock<Entry>; SLOTS],
    /// The order at the last call of [`Tail::is_idle`].
    looked_at: AtomicU64,
    charge: Charge,
}

/// A version. Versions of one key come newest first.
pub(crate) struct Entry {
    /// The key, and then the value.
    bytes: Box<[u8]>,
    key_len: usize,
    pub(crate) commit: Timestamp,
    tag: Tag,
}

impl Entry {
    fn new(write: &Write<'_>) -> Self {
        let (tag, value) = write.tagged();
        let mut bytes = Vec::with_capacity(write.key.len() + value.len());
        bytes.extend_from_slice(write.key);
        bytes.extend_from_slice(value);
        Entry {
            bytes: bytes.into_boxed_slice(),
            key_len: write.key.len(),
            commit: write.commit,
            tag,
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len]
    }

    /// The answer from its timestamp on.
    pub(crate) fn seen(&self) -> Seen<'_> {
        self.tag.seen(&self.bytes[self.key_len..], self.commit)
    }

    fn write(&self) -> Write<'_> {
        Write::of(
            self.key(),
            self.commit,
            self.tag,
            &self.bytes[self.key_len..],
        )
    }
}

/// The filled slots in order: the lowest four bits are the count, each further four a slot number.
#[derive(Clone, Copy)]
pub(crate) struct Order(u64);

impl Order {
    fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    fn slot(self, n: usize) -> usize {
        (self.0 >> (4 + 4 * n) & 15) as usize
    }

    /// The order with the next slot at place `n`.
    fn with(self, n: usize) -> Self {
        let shift = 4 + 4 * n;
        let before = (1 << shift) - 1;
        let slot = (self.count() as u64) << shift;
        Order((self.0 & before | slot | (self.0 & !before) << 4) + 1)
    }
}

/// A tail as of one moment.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    /// None if nothing was written.
    tail: Option<&'a Tail>,
    order: Order,
}

impl<'a> Entries<'a> {
    pub(crate) fn of(tail: Option<&'a Tail>) -> Self {
        let order = tail.map_or(Order(0), Tail::order);
        Entries { tail, order }
    }

    /// The tail as of an earlier moment.
    pub(crate) fn as_of(tail: Option<&'a Tail>, order: Order) -> Self {
        Entries { tail, order }
    }

    pub(crate) fn order(self) -> Order {
        self.order
    }

    pub(crate) fn len(self) -> usize {
        self.order.count()
    }

    /// Entry `n` in the order of the keys, those of one key newest first.
    pub(crate) fn get(self, n: usize) -> Option<&'a Entry> {
        match n < self.len() {
            true => self.tail?.slots.get(self.order.slot(n))?.get(),
            false => None,
        }
    }

    /// The number of entries before `key`.
    pub(crate) fn rank(self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).is_some_and(|entry| entry.key() < key) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The entries in the order in which they were written.
    pub(crate) fn writes(self) -> impl Iterator<Item = Write<'a>> {
        let slots = self.tail.map_or(&[][..], |tail| &tail.slots);
        let filled = slots.iter().take(self.len()).filter_map(OnceLock::get);
        filled.map(Entry::write)
    }
}

impl Tail {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Tail {
            order: AtomicU64::new(0),
            slots: [const { OnceLock::new() }; SLOTS],
            looked_at: AtomicU64::new(0),
            charge: Charge::new(budget, size_of::<Tail>() + BLOCK),
        }
    }

    fn order(&self) -> Order {
        // ORDER: the slots that the number names were filled before it was stored.
        Order(self.order.load(Ordering::Acquire))
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Whether nothing was written since the last call.
    pub(crate) fn is_idle(&self) -> bool {
        let order = self.order.load(Ordering::Relaxed);
        self.looked_at.swap(order, Ordering::Relaxed) == order
    }

    /// Whether `more` versions have room.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        Entries::of(Some(self)).len() + more <= SLOTS
    }

    /// Adds a version, which is not older than others of its key. There must be room. Called by one
    /// thread at a time. Cost: one allocation.
    pub(crate) fn add(&self, write: &Write<'_>) {
        let entries = Entries::of(Some(self));
        let entry = Entry::new(write);
        self.charge.add(entry.bytes.len() + BLOCK);
        let at = entries.rank(write.key);
        invariant!(entries.len() < SLOTS, "a tail has no room");
        let after = entries.get(at).filter(|after| after.key() == write.key);
        invariant!(
            after.is_none_or(|newest| newest.commit <= write.commit),
            "a version of {} comes after a newer one",
            write.commit
        );
        let Some(Ok(())) = self.slots.get(entries.len()).map(|slot| slot.set(entry)) else {
            return;
        };
        // ORDER: after the slot was filled. A reader that loads this number finds the entry.
        self.order
            .store(entries.order.with(at).0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_order_and_earlier_views_stay_as_they_were() {
        for seed in 0..2_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let budget = Arc::new(Budget::new(usize::MAX));
            let tail = Tail::new(&budget);
            let mut views = vec![(Entries::of(Some(&tail)), Vec::new())];
            let mut expected: Vec<(u8, u64)> = Vec::new();
            for commit in 1..=SLOTS as u64 {
                assert!(tail.has_room(1));
                let key = rng.u8(..6);
                tail.add(&Write {
                    key: &[key],
                    commit: Timestamp(commit),
                    value: None,
                });
                expected.push((key, commit));
                expected.sort_by_key(|(key, commit)| (*key, u64::MAX - commit));
                views.push((Entries::of(Some(&tail)), expected.clone()));
            }
            assert!(!tail.has_room(1));
            for (view, expected) in views {
                let found: Vec<_> = (0..view.len())
                    .filter_map(|n| view.get(n))
                    .map(|entry| (entry.key()[0], entry.commit.0))
                    .collect();
                assert_eq!(found, expected, "seed {seed}");
                let rank = expected.partition_point(|(key, _)| *key < 3);
                assert_eq!(view.rank(&[3]), rank, "seed {seed}");
                assert!(view.writes().map(|w| w.commit).is_sorted(), "seed {seed}");
            }
            drop(tail);
            assert_eq!(budget.used(), 0);
        }
    }
}
