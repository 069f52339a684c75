//! The calls of Percolator transactions, and what each does when it is late, repeated or out of order.

use std::time::Duration;

use titan_mvcc::{
    Error, LockKind, Mutation, Percolator, Prewrite, Prewritten, Result, SecondariesStatus, Store,
    Timestamp, TransactionStatus,
};

use super::place::{Place, put};

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

    fn status(
        &self,
        primary: &[u8],
        start: Timestamp,
        roll_back: bool,
    ) -> Result<TransactionStatus> {
        let now = self.ts();
        self.calls
            .check_transaction_status(primary, start, now, now, roll_back)
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
        TransactionStatus::Alive { lock, is_pushed } => {
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
        TransactionStatus::Alive { .. }
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
fn rollbacks_replace_each_other_but_for_protected_ones() {
    let bench = Bench::new(11);
    let versions = || super::place::stored_versions(&bench.store);
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
    assert_eq!(super::place::stored_versions(&bench.store), 2);
    let late = bench.put(start, &[b"new"]).unwrap_err();
    assert!(matches!(late, Error::BeforeSafePoint { .. }), "{late}");
    assert!(bench.locks().is_empty());
}

#[test]
fn the_safe_point_stays_before_locks() {
    let bench = Bench::new(13);
    let start = bench.ts();
    bench.put(start, &[b"p", b"s"]).unwrap();
    let commit = bench.ts();
    bench.calls.commit(&[b"p"], start, commit).unwrap();
    let later = put(&bench.store, b"p", b"later");
    // The lock of a transaction that has ended is ended.
    bench.store.advance_safe_point(later).unwrap();
    assert_eq!(bench.store.safe_point(), later);
    assert!(bench.locks().is_empty());
    bench.store.drop_old_versions().unwrap();
    assert_eq!(bench.read(b"s").unwrap(), b"v");
    // That of a living one holds it.
    let start = bench.ts();
    bench.put(start, K).unwrap();
    let later = put(&bench.store, b"p", b"later");
    assert!(bench.store.advance_safe_point(later).unwrap() < start);
    let names: Vec<_> = bench
        .store
        .holds()
        .into_iter()
        .map(|hold| hold.name)
        .collect();
    assert_eq!(names, ["locks of a transaction"]);
    bench.calls.commit(K, start, bench.ts()).unwrap();
    assert_eq!(bench.store.advance_safe_point(later).unwrap(), later);
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
        TransactionStatus::Alive { lock, is_pushed } => {
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
    assert_eq!(super::place::stored_versions(&bench.store), 1);
}

#[test]
fn a_large_value_is_in_one_blob_file_after_its_commit() {
    let mut place = Place::new(18);
    place.options.versions.min_blob_size = 100;
    let store = place.open();
    let bench = Bench {
        calls: store.percolator(),
        place,
        store,
    };
    let start = bench.ts();
    let value = vec![7; 10_000];
    let mutations = [Mutation::Put {
        key: b"k",
        value: &value,
    }];
    bench.prewrite(start, b"k", &mutations).unwrap();
    bench.calls.commit(K, start, bench.ts()).unwrap();
    bench.store.db().flush_all().unwrap();
    let sizes: Vec<u64> = ["versions", "locks"]
        .iter()
        .map(|name| {
            let family = bench.store.db().column_family(name).unwrap();
            let metrics = family.metrics();
            metrics.blob_bytes
        })
        .collect();
    assert!(sizes[0] > 10_000 && sizes[1] == 0, "{sizes:?}");
    assert_eq!(bench.read(b"k").unwrap(), value);
}

#[test]
fn locks_survive_restarts_with_values_in_tables_and_blob_files() {
    let mut place = Place::new(19);
    place.options.versions.min_blob_size = 100;
    let store = place.open();
    let mut bench = Bench {
        calls: store.percolator(),
        place,
        store,
    };
    let start = bench.ts();
    let value = vec![7; 10_000];
    let mutations = [
        Mutation::Put {
            key: b"k",
            value: &value,
        },
        Mutation::Put {
            key: b"small",
            value: b"s",
        },
    ];
    bench.prewrite(start, b"k", &mutations).unwrap();
    bench.store.db().flush_all().unwrap();
    let before = bench.calls.scan_locks(start, b"", 9);
    bench.store.close().unwrap();
    bench.store = bench.place.open();
    bench.calls = bench.store.percolator();
    let mut after = bench.calls.scan_locks(start, b"", 9);
    for (before, after) in before.iter().zip(&mut after) {
        // What may have been read below the primary lock is not committed into.
        assert_eq!(
            after.key == after.primary,
            after.min_commit > before.min_commit
        );
        after.min_commit = before.min_commit;
    }
    assert_eq!(before, after);
    bench
        .calls
        .commit(&[&b"k"[..], b"small"], start, bench.ts())
        .unwrap();
    assert_eq!(bench.read(b"k").unwrap(), value);
    assert_eq!(bench.read(b"small").unwrap(), b"s");
}
