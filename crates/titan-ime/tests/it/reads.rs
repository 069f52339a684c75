//! Answers from memory, and reads that go to the engine.

use std::time::Duration;

use titan_ime::RangeCache;
use titan_mvcc::{Direction, Store};

use super::place::{Place, delete, put, rows};

fn store_with_held_middle() -> RangeCache {
    let cache = Place::new(1).open();
    for key in 0..100_u8 {
        put(cache.store(), &[key], &[key]);
    }
    cache.load(Some(&[40]), Some(&[60])).unwrap();
    cache
}

/// Nor does it look at all segments for one that answers: see the parts that it takes.
#[test]
fn a_read_that_is_too_old_for_all_segments_goes_through_the_engine_in_long_parts() {
    let cache = Place::new(1).open();
    let store = cache.store();
    for key in 0..200_u8 {
        put(store, &[key], &[key]);
    }
    let old = store.snapshot_at(store.now()).unwrap();
    let expected = rows(&old, None, None, Direction::Forward);
    for key in 0..200_u8 {
        put(store, &[key], b"new");
    }
    let now = old.timestamp();
    drop(old);
    cache.maintain();
    for key in (0..200_u8).step_by(4) {
        cache.load(Some(&[key]), Some(&[key + 4])).unwrap();
    }
    let old = store.snapshot_at(now).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let before = cache.stats().parts;
        assert_eq!(rows(&old, None, None, direction), expected);
        let parts = cache.stats().parts;
        assert_eq!(parts.hits, before.hits);
        let too_old = parts.too_old - before.too_old;
        assert!((5..=7).contains(&too_old), "{direction:?}: {too_old}");
    }
}

/// 200 rows of large values, all held.
fn large_rows() -> RangeCache {
    let cache = Place::new(1).open();
    for n in 0..200_u8 {
        put(cache.store(), &[n], &[n; 4_000]);
    }
    cache.load(None, None).unwrap();
    cache
}

/// Point reads of the engine are counted as seeks.
#[test]
fn large_values_are_looked_up_only_when_they_are_fetched() {
    let cache = large_rows();
    let store = cache.store();
    let snapshot = store.snapshot();
    for direction in [Direction::Forward, Direction::Backward] {
        let before = store.read_stats();
        let mut scan = snapshot.scan(None, None, direction).unwrap();
        let rows: Vec<_> = scan.by_ref().map(|row| row.unwrap()).collect();
        assert_eq!((rows.len(), scan.stats().seek), (200, 0));
        drop(scan);
        assert_eq!(store.read_stats().seek, before.seek);
        assert_eq!(cache.stats().parts.stored, 0);
        // They are found after later writes, too.
        put(store, &[7], b"new");
        cache.drop_range(None, None);
        for row in &rows {
            assert_eq!(row.value.fetch().unwrap(), vec![row.key[0]; 4_000]);
        }
        assert_eq!(store.read_stats().seek, before.seek + 200);
        cache.load(None, None).unwrap();
    }
}

#[test]
fn a_scan_that_fetches_large_values_reads_them_by_the_iterator_of_the_engine() {
    let cache = large_rows();
    let store = cache.store();
    let snapshot = store.snapshot();
    for direction in [Direction::Forward, Direction::Backward] {
        let before = (store.read_stats(), cache.stats().parts);
        assert_eq!(rows(&snapshot, None, None, direction).len(), 200);
        let (reads, parts) = (store.read_stats(), cache.stats().parts);
        // Those of the first part are looked up. Backward, each row of the engine is a seek anyway.
        let most = [6, 210][usize::from(direction == Direction::Backward)];
        let seeks = reads.seek - before.0.seek;
        assert!(seeks <= most, "{direction:?}: {seeks}");
        assert_eq!(reads.processed - before.0.processed, 200);
        assert_eq!(parts.hits - before.1.hits, 1, "{direction:?}");
        assert_eq!(parts.stored - before.1.stored, 1, "{direction:?}");
    }
    // A point read of such a row saves nothing, and finds it.
    let before = cache.stats().points;
    assert_eq!(snapshot.get(&[9]).unwrap().unwrap(), vec![9; 4_000]);
    let points = cache.stats().points;
    assert_eq!(
        (points.stored, points.hits),
        (before.stored + 1, before.hits)
    );
}

