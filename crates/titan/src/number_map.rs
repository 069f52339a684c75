//! Map from numbers to values, in the order of the numbers.
//!
//! The engine has many maps from families and files to all kinds of values. The standard library's
//! map is compiled once for each of them, which was a quarter of the engine's compiled code. Here
//! one tree finds the places of all entries with values of any type.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::mem;
use std::ops::{Bound, RangeBounds};

use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber};

/// Numbers that are keys of a [`NumberMap`].
pub trait Number: Copy + Eq {
    /// The number itself.
    fn number(self) -> u64;
}

impl Number for u64 {
    fn number(self) -> u64 {
        self
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn number(self) -> u64 {
                self.0.into()
            }
        }
    )*};
}
numbers!(BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber);

/// Map from numbers to values. It is as fast as a tree of the entries, and iterates in the same
/// order.
#[derive(Clone)]
pub struct NumberMap<K, V> {
    places: Places,
    /// In no order: an entry that is removed leaves its place to the last one.
    entries: Vec<(K, V)>,
}

impl<K: Number, V> NumberMap<K, V> {
    /// A map without entries.
    pub fn new() -> Self {
        NumberMap::default()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the map has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a number.
    pub fn get(&self, key: &K) -> Option<&V> {
        let place = self.places.get(key.number())?;
        Some(&self.entries[place].1)
    }

    /// The value of a number, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.places.get(key.number())?;
        Some(&mut self.entries[place].1)
    }

    /// Whether a number has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.places.get(key.number()).is_some()
    }

    /// Sets the value of a number and returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let next = self.entries.len();
        let place = self.places.get_or_insert(key.number(), next);
        if place == next {
            self.entries.push((key, value));
            return None;
        }
        Some(mem::replace(&mut self.entries[place].1, value))
    }

    /// The value of a number; if it has none, the one that `value` returns is inserted.
    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let next = self.entries.len();
        let place = self.places.get_or_insert(key.number(), next);
        if place == next {
            self.entries.push((key, value()));
        }
        &mut self.entries[place].1
    }

    /// The value of a number; if it has none, the default is inserted.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_insert_with(key, V::default)
    }

    /// Removes a number and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.places.remove(key.number())?;
        let (_, value) = self.entries.swap_remove(place);
        if let Some((moved, _)) = self.entries.get(place) {
            self.places.put(moved.number(), place);
        }
        Some(value)
    }

    /// Removes the entries that `keep` does not keep. They are asked in no particular order.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let before = self.entries.len();
        self.entries.retain_mut(|(key, value)| keep(key, value));
        if self.entries.len() < before {
            self.places = Places::of(&mut self.entries.iter().map(|(key, _)| key.number()));
        }
    }

    /// The entries by ascending number.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            places: self.places.0.values(),
            entries: &self.entries,
        }
    }

    /// The entries whose numbers are within bounds, by ascending number.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let number = |bound: Bound<&K>| bound.map(|key| key.number());
        let places = self
            .places
            .range((number(bounds.start_bound()), number(bounds.end_bound())));
        places.map(|(_, place)| entry(&self.entries[*place]))
    }

    /// The numbers, ascending.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values by ascending number.
    pub fn values(&self) -> Values<'_, K, V> {
        Values(self.iter())
    }

    /// The entries in no particular order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// The values in no particular order, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The values by ascending number.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }
}

fn entry<K, V>((key, value): &(K, V)) -> (&K, &V) {
    (key, value)
}

/// The place of each number's entry.
#[derive(Clone, Default)]
struct Places(BTreeMap<u64, usize>);

// None of these functions is generic: that is their purpose.
impl Places {
    /// The places of entries with these numbers. Of equal ones, the last one counts.
    fn of(numbers: &mut dyn Iterator<Item = u64>) -> Self {
        Places(numbers.zip(0..).collect())
    }

    fn get(&self, number: u64) -> Option<usize> {
        self.0.get(&number).copied()
    }

    /// The place of `number`; `next` if it had none.
    fn get_or_insert(&mut self, number: u64, next: usize) -> usize {
        *self.0.entry(number).or_insert(next)
    }

    fn put(&mut self, number: u64, place: usize) {
        self.0.insert(number, place);
    }

