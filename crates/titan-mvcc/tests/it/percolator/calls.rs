//! Prewriting, committing and rolling back.

use super::*;
use crate::pessimistic::lock;
use crate::setup::delete;

#[test]
fn what_is_prewritten_is_seen_once_it_is_committed() {
    let bench = Bench::new(1);
    put(&bench.store, b"a", b"old");
    put(&bench.store, b"b", b"old");
    let start = bench.ts();
    let mutations = [
        Mutation::Put {
            key: b"a",
            value: b"new",
        },
        Mutation::Delete { key: b"b" },
        Mutation::Lock { key: b"c" },
    ];
    bench.prewrite(start, b"a", &mutations).unwrap();
    let kinds: Vec<_> = bench
        .calls
        .scan_locks(start, b"", 9)
        .iter()
        .map(|it| it.kind)
        .collect();
    assert_eq!(kinds, [LockKind::Put, LockKind::Delete, LockKind::Lock]);
    assert_eq!(bench.read(b"a").unwrap(), b"old");
    let before = bench.store.snapshot();
    let commit = bench.ts();
    bench
        .calls
        .commit(&[b"a", b"b", b"c"], start, commit)
        .unwrap();
    assert_eq!(bench.read(b"a").unwrap(), b"new");
    assert_eq!(bench.read(b"b"), None);
    assert!(bench.store.now() >= commit);
    assert_eq!(before.get(b"a").unwrap().as_deref(), Some(&b"old"[..]));
    let at = bench.store.snapshot_at(commit).unwrap();
    assert_eq!(at.get(b"a").unwrap().as_deref(), Some(&b"new"[..]));
    assert!(bench.locks().is_empty());
}

#[test]
fn a_prewrite_fails_on_locks_and_on_newer_writes_and_locks_nothing_then() {
    let bench = Bench::new(2);
    let (first, second) = (bench.ts(), bench.ts());
    bench.put(first, &[b"b"]).unwrap();
    match bench.put(second, &[b"a", b"b"]) {
        Err(Error::KeyIsLocked(lock)) => assert_eq!((&*lock.key, lock.start), (&b"b"[..], first)),
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.locks(), [b"b"]);
    let commit = bench.ts();
    bench.calls.commit(&[b"b"], first, commit).unwrap();
    match bench.put(second, &[b"a", b"b"]) {
        Err(Error::Conflict { key, committed, .. }) => {
            assert_eq!((&*key, committed), (&b"b"[..], commit));
        }
        other => panic!("{other:?}"),
    }
    assert!(bench.locks().is_empty());
    bench.put(bench.ts(), &[b"a", b"b"]).unwrap();
}

#[test]
fn a_prewrite_of_a_key_twice_is_refused() {
    let bench = Bench::new(21);
    let put = Mutation::Put {
        key: b"a",
        value: b"1",
    };
    let other = Mutation::Put {
        key: b"b",
        value: b"1",
    };
    let delete = Mutation::Delete { key: b"a" };
    for mutations in [
        [put, delete, other],
        [delete, other, put],
        [other, put, put],
    ] {
        let refused = bench.prewrite(bench.ts(), b"a", &mutations).unwrap_err();
        assert!(refused.to_string().contains("two mutations"), "{refused}");
        assert!(bench.locks().is_empty());
    }
    let report = bench.store.check(&mut |_| {}).unwrap();
    assert_eq!(report.problems, []);
}

#[test]
fn prewriting_and_committing_twice_changes_nothing() {
    let bench = Bench::new(3);
    let start = bench.ts();
    bench.put(start, K).unwrap();
    assert_eq!(bench.put(start, K).unwrap().committed, None);
    let commit = bench.ts();
    bench.calls.commit(K, start, commit).unwrap();
    bench.calls.commit(K, start, commit).unwrap();
    // Other versions may have come since.
    put(&bench.store, b"k", b"later");
    bench.calls.commit(K, start, commit).unwrap();
    assert_eq!(bench.put(start, K).unwrap().committed, Some(commit));
    assert!(bench.locks().is_empty());
    assert_eq!(bench.read(b"k").unwrap(), b"later");
}

