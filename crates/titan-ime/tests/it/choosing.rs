//! The ranges that the cache chooses. A pass of maintenance is a call of `maintain` here.

use titan::vfs::Vfs;
use titan_ime::{CacheOptions, RangeCache, Remembered};
use titan_mvcc::{Direction, Store, StoreOptions};

use super::place::{Place, put, rows};

fn place() -> Place {
    let mut place = Place::new(1);
    place.cache.chooses = true;
    place
}

fn key(table: u8, n: u32) -> Vec<u8> {
    [&[b'a' + table][..], &n.to_be_bytes()].concat()
}

/// Two hundred rows of forty versions each.
fn fill(store: &Store, table: u8) {
    for version in 0..40 {
        let mut transaction = store.begin();
        for n in 0..200 {
            transaction.put(&key(table, n), &[version; 20]);
        }
        transaction.commit().unwrap();
    }
}

/// Scans of a table. Backward, the engine passes the old versions of each row.
fn scan(store: &Store, table: u8, scans: usize) {
    let snapshot = store.snapshot();
    for _ in 0..scans {
        let (from, to) = (key(table, 0), key(table + 1, 0));
        assert_eq!(
            rows(&snapshot, Some(&from), Some(&to), Direction::Backward).len(),
            200
        );
    }
}

fn is_held(cache: &RangeCache, table: u8) -> bool {
    let before = cache.stats().points;
    cache.store().snapshot().get(&key(table, 7)).unwrap();
    cache.stats().points.hits > before.hits
}

#[test]
fn a_range_in_which_scans_pass_many_versions_is_loaded_by_itself() {
    let cache = place().open();
    let store = cache.store();
    fill(store, 0);
    fill(store, 1);
    for look in 0..2 {
        scan(store, 0, 50);
        scan(store, 1, 1);
        assert!(!is_held(&cache, 0), "{look}");
        cache.maintain();
    }
    cache.maintain();
    assert!(is_held(&cache, 0) && !is_held(&cache, 1));
    let stats = cache.stats();
    assert_eq!((stats.chosen, stats.loads), (1, 1), "{stats:?}");
    // What a scan saves is measured: one scan between two looks goes to the engine.
    for _ in 0..3 {
        scan(store, 0, 50);
        cache.maintain();
    }
    let stats = cache.stats();
    assert!((1..=3).contains(&stats.parts.measured), "{stats:?}");
    assert!(stats.saved_steps > 10_000, "{stats:?}");
    cache.audit().unwrap();
}

/// Forward, the engine steps over the old versions by itself.
#[test]
fn a_range_in_which_scans_pass_many_versions_forward_is_loaded_by_itself() {
    let mut place = place();
    place.cache.chooses = true;
    let cache = place.open();
    let store = cache.store();
    fill(store, 0);
    fill(store, 1);
    // Rows of one version are read as cheaply from the engine.
    let mut transaction = store.begin();
    (0..200).for_each(|n| transaction.put(&key(7, n), b"1"));
    transaction.commit().unwrap();
    // In memtables, and in tables.
    for table in 0..2 {
        if table == 1 {
            store.db().flush_all().unwrap();
        }
        for look in 0..3 {
            let snapshot = store.snapshot();
            let (from, to) = (key(table, 0), key(table + 1, 0));
            for _ in 0..50 {
                let mut scan = snapshot
                    .scan(Some(&from), Some(&to), Direction::Forward)
                    .unwrap();
                assert_eq!(scan.by_ref().count(), 200);
                let stats = scan.stats();
                assert!(look > 1 || stats.versions_skipped >= 200 * 4, "{stats:?}");
            }
            cache.maintain();
        }
        cache.maintain();
        assert!(is_held(&cache, table));
        assert_eq!(cache.stats().chosen, u64::from(table) + 1);
    }
    for _ in 0..4 {
        for _ in 0..50 {
            let found = rows(
                &store.snapshot(),
                Some(&key(7, 0)),
                None,
                Direction::Forward,
            );
            assert_eq!(found.len(), 200);
        }
        cache.maintain();
    }
    assert!(!is_held(&cache, 7));
}

/// Point reads of all rows of a table, `reads` times each.
fn get(store: &Store, table: u8, reads: usize) {
    let snapshot = store.snapshot();
    for _ in 0..reads {
        for n in 0..200 {
            snapshot.get(&key(table, n)).unwrap();
        }
    }
}

