//! Latches exclude commits of the same key from each other, from the check for conflicts to the
//! engine's write.
//!
//! Keys share a latch by their hash. So commits of different keys rarely wait for each other, and
//! commits of the same key always do. A commit takes its latches in ascending order, so commits
//! cannot wait in a circle.
//!
//! # Memory of writes
//!
//! Each latch records the newest write of its keys. A commit that began after it need not search
//! the engine for conflicts. The record is complete: every write of a version is noted in its latch
//! ([`Taken::note`]) while that is taken, and versions of earlier openings precede every
//! transaction of this one.

use parking_lot::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64;

use crate::timestamp::Timestamp;

/// Eight threads with a few keys each rarely meet at one latch, and a transaction that lasts as
/// long as a thousand others finds most latches unchanged. Takes 256 KiB.
const LATCHES: usize = 1 << 14;

/// The latches of a store.
pub(crate) struct Latches(Box<[Mutex<Timestamp>]>);

/// Latches that a commit has taken, until this is dropped.
pub(crate) struct Taken<'l>(Vec<(usize, MutexGuard<'l, Timestamp>)>);

impl Latches {
    /// The latches of a store that was opened at this timestamp: all versions are older.
    pub(crate) fn new(opened: Timestamp) -> Self {
        Latches((0..LATCHES).map(|_| Mutex::new(opened)).collect())
    }

    /// Takes the latches of the keys. Cost: O(n log n).
    pub(crate) fn take<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Taken<'_> {
        self.take_hashed(keys.map(KeyHash::of))
    }

    /// Takes the latches of keys with these hashes. Cost: O(n log n).
    pub(crate) fn take_hashed(&self, hashes: impl Iterator<Item = KeyHash>) -> Taken<'_> {
        let mut latches: Vec<usize> = hashes.map(KeyHash::latch).collect();
        latches.sort_unstable();
        latches.dedup();
        let latches = latches.into_iter();
        let taken = latches.filter_map(|n| Some((n, self.0.get(n)?.lock())));
        Taken(taken.collect())
    }

    /// Takes the latches of all keys.
    pub(crate) fn take_all(&self) -> Taken<'_> {
        let taken = self.0.iter().map(Mutex::lock).enumerate();
        Taken(taken.collect())
    }
}

impl Taken<'_> {
    /// The newest write of any key of these latches. Cost: hashes no key.
    pub(crate) fn newest_of_all(&self) -> Timestamp {
        let newest = self.0.iter().map(|(_, newest)| **newest);
        newest.max().unwrap_or(Timestamp::ZERO)
    }

    /// The newest write of the key with this hash, whose latch must be taken.
    pub(crate) fn newest(&self, hash: KeyHash) -> Timestamp {
        let latch = hash.latch();
        let at = self.0.binary_search_by_key(&latch, |(n, _)| *n);
        let taken = at.ok().and_then(|at| self.0.get(at));
        // The writes of a latch that is not taken are unknown.
        taken.map_or(Timestamp::MAX, |(_, newest)| **newest)
    }

    /// Notes a write of all keys at `commit`, before it can be read, even if it may fail.
    pub(crate) fn note(&mut self, commit: Timestamp) {
        if mutant!(latches_forget_writes) {
            return;
        }
        for (_, newest) in &mut self.0 {
            **newest = commit.max(**newest);
        }
    }
}

/// The hash of a key, which selects its latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    pub(crate) fn of(key: &[u8]) -> Self {
        KeyHash(xxh3_64(key))
    }

    fn latch(self) -> usize {
        self.0 as usize % LATCHES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latch_remembers_the_newest_write_of_its_keys() {
        let latches = Latches::new(Timestamp(10));
        let mut taken = latches.take([&b"a"[..], b"b"].into_iter());
        assert_eq!(taken.newest(KeyHash::of(b"a")), Timestamp(10));
        taken.note(Timestamp(30));
        taken.note(Timestamp(20));
        drop(taken);
        let taken = latches.take([&b"a"[..], b"c"].into_iter());
        assert_eq!(taken.newest(KeyHash::of(b"a")), Timestamp(30));
        assert_eq!(taken.newest(KeyHash::of(b"c")), Timestamp(10));
        assert_eq!(taken.newest(KeyHash::of(b"b")), Timestamp::MAX);
        assert_eq!(taken.newest_of_all(), Timestamp(30));
    }
}
