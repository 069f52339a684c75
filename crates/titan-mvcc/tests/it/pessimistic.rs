//! Pessimistic transactions: locks, waits, deadlocks.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::mpsc::Sender;
use std::time::Duration;

use titan::{ErrorKind, SystemClock};
use titan_mvcc::{
    AnswerRoom, Error, LockDemands, LockedKey, PessimisticLock, Store, StoreOptions, Timestamp,
    Wait,
};
use titan_testkit::sim::{Fault, OpKind};

use super::percolator::{Bench, TTL};
use super::setup::{Place, put};

/// Options of the machine's clock: waits are real, so that nobody's time is over before it has
/// passed.
fn patient(seed: u64) -> StoreOptions {
    let mut options = Place::new(seed).options;
    options.db.clock = titan::DbOptions::default().clock;
    options.transactions.lock_wait = Duration::from_secs(600);
    options.transactions.lock_ttl = Duration::from_secs(600);
    options
}

fn locks(store: &Store) -> usize {
    store.percolator().scan_locks(Timestamp::MAX, b"", 99).len()
}

#[test]
fn increments_by_reads_for_update_are_never_lost() {
    for two_phases in [false, true] {
        let mut options = patient(3);
        options.transactions.one_batch_bytes = if two_phases { 0 } else { 1 << 20 };
        let store = Store::open("/store", &options).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let mut transaction = store.begin_pessimistic().unwrap();
                        let value = transaction.get_for_update(b"n").unwrap();
                        let n = value.map_or(0, |value| value[0]);
                        transaction.put(b"n", &[n + 1]).unwrap();
                        transaction.put(&[n, 0], b"").unwrap();
                        transaction.commit().unwrap();
                    }
                });
            }
        });
        assert_eq!(store.snapshot().get(b"n").unwrap().unwrap()[0], 200);
        assert_eq!(locks(&store), 0);
    }
}

#[test]
fn a_deadlock_is_found_by_the_last_who_waits() {
    let mut options = patient(4);
    options.transactions.lock_wait = Duration::from_secs(20);
    let store = Store::open("/store", &options).unwrap();
    let both_have_one = Barrier::new(2);
    let run = |own: &[u8], others: &[u8]| -> Result<Timestamp, (Timestamp, Error)> {
        let mut transaction = store.begin_pessimistic().unwrap();
        transaction.put(own, b"").unwrap();
        both_have_one.wait();
        let start = transaction.start();
        transaction.put(others, b"").map_err(|e| (start, e))?;
        transaction.commit().map_err(|e| (start, e))
    };
    let (a, b) = std::thread::scope(|scope| {
        let a = scope.spawn(|| run(b"a", b"b"));
        let b = scope.spawn(|| run(b"b", b"a"));
        (a.join().unwrap(), b.join().unwrap())
    });
    let (won, lost) = match (a, b) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        other => panic!("{other:?}"),
    };
    match lost {
        (start, Error::Deadlock { key, circle, keys }) => {
            assert_eq!((circle.len(), circle[0]), (2, start));
            let other = if key == "a" { "b" } else { "a" };
            assert_eq!(keys, [key, other.into()]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(store.now(), won);
    assert_eq!(locks(&store), 0);
}

#[test]
fn a_request_without_room_for_its_answer_locks_nothing() {
    let bench = Bench::new(9);
    let start = bench.ts();
    bench.put(start, &[b"a", b"b"]).unwrap();
    bench
        .calls
        .commit(&[b"a", b"b"], start, bench.ts())
        .unwrap();
    let start = bench.ts();
    let request = PessimisticLock {
        primary: b"k",
        start,
        for_update: start,
        since: start,
        ttl: TTL,
        wait: Wait::No,
        return_values: true,
    };
    for room in [0, 1, 2] {
        let asked = Cell::new(0);
        let has_room = |key: &LockedKey| {
            assert!(key.value.is_some());
            asked.set(asked.get() + 1);
            asked.get() <= room
        };
        let demands = LockDemands {
            room: Some(AnswerRoom(&has_room)),
            ..LockDemands::default()
        };
        let keys = [b"a", b"b"];
        let locked = bench.calls.pessimistic_lock_with(&keys, &request, &demands);
        let held = bench.calls.scan_locks(Timestamp::MAX, b"", 9).len();
        match locked {
            Ok(states) => assert_eq!((states.len(), held, room), (2, 2, 2)),
            Err(error) => {
                assert!(matches!(error, Error::NotAdmitted { .. }), "{error}");
                assert!(held == 0 && room < 2);
            }
        }
    }
}

#[test]
fn a_wait_ends_when_the_lock_is_released() {
    let store = Store::open("/store", &patient(11)).unwrap();
    let mut first = store.begin_pessimistic().unwrap();
    first.lock(b"a").unwrap();
    let begun = Arc::new(Barrier::new(2));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut second = store.begin();
            second.put(b"a", b"2");
            begun.wait();
            second.commit()
        });
        begun.wait();
        first.rollback();
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(store.snapshot().get(b"a").unwrap().unwrap(), "2");
}