#[test]
fn a_range_that_only_point_reads_read_is_loaded_by_itself() {
    let cache = place().open();
    let store = cache.store();
    for table in 0..3 {
        fill(store, table);
    }
    // What is between the tables is seen when it is in files.
    store.db().flush().unwrap();
    for look in 0..2 {
        get(store, 0, 20);
        get(store, 1, 1);
        assert!(!is_held(&cache, 0), "{look}");
        cache.maintain();
    }
    cache.maintain();
    assert!(is_held(&cache, 0), "{:?}", cache.stats());
    let stats = cache.stats();
    assert_eq!(stats.chosen, 1, "{stats:?}");
    // Its reads keep it, and what was not read much is not held.
    for _ in 0..3 {
        get(store, 0, 20);
        cache.maintain();
    }
    let stats = cache.stats();
    assert!(stats.saved_steps > 10_000, "{stats:?}");
    assert!(stats.points.hits > 10_000, "{stats:?}");
    cache.audit().unwrap();
}

/// Appended keys are held too: up to the next table, or to the end.
#[test]
fn a_range_is_loaded_with_what_is_appended_to_it() {
    for has_next in [true, false] {
        let cache = place().open();
        let store = cache.store();
        fill(store, 0);
        if has_next {
            put(store, &key(1, 7), b"row");
        }
        for _ in 0..3 {
            scan(store, 0, 20);
            cache.maintain();
        }
        assert_eq!(cache.stats().chosen, 1, "{:?}", cache.stats());
        for n in 200..300 {
            put(store, &key(0, n), b"appended");
        }
        let not_held = cache.stats().parts.not_held;
        let (from, to) = (key(0, 280), key(1, 0));
        let appended = rows(
            &store.snapshot(),
            Some(&from),
            Some(&to),
            Direction::Forward,
        );
        assert_eq!(
            (appended.len(), cache.stats().parts.not_held),
            (20, not_held)
        );
        assert!(!has_next || !is_held(&cache, 1));
        cache.audit().unwrap();
    }
}

/// A part of it is held by the program. The rest is loaded around that.
#[test]
fn what_point_reads_read_on_both_sides_of_what_is_held_is_loaded() {
    let cache = place().open();
    let store = cache.store();
    fill(store, 0);
    cache.load(Some(&key(0, 50)), Some(&key(0, 100))).unwrap();
    for _ in 0..4 {
        get(store, 0, 20);
        cache.maintain();
    }
    let stats = cache.stats();
    assert_eq!(stats.chosen, 2, "{stats:?}");
    let before = stats.points.not_held;
    get(store, 0, 1);
    let missed = cache.stats().points.not_held - before;
    assert!(missed <= 10, "{missed}");
    cache.audit().unwrap();
}

#[test]
fn what_is_written_more_than_it_is_read_is_dropped_and_not_loaded_again_at_once() {
    let cache = place().open();
    let store = cache.store();
    fill(store, 0);
    cache.load(Some(b"a"), Some(b"b")).unwrap();
    cache
        .begin_pinned_load(Some(b"p"), Some(b"q"))
        .unwrap()
        .finish()
        .unwrap();
    for look in 0..10 {
        assert_eq!(cache.stats().segments, 2, "{look}");
        for n in 0..100 {
            put(store, &key(0, n), b"new");
            put(store, &[b"p", &*n.to_be_bytes().to_vec()].concat(), b"new");
        }
        cache.maintain();
    }
    let stats = cache.stats();
    assert_eq!(
        (stats.segments, stats.dropped_not_worth),
        (1, 1),
        "{stats:?}"
    );
    for _ in 0..50 {
        scan(store, 0, 8);
        cache.maintain();
    }
    assert_eq!(cache.stats().chosen, 0);
    for _ in 0..15 {
        scan(store, 0, 8);
        cache.maintain();
    }
    assert!(is_held(&cache, 0));
}

#[test]
fn reads_keep_a_range_that_is_written_too() {
    let cache = place().open();
    let store = cache.store();
    fill(store, 0);
    cache.load(Some(b"a"), Some(b"b")).unwrap();
    for _ in 0..30 {
        for n in 0..100 {
            put(store, &key(0, n), b"new");
        }
        scan(store, 0, 10);
        cache.maintain();
    }
    assert!(is_held(&cache, 0), "{:?}", cache.stats());
}

