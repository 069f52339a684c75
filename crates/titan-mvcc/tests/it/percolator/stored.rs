//! Locks on disk: values, restarts, the safe point.

use titan::{WriteBatch, WriteOptions};
use titan_mvcc::Direction;

use crate::setup::DIR;

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
    // The lock of a running transaction holds it.
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
        // A read below the primary lock stays valid: no commit goes before it.
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

/// Expects damage from a reader, a writer and a sweep that meet a lock of `k`.
fn expect_damage(store: &Store, family: &str) {
    let later = put(store, b"other", b"1");
    let read = store.snapshot().get(b"k").err();
    let scan = store.snapshot().scan(None, None, Direction::Forward);
    let scan = scan.unwrap().find_map(Result::err);
    let mut writer = store.begin();
    writer.put(b"k", b"new");
    let write = writer.commit().err();
    let swept = store.advance_safe_point(later).err();
    for (who, error) in [
        ("read", read),
        ("scan", scan),
        ("write", write),
        ("swept", swept),
    ] {
        let text = error.as_ref().map_or_else(String::new, Error::to_string);
        let is_damage = matches!(error, Some(Error::Corruption { .. }));
        assert!(is_damage && text.contains(family), "{who}: {error:?}");
    }
}

#[test]
fn a_primary_version_that_is_committed_at_its_start_is_damage() {
    let mut bench = Bench::new(25);
    let start = bench.ts();
    let key = b"k";
    let writes = [Mutation::Put { key, value: b"v" }];
    bench.prewrite(start, b"p", &writes).unwrap();
    let versions = bench.store.db().column_family("versions").unwrap();
    let suffix = (!start.0).to_be_bytes();
    let version = [&b"p\0\0\0\0\0\0\0\xf8"[..], &suffix, b"P\0"].concat();
    versions.put(&version, b"v").unwrap();
    bench.place.clock.advance(TTL + Duration::from_secs(1));
    for _ in 0..2 {
        expect_damage(&bench.store, "versions");
        let repeated = bench.calls.commit(&[b"p"], start, bench.ts());
        assert!(matches!(repeated, Err(Error::Corruption { .. })));
        bench.store.close().unwrap();
        bench.store = bench.place.open();
        bench.calls = bench.store.percolator();
    }
    // The client decides by itself.
    let resolved = bench.calls.resolve_lock(start, Some(bench.ts()), None);
    assert_eq!(resolved.unwrap(), 1);
    assert_eq!(bench.read(b"k").unwrap(), b"v");
}

#[test]
fn an_async_commit_that_is_not_after_its_start_is_damage() {
    const RECORD: &[u8] = b"k\0\0\0\0\0\0\0\xf8L";
    for (of_store, min_commit) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let bench = Bench::new(26);
        let start = bench.ts();
        let mutations = [Mutation::Put {
            key: b"k",
            value: b"v",
        }];
        let request = Prewrite {
            secondaries: Some(&[]),
            ..request(start, b"k", &mutations)
        };
        bench.calls.prewrite(&request).unwrap();
        let locks = bench.store.db().column_family("locks").unwrap();
        let mut record = locks.get(RECORD).unwrap().unwrap().to_vec();
        // Kind, flags, start and timestamp for update precede it; then come the time to live and
        // the size, whose highest bit is the owner.
        record[18..26].copy_from_slice(&(start.0 * min_commit).to_be_bytes());
        record[34] |= u8::from(of_store) << 7;
        locks.put(RECORD, &record).unwrap();
        let report = bench.store.check(&mut |_| {}).unwrap();
        assert_eq!(report.problems_found, 1, "{report:?}");
        bench.store.close().unwrap();
        let read_only = Store::open_read_only(DIR, &bench.place.options).unwrap();
        let read = read_only.snapshot().get(b"k");
        assert!(matches!(read, Err(Error::Corruption { .. })), "{read:?}");
        drop(read_only);
        let store = bench.place.open();
        expect_damage(&store, "locks");
        let found = store.snapshot().get(b"other").unwrap();
        assert_eq!(found.as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_recorded_commit_after_the_present_is_damage_that_does_not_spread() {
    const RECORD: &[u8] = b"a\0\0\0\0\0\0\0\xf8L";
    let mut bench = Bench::new(27);
    let [start, of_async] = [bench.ts(), bench.ts()];
    let key = b"k";
    let writes = [Mutation::Put { key, value: b"v" }];
    bench.prewrite(start, b"p", &writes).unwrap();
    let async_writes = [Mutation::Delete { key: b"a" }];
    let async_request = Prewrite {
        secondaries: Some(&[]),
        ..request(of_async, b"a", &async_writes)
    };
    bench.calls.prewrite(&async_request).unwrap();
    // The version of the primary key `p`, and the lock of `a`, say that they have committed at the
    // last timestamp.
    let mut version = b"p\0\0\0\0\0\0\0\xf8\0\0\0\0\0\0\0\0P".to_vec();
    let mut age = u64::MAX - start.0;
    while age >= 0x80 {
        version.push(age as u8 | 0x80);
        age >>= 7;
    }
    version.push(age as u8);
    let versions = bench.store.db().column_family("versions").unwrap();
    versions.put(&version, b"v").unwrap();
    let locks = bench.store.db().column_family("locks").unwrap();
    let mut record = locks.get(RECORD).unwrap().unwrap().to_vec();
    record[18..26].copy_from_slice(&u64::MAX.to_be_bytes());
    locks.put(RECORD, &record).unwrap();
    bench.store.close().unwrap();
    bench.store = bench.place.open();
    bench.calls = bench.store.percolator();
    for key in [b"k", b"a"] {
        let mut writer = bench.store.begin();
        writer.put(key, b"new");
        let damage = writer.commit().unwrap_err();
        assert!(matches!(damage, Error::Corruption { .. }), "{damage}");
        let damage = bench.store.advance_safe_point(bench.store.now());
        assert!(matches!(damage, Err(Error::Corruption { .. })));
        assert_eq!(bench.read(key), None);
    }
    assert_eq!(bench.locks(), [b"a", b"k"]);
    // The client repeats its prewrites.
    let primary = [Mutation::Delete { key: b"p" }];
    let again = bench.prewrite(start, b"p", &primary);
    assert!(matches!(again, Err(Error::Corruption { .. })), "{again:?}");
    put(&bench.store, b"other", b"1");
    assert_eq!(bench.read(b"other").unwrap(), b"1");
}
