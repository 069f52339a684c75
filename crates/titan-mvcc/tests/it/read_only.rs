//! Looking at a store without changing it: read-only openings, the versions of a key, checks.

use std::time::Duration;

use titan::{Db, ErrorKind, Options};
use titan_mvcc::{Direction, Error, Mutation, Store, Timestamp};

use super::percolator::{Bench, request};
use super::setup::{DIR, Place, delete, put};

fn open_read_only(place: &Place) -> Store {
    Store::open_read_only(DIR, &place.options).unwrap()
}

#[test]
fn a_store_is_read_without_a_change_beside_its_writer_and_after_it() {
    let place = Place::new(1);
    let store = place.open();
    let first = put(&store, b"a", b"1");
    let second = put(&store, b"a", &[2; 5000]);
    store.advance_safe_point(second).unwrap();
    // The writer has it open, and goes on.
    let beside = open_read_only(&place);
    let third = put(&store, b"a", b"3");
    assert!(beside.db().moment().is_some());
    assert_eq!(beside.snapshot().get(b"a").unwrap().unwrap(), [2; 5000][..]);
    drop(beside);
    store.close().unwrap();
    drop(store);

    place.vfs.reset_counters();
    let alone = open_read_only(&place);
    assert!(alone.db().moment().is_none());
    let newest = alone.snapshot().get(b"a").unwrap();
    assert_eq!(newest.as_deref(), Some(&b"3"[..]));
    let at = alone.snapshot_at(second).unwrap();
    let mut scan = at.scan(None, None, Direction::Forward).unwrap();
    let row = scan.next().unwrap().unwrap();
    assert_eq!(row.value.fetch().unwrap(), [2; 5000][..]);
    assert_eq!(alone.safe_point(), second);
    let refused = alone.snapshot_at(first).unwrap_err();
    assert!(
        matches!(refused, Error::BeforeSafePoint { .. }),
        "{refused}"
    );
    let ahead = Timestamp(third.0 + (1 << 40));
    let future = alone.snapshot_at(ahead).unwrap_err();
    assert!(matches!(future, Error::InFuture { .. }), "{future}");
    // Nothing can be changed.
    let mut transaction = alone.begin();
    transaction.put(b"a", b"4");
    let is_read_only = |e: Error| matches!(&e, Error::Engine(e) if e.kind() == ErrorKind::ReadOnly);
    assert!(is_read_only(transaction.commit().unwrap_err()));
    drop((at, scan, row));
    assert!(is_read_only(alone.advance_safe_point(third).unwrap_err()));
    // Nor has the safe point been moved for this opening.
    assert_eq!(alone.safe_point(), second);
    alone.snapshot_at(second).unwrap();
    alone.close().unwrap();
    drop(alone);
    let again = place.open();
    assert_eq!(again.snapshot().get(b"a").unwrap(), newest);
}

#[test]
fn a_store_that_is_read_alone_reads_around_locks_and_what_was_committed_with_them() {
    let place = Place::new(6);
    let store = place.open();
    for key in [b"a", b"b", b"c"] {
        put(&store, key, b"old");
    }
    let mutation = |key| Mutation::Put { key, value: b"new" };
    let calls = store.percolator();
    // Committed at its primary key alone.
    let start = store.oracle().next().unwrap();
    let both = [mutation(b"a"), mutation(b"b")];
    calls.prewrite(&request(start, b"a", &both)).unwrap();
    let before = store.now();
    let commit = store.oracle().next().unwrap();
    calls.commit(&[b"a"], start, commit).unwrap();
    // Not committed, and its owner is gone for long.
    let start = store.oracle().next().unwrap();
    let one = [mutation(b"c")];
    calls.prewrite(&request(start, b"c", &one)).unwrap();
    store.close().unwrap();
    drop((calls, store));
    let alone = open_read_only(&place);
    place.clock.advance(std::time::Duration::from_secs(1 << 30));
    let text = |key: &[u8]| alone.snapshot().get(key).unwrap().unwrap();
    assert_eq!((text(b"a"), text(b"c")), ("new".into(), "old".into()));
    let at = alone.snapshot_at(before).unwrap();
    assert_eq!(at.get(b"b").unwrap().unwrap(), "old");
    assert_eq!(text(b"b"), "new");
    let scanned = alone.snapshot().scan(None, None, Direction::Forward);
    let rows: Vec<_> = scanned
        .unwrap()
        .map(|row| row.unwrap().value.fetch().unwrap())
        .collect();
    assert_eq!(rows, ["new", "new", "old"]);
    alone.close().unwrap();
    drop((at, alone));
    let store = place.open();
    assert_eq!(store.snapshot().get(b"b").unwrap().unwrap(), "new");
}

