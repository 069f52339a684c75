//! Latches: what keeps two commits of the same key apart, from the check for conflicts to the engine's write.
//!
//! A latch stands for all keys whose hash falls to it. So commits of different keys rarely wait for each
//! other, and commits of the same key always do. Latches are taken in ascending order: no circle of waiting
//! commits is possible.
//!
//! # What a latch remembers
//!
//! The newest timestamp at which one of its keys was written. So a commit that began after that knows,
//! without a look at the engine, that none of them was written since. This holds because every write of
//! a version is noted in the latch of its key ([`Taken::note`]) while that is held, and because versions
//! that an earlier opening wrote are before every transaction of this one.

use parking_lot::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64;

use crate::timestamp::Timestamp;

/// Eight threads with a few keys each rarely meet at the same one, and a transaction that takes as long as
/// a thousand others finds most latches as it left them. Takes 256 KiB.
const LATCHES: usize = 1 << 14;

/// The latches of a store.
pub(crate) struct Latches(Box<[Mutex<Timestamp>]>);

/// Latches that are held. They are released when this is dropped.
pub(crate) struct Taken<'l>(Vec<(usize, MutexGuard<'l, Timestamp>)>);

impl Latches {
    /// For a store that is opened at this timestamp: no version was written after it.
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
}

impl Taken<'_> {
    /// No version of any of the keys was written after this. Cost: no key is hashed.
    pub(crate) fn newest_of_all(&self) -> Timestamp {
        let newest = self.0.iter().map(|(_, newest)| **newest);
        newest.max().unwrap_or(Timestamp::ZERO)
    }

    /// No version of the key with this hash was written after this. Its latch must be among those that are held.
    pub(crate) fn newest(&self, hash: KeyHash) -> Timestamp {
        let latch = hash.latch();
        let at = self.0.binary_search_by_key(&latch, |(n, _)| *n);
        let taken = at.ok().and_then(|at| self.0.get(at));
        // For a latch that is not held nothing is known.
        taken.map_or(Timestamp::MAX, |(_, newest)| **newest)
    }

    /// Notes that versions of the keys are written at `commit`. Called before they can be read, and also if
    /// they may not be written.
    pub(crate) fn note(&mut self, commit: Timestamp) {
        // MUTANT: latches forget what was written, so a conflict is not found.
        if mutant!(
            "latches-forget-writes",
            "-p titan-campaigns --test it mvcc::"
        ) {
            return;
        }
        for (_, newest) in &mut self.0 {
            **newest = commit.max(**newest);
        }
    }
}

/// The hash of a key, which says which latch it has.
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
