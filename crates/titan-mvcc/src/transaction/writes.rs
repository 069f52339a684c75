//! The writes of a transaction, until it commits.
//!
//! One buffer contains all keys and values, so a small transaction allocates little. A few writes
//! are found by the hashes of their keys, which the latches need anyway. The first call that needs
//! an order, and the first write after those few, build an index by key.
//!
//! An overwritten value stays in the buffer until such values take more than the rest. So memory is
//! bounded by a multiple of the present writes, however often a key is written.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ops::{Bound, Range};
use std::sync::OnceLock;

use bytes::Bytes;
use titan::{LazyValue, invariant};

use crate::format::Kind;
use crate::locks::KeyHash;
use crate::percolator::Mutation;

/// The number of writes that are found without an index.
const FEW: usize = 16;
/// Initial capacity of the buffer: four writes of 100 bytes.
const FIRST_ROOM: usize = 512;
/// Overwritten bytes that always may stay.
const OVERWRITTEN_STAY: usize = 4096;

/// The writes of a transaction, one for each key.
#[derive(Default)]
pub(super) struct Writes {
    /// Keys and values, including overwritten values.
    bytes: Vec<u8>,
    /// Bytes of overwritten values.
    overwritten: usize,
    /// In the order of the first write of each key.
    entries: Vec<Entry>,
    /// The index in `entries` of each key, once it is needed.
    index: OnceLock<BTreeMap<Vec<u8>, usize>>,
}

struct Entry {
    hash: KeyHash,
    /// The place of the key in `bytes`.
    key: Range<usize>,
    /// The place of the value in `bytes`; empty unless the kind is put.
    value: Range<usize>,
    /// The effect on the key: put, delete or lock.
    kind: Kind,
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of keys and values.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() - self.overwritten
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.set(key, Kind::Put, value);
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        self.set(key, Kind::Delete, b"");
    }

    /// Locks a key, unless it has a write.
    pub(super) fn lock(&mut self, key: &[u8]) {
        let hash = KeyHash::of(key);
        if self.find(hash, key).is_none() {
            self.add(hash, key, Kind::Lock, b"");
        }
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Mutation<'_>> {
        if self.entries.is_empty() {
            return None;
        }
        let at = self.find(KeyHash::of(key), key)?;
        self.entries.get(at).map(|entry| self.mutation(entry))
    }

    /// All writes, in the order of the first write of each key.
    pub(super) fn iter(&self) -> impl Iterator<Item = Mutation<'_>> {
        self.entries.iter().map(|entry| self.mutation(entry))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.slice(&entry.key))
    }

    /// The hashes of the keys, in the order of [`Writes::keys`].
    pub(super) fn hashes(&self) -> impl Iterator<Item = KeyHash> {
        self.entries.iter().map(|entry| entry.hash)
    }

    /// The writes of a range, in the order of keys. Cost: the first call builds the index.
    pub(super) fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> WritesInRange<'_> {
        // An index of no writes would cost every later write.
        static NOTHING: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let index = match self.is_empty() {
            true => &NOTHING,
            false => self.index(),
        };
        let places = index.range::<[u8], _>((from, to));
        WritesInRange {
            writes: self,
            places,
        }
    }

    fn set(&mut self, key: &[u8], kind: Kind, value: &[u8]) {
        let hash = KeyHash::of(key);
        let Some(at) = self.find(hash, key) else {
            self.add(hash, key, kind, value);
            return;
        };
        let value = self.append(value);
        if let Some(entry) = self.entries.get_mut(at) {
            self.overwritten += entry.value.len();
            (entry.kind, entry.value) = (kind, value);
        }
        let (overwritten, all) = (self.overwritten, self.bytes.len());
        invariant!(
            overwritten <= all,
            "{overwritten} of {all} bytes are overwritten"
        );
        if self.overwritten > OVERWRITTEN_STAY.max(self.size()) {
            self.drop_overwritten();
        }
    }

    /// Moves keys and values to a buffer without overwritten values. Cost: copies fewer bytes than
    /// were overwritten since the last time.
    fn drop_overwritten(&mut self) {
        let mut left = Vec::with_capacity(self.size());
        for entry in &mut self.entries {
            for range in [&mut entry.key, &mut entry.value] {
                let from = left.len();
                left.extend_from_slice(self.bytes.get(range.clone()).unwrap_or_default());
                *range = from..left.len();
            }
        }
        invariant!(
            left.len() == self.size(),
            "writes have {} bytes",
            left.len()
        );
        (self.bytes, self.overwritten) = (left, 0);
    }

    fn add(&mut self, hash: KeyHash, key: &[u8], kind: Kind, value: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(FIRST_ROOM.max(key.len() + value.len()));
        }
        let entry = Entry {
            hash,
            key: self.append(key),
            value: self.append(value),
            kind,
        };
        let at = self.entries.len();
        self.entries.push(entry);
        match self.index.get_mut() {
            Some(index) => {
                index.insert(key.to_vec(), at);
            }
            None if at >= FEW => {
                self.index();
            }
            None => {}
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    fn find(&self, hash: KeyHash, key: &[u8]) -> Option<usize> {
        match self.index.get() {
            Some(index) => index.get(key).copied(),
            None => {
                let is_it = |it: &Entry| it.hash == hash && self.slice(&it.key) == key;
                self.entries.iter().position(is_it)
            }
        }
    }

    fn index(&self) -> &BTreeMap<Vec<u8>, usize> {
        self.index.get_or_init(|| {
            let keys = self.keys().map(<[u8]>::to_vec);
            keys.zip(0..).collect()
        })
    }

    fn mutation(&self, entry: &Entry) -> Mutation<'_> {
        let key = self.slice(&entry.key);
        match entry.kind {
            Kind::Put => Mutation::Put {
                key,
                value: self.slice(&entry.value),
            },
            Kind::Delete => Mutation::Delete { key },
            Kind::Lock | Kind::Rollback => Mutation::Lock { key },
        }
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

/// The value of a key after a write, or `None` after a lock, which keeps the snapshot's. Cost:
/// copies the value.
pub(super) fn value_of(write: &Mutation<'_>) -> Option<Option<LazyValue>> {
    match write {
        Mutation::Put { value, .. } => Some(Some(Bytes::copy_from_slice(value).into())),
        Mutation::Delete { .. } => Some(None),
        Mutation::Lock { .. } => None,
    }
}

/// The writes of a range of keys, from either end.
pub(super) struct WritesInRange<'w> {
    writes: &'w Writes,
    places: btree_map::Range<'w, Vec<u8>, usize>,
}

