//! The simulated disk and clock of a test, and helpers.

use std::sync::Arc;

use titan::{DbOptions, ReadOptions};
use titan_mvcc::{Store, StoreOptions, Timestamp};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

pub const DIR: &str = "/store";

/// A simulated disk and clock.
pub struct Place {
    pub vfs: SimVfs,
    pub clock: SimClock,
    pub options: StoreOptions,
}

impl Place {
    pub fn new(seed: u64) -> Self {
        let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(seed));
        let db = DbOptions {
            vfs: Arc::new(vfs.clone()),
            clock: Arc::new(clock.clone()),
            ..DbOptions::default()
        };
        let options = StoreOptions {
            db,
            // Time would pass while the sweeper waits.
            retention: None,
            ..StoreOptions::default()
        };
        Place {
            vfs,
            clock,
            options,
        }
    }

    pub fn open(&self) -> Store {
        Store::open(DIR, &self.options).unwrap()
    }
}

/// The seeds of a test, of which it usually runs `usual`.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let times = std::env::var("TITAN_MVCC_TEST_SEEDS");
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

/// The number of stored versions.
pub fn stored_versions(store: &Store) -> usize {
    let family = store.db().column_family("versions").unwrap();
    let mut entries = family.iter(&ReadOptions::default()).unwrap();
    entries.seek_to_first().unwrap();
    let mut n = 0;
    while entries.valid() {
        n += 1;
        entries.next().unwrap();
    }
    n
}
