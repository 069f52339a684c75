//! The status of transactions, and ending their locks.

use super::*;
use crate::pessimistic::lock;

#[test]
fn a_reader_pushes_the_commit_of_a_living_transaction_and_reads_below_it() {
    let bench = Bench::new(7);
    put(&bench.store, b"s", b"old");
    let start = bench.ts();
    bench.put(start, &[b"p", b"s"]).unwrap();
    // The client has its commit timestamp, and then somebody reads at a later one.
    let commit = bench.ts();
    let reader = bench.store.snapshot_at(bench.ts()).unwrap();
    assert_eq!(reader.get(b"s").unwrap().as_deref(), Some(&b"old"[..]));
    match bench.calls.commit(&[b"p", b"s"], start, commit) {
        Err(Error::CommitTsExpired {
            asked, min_commit, ..
        }) => {
            assert_eq!(asked, commit);
            assert!(min_commit > reader.timestamp());
        }
        other => panic!("{other:?}"),
    }
    let commit = bench.ts();
    bench.calls.commit(&[b"p", b"s"], start, commit).unwrap();
    assert_eq!(reader.get(b"s").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(bench.read(b"s").unwrap(), b"v");
}

#[test]
fn what_was_read_below_a_lock_is_read_so_after_a_restart_too() {
    let bench = Bench::new(8);
    put(&bench.store, b"s", b"old");
    let start = bench.ts();
    bench.put(start, &[b"p", b"s"]).unwrap();
    let commit = bench.ts();
    let at = bench.ts();
    let read = bench.store.snapshot_at(at).unwrap().get(b"s").unwrap();
    assert_eq!(read.as_deref(), Some(&b"old"[..]));
    bench.store.close().unwrap();
    let store = bench.place.open();
    let expired = store.percolator().commit(&[b"p", b"s"], start, commit);
    assert!(matches!(expired, Err(Error::CommitTsExpired { .. })));
    let commit = store.oracle().next().unwrap();
    store
        .percolator()
        .commit(&[b"p", b"s"], start, commit)
        .unwrap();
    let read = store.snapshot_at(at).unwrap().get(b"s").unwrap();
    assert_eq!(read.as_deref(), Some(&b"old"[..]));
}

#[test]
fn a_status_is_alive_until_the_time_to_live_is_over() {
    let bench = Bench::new(9);
    let start = bench.ts();
    let mutations = [Mutation::Delete { key: b"k" }];
    let ttl = Duration::from_secs(10);
    let request = Prewrite {
        ttl,
        ..request(start, b"k", &mutations)
    };
    bench.calls.prewrite(&request).unwrap();
    let at = |seconds| Timestamp::at(start.unix_time() + Duration::from_secs(seconds)).unwrap();
    let status = |now| {
        bench
            .calls
            .check_transaction_status(b"k", start, start, now, true)
    };
    match status(at(9)).unwrap() {
        TransactionStatus::Running { lock, is_pushed } => {
            assert!(is_pushed && lock.min_commit > start && lock.ttl == ttl);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        bench.calls.cleanup(b"k", start, at(9)),
        Err(Error::KeyIsLocked(_))
    ));
    // A heartbeat never makes it shorter.
    let longer = Duration::from_secs(20);
    assert_eq!(bench.calls.heartbeat(b"k", start, longer).unwrap(), longer);
    assert_eq!(bench.calls.heartbeat(b"k", start, ttl).unwrap(), longer);
    assert!(matches!(
        status(at(19)).unwrap(),
        TransactionStatus::Running { .. }
    ));
    assert_eq!(status(at(21)).unwrap(), TransactionStatus::RolledBack);
    assert_eq!(status(at(21)).unwrap(), TransactionStatus::RolledBack);
    let gone = bench.calls.heartbeat(b"k", start, ttl).unwrap_err();
    assert!(matches!(gone, Error::LockNotFound { .. }), "{gone}");
    let late = bench.calls.prewrite(&request).unwrap_err();
    assert!(matches!(late, Error::RolledBack { .. }), "{late}");
}

#[test]
fn a_status_of_which_nothing_is_known_is_an_error_or_a_rollback_that_stays() {
    let bench = Bench::new(10);
    let start = bench.ts();
    let unknown = bench.status(b"k", start, false).unwrap_err();
    assert!(
        matches!(unknown, Error::TransactionNotFound { .. }),
        "{unknown}"
    );
    assert_eq!(
        bench.status(b"k", start, true).unwrap(),
        TransactionStatus::RolledBack
    );
    assert_eq!(
        bench.status(b"k", start, false).unwrap(),
        TransactionStatus::RolledBack
    );
    let late = bench.put(start, K).unwrap_err();
    assert!(matches!(late, Error::RolledBack { .. }), "{late}");
    // A secondary key is no primary key.
    let start = bench.ts();
    bench.put(start, &[b"p", b"s"]).unwrap();
    let wrong = bench.status(b"s", start, true).unwrap_err();
    assert!(matches!(wrong, Error::PrimaryMismatch { .. }), "{wrong}");
}

#[test]
fn locks_are_resolved_as_the_primary_key_says() {
    let bench = Bench::new(14);
    let (committed, lost) = (bench.ts(), bench.ts());
    bench.put(committed, &[b"a1", b"a2", b"a3"]).unwrap();
    bench.put(lost, &[b"b1", b"b2", b"b3"]).unwrap();
    let commit = bench.ts();
    bench.calls.commit(&[b"a1"], committed, commit).unwrap();
    let keys = [b"a3".to_vec().into()];
    assert_eq!(
        bench
            .calls
            .resolve_lock(committed, Some(commit), Some(&keys))
            .unwrap(),
        1
    );
    assert_eq!(
        bench
            .calls
            .resolve_lock(committed, Some(commit), None)
            .unwrap(),
        1
    );
    assert_eq!(bench.calls.resolve_lock(lost, None, None).unwrap(), 3);
    assert_eq!(bench.calls.resolve_lock(lost, None, None).unwrap(), 0);
    assert!(bench.locks().is_empty());
    assert_eq!(bench.read(b"a2").unwrap(), b"v");
    assert_eq!(bench.read(b"b2"), None);
    let late = bench.put(lost, &[b"b1", b"b2", b"b3"]).unwrap_err();
    assert!(matches!(late, Error::RolledBack { .. }), "{late}");
}

#[test]
fn locks_are_listed_by_key_up_to_a_timestamp() {
    let bench = Bench::new(15);
    let (first, second) = (bench.ts(), bench.ts());
    bench.put(first, &[b"a", b"c"]).unwrap();
    bench.put(second, &[b"b"]).unwrap();
    let keys = |until, from: &[u8], limit| -> Vec<_> {
        let locks = bench.calls.scan_locks(until, from, limit);
        locks.into_iter().map(|lock| lock.key.to_vec()).collect()
    };
    assert_eq!(keys(second, b"", 9), [b"a", b"b", b"c"]);
    assert_eq!(keys(first, b"", 9), [b"a", b"c"]);
    assert_eq!(keys(second, b"b", 1), [b"b"]);
}

#[test]
fn secondary_locks_say_how_an_async_commit_stands() {
    let bench = Bench::new(16);
    let start = bench.ts();
    let secondaries = [b"s1".to_vec().into(), b"s2".to_vec().into()];
    let prewrite = |keys: &[&'static [u8]]| {
        let puts: Vec<_> = keys
            .iter()
            .map(|key| Mutation::Put { key, value: b"v" })
            .collect();
        let request = Prewrite {
            secondaries: Some(&secondaries),
            ..request(start, b"p", &puts)
        };
        bench.calls.prewrite(&request)
    };
    let first = prewrite(&[b"p", b"s1"]).unwrap().min_commit;
    let second = prewrite(&[b"s2"]).unwrap().min_commit;
    match bench
        .calls
        .check_secondary_locks(&[b"s1", b"s2"], start)
        .unwrap()
    {
        SecondariesStatus::Locked(locks) => {
            let found: Vec<_> = locks.iter().map(|lock| lock.min_commit).collect();
            assert_eq!(found, [first, second]);
        }
        other => panic!("{other:?}"),
    }
    match bench.status(b"p", start, true).unwrap() {
        TransactionStatus::Running { lock, is_pushed } => {
            assert_eq!(lock.secondaries.as_deref(), Some(&secondaries[..]));
            assert!(!is_pushed);
        }
        other => panic!("{other:?}"),
    }
    bench.calls.commit(&[b"s1"], start, second).unwrap();
    let status = bench
        .calls
        .check_secondary_locks(&[b"s1", b"s2"], start)
        .unwrap();
    assert_eq!(status, SecondariesStatus::Committed(second));
    // Where nothing is found, it stays so.
    let start = bench.ts();
    let status = bench.calls.check_secondary_locks(&[b"x"], start).unwrap();
    assert_eq!(status, SecondariesStatus::RolledBack);
    let late = bench.put(start, &[b"x"]).unwrap_err();
    assert!(matches!(late, Error::RolledBack { .. }), "{late}");
}

#[test]
fn a_lock_with_a_primary_key_that_its_transaction_gave_up_is_ended_with_it() {
    let bench = Bench::new(22);
    let start = bench.ts();
    // The lock of `a` stayed when the transaction chose another primary key.
    for (key, primary) in [(b"a", b"b"), (b"b", b"c"), (b"c", b"c")] {
        let request = PessimisticLock {
            primary,
            ..lock(start, start)
        };
        bench.calls.pessimistic_lock(&[key], &request).unwrap();
    }
    let later = put(&bench.store, b"other", b"");
    assert!(bench.store.advance_safe_point(later).unwrap() < start);
    bench.place.clock.advance(TTL + Duration::from_secs(1));
    assert_eq!(bench.store.advance_safe_point(later).unwrap(), later);
    assert!(bench.locks().is_empty());
}