#[test]
fn points_and_missing_keys_are_answered_from_memory() {
    let cache = store_with_held_middle();
    let snapshot = cache.store().snapshot();
    assert_eq!(snapshot.get(&[50]).unwrap().as_deref(), Some(&[50][..]));
    assert_eq!(snapshot.get(&[50, 1]).unwrap(), None);
    assert_eq!(snapshot.get(&[60]).unwrap().as_deref(), Some(&[60][..]));
    assert_eq!(snapshot.get(&[39]).unwrap().as_deref(), Some(&[39][..]));
    let points = cache.stats().points;
    assert_eq!(
        (points.hits, points.hits_nothing, points.not_held),
        (1, 1, 2)
    );
}

#[test]
fn a_scan_is_stitched_of_memory_and_engine_in_both_directions() {
    let cache = store_with_held_middle();
    let snapshot = cache.store().snapshot();
    let expected: Vec<_> = (0..100_u8).map(|key| (vec![key], vec![key])).collect();
    for direction in [Direction::Forward, Direction::Backward] {
        let before = cache.stats().parts;
        assert_eq!(rows(&snapshot, None, None, direction), expected);
        let after = cache.stats().parts;
        assert!(
            after.hits > before.hits && after.not_held == before.not_held + 2,
            "{after:?}"
        );
        for (from, to) in [
            (40, 60),
            (45, 55),
            (30, 45),
            (55, 70),
            (10, 20),
            (39, 40),
            (60, 61),
        ] {
            let part = &expected[usize::from(from)..usize::from(to)];
            assert_eq!(rows(&snapshot, Some(&[from]), Some(&[to]), direction), part);
        }
    }
}

#[test]
fn transactions_read_from_memory_and_see_their_own_writes() {
    let cache = store_with_held_middle();
    let mut transaction = cache.store().begin();
    transaction.put(&[50], b"own");
    transaction.delete(&[51]);
    assert_eq!(
        transaction.get(&[50]).unwrap().as_deref(),
        Some(&b"own"[..])
    );
    assert_eq!(transaction.get(&[52]).unwrap().as_deref(), Some(&[52][..]));
    let scan = transaction
        .scan(Some(&[50]), Some(&[53]), Direction::Forward)
        .unwrap();
    let keys: Vec<_> = scan.map(|row| row.unwrap().key).collect();
    assert_eq!(keys, [[50], [52]]);
    assert_eq!(cache.stats().points.hits, 1);
    transaction.commit().unwrap();
    let found = cache.store().snapshot().get(&[50]).unwrap();
    assert_eq!(found.as_deref(), Some(&b"own"[..]));
}

/// Values above 256 bytes are found in memory and read from the engine.
#[test]
fn large_values_stay_in_the_engine() {
    let mut place = Place::new(2);
    place.store.versions.min_blob_size = 100;
    let cache = place.open();
    cache.load(None, None).unwrap();
    let empty = cache.stats().memory_used;
    put(cache.store(), b"large", &[1; 100_000]);
    put(cache.store(), b"small", &[2; 256]);
    assert!(cache.stats().memory_used < empty + 2_000);
    let snapshot = cache.store().snapshot();
    put(cache.store(), b"large", &[3; 100_000]);
    cache
        .store()
        .db()
        .column_family("versions")
        .unwrap()
        .flush()
        .unwrap();
    cache.maintain();
    let newest = cache.store().snapshot();
    for (snapshot, byte) in [(snapshot, 1), (newest, 3)] {
        assert_eq!(
            snapshot.get(b"large").unwrap().unwrap(),
            vec![byte; 100_000]
        );
        let all = rows(&snapshot, None, None, Direction::Backward);
        assert_eq!(
            all,
            [
                (b"large".to_vec(), vec![byte; 100_000]),
                (b"small".to_vec(), vec![2; 256])
            ]
        );
    }
    assert_eq!(cache.stats().points.stored, 2);
}

/// The steps of a scan of all rows up to the first one, which must have the key.
fn steps_to_first(store: &Store, direction: Direction, key: &[u8]) -> u64 {
    let mut scan = store.snapshot().scan(None, None, direction).unwrap();
    assert_eq!(scan.next().unwrap().unwrap().key, key);
    let stats = scan.stats();
    stats.next + stats.prev + stats.seek
}

/// The reason for all of this: rows that were deleted cost a scan nothing.
#[test]
fn a_scan_past_deleted_rows_takes_few_steps() {
    let cache = Place::new(3).open();
    cache.load(None, None).unwrap();
    for n in 0..2_000_u32 {
        put(cache.store(), &n.to_be_bytes(), b"queued");
    }
    for n in 0..1_999_u32 {
        delete(cache.store(), &n.to_be_bytes());
        if n % 100 == 0 {
            cache.maintain();
        }
    }
    cache.maintain();
    let snapshot = cache.store().snapshot();
    let mut scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    assert_eq!(scan.next().unwrap().unwrap().key, 1_999_u32.to_be_bytes());
    assert!(scan.stats().next <= 4, "{:?}", scan.stats());
    cache.drop_range(None, None);
    let mut scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    assert_eq!(scan.next().unwrap().unwrap().key, 1_999_u32.to_be_bytes());
    assert!(scan.stats().next >= 1_999, "{:?}", scan.stats());
}

