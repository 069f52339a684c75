//! Pessimistic transactions: locks, waits, deadlocks.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::mpsc::Sender;
use std::time::Duration;

use titan::{ErrorKind, SystemClock};
use titan_mvcc::{
    AnswerRoom, Error, LockDemands, LockedKey, PessimisticLock, PessimisticTransaction, Store,
    Timestamp, Wait,
};
use titan_testkit::sim::{Fault, OpKind};

use super::percolator::{Bench, TTL};
use super::setup::{Place, delete, put};

/// A store whose transactions do not wait for locks, with commits in one batch or in two phases.
fn open(place: &mut Place, two_phases: bool) -> Store {
    let transactions = &mut place.options.transactions;
    transactions.lock_ttl = TTL;
    transactions.lock_wait = Duration::ZERO;
    if two_phases {
        transactions.one_batch_bytes = 0;
    }
    place.open()
}

fn locks(store: &Store) -> usize {
    store.percolator().scan_locks(Timestamp::MAX, b"", 99).len()
}

fn text(value: Option<bytes::Bytes>) -> String {
    value.map_or("none".into(), |value| {
        String::from_utf8(value.to_vec()).unwrap()
    })
}

#[test]
fn what_a_pessimistic_transaction_writes_nobody_else_can() {
    for two_phases in [false, true] {
        let mut place = Place::new(1);
        let store = open(&mut place, two_phases);
        put(&store, b"a", b"0");
        let mut first = store.begin_pessimistic().unwrap();
        first.put(b"a", b"1").unwrap();
        first.delete(b"b").unwrap();
        first.lock(b"c").unwrap();
        assert_eq!(text(first.get(b"a").unwrap()), "1");
        for key in [b"a", b"b", b"c"] {
            let mut second = store.begin_pessimistic().unwrap();
            let locked = second.put(key, b"2").unwrap_err();
            assert!(matches!(locked, Error::KeyIsLocked(_)), "{locked}");
            let mut second = store.begin();
            second.put(key, b"2");
            let locked = second.commit().unwrap_err();
            assert!(matches!(locked, Error::KeyIsLocked(_)), "{locked}");
        }
        assert_eq!(text(store.snapshot().get(b"a").unwrap()), "0");
        let commit = first.commit().unwrap();
        assert_eq!(store.now(), commit);
        assert_eq!(text(store.snapshot().get(b"a").unwrap()), "1");
        assert_eq!(locks(&store), 0);
        let mut second = store.begin_pessimistic().unwrap();
        second.put(b"a", b"2").unwrap();
        drop(second);
        assert_eq!(locks(&store), 0);
        assert_eq!(text(store.snapshot().get(b"a").unwrap()), "1");
    }
}

#[test]
fn a_write_of_what_was_committed_since_the_snapshot_is_a_conflict_at_once() {
    let mut place = Place::new(2);
    let store = open(&mut place, false);
    put(&store, b"a", b"0");
    let mut transaction = store.begin_pessimistic().unwrap();
    assert_eq!(text(transaction.get(b"a").unwrap()), "0");
    put(&store, b"a", b"1");
    let conflict = transaction.put(b"a", b"2").unwrap_err();
    assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
    // Reading it for update makes it the transaction's.
    assert_eq!(text(transaction.get_for_update(b"a").unwrap()), "1");
    assert_eq!(text(transaction.get(b"a").unwrap()), "1");
    transaction.put(b"a", b"2").unwrap();
    assert_eq!(text(transaction.get_for_update(b"a").unwrap()), "2");
    transaction.commit().unwrap();
    assert_eq!(text(store.snapshot().get(b"a").unwrap()), "2");
}

