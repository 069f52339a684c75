//! Latches: what keeps two commits of the same key apart, from the check for conflicts to the engine's write.
//!
//! A latch stands for all keys whose hash falls to it. So commits of different keys rarely wait for each
//! other, and commits of the same key always do. Latches are taken in ascending order: no circle of waiting
//! commits is possible.

use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::{Mutex, MutexGuard};

/// Eight threads with a few keys each rarely meet at the same one.
const LATCHES: usize = 4096;

/// The latches of a store.
pub(crate) struct Latches(Box<[Mutex<()>]>);

impl Default for Latches {
    fn default() -> Self {
        Latches((0..LATCHES).map(|_| Mutex::new(())).collect())
    }
}

impl Latches {
    /// Takes the latches of the keys. They are released when what is returned is dropped. Cost: O(n log n).
    pub(crate) fn take<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<MutexGuard<'_, ()>> {
        let mut latches: Vec<usize> = keys.map(latch_of).collect();
        latches.sort_unstable();
        latches.dedup();
        let taken = latches.into_iter().filter_map(|n| self.0.get(n));
        taken.map(Mutex::lock).collect()
    }
}

fn latch_of(key: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() as usize % LATCHES
}