impl<'w> WritesInRange<'w> {
    fn at(&self, place: Option<(&'w Vec<u8>, &'w usize)>) -> Option<Mutation<'w>> {
        let entry = self.writes.entries.get(*place?.1)?;
        Some(self.writes.mutation(entry))
    }
}

impl<'w> Iterator for WritesInRange<'w> {
    type Item = Mutation<'w>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.places.next();
        self.at(place)
    }
}

impl DoubleEndedIterator for WritesInRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let place = self.places.next_back();
        self.at(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Model {
        Put(Vec<u8>),
        Delete,
        Lock,
    }

    fn model(write: Mutation<'_>) -> (Vec<u8>, Model) {
        let does = match write {
            Mutation::Put { value, .. } => Model::Put(value.to_vec()),
            Mutation::Delete { .. } => Model::Delete,
            Mutation::Lock { .. } => Model::Lock,
        };
        (write.key().to_vec(), does)
    }

    #[test]
    fn the_last_write_of_each_key_is_found_with_and_without_an_index() {
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut writes = Writes::default();
            let mut expected = BTreeMap::new();
            let keys = rng.usize(1..60);
            for _ in 0..rng.usize(1..100) {
                let key = vec![b'k'; rng.usize(..2)];
                let key = [&key[..], &[rng.usize(..keys) as u8]].concat();
                match rng.u8(..4) {
                    0 => {
                        writes.delete(&key);
                        expected.insert(key, Model::Delete);
                    }
                    1 => {
                        writes.lock(&key);
                        expected.entry(key).or_insert(Model::Lock);
                    }
                    _ => {
                        let value = vec![rng.u8(..); rng.usize(..700)];
                        writes.put(&key, &value);
                        expected.insert(key, Model::Put(value));
                    }
                }
                if rng.u8(..20) == 0 {
                    let at = [rng.u8(..)];
                    let found = writes.range(Bound::Included(&at), Bound::Unbounded);
                    let found: Vec<_> = found.rev().map(model).collect();
                    let range = expected.range(at.to_vec()..);
                    let range: Vec<_> = range.rev().map(|(k, v)| (k.clone(), v.clone())).collect();
                    assert_eq!(found, range, "seed {seed}");
                }
            }
            let sizes = writes.iter().map(|it| match it {
                Mutation::Put { key, value } => key.len() + value.len(),
                _ => it.key().len(),
            });
            assert_eq!(writes.size(), sizes.sum::<usize>(), "seed {seed}");
            let mut all: Vec<_> = writes.iter().map(model).collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(writes.len(), expected.len(), "seed {seed}");
            assert!(writes.keys().map(KeyHash::of).eq(writes.hashes()));
            for (key, write) in &expected {
                let found = writes.get(key).map(model);
                assert_eq!(found, Some((key.clone(), write.clone())), "seed {seed}");
            }
            assert!(all.into_iter().eq(expected), "seed {seed}");
            assert!(!writes.contains(b"another"));
        }
    }

    #[test]
    fn values_that_are_overwritten_take_no_memory_for_long() {
        let mut writes = Writes::default();
        writes.put(b"other", &[b'o'; 1000]);
        for n in 0..10_000_usize {
            writes.put(b"k", &vec![n as u8; n % 2000]);
            assert!(writes.bytes.capacity() < 30_000, "{n}");
        }
        writes.put(b"k", &vec![b'k'; 1 << 20]);
        writes.delete(b"k");
        assert_eq!(writes.size(), 6 + 1000);
        assert!(writes.bytes.capacity() < 30_000);
        let other = writes.get(b"other").map(model);
        assert_eq!(
            other,
            Some((b"other".to_vec(), Model::Put(vec![b'o'; 1000])))
        );
    }
}