#[test]
fn a_range_that_does_not_fit_is_not_loaded_again_and_again() {
    let mut place = place();
    // The rows take more, and not so much that it is seen before a load.
    place.cache.memory_limit = 8_000;
    let cache = place.open();
    fill(cache.store(), 0);
    for _ in 0..40 {
        scan(cache.store(), 0, 8);
        cache.maintain();
    }
    let stats = cache.stats();
    assert_eq!((stats.chosen, stats.loads), (1, 0), "{stats:?}");
    assert_eq!(stats.memory_used, 0, "{stats:?}");
}

/// Such scans would make it and all in it be barred.
#[test]
fn scans_of_more_than_fits_do_not_hide_a_hot_range_within() {
    let mut place = place();
    place.cache.memory_limit = 60_000;
    let cache = place.open();
    let store = cache.store();
    for table in 0..20 {
        fill(store, table);
    }
    for _ in 0..8 {
        let all = rows(&store.snapshot(), None, None, Direction::Backward);
        assert_eq!(all.len(), 20 * 200);
        scan(store, 7, 10);
        cache.maintain();
    }
    assert!(is_held(&cache, 7), "{:?}", cache.stats());
}

#[test]
fn a_hot_spot_that_moves_takes_the_place_of_what_is_not_read_any_more() {
    let mut place = place();
    // Room for one table.
    place.cache.memory_limit = 14_000;
    let cache = place.open();
    fill(cache.store(), 0);
    fill(cache.store(), 1);
    for table in [0, 1, 0] {
        for _ in 0..12 {
            scan(cache.store(), table, 10);
            cache.maintain();
        }
        let stats = cache.stats();
        assert!(is_held(&cache, table), "{table}: {stats:?}");
        assert!(stats.memory_used <= 14_000, "{stats:?}");
    }
    let stats = cache.stats();
    assert!(
        stats.dropped_less_worth >= 2 && stats.chosen <= 6,
        "{stats:?}"
    );
}

#[test]
fn what_is_held_is_remembered_over_a_restart_and_loaded_again() {
    let place = place();
    let cache = place.open();
    fill(cache.store(), 0);
    fill(cache.store(), 1);
    cache.load(Some(b"a"), Some(b"b")).unwrap();
    cache
        .begin_pinned_load(Some(b"b"), Some(b"c"))
        .unwrap()
        .finish()
        .unwrap();
    let held = cache.held();
    let bounds: Vec<_> = held
        .iter()
        .map(|h| (h.from.as_deref(), h.is_pinned))
        .collect();
    assert_eq!(bounds, [(Some(&b"a"[..]), false), (Some(b"b"), true)]);
    assert!(held.iter().all(|held| held.bytes > 0), "{held:?}");
    cache.close().unwrap();
    let remembered = Remembered::read(&*place.store.db.vfs, "/store".as_ref());
    assert_eq!(remembered.unwrap().held, held);
    let cache = place.open();
    assert!(!is_held(&cache, 0));
    cache.maintain();
    assert!(is_held(&cache, 0) && is_held(&cache, 1));
    assert_eq!(cache.stats().remembered, 2);
    cache.audit().unwrap();
    // The pinned one is pinned as before.
    cache.set_memory_limit(cache.stats().memory_used as usize - 1);
    assert!(!is_held(&cache, 0) && is_held(&cache, 1));
    cache.close().unwrap();
    let vfs: &dyn Vfs = &*place.store.db.vfs;
    let mut file = vfs.create("/store/IME-HOT-SET".as_ref()).unwrap();
    file.append(b"something else").unwrap();
    drop(file);
    let cache = place.open();
    cache.maintain();
    assert_eq!(cache.stats().remembered, 0);
    cache.close().unwrap();
}

#[test]
fn a_limit_that_goes_up_and_down_does_not_make_ranges_come_and_go() {
    let cache = place().open();
    fill(cache.store(), 0);
    fill(cache.store(), 1);
    let mut hits = 0;
    for look in 0..120 {
        // Room for two tables, and for none.
        cache.set_memory_limit([40_000, 6_000][look % 2]);
        scan(cache.store(), (look / 40 % 2) as u8, 10);
        cache.maintain();
        let stats = cache.stats();
        assert!(stats.memory_used <= stats.memory_limit, "{stats:?}");
        hits = stats.parts.hits;
    }
    let stats = cache.stats();
    assert!(stats.chosen <= 12, "{stats:?}");
    // Once the limit stays where it is, the hot spot is held again.
    cache.set_memory_limit(40_000);
    for _ in 0..70 {
        scan(cache.store(), 0, 10);
        cache.maintain();
    }
    assert!(is_held(&cache, 0), "{:?}", cache.stats());
    assert!(cache.stats().parts.hits > hits);
    cache.audit().unwrap();
}