/// Rows that were deleted a short while ago stay for older reads. Where all rows of a leaf are
/// such, it is passed in one step.
#[test]
fn a_scan_past_rows_that_older_reads_need_takes_few_steps() {
    let mut place = Place::new(6);
    place.cache.safe_lag = Duration::from_secs(1_000_000);
    let cache = place.open();
    cache.load(None, None).unwrap();
    let store = cache.store();
    let key = |n: u32| n.to_be_bytes();
    for n in 0..2_000 {
        put(store, &key(n), b"queued");
    }
    let old = store.snapshot();
    for n in (0..2_000).filter(|n| *n != 1_000) {
        delete(store, &key(n));
    }
    // Two looks find that the last deletions are not followed by others.
    (0..2).for_each(|_| cache.maintain());
    for direction in [Direction::Forward, Direction::Backward] {
        let first = |expected: u32| steps_to_first(store, direction, &key(expected));
        assert!(first(1_000) <= 250);
        assert_eq!(rows(&old, None, None, direction).len(), 2_000);
        let (from, to) = (key(200), key(300));
        assert_eq!(rows(&old, Some(&from), Some(&to), direction).len(), 100);
        let inside = rows(&store.snapshot(), Some(&from), Some(&to), direction);
        assert_eq!(inside, []);
        // A row that is put again is seen.
        let again = match direction {
            Direction::Forward => 500,
            Direction::Backward => 1_500,
        };
        put(store, &key(again), b"again");
        first(again);
        delete(store, &key(again));
    }
    assert_eq!(cache.stats().parts.not_held, 0);
    cache.audit().unwrap();
}

/// Nothing was loaded: the scans themselves say where nothing but dead rows is.
#[test]
fn a_gap_of_dead_rows_is_passed_in_one_step_once_a_scan_has_met_it() {
    for direction in [Direction::Forward, Direction::Backward] {
        let cache = Place::new(4).open();
        let store = cache.store();
        let key = |n: u32| n.to_be_bytes();
        for n in 0..1_000 {
            put(store, &key(n), b"queued");
        }
        let old = store.snapshot();
        for n in (0..1_000).filter(|n| *n != 500) {
            delete(store, &key(n));
        }
        let first = |expected: u32| steps_to_first(store, direction, &key(expected));
        assert!(first(500) >= 499);
        cache.maintain();
        assert_eq!((cache.stats().gaps, cache.stats().segments), (1, 1));
        assert!(first(500) <= 4);
        // A write into the gap is seen.
        let inside = match direction {
            Direction::Forward => 100,
            Direction::Backward => 900,
        };
        put(store, &key(inside), b"again");
        assert!(first(inside) <= 4);
        delete(store, &key(inside));
        // The rest of the range becomes part of the same gap.
        put(store, &key(inside), b"again");
        delete(store, &key(inside));
        delete(store, &key(500));
        assert_eq!(rows(&store.snapshot(), None, None, direction), []);
        cache.maintain();
        assert_eq!(rows(&store.snapshot(), None, None, direction), []);
        assert_eq!((cache.stats().gaps, cache.stats().segments), (2, 1));
        let mut scan = store.snapshot().scan(None, None, direction).unwrap();
        assert!(scan.next().is_none());
        let stats = scan.stats();
        assert!(stats.next + stats.prev + stats.seek <= 4, "{stats:?}");
        // A reader from before sees what there was.
        assert_eq!(rows(&old, None, None, direction).len(), 1_000);
        cache.audit().unwrap();
    }
}

#[test]
fn no_gap_is_remembered_without_memory() {
    let mut place = Place::new(5);
    place.cache.memory_limit = 0;
    let cache = place.open();
    for n in 0..100_u32 {
        put(cache.store(), &n.to_be_bytes(), b"");
        delete(cache.store(), &n.to_be_bytes());
    }
    for _ in 0..2 {
        assert_eq!(
            rows(&cache.store().snapshot(), None, None, Direction::Forward),
            []
        );
        cache.maintain();
    }
    let stats = cache.stats();
    assert_eq!((stats.gaps, stats.segments, stats.memory_used), (0, 0, 0));
}