#[test]
fn after_a_rollback_prewrites_and_commits_fail_and_rollbacks_do_not() {
    let bench = Bench::new(4);
    for with_lock in [true, false] {
        let start = bench.ts();
        if with_lock {
            bench.put(start, K).unwrap();
        }
        bench.calls.batch_rollback(K, start).unwrap();
        bench.calls.batch_rollback(K, start).unwrap();
        bench.calls.cleanup(b"k", start, Timestamp::MAX).unwrap();
        assert!(bench.locks().is_empty());
        let late = bench.put(start, K).unwrap_err();
        assert!(matches!(late, Error::RolledBack { .. }), "{late}");
        let late = bench.calls.commit(K, start, bench.ts()).unwrap_err();
        assert!(matches!(late, Error::LockNotFound { .. }), "{late}");
    }
    assert_eq!(bench.read(b"k"), None);
}

#[test]
fn a_committed_transaction_is_not_rolled_back() {
    let bench = Bench::new(5);
    let start = bench.ts();
    bench.put(start, K).unwrap();
    let commit = bench.ts();
    bench.calls.commit(K, start, commit).unwrap();
    for late in [
        bench.calls.batch_rollback(K, start),
        bench.calls.cleanup(b"k", start, Timestamp::MAX),
    ] {
        match late {
            Err(Error::AlreadyCommitted { committed, .. }) => assert_eq!(committed, commit),
            other => panic!("{other:?}"),
        }
    }
    let status = bench.status(b"k", start, true).unwrap();
    assert_eq!(status, TransactionStatus::Committed(commit));
    assert_eq!(bench.read(b"k").unwrap(), b"v");
}

#[test]
fn a_commit_without_a_prewrite_or_by_another_transaction_finds_no_lock() {
    let bench = Bench::new(6);
    let (start, other) = (bench.ts(), bench.ts());
    let refused = bench.calls.commit(K, start, bench.ts()).unwrap_err();
    assert!(matches!(refused, Error::LockNotFound { .. }), "{refused}");
    bench.put(start, K).unwrap();
    let refused = bench.calls.commit(K, other, bench.ts()).unwrap_err();
    assert!(matches!(refused, Error::LockNotFound { .. }), "{refused}");
    assert_eq!(bench.locks(), [b"k"]);
}

#[test]
fn rollbacks_replace_each_other_but_for_protected_ones() {
    let bench = Bench::new(11);
    let versions = || crate::setup::stored_versions(&bench.store);
    let starts: Vec<_> = (0..20).map(|_| bench.ts()).collect();
    for start in &starts {
        bench.calls.batch_rollback(K, *start).unwrap();
    }
    assert_eq!(versions(), 1);
    // Late prewrites of all of them fail, by the last record.
    for start in &starts {
        assert!(bench.put(*start, K).is_err());
    }
    let protected = bench.ts();
    bench.status(b"k", protected, true).unwrap();
    for start in [bench.ts(), bench.ts()] {
        bench.calls.batch_rollback(K, start).unwrap();
    }
    assert_eq!(
        bench.status(b"k", protected, false).unwrap(),
        TransactionStatus::RolledBack
    );
    assert_eq!(versions(), 2);
}

#[test]
fn the_records_of_rollbacks_are_dropped_by_the_safe_point_and_late_calls_are_refused() {
    let bench = Bench::new(12);
    let start = bench.ts();
    put(&bench.store, b"k", b"kept");
    bench.calls.batch_rollback(K, start).unwrap();
    let now = put(&bench.store, b"other", b"");
    bench.store.advance_safe_point(now).unwrap();
    bench.store.drop_old_versions().unwrap();
    assert_eq!(crate::setup::stored_versions(&bench.store), 2);
    let late = bench.put(start, &[b"new"]).unwrap_err();
    assert!(matches!(late, Error::BeforeSafePoint { .. }), "{late}");
    assert!(bench.locks().is_empty());
}

