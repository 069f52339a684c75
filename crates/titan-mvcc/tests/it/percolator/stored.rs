//! Locks on disk: values, restarts, the safe point.

use titan::{WriteBatch, WriteOptions};
use titan_mvcc::Direction;

use super::*;

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

/// Takes away the value that a prewritten put of the key `b` has.
fn lose_the_value_of_b(store: &Store) {
    let locks = store.db().column_family("locks").unwrap();
    let mut batch = WriteBatch::new();
    batch.delete(&locks, b"b\0\0\0\0\0\0\0\xf8V").unwrap();
    store.db().write(batch, &WriteOptions::default()).unwrap();
}

#[test]
fn a_scan_ends_after_a_lock_whose_value_is_lost() {
    let bench = Bench::new(23);
    let start = bench.ts();
    bench.put(start, &[b"a", b"b", b"c"]).unwrap();
    lose_the_value_of_b(&bench.store);
    bench.calls.commit(&[b"a"], start, bench.ts()).unwrap();
    let snapshot = bench.store.snapshot();
    for (direction, first) in [(Direction::Forward, b"a"), (Direction::Backward, b"c")] {
        let mut scan = snapshot.scan(None, None, direction).unwrap();
        assert_eq!(scan.next().unwrap().unwrap().key, first);
        let lost = scan.next().unwrap().unwrap_err();
        assert!(matches!(lost, Error::Corruption { .. }), "{lost}");
        assert!(scan.next().is_none());
    }
}

#[test]
fn a_lock_that_cannot_be_ended_keeps_no_other_one() {
    let bench = Bench::new(24);
    let (committed, dead) = (bench.ts(), bench.ts());
    bench.put(committed, &[b"a", b"b", b"c"]).unwrap();
    bench.put(dead, &[b"d"]).unwrap();
    lose_the_value_of_b(&bench.store);
    bench.calls.commit(&[b"a"], committed, bench.ts()).unwrap();
    let later = put(&bench.store, b"other", b"");
    bench.place.clock.advance(TTL + Duration::from_secs(1));
    let lost = bench.store.advance_safe_point(later).unwrap_err();
    assert!(matches!(lost, Error::Corruption { .. }), "{lost}");
    assert_eq!(bench.locks(), [b"b"]);
    assert_eq!(bench.read(b"c").unwrap(), b"v");
}
