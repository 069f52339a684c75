//! Locks of Percolator transactions on disk. The calls themselves are told by `golden`.

mod stored;

use std::time::Duration;

use titan_mvcc::{Error, Mutation, Percolator, Prewrite, Prewritten, Result, Store, Timestamp};

use crate::setup::{Place, put};

pub const TTL: Duration = Duration::from_secs(1_000_000);

/// A store with the calls, and names of transactions.
pub struct Bench {
    pub place: Place,
    pub store: Store,
    pub calls: Percolator,
}

impl Bench {
    pub fn new(seed: u64) -> Self {
        let place = Place::new(seed);
        let store = place.open();
        let calls = store.percolator();
        Bench {
            place,
            store,
            calls,
        }
    }

    pub fn ts(&self) -> Timestamp {
        self.store.oracle().next().unwrap()
    }

    pub fn prewrite(
        &self,
        start: Timestamp,
        primary: &[u8],
        mutations: &[Mutation<'_>],
    ) -> Result<Prewritten> {
        self.calls.prewrite(&request(start, primary, mutations))
    }

    /// Prewrites puts of the value `v`; the first key is the primary one.
    pub fn put(&self, start: Timestamp, keys: &[&[u8]]) -> Result<Prewritten> {
        let puts: Vec<_> = keys
            .iter()
            .map(|key| Mutation::Put { key, value: b"v" })
            .collect();
        self.prewrite(start, keys[0], &puts)
    }

    pub fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        let value = self.store.snapshot().get(key).unwrap();
        value.map(|value| value.to_vec())
    }

    pub fn locks(&self) -> Vec<Vec<u8>> {
        let locks = self.calls.scan_locks(Timestamp::MAX, b"", 100);
        locks.iter().map(|lock| lock.key.to_vec()).collect()
    }
}

pub fn request<'a>(
    start: Timestamp,
    primary: &'a [u8],
    mutations: &'a [Mutation<'a>],
) -> Prewrite<'a> {
    Prewrite {
        mutations,
        primary,
        start,
        read_at: start,
        ttl: TTL,
        txn_size: 0,
        min_commit: Timestamp::ZERO,
        for_update: None,
        secondaries: None,
    }
}

const K: &[&[u8]] = &[b"k"];