/// More than is loaded between two looks. What was worth most is loaded first, and what is being
/// loaded when the cache is closed again is not forgotten.
#[test]
fn a_range_that_is_being_loaded_again_is_remembered_if_the_cache_is_closed() {
    let place = place();
    let cache = place.open();
    for table in 0..2 {
        for version in 0..220 {
            let mut transaction = cache.store().begin();
            for n in 0..200 {
                transaction.put(&key(table, n), &[version; 20]);
            }
            transaction.commit().unwrap();
        }
        let (from, to) = (key(table, 0), key(table + 1, 0));
        cache.load(Some(&from), Some(&to)).unwrap();
    }
    // Tables that touch are one range.
    cache.drop_range(Some(&key(0, 150)), None);
    cache.load(Some(&key(0, 0)), Some(&key(0, 150))).unwrap();
    cache.load(Some(&key(1, 0)), None).unwrap();
    for _ in 0..3 {
        scan(cache.store(), 1, 20);
        cache.maintain();
    }
    assert_eq!(cache.held().len(), 2);
    cache.close().unwrap();
    for _ in 0..2 {
        let cache = place.open();
        cache.maintain();
        let stats = cache.stats();
        assert_eq!((stats.segments, stats.loading), (0, 1), "{stats:?}");
        cache.close().unwrap();
    }
    let cache = place.open();
    cache.maintain();
    cache.maintain();
    assert!(is_held(&cache, 1) && !is_held(&cache, 0));
    cache.maintain();
    assert!(is_held(&cache, 0));
}

/// Its rows are written again and again, and few scans pass it.
#[test]
fn a_gap_that_cost_more_than_it_saved_is_not_loaded_again_at_once() {
    let cache = place().open();
    let store = cache.store();
    for look in 0..50_u32 {
        for n in 0..100 {
            put(store, &key(0, n), b"value");
        }
        let mut transaction = store.begin();
        for n in 0..100 {
            transaction.delete(&key(0, n));
        }
        transaction.commit().unwrap();
        assert_eq!(
            rows(&store.snapshot(), None, None, Direction::Forward).len(),
            0,
            "{look}"
        );
        cache.maintain();
    }
    let stats = cache.stats();
    assert_eq!((stats.gaps, stats.dropped_not_worth), (1, 1), "{stats:?}");
}

/// A part of it is loaded by the program, or as a gap, before its turn comes.
#[test]
fn the_rest_of_a_remembered_range_is_loaded_if_a_part_of_it_is_held() {
    let place = place();
    let cache = place.open();
    fill(cache.store(), 0);
    cache.load(Some(b"a"), Some(b"c")).unwrap();
    cache.close().unwrap();
    let cache = place.open();
    for (from, to) in [(0, 10), (50, 60)] {
        cache.load(Some(&key(0, from)), Some(&key(0, to))).unwrap();
    }
    cache.maintain();
    scan(cache.store(), 0, 1);
    let stats = cache.stats();
    assert_eq!(
        (stats.remembered, stats.parts.not_held),
        (3, 0),
        "{stats:?}"
    );
    let held = cache.held();
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(held[0].from.as_deref(), Some(&b"a"[..]));
    assert_eq!(held[0].to.as_deref(), Some(&b"c"[..]));
    cache.audit().unwrap();
}

/// It is a file beside the store's, and goes where these go.
#[test]
fn the_hot_set_of_a_store_that_was_moved_is_written_where_the_store_is() {
    let place = tempfile::tempdir().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    let options = CacheOptions {
        chooses: true,
        ..CacheOptions::default()
    };
    let cache = RangeCache::open(&here, &StoreOptions::default(), &options).unwrap();
    let mut transaction = cache.store().begin();
    transaction.put(b"a", b"1");
    transaction.commit().unwrap();
    cache.load(None, None).unwrap();
    std::fs::rename(&here, &there).unwrap();
    std::fs::create_dir(&here).unwrap();
    cache.close().unwrap();
    assert!(there.join("IME-HOT-SET").exists());
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0);
}
