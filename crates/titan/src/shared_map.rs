//! A sorted map whose copies share their common parts.
//!
//! A version of a hundred thousand files differs from the one before in a few. So the entries are
//! in chunks: a copy has the same chunks, and a change copies one of them.
//!
//! Cost, for `n` entries: to make or drop a copy, `n / 64` reference counts; a lookup, two
//! binary searches; a change, a chunk of at most 64 entries.

use std::sync::Arc;

/// The most entries of a chunk.
const CHUNK: usize = 64;

/// See the [module](self) documentation.
#[derive(Clone, Debug)]
pub(crate) struct SharedMap<K, V> {
    /// No chunk is empty; keys ascend within a chunk and from one to the next.
    chunks: Vec<Arc<Vec<(K, V)>>>,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        SharedMap { chunks: Vec::new() }
    }
}

/// Where an entry is, in the map that returned it, as long as that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    chunk: usize,
    entry: usize,
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (at, chunk) = self.chunk_of(key)?;
        let found = search(chunk, key).ok()?;
        let chunk = self.chunks.get(at)?;
        chunk.get(found).map(|(_, value)| value)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Copies the key's chunk, if another map shares it.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (at, chunk) = self.chunk_of(key)?;
        let found = search(chunk, key).ok()?;
        let chunk = Arc::make_mut(self.chunks.get_mut(at)?);
        chunk.get_mut(found).map(|(_, value)| value)
    }

    /// Returns the previous value of the key.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        // A key larger than all others belongs to the last chunk. An empty map has no chunk yet.
        let at = self.chunk_of(&key).map_or(0, |(at, _)| at);
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(Arc::new(vec![(key, value)]));
            return None;
        };
        match search(chunk, &key) {
            Ok(found) => {
                let chunk = Arc::make_mut(chunk);
                let slot = chunk.get_mut(found)?;
                Some(std::mem::replace(&mut slot.1, value))
            }
            Err(place) => {
                let full = chunk.len() >= CHUNK;
                if full && place == chunk.len() {
                    // So ascending keys fill chunks completely.
                    self.chunks.insert(at + 1, Arc::new(vec![(key, value)]));
                    return None;
                }
                let chunk = Arc::make_mut(chunk);
                chunk.insert(place, (key, value));
                if full {
                    let upper = chunk.split_off(chunk.len() / 2);
                    self.chunks.insert(at + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (at, chunk) = self.chunk_of(key)?;
        let found = search(chunk, key).ok()?;
        let chunk = Arc::make_mut(self.chunks.get_mut(at)?);
        let (_, value) = chunk.remove(found);
        if chunk.is_empty() {
            self.chunks.remove(at);
        } else {
            self.join_small(at);
        }
        Some(value)
    }

    /// Joins a chunk with its neighbour if both are small, so that there are never many small ones.
    fn join_small(&mut self, at: usize) {
        let len = |at: usize| self.chunks.get(at).map_or(CHUNK, |chunk| chunk.len());
        let first = match at {
            _ if len(at) + len(at + 1) <= CHUNK / 2 => at,
            0 => return,
            _ if len(at - 1) + len(at) <= CHUNK / 2 => at - 1,
            _ => return,
        };
        let second = self.chunks.remove(first + 1);
        if let Some(chunk) = self.chunks.get_mut(first) {
            Arc::make_mut(chunk).extend(second.iter().cloned());
        }
    }

    /// The chunk that a key belongs to: the last that does not start after it, or else the first.
    fn chunk_of(&self, key: &K) -> Option<(usize, &Vec<(K, V)>)> {
        let starts_after = |chunk: &Arc<Vec<(K, V)>>| {
            let first = chunk.first();
            first.is_some_and(|(first, _)| first > key)
        };
        let after = self.chunks.partition_point(|chunk| !starts_after(chunk));
        let at = after.saturating_sub(1);
        self.chunks.get(at).map(|chunk| (at, &**chunk))
    }

    /// The place of the first entry for which `is_before` is false, which must be true for a first
    /// part of the map; or the place after the last entry.
    pub(crate) fn partition_point(&self, mut is_before: impl FnMut(&K) -> bool) -> Place {
        let mut starts_before = |chunk: &Arc<Vec<(K, V)>>| {
            let first = chunk.first();
            first.is_some_and(|(key, _)| is_before(key))
        };
        let later = self.chunks.partition_point(&mut starts_before);
        let Some(chunk) = later.checked_sub(1) else {
            return Place { chunk: 0, entry: 0 };
        };
        let entries = self.chunks.get(chunk).map_or(0, |chunk| {
            let entries = chunk.partition_point(|(key, _)| is_before(key));
            if entries == chunk.len() { 0 } else { entries }
        });
        match entries {
            0 => Place {
                chunk: later,
                entry: 0,
            },
            entry => Place { chunk, entry },
        }
    }

    /// The entry at a place; `None` after the last entry.
    pub(crate) fn at(&self, place: Place) -> Option<(&K, &V)> {
        let entry = self.chunks.get(place.chunk)?.get(place.entry);
        entry.map(|(key, value)| (key, value))
    }

    /// The place after that of an entry.
    pub(crate) fn after(&self, place: Place) -> Place {
        let len = self.chunks.get(place.chunk).map_or(0, |chunk| chunk.len());
        match place.entry + 1 < len {
            true => Place {
                entry: place.entry + 1,
                ..place
            },
            false => Place {
                chunk: place.chunk + 1,
                entry: 0,
            },
        }
    }

    /// The place before another one, if there is one.
    pub(crate) fn before(&self, place: Place) -> Option<Place> {
        if let Some(entry) = place.entry.checked_sub(1) {
            return Some(Place { entry, ..place });
        }
        let chunk = place.chunk.checked_sub(1)?;
        let entry = self.chunks.get(chunk)?.len().checked_sub(1)?;
        Some(Place { chunk, entry })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> + Clone {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.iter());
        entries.map(|(key, value)| (key, value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }
}

fn search<K: Ord, V>(chunk: &[(K, V)], key: &K) -> Result<usize, usize> {
    chunk.binary_search_by(|(known, _)| known.cmp(key))
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    /// The last of several values for one key counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = SharedMap::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn entries(map: &SharedMap<u32, u32>) -> Vec<(u32, u32)> {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    #[test]
    fn it_holds_what_an_ordinary_map_holds_and_copies_stay_as_they_were() {
        for seed in 0..4 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for step in 0..20_000 {
                // It grows, and shrinks again.
                let removes = rng.u32(..20_000) < step;
                let key = rng.u32(..2000);
                match removes {
                    true => assert_eq!(map.remove(&key), model.remove(&key), "seed {seed}"),
                    false if rng.u8(..4) == 0 => {
                        let changed = map.get_mut(&key).map(|value| *value += 1);
                        let expected = model.get_mut(&key).map(|value| *value += 1);
                        assert_eq!(changed, expected, "seed {seed}");
                    }
                    false => assert_eq!(map.insert(key, step), model.insert(key, step)),
                }
                assert_eq!(map.get(&key), model.get(&key), "seed {seed}");
                if step % 2000 == 0 {
                    let expected: Vec<_> = model.iter().map(|(k, v)| (*k, *v)).collect();
                    assert_eq!(entries(&map), expected, "seed {seed}");
                    copies.push((map.clone(), expected));
                }
            }
            for (copy, expected) in copies {
                assert_eq!(entries(&copy), expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn places_lead_through_the_entries_in_both_directions() {
        for len in [0, 1, 63, 64, 65, 500] {
            let map: SharedMap<u32, u32> = (0..len).map(|n| (2 * n, n)).collect();
            for target in 0..2 * len + 2 {
                let place = map.partition_point(|key| *key < target);
                let expected = target.div_ceil(2);
                let found = map.at(place).map(|(_, n)| *n);
                assert_eq!(found, (expected < len).then_some(expected));
                let before = map.before(place).and_then(|place| map.at(place));
                let expected_before = expected.min(len).checked_sub(1);
                assert_eq!(before.map(|(_, n)| *n), expected_before);
                if found.is_some() {
                    let after = map.at(map.after(place)).map(|(_, n)| *n);
                    assert_eq!(after, (expected + 1 < len).then_some(expected + 1));
                }
            }
        }
    }

    #[test]
    fn a_copy_shares_all_chunks_but_those_that_change() {
        let map: SharedMap<u32, u32> = (0..6400).map(|n| (n, n)).collect();
        assert_eq!(map.chunks.len(), 100);
        let mut changed = map.clone();
        changed.insert(6400, 0);
        changed.remove(&100);
        *changed.get_mut(&3000).unwrap() = 0;
        let shared = |chunk: &&Arc<_>| map.chunks.iter().any(|c| Arc::ptr_eq(c, chunk));
        assert_eq!(changed.chunks.iter().filter(shared).count(), 98);
    }

    #[test]
    fn what_is_left_of_many_entries_stands_in_few_chunks() {
        let mut map: SharedMap<u32, u32> = (0..6400).map(|n| (n, n)).collect();
        for n in (0..6400).filter(|n| n % 64 != 7) {
            map.remove(&n);
        }
        assert_eq!(map.iter().count(), 100);
        assert!(map.chunks.len() <= 10, "{}", map.chunks.len());
    }
}
