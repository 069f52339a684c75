//! Stores on a simulated disk and clock, with a cache that a test maintains.

use std::sync::Arc;
use std::time::Duration;

use titan::DbOptions;
use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::{Direction, Snapshot, Store, StoreOptions, Timestamp};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

pub struct Place {
    pub store: StoreOptions,
    pub cache: CacheOptions,
}

impl Place {
    pub fn new(seed: u64) -> Self {
        let db = DbOptions {
            vfs: Arc::new(SimVfs::new()),
            clock: Arc::new(SimClock::with_seed(seed)),
            ..DbOptions::default()
        };
        Place {
            store: StoreOptions {
                db,
                // Time would pass while the sweeper waits.
                retention: None,
                ..StoreOptions::default()
            },
            cache: CacheOptions {
                maintenance: None,
                chooses: false,
                safe_lag: Duration::ZERO,
                // All.
                audited_per_mille: 1_000,
                ..CacheOptions::default()
            },
        }
    }

    pub fn open(&self) -> RangeCache {
        RangeCache::open("/store", &self.store, &self.cache).unwrap()
    }
}

/// The number of seeds of a test whose usual number is `usual`.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let times = std::env::var("TITAN_IME_TEST_SEEDS");
    0..usual * times.map_or(1, |times| times.parse().unwrap())
}

/// Commits one put.
pub fn put(store: &Store, key: &[u8], value: &[u8]) -> Timestamp {
    let mut transaction = store.begin();
    transaction.put(key, value);
    transaction.commit().unwrap()
}

/// Commits one deletion.
pub fn delete(store: &Store, key: &[u8]) -> Timestamp {
    let mut transaction = store.begin();
    transaction.delete(key);
    transaction.commit().unwrap()
}

/// All rows from `from` to before `to`, in ascending order of their keys.
pub fn rows(
    snapshot: &Snapshot,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let scan = snapshot.scan(from, to, direction).unwrap();
    let mut rows: Vec<_> = scan
        .map(|row| row.unwrap())
        .map(|row| (row.key, row.value.fetch().unwrap().to_vec()))
        .collect();
    if direction == Direction::Backward {
        rows.reverse();
    }
    rows
}
