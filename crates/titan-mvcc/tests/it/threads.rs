//! Several threads on one store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use titan::{BypassedRange, CommitHook, CommittedOps, SequenceNumber};
use titan_mvcc::{Direction, Error, Snapshot, Store, StoreOptions, Timestamp};

use super::accounts::{EACH, movement, number, open_accounts, sum};
use super::setup::{Place, put};

/// Adds to `key` until it commits. Returns the timestamp.
fn add(store: &Store, key: &[u8], by: u64) -> Timestamp {
    loop {
        let mut transaction = store.begin();
        let sum = number(transaction.get(key).unwrap()) + by;
        transaction.put(key, &sum.to_be_bytes());
        match transaction.commit() {
            Ok(commit) => return commit,
            Err(Error::Conflict { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

fn real_store(dir: &tempfile::TempDir) -> Store {
    Store::open(dir.path(), &StoreOptions::default()).unwrap()
}

#[test]
fn no_update_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = real_store(&dir);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    add(&store, b"sum", 1);
                }
            });
        }
    });
    assert_eq!(number(store.snapshot().get(b"sum").unwrap()), 1000);
}

/// Each writer has keys of its own, so commits overlap freely and end in any order.
#[test]
fn what_was_acknowledged_before_a_read_began_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let store = real_store(&dir);
    let acknowledged: [AtomicU64; 3] = Default::default();
    let done = AtomicBool::new(false);
    let newest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (n, acknowledged) in acknowledged.iter().enumerate() {
            let (store, newest, done) = (&store, &newest, &done);
            scope.spawn(move || {
                let mut count = 0_u64;
                while !done.load(Ordering::SeqCst) {
                    count += 1;
                    let commit = put(store, &[n as u8], &count.to_be_bytes());
                    acknowledged.store(count, Ordering::SeqCst);
                    newest.fetch_max(commit.0, Ordering::SeqCst);
                }
            });
        }
        // The writers end even if an assertion of the reader fails.
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..500 {
                read_once(&store, &acknowledged, &newest);
            }
        }));
        done.store(true, Ordering::SeqCst);
        read.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
}

fn read_once(store: &Store, acknowledged: &[AtomicU64; 3], newest: &AtomicU64) {
    let at_least = acknowledged.each_ref().map(|it| it.load(Ordering::SeqCst));
    let commit = newest.load(Ordering::SeqCst);
    let snapshot = store.snapshot();
    assert!(snapshot.timestamp().0 >= commit);
    let read = |snapshot: &Snapshot| {
        let values = snapshot.batch_get(&[[0], [1], [2]]).unwrap();
        values.into_iter().map(number).collect::<Vec<_>>()
    };
    let found = read(&snapshot);
    for (found, at_least) in found.iter().zip(at_least) {
        assert!(
            *found >= at_least,
            "{found} where {at_least} was acknowledged"
        );
    }
    // And it stays as it is.
    std::thread::yield_now();
    assert_eq!(read(&snapshot), found);
    // So does what is read at a timestamp before which commits are in flight.
    let at = store.oracle().next().unwrap();
    let later = store.snapshot_at(at).unwrap();
    let found = read(&later);
    std::thread::yield_now();
    assert_eq!(read(&later), found);
}

const ACCOUNTS: u8 = 10;

#[test]
fn sums_hold_in_every_snapshot_while_old_versions_are_dropped() {
    sums_hold(&Place::new(1), |store| {
        store.advance_safe_point(store.now()).unwrap();
        store.drop_old_versions().unwrap();
    });
}

#[test]
fn sums_hold_in_every_snapshot_while_the_store_sweeps() {
    let mut place = Place::new(2);
    place.options.retention = Some(Duration::ZERO);
    place.options.sweep_interval = Duration::from_millis(1);
    place.options.versions.write_buffer_size = 64 << 10;
    sums_hold(&place, |store| {
        store.db().flush_all().unwrap();
        store.sweep().unwrap();
    });
}

/// Moves sums between accounts, while another thread drops old versions again and again.
fn sums_hold(place: &Place, drop_old: impl Fn(&Store) + Sync) {
    let store = place.open();
    open_accounts(&store, ACCOUNTS);
    let done = AtomicBool::new(false);
    let total = EACH * u64::from(ACCOUNTS);
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..2)
            .map(|seed| {
                let store = &store;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    for _ in 0..1000 {
                        let Some(transaction) = movement(store, ACCOUNTS, &mut rng) else {
                            continue;
                        };
                        match transaction.commit() {
                            Ok(_) | Err(Error::Conflict { .. }) => {}
                            Err(e) => panic!("{e}"),
                        }
                    }
                })
            })
            .collect();
        let dropper = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                drop_old(&store);
            }
        });
        while movers.iter().any(|mover| !mover.is_finished()) {
            let snapshot = store.snapshot();
            for direction in [Direction::Forward, Direction::Backward, Direction::Forward] {
                assert_eq!(sum(&snapshot, direction), total);
            }
        }
        done.store(true, Ordering::SeqCst);
        dropper.join().unwrap();
    });
    assert_eq!(sum(&store.snapshot(), Direction::Forward), total);
}

/// Counts groups, and panics at the one whose number it is told.
struct Counting(AtomicU64, u64);

impl CommitHook for Counting {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {
        assert_ne!(self.0.fetch_add(1, Ordering::SeqCst) + 1, self.1);
    }

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
}

#[test]
fn the_commit_hook_of_the_program_is_called_and_if_it_panics_no_commit_waits_for_ever() {
    for panics_at in [u64::MAX, 20] {
        let dir = tempfile::tempdir().unwrap();
        let hook = Arc::new(Counting(AtomicU64::new(0), panics_at));
        let mut options = StoreOptions::default();
        options.db.commit_hook = Some(Arc::clone(&hook) as _);
        let store = Store::open(dir.path(), &options).unwrap();
        std::thread::scope(|scope| {
            for n in 0..3 {
                let store = &store;
                scope.spawn(move || {
                    for count in 0..50_u64 {
                        let commit = put(store, &[n], &count.to_be_bytes());
                        assert!(store.now() >= commit);
                        let found = store.snapshot().get(&[n]).unwrap();
                        assert_eq!(number(found), count);
                    }
                });
            }
        });
        let is_poisoned = store.db().is_commit_hook_poisoned();
        assert_eq!(is_poisoned, panics_at == 20);
        assert!(hook.0.load(Ordering::SeqCst) >= 20);
        store.close().unwrap();
    }
}
