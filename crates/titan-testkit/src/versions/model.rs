//! Model of a store of versions: every version of every key, however old.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Effect of a commit on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// It has this value from then on, or none.
    Set(Option<Vec<u8>>),
    /// It was locked, and keeps what it had.
    Lock,
}

/// All versions of all keys, by timestamps of the type `T`.
#[derive(Clone, Debug)]
pub struct Versions<T>(BTreeMap<Vec<u8>, BTreeMap<T, Write>>);

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Versions(BTreeMap::new())
    }
}

impl<T: Ord + Copy> Versions<T> {
    /// Notes what was done to a key by a commit at `commit`.
    pub fn write(&mut self, key: Vec<u8>, commit: T, write: Write) {
        self.0.entry(key).or_default().insert(commit, write);
    }

    /// The effect of a commit at this time on a key.
    pub fn written(&self, key: &[u8], commit: T) -> Option<&Write> {
        self.0.get(key)?.get(&commit)
    }

    /// The value of a key at a time.
    pub fn get(&self, key: &[u8], at: T) -> Option<&[u8]> {
        let mut until = self.0.get(key)?.range(..=at).rev();
        until.find_map(|(_, write)| match write {
            Write::Set(value) => Some(value.as_deref()),
            Write::Lock => None,
        })?
    }

    /// All keys with their values at a time.
    pub fn rows(&self, at: T) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let rows = self.0.keys();
        let rows = rows.filter_map(|key| Some((key.clone(), self.get(key, at)?.to_vec())));
        rows.collect()
    }

    /// The keys of a range that ever had a version, in order.
    pub fn keys(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.range::<[u8], _>(range).map(|(key, _)| &**key)
    }

    /// Whether the key was written or locked after `start`.
    pub fn is_newer(&self, key: &[u8], start: T) -> bool {
        let newest = self.0.get(key).and_then(|it| it.keys().next_back());
        newest.is_some_and(|newest| *newest > start)
    }

    /// The versions of a key, the newest first, that remain when everything that no read from the
    /// safe point on can see is dropped; and whether each may be dropped nevertheless, as a lock
    /// after the safe point with a newer write of the key may be.
    pub fn needed(&self, key: &[u8], safe_point: T) -> Vec<(T, bool)> {
        let Some(versions) = self.0.get(key) else {
            return Vec::new();
        };
        let above = (Bound::Excluded(safe_point), Bound::Unbounded);
        let newer = versions.range(above).rev().enumerate();
        let mut needed: Vec<(T, bool)> = newer
            .map(|(n, (at, write))| (*at, n > 0 && *write == Write::Lock))
            .collect();
        let mut until = versions.range(..=safe_point).rev();
        let last = until.find(|(_, write)| **write != Write::Lock);
        if let Some((at, Write::Set(Some(_)))) = last {
            needed.push((*at, false));
        }
        needed
    }

    /// Forgets the commit at this time.
    pub fn forget(&mut self, at: T) {
        self.0.retain(|_, versions| {
            versions.remove(&at);
            !versions.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_finds_the_newest_value_up_to_its_time_and_looks_through_locks() {
        let mut versions = Versions::default();
        let set = |value: &[u8]| Write::Set(Some(value.to_vec()));
        versions.write(b"a".to_vec(), 2, set(b"1"));
        versions.write(b"a".to_vec(), 4, Write::Lock);
        versions.write(b"a".to_vec(), 6, Write::Set(None));
        versions.write(b"b".to_vec(), 4, set(b"2"));
        let found: Vec<_> = (1..7).map(|at| versions.get(b"a", at)).collect();
        let one = Some(&b"1"[..]);
        assert_eq!(found, [None, one, one, one, one, None]);
        assert!(versions.is_newer(b"a", 5) && !versions.is_newer(b"a", 6));
        // Of `a` at 3: all three. At 5 the lock is not needed, at 6 nothing.
        // At 3 all three of `a`; the deletion is after the lock. At 5 the lock is not needed, at
        // 6 nothing.
        let needed = [3, 5, 6].map(|at| versions.needed(b"a", at));
        let (deletion, lock, put) = ((6, false), (4, true), (2, false));
        assert_eq!(needed[0], [deletion, lock, put]);
        assert_eq!(needed[1], [deletion, put]);
        assert_eq!(needed[2], []);
        assert_eq!(versions.needed(b"b", 6), [(4, false)]);
        assert_eq!(versions.rows(5).len(), 2);
        versions.forget(4);
        versions.forget(6);
        assert_eq!(versions.rows(9).len(), 1);
    }
}