#[test]
fn what_is_no_store_is_refused() {
    let place = Place::new(2);
    let refused = Store::open_read_only(DIR, &place.options).unwrap_err();
    let is_missing = matches!(&refused, Error::Engine(e) if e.kind() == ErrorKind::NotFound);
    assert!(is_missing, "{refused}");
    let options = Options {
        db: place.options.db.clone(),
        ..Options::default()
    };
    let db = Db::open(DIR, &options).unwrap();
    for (family, found) in [
        (None, "no column family versions"),
        (Some("versions"), "no column family locks"),
        (Some("locks"), "no format"),
        (Some("other"), "family other"),
    ] {
        if let Some(name) = family {
            db.create_column_family(name, Default::default()).unwrap();
        }
        let refused = Store::open_read_only(DIR, &place.options).unwrap_err();
        assert!(matches!(refused, Error::NotVersioned { .. }), "{refused}");
        assert!(refused.to_string().contains(found), "{refused}");
    }
}

#[test]
fn the_versions_of_a_key_are_listed_the_newest_first() {
    let place = Place::new(3);
    let store = place.open();
    put(&store, b"aa", b"beside");
    let first = put(&store, b"a", b"1");
    let deleted = delete(&store, b"a");
    let mut locker = store.begin();
    locker.lock(b"a");
    let locked = locker.commit().unwrap();
    let versions = store.versions(b"a").unwrap();
    let found: Vec<_> = versions
        .map(Result::unwrap)
        .map(|it| {
            assert!(it.start < it.commit);
            let value = it.value.map(|value| value.fetch().unwrap());
            (it.commit, it.kind.name(), value)
        })
        .collect();
    let expected = [
        (locked, "lock", None),
        (deleted, "delete", None),
        (first, "put", Some("1".into())),
    ];
    assert_eq!(found, expected);
    assert_eq!(store.versions(b"b").unwrap().count(), 0);
}

#[test]
fn a_check_finds_what_the_store_cannot_have_written() {
    let place = Place::new(4);
    let store = place.open();
    let commit = put(&store, b"a", &[1; 5000]);
    delete(&store, b"a");
    put(&store, b"b", b"1");
    let mut seen = 0;
    let report = store.check(&mut |versions| seen = versions).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.versions, report.rows, seen), (3, 2, 3));
    assert_eq!((report.puts, report.deletes, report.locks), (2, 1, 0));
    assert_eq!(
        (report.oldest, report.newest),
        (Some(commit), Some(store.now()))
    );

    let versions = store.db().column_family("versions").unwrap();
    let entry =
        |key: &[u8], commit: u64, tail: &[u8]| [key, &(!commit).to_be_bytes(), tail].concat();
    let a = b"a\0\0\0\0\0\0\0\xf8";
    for (key, value, what) in [
        // Behind the format.
        (
            entry(a, commit.0, b"P\x05\x00"),
            "",
            "start of its transaction",
        ),
        (entry(a, 7, b"X\x05"), "", "kind is unknown"),
        (b"a\0\0\0\0\0\0\0\xf8\xff".to_vec(), "", "no timestamp"),
        (b"short".to_vec(), "", "no end"),
        (
            entry(b"a\0\0\0\0\0\0\x01\xf8", 7, b"P\x05"),
            "",
            "key is damaged",
        ),
        // Two versions of one commit, and what no commit can have.
        (
            entry(a, commit.0, b"D\x05"),
            "",
            "another version has this commit",
        ),
        (
            entry(a, 7, b"P\x00"),
            "",
            "committed at its start or before",
        ),
        (entry(a, u64::MAX, b"P\x05"), "", "the end of the lease"),
        (entry(a, 7, b"D\x05"), "value", "a deletion has a value"),
        (entry(a, 7, b"L\x05"), "value", "value of a lock is damaged"),
        (
            entry(a, store.now().0 + 1, b"L\x05"),
            "\x02\x03",
            "records a put at",
        ),
        (entry(a, 7, b"L\x05"), "\x02\x05", "no older version"),
    ] {
        versions.put(&key, value.as_bytes()).unwrap();
        let report = store.check(&mut |_| {}).unwrap();
        let said: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
        assert_eq!(report.problems_found, 1, "{what}: {said:?}");
        assert!(said[0].contains(what), "{what}: {said:?}");
        versions.delete(&key).unwrap();
    }
    // The value of a lock that is not there, and what is no lock.
    let locks = store.db().column_family("locks").unwrap();
    for (key, what) in [
        (&b"a\0\0\0\0\0\0\0\xf8V"[..], "a value without a lock"),
        (b"a\0\0\0\0\0\0\0\xf8X", "not the entry of a lock"),
    ] {
        locks.put(key, b"value").unwrap();
        let report = store.check(&mut |_| {}).unwrap();
        assert_eq!(report.problems_found, 1, "{what}");
        assert!(report.problems[0].what.contains(what), "{report:?}");
        locks.delete(key).unwrap();
    }
    store.db().put(b"orphan", b"1").unwrap();
    store.db().put(b"format", b"1").unwrap();
    let report = store.check(&mut |_| {}).unwrap();
    let said: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("8 bytes") && said[1].contains("nothing under this name"));
}