#[test]
fn increments_by_reads_for_update_are_never_lost() {
    for two_phases in [false, true] {
        let place = Place::new(3);
        let mut options = place.options.clone();
        // Waits are real here, so that nobody's time is over before it has passed.
        options.db.clock = titan::DbOptions::default().clock;
        options.transactions.lock_wait = Duration::from_secs(600);
        options.transactions.lock_ttl = Duration::from_secs(600);
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
    let place = Place::new(4);
    let mut options = place.options.clone();
    options.db.clock = titan::DbOptions::default().clock;
    options.transactions.lock_wait = Duration::from_secs(20);
    options.transactions.lock_ttl = Duration::from_secs(600);
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
fn a_transaction_whose_owner_is_gone_is_given_up_when_its_time_is_over() {
    let mut place = Place::new(5);
    let store = open(&mut place, false);
    let mut gone = store.begin_pessimistic().unwrap();
    gone.put(b"a", b"gone").unwrap();
    gone.put(b"b", b"gone").unwrap();
    gone.abandon();
    let mut writer = store.begin_pessimistic().unwrap();
    let locked = writer.put(b"b", b"").unwrap_err();
    assert!(matches!(locked, Error::KeyIsLocked(_)), "{locked}");
    place.clock.advance(TTL + Duration::from_secs(1));
    writer.put(b"b", b"new").unwrap();
    writer.commit().unwrap();
    store.advance_safe_point(store.now()).unwrap();
    assert_eq!(locks(&store), 0);
    assert_eq!(text(store.snapshot().get(b"a").unwrap()), "none");
    assert_eq!(text(store.snapshot().get(b"b").unwrap()), "new");
}

#[test]
fn heartbeats_keep_a_transaction_alive_and_a_late_one_says_that_it_is_lost() {
    let mut place = Place::new(6);
    let store = open(&mut place, false);
    let blocked = || {
        let mut writer = store.begin_pessimistic().unwrap();
        matches!(writer.put(b"a", b"other"), Err(Error::KeyIsLocked(_)))
    };
    let mut slow: PessimisticTransaction = store.begin_pessimistic().unwrap();
    slow.put(b"a", b"slow").unwrap();
    for n in 0..5_u8 {
        place.clock.advance(TTL / 2);
        match n % 2 {
            0 => slow.heartbeat().unwrap(),
            // Calls that take locks are signs of life too.
            _ => slow.put(&[n], b"").unwrap(),
        }
        assert!(blocked());
    }
    place.clock.advance(TTL + Duration::from_secs(1));
    assert!(!blocked());
    let lost = slow.heartbeat().unwrap_err();
    assert!(matches!(lost, Error::RolledBack { .. }), "{lost}");
    let lost = slow.commit().unwrap_err();
    assert!(
        matches!(lost, Error::PessimisticLockNotFound { .. }),
        "{lost}"
    );
    assert_eq!(text(store.snapshot().get(b"a").unwrap()), "none");
}

#[test]
fn pessimistic_locks_of_a_client_survive_restarts_and_those_of_the_store_do_not() {
    let mut place = Place::new(7);
    let store = open(&mut place, false);
    let mut gone = store.begin_pessimistic().unwrap();
    gone.put(b"a", b"gone").unwrap();
    gone.abandon();
    let start = store.oracle().next().unwrap();
    let calls = store.percolator();
    calls
        .pessimistic_lock(&[b"k"], &lock(start, start))
        .unwrap();
    assert_eq!(locks(&store), 2);
    drop((calls, store));
    let store = place.open();
    assert_eq!(locks(&store), 1);
    put(&store, b"a", b"new");
    let mut writer = store.begin();
    writer.put(b"k", b"");
    let locked = writer.commit().unwrap_err();
    assert!(matches!(locked, Error::KeyIsLocked(_)), "{locked}");
    place.clock.advance(TTL + Duration::from_secs(1));
    put(&store, b"k", b"new");
    assert_eq!(locks(&store), 0);
}

pub fn lock<'a>(start: Timestamp, for_update: Timestamp) -> PessimisticLock<'a> {
    PessimisticLock {
        primary: b"k",
        start,
        for_update,
        since: for_update,
        ttl: TTL,
        wait: Wait::No,
        return_values: true,
    }
}

#[test]
fn pessimistic_locks_are_checked_against_the_timestamp_for_update_and_return_values() {
    let bench = Bench::new(8);
    let start = bench.ts();
    put(&bench.store, b"k", b"1");
    let conflict = bench
        .calls
        .pessimistic_lock(&[b"k"], &lock(start, start))
        .unwrap_err();
    assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
    assert!(bench.locks().is_empty());
    let for_update = bench.ts();
    let keys = [&b"k"[..], b"l"];
    let values = bench
        .calls
        .pessimistic_lock(&keys, &lock(start, for_update))
        .unwrap();
    assert_eq!(values, [Some("1".into()), None]);
    // Again, and for a later update.
    let later = bench.ts();
    assert_eq!(
        bench
            .calls
            .pessimistic_lock(&keys, &lock(start, later))
            .unwrap(),
        values
    );
    assert_eq!(
        bench
            .calls
            .pessimistic_lock(&keys, &lock(start, for_update))
            .unwrap(),
        values
    );
    // A late rollback of the first one releases nothing.
    bench
        .calls
        .pessimistic_rollback(&keys, start, for_update)
        .unwrap();
    assert_eq!(bench.locks(), keys);
    bench
        .calls
        .pessimistic_rollback(&keys, start, later)
        .unwrap();
    assert!(bench.locks().is_empty());
    bench
        .calls
        .pessimistic_rollback(&keys, start, later)
        .unwrap();
    bench
        .calls
        .pessimistic_lock(&keys, &lock(start, later))
        .unwrap();
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
        return_values: true,
        ..lock(start, start)
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
fn a_pessimistic_lock_after_the_rollback_or_the_commit_fails() {
    let bench = Bench::new(9);
    let start = bench.ts();
    bench
        .calls
        .pessimistic_lock(&[b"k"], &lock(start, start))
        .unwrap();
    bench.calls.batch_rollback(&[b"k"], start).unwrap();
    // The record of a primary key is protected.
    let other = bench.ts();
    bench.calls.batch_rollback(&[b"k"], other).unwrap();
    let late = bench
        .calls
        .pessimistic_lock(&[b"k"], &lock(start, bench.ts()))
        .unwrap_err();
    assert!(matches!(late, Error::RolledBack { .. }), "{late}");
    let start = bench.ts();
    bench.put(start, &[b"k"]).unwrap();
    let late = bench
        .calls
        .pessimistic_lock(&[b"k"], &lock(start, start))
        .unwrap_err();
    assert!(matches!(late, Error::PrewrittenAlready { .. }), "{late}");
    bench.calls.commit(&[b"k"], start, bench.ts()).unwrap();
    let late = bench
        .calls
        .pessimistic_lock(&[b"k"], &lock(start, bench.ts()))
        .unwrap_err();
    assert!(matches!(late, Error::AlreadyCommitted { .. }), "{late}");
}

#[test]
fn a_lost_pessimistic_lock_is_made_good_unless_the_key_was_written() {
    use titan_mvcc::{Mutation, Prewrite};
    let bench = Bench::new(10);
    let mutations = [Mutation::Put {
        key: b"k",
        value: b"v",
    }];
    for is_written in [false, true] {
        let start = bench.ts();
        let request = Prewrite {
            for_update: Some(start),
            ..super::percolator::request(start, b"k", &mutations)
        };
        bench
            .calls
            .pessimistic_lock(&[b"k"], &lock(start, start))
            .unwrap();
        bench
            .calls
            .pessimistic_rollback(&[b"k"], start, start)
            .unwrap();
        if is_written {
            delete(&bench.store, b"k");
        }
        match (bench.calls.prewrite(&request), is_written) {
            (Ok(_), false) => bench.calls.commit(&[b"k"], start, bench.ts()).unwrap(),
            (Err(Error::PessimisticLockNotFound { .. }), true) => {}
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_wait_ends_when_the_lock_is_released() {
    let place = Place::new(11);
    let mut options = place.options.clone();
    options.db.clock = titan::DbOptions::default().clock;
    options.transactions.lock_wait = Duration::from_secs(600);
    options.transactions.lock_ttl = Duration::from_secs(600);
    let store = Store::open("/store", &options).unwrap();
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
    assert_eq!(text(store.snapshot().get(b"a").unwrap()), "2");
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
    let place = Place::new(12);
    let (waits, told) = std::sync::mpsc::channel();
    let mut options = place.options.clone();
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
    let store = open(&mut place, false);
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