/// The machine's clock, which tells of every wait for about as long as a lock is waited for.
#[derive(Debug)]
struct TellsOfWaits {
    clock: Arc<dyn SystemClock>,
    waits: Sender<()>,
}

impl SystemClock for TellsOfWaits {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn unix_time(&self) -> Duration {
        self.clock.unix_time()
    }

    fn begin_wait(&self, timeout: Duration) -> Duration {
        if timeout > LOCK_WAIT / 2 {
            // The test may have ended.
            let _ = self.waits.send(());
        }
        self.clock.begin_wait(timeout)
    }

    fn unique_id(&self) -> u128 {
        self.clock.unique_id()
    }
}

const LOCK_WAIT: Duration = Duration::from_secs(6000);

#[test]
fn closing_the_store_ends_the_waits_for_locks() {
    let (waits, told) = std::sync::mpsc::channel();
    let mut options = patient(12);
    options.db.clock = Arc::new(TellsOfWaits {
        clock: titan::DbOptions::default().clock,
        waits,
    });
    options.transactions.lock_wait = LOCK_WAIT;
    options.transactions.lock_ttl = LOCK_WAIT;
    let store = Store::open("/store", &options).unwrap();
    let mut first = store.begin_pessimistic().unwrap();
    first.lock(b"a").unwrap();
    std::thread::scope(|scope| {
        let mut pessimistic = store.begin_pessimistic().unwrap();
        let mut optimistic = store.begin();
        optimistic.put(b"a", b"2");
        let waiters = [
            scope.spawn(move || pessimistic.lock(b"a").unwrap_err()),
            scope.spawn(move || optimistic.commit().unwrap_err()),
        ];
        told.recv().unwrap();
        told.recv().unwrap();
        store.close().unwrap();
        for waiter in waiters {
            let ended = waiter.join().unwrap();
            let is_closed = matches!(&ended, Error::Engine(e) if e.kind() == ErrorKind::Closed);
            assert!(is_closed, "{ended}");
        }
    });
}

#[test]
fn a_value_that_cannot_be_read_for_update_leaves_no_lock() {
    let mut place = Place::new(13);
    place.options.versions.min_blob_size = 1000;
    place.options.versions.enable_blob_files = true;
    let store = place.open();
    put(&store, b"a", &[1; 5000]);
    store.db().flush_all().unwrap();
    let mut first = store.begin_pessimistic().unwrap();
    let fault = place.vfs.inject(Fault::on([OpKind::Read]).path("*.blob"));
    let failed = first.get_for_update(b"a").unwrap_err();
    assert!(matches!(failed, Error::Engine(_)), "{failed}");
    assert!(fault.hits() > 0);
    place.vfs.clear_faults();
    assert_eq!(locks(&store), 0);
    let mut second = store.begin_pessimistic().unwrap();
    second.put(b"a", b"2").unwrap();
    second.commit().unwrap();
}