    fn remove(&mut self, number: u64) -> Option<usize> {
        self.0.remove(&number)
    }

    fn range(&self, bounds: (Bound<u64>, Bound<u64>)) -> btree_map::Range<'_, u64, usize> {
        self.0.range(bounds)
    }

    fn in_order(self) -> Vec<usize> {
        self.0.into_values().collect()
    }
}

impl<K, V> Default for NumberMap<K, V> {
    fn default() -> Self {
        NumberMap {
            places: Places::default(),
            entries: Vec::new(),
        }
    }
}

impl<K: Number, V> FromIterator<(K, V)> for NumberMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = Vec::from_iter(entries);
        let places = Places::of(&mut entries.iter().map(|(key, _)| key.number()));
        if places.0.len() == entries.len() {
            return NumberMap { places, entries };
        }
        let mut map = NumberMap::new();
        map.extend(entries);
        map
    }
}

impl<K: Number, V> Extend<(K, V)> for NumberMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Number, V, const N: usize> From<[(K, V); N]> for NumberMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        NumberMap::from_iter(entries)
    }
}

impl<K: Number, V> std::ops::Index<&K> for NumberMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        &self.entries[self.places.0[&key.number()]].1
    }
}

impl<K: Number, V: PartialEq> PartialEq for NumberMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl<K: Number, V: Eq> Eq for NumberMap<K, V> {}

impl<K: Number + fmt::Debug, V: fmt::Debug> fmt::Debug for NumberMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// Iterator over the entries of a [`NumberMap`] by ascending number.
pub struct Iter<'a, K, V> {
    places: btree_map::Values<'a, u64, usize>,
    entries: &'a [(K, V)],
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter {
            places: self.places.clone(),
            entries: self.entries,
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.places.next().map(|place| entry(&self.entries[*place]))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let place = self.places.next_back()?;
        Some(entry(&self.entries[*place]))
    }
}

/// Iterator over the values of a [`NumberMap`] by ascending number.
pub struct Values<'a, K, V>(Iter<'a, K, V>);

impl<K, V> Clone for Values<'_, K, V> {
    fn clone(&self) -> Self {
        Values(self.0.clone())
    }
}

impl<'a, K, V> Iterator for Values<'a, K, V> {
    type Item = &'a V;

    fn next(&mut self) -> Option<&'a V> {
        self.0.next().map(|(_, value)| value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'a, K: Number, V> IntoIterator for &'a NumberMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

/// Iterator over the entries of a [`NumberMap`] that ends with it.
pub struct IntoIter<K, V> {
    places: std::vec::IntoIter<usize>,
    entries: Vec<Option<(K, V)>>,
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.entries[self.places.next()?].take()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl<K: Number, V> IntoIterator for NumberMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        IntoIter {
            places: self.places.in_order().into_iter(),
            entries: self.entries.into_iter().map(Some).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_map_is_a_sorted_map() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut map, mut model) = (NumberMap::new(), BTreeMap::new());
        for step in 0..2000 {
            let key = FileNumber(rng.u64(..30));
            match rng.u8(..10) {
                0..4 => assert_eq!(map.insert(key, step), model.insert(key, step)),
                4 => *map.get_or_default(key) = *model.entry(key).or_default(),
                5..8 => assert_eq!(map.remove(&key), model.remove(&key)),
                8 => {
                    map.retain(|key, value| (key.0 + *value) % 5 > 0);
                    model.retain(|key, value| (key.0 + *value) % 5 > 0);
                }
                _ => map = map.into_iter().collect(),
            }
            assert_eq!(map.get(&key), model.get(&key));
            assert!(map.iter().eq(&model) && map.iter().rev().eq(model.iter().rev()));
            assert!(map.range(key..).eq(model.range(key..)));
            assert!(map.clone().into_iter().eq(model.clone()));
        }
    }

    #[test]
    fn the_last_of_equal_numbers_counts() {
        let [first, second] = [FileNumber(1), FileNumber(2)];
        let map = NumberMap::from([(second, 0), (first, 1), (second, 2)]);
        assert!(map.iter().eq([(&first, &1), (&second, &2)]));
    }
}