#[test]
fn timestamps_in_the_future_are_refused_and_change_nothing() {
    let bench = Bench::new(17);
    let future = Timestamp(bench.ts().0 + (3_600_000 << 18));
    let start = bench.ts();
    let is_future =
        |found: Result<()>| assert!(matches!(found, Err(Error::InFuture { .. })), "{found:?}");
    is_future(bench.put(future, K).map(drop));
    is_future(bench.calls.batch_rollback(K, future));
    is_future(bench.status(b"k", future, true).map(drop));
    bench.put(start, K).unwrap();
    is_future(bench.calls.commit(K, start, future));
    assert_eq!(bench.locks(), [b"k"]);
    let expired = bench.calls.commit(K, start, start).unwrap_err();
    assert!(
        matches!(expired, Error::CommitTsExpired { .. }),
        "{expired}"
    );
    bench.calls.commit(K, start, bench.ts()).unwrap();
    assert_eq!(crate::setup::stored_versions(&bench.store), 1);
}

#[test]
fn a_prewrite_keeps_what_its_pessimistic_lock_has_promised() {
    let bench = Bench::new(20);
    let start = bench.ts();
    bench
        .calls
        .pessimistic_lock(K, &lock(start, start))
        .unwrap();
    let longer = TTL * 2;
    assert_eq!(bench.calls.heartbeat(b"k", start, longer).unwrap(), longer);
    let reader = bench.ts();
    let status = bench
        .calls
        .check_transaction_status(b"k", start, reader, reader, false);
    assert!(matches!(
        status.unwrap(),
        TransactionStatus::Running {
            is_pushed: true,
            ..
        }
    ));
    let mutations = [Mutation::Delete { key: b"k" }];
    let request = Prewrite {
        for_update: Some(start),
        ..request(start, b"k", &mutations)
    };
    let prewritten = bench.calls.prewrite(&request).unwrap();
    assert!(prewritten.min_commit > reader);
    let found = &bench.calls.scan_locks(start, b"", 1)[0];
    assert_eq!(
        (found.min_commit, found.ttl),
        (prewritten.min_commit, longer)
    );
}

#[test]
fn conflicts_that_may_have_been_dropped_are_not_overlooked() {
    let bench = Bench::new(21);
    let read_at = put(&bench.store, b"k", b"v");
    delete(&bench.store, b"k");
    let safe_point = put(&bench.store, b"other", b"");
    bench.store.advance_safe_point(safe_point).unwrap();
    bench.store.drop_old_versions().unwrap();
    assert_eq!(bench.store.versions(b"k").unwrap().count(), 0);
    let start = bench.ts();
    let mutations = [Mutation::Delete { key: b"k" }];
    let prewrite = |read_at| {
        bench.calls.prewrite(&Prewrite {
            read_at,
            ..request(start, b"k", &mutations)
        })
    };
    let locked = |since| {
        let request = lock(start, start);
        bench
            .calls
            .pessimistic_lock(K, &PessimisticLock { since, ..request })
    };
    for refused in [prewrite(read_at).unwrap_err(), locked(read_at).unwrap_err()] {
        match refused {
            Error::BeforeSafePoint {
                asked,
                safe_point: at,
            } => {
                assert_eq!((asked, at), (read_at, safe_point));
            }
            other => panic!("{other}"),
        }
    }
    assert!(bench.locks().is_empty());
    locked(safe_point).unwrap();
    prewrite(safe_point).unwrap();
}

#[test]
fn a_lock_that_overlooks_what_comes_after_its_timestamp_for_update_is_refused() {
    let bench = Bench::new(22);
    let (start, later) = (bench.ts(), bench.ts());
    let locked = |since| {
        let request = lock(start, start);
        bench
            .calls
            .pessimistic_lock(K, &PessimisticLock { since, ..request })
    };
    let refused = locked(later).unwrap_err();
    assert!(
        matches!(&refused, Error::Engine(e) if e.kind() == titan::ErrorKind::InvalidArgument),
        "{refused}"
    );
    assert!(bench.locks().is_empty());
    locked(start).unwrap();
}
