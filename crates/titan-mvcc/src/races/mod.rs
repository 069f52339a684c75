//! Steps of one thread between two steps of another, in each order that matters.
//!
//! Each test stops a thread of a store at a [gate](crate::gates), performs calls that could harm
//! it, lets it go on, and compares every answer. The campaigns run random histories; here the order
//! is given, and so is the work that makes a mistake visible.
//!
//! | file | the thread that is stopped |
//! |---|---|
//! | [`order`] | a commit that has its timestamp and is not published |
//! | [`safe_point`] | one that takes a snapshot, moves the safe point, or checks for conflicts |
//! | [`resolving`] | a reader that has found a lock, or the commit that ends it |

mod order;
mod resolving;
mod safe_point;

use std::sync::Arc;
use std::time::Duration;

use titan::DbOptions;
use titan_testkit::clock::SimClock;
use titan_testkit::gates::{Actor, Gates};
use titan_testkit::sim::{Loss, SimVfs};

use crate::{Error, Mutation, Prewrite, Result, Snapshot, Store, StoreOptions, Timestamp};

/// Longer than any test takes.
const TTL: Duration = Duration::from_secs(1_000_000);

/// A store on a simulated disk, whose sweeper does nothing by itself.
struct Raced {
    vfs: SimVfs,
    gates: Gates,
    store: Store,
}

impl Raced {
    fn new(gates: &Gates) -> Self {
        let vfs = SimVfs::new();
        let store = open(&vfs).unwrap();
        Raced {
            vfs,
            gates: gates.clone(),
            store,
        }
    }

    /// Starts a thread that can be stopped.
    fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        run: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> Actor<T> {
        let store = self.store.clone();
        self.gates.spawn(name, move || run(&store))
    }

    /// The store as a kill leaves it now.
    fn after_a_kill(&self) -> Store {
        let journal = self.vfs.journal();
        let now = journal.crash_points().last().unwrap();
        open(&now.crash(&Loss::None)).unwrap()
    }

    fn next(&self) -> Timestamp {
        self.store.oracle().next().unwrap()
    }

    fn prewrite(&self, key: &[u8], value: &[u8], start: Timestamp) -> Result<Timestamp> {
        prewrite(&self.store, key, value, start)
    }

    fn commit(&self, key: &[u8], start: Timestamp, at: Timestamp) -> Result<()> {
        self.store.percolator().commit(&[key], start, at)
    }

    /// Drops all versions that nobody may read.
    fn drop_old_versions(&self) {
        self.store.db().flush_all().unwrap();
        self.store.drop_old_versions().unwrap();
    }

    /// Checks the store, at the end of a test.
    fn finish(self) {
        let report = self.store.check(&mut |_| {}).unwrap();
        assert_eq!(report.problems, []);
    }
}

fn open(vfs: &SimVfs) -> Result<Store> {
    let mut options = StoreOptions {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            clock: Arc::new(SimClock::with_seed(1)),
            ..DbOptions::default()
        },
        retention: None,
        ..StoreOptions::default()
    };
    options.transactions.lock_wait = Duration::ZERO;
    Store::open("/store", &options)
}

/// Commits one put.
fn put(store: &Store, key: &[u8], value: &[u8]) -> Timestamp {
    let mut transaction = store.begin();
    transaction.put(key, value);
    transaction.commit().unwrap()
}

/// Prewrites the put of one key, which is the transaction's primary key.
fn prewrite(store: &Store, key: &[u8], value: &[u8], start: Timestamp) -> Result<Timestamp> {
    let request = Prewrite {
        mutations: &[Mutation::Put { key, value }],
        primary: key,
        start,
        read_at: start,
        ttl: TTL,
        txn_size: 0,
        min_commit: Timestamp::ZERO,
        for_update: None,
        secondaries: None,
    };
    let prewritten = store.percolator().prewrite(&request)?;
    Ok(prewritten.min_commit)
}

fn get(snapshot: &Snapshot, key: &[u8]) -> Option<String> {
    let value = snapshot.get(key).unwrap()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

fn is_before_safe_point<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::BeforeSafePoint { .. }))
}