#[test]
fn a_check_misses_the_value_of_a_lock() {
    let bench = Bench::new(8);
    bench.put(bench.ts(), &[b"a", b"b"]).unwrap();
    let report = bench.store.check(&mut |_| {}).unwrap();
    assert_eq!((report.transaction_locks, report.problems), (2, vec![]));
    let locks = bench.store.db().column_family("locks").unwrap();
    for (value, key) in [
        (b"a\0\0\0\0\0\0\0\xf8V", "a"),
        (b"b\0\0\0\0\0\0\0\xf8V", "b"),
    ] {
        let lost = locks.get(value).unwrap().unwrap();
        locks.delete(value).unwrap();
        let report = bench.store.check(&mut |_| {}).unwrap();
        assert_eq!(report.problems_found, 1, "{report:?}");
        assert_eq!(report.problems[0].key.as_deref(), Some(key));
        assert!(report.problems[0].what.contains("lost"), "{report:?}");
        locks.put(value, &lost).unwrap();
    }
}

#[test]
fn a_check_knows_the_records_of_rollbacks() {
    let bench = Bench::new(6);
    let [start, rolled_back] = [bench.ts(), bench.ts()];
    // A protected record has a value.
    bench.calls.cleanup(b"a", start, Timestamp::MAX).unwrap();
    let commit = put(&bench.store, b"b", b"1");
    // A record at the timestamp of a version is an entry of its own.
    bench.calls.batch_rollback(&[b"b"], commit).unwrap();
    bench.calls.batch_rollback(&[b"c"], rolled_back).unwrap();
    let report = bench.store.check(&mut |_| {}).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.puts, report.locks), (1, 3));
}

#[test]
fn a_check_goes_on_while_others_write() {
    let bench = Bench::new(7);
    put(&bench.store, b"a", b"1");
    let check = || {
        let report = bench.store.check(&mut |_| {
            // Longer than timestamps are leased ahead.
            bench.place.clock.advance(Duration::from_secs(60));
            let start = bench.ts();
            let key = start.0.to_be_bytes();
            bench.put(start, &[&key]).unwrap();
        });
        report.unwrap().problems
    };
    assert_eq!(check(), []);
}

#[test]
fn a_check_lists_a_hundred_problems_and_counts_all() {
    let place = Place::new(5);
    let store = place.open();
    for n in 0..120_u8 {
        store.db().put(&[n], b"").unwrap();
    }
    let report = store.check(&mut |_| {}).unwrap();
    assert_eq!((report.problems.len(), report.problems_found), (100, 120));
}
