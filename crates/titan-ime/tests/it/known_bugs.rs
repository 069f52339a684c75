//! Bugs that TiKV's in-memory engine had, each with the test that this cache does not have it. The
//! numbers are those of TiKV's issues and pull requests.
//!
//! - 17103: writes kept for a load that failed came back later:
//!   `golden_tests::remembered`
//! - 17104, 17149: a write that was under way when its range was dropped left ghosts:
//!   [`a_range_that_was_dropped_and_written_has_no_ghosts`]
//! - 17106: the count of memory became negative: [`memory_is_given_back_exactly_once`]
//! - 17060, 17083: what was written twice at one timestamp was lost when the older one was pruned:
//!   `versions::tests`, `hook::tests`
//! - 17114: two operations of a batch had one number:
//!   `hook::tests::the_last_of_two_versions_with_one_timestamp_is_found`
//! - 17148, 17182, 17644: ranges were deleted or taken in past the hook:
//!   `hook::tests::what_is_no_version_drops_the_segments_that_it_may_change`
//! - 17282, 17288: readers from before a split were forgotten:
//!   `golden_tests::splits_and_joins`
//! - 17487, 17493, 17548, 17550: a range that was loaded again was taken for its predecessor:
//!   [`a_scan_goes_on_when_its_range_is_dropped_and_loaded_again`]
//! - 17561: what was only read was never loaded: `golden_tests::hot_ranges`
//! - 17562: it took hours until hot ranges were held: `golden_tests::hot_ranges`
//! - 17592: scans that return nothing did not count: `golden_tests::hot_ranges`
//! - 17645, 17685: a load missed a batch that was under way:
//!   [`a_load_misses_no_commit_that_is_under_way`]
//! - 17667, 17788: after a split, or a round that was left out, nothing was pruned any more:
//!   [`what_was_split_is_pruned_on`]
//! - 18093, 18130: ranges were dropped because nothing was seen of their reads any more, and
//!   loaded again: `golden_tests::hot_ranges`
//! - 18098, 18134: reads went to the engine while ranges were split and joined:
//!   `loads::segments_that_grow_are_split_and_those_that_shrink_are_joined`
//! - 17782, 18193: everything was cold after a restart:
//!   `golden_tests::remembered`
//! - 19584: a range stayed in a state that nothing ended:
//!   `loads::a_step_of_a_load_that_panics_leaves_the_range_free`,
//!   `loads::a_load_that_has_failed_is_never_done`
//!
//! Others have no place here: 17767, 18008, 18012 and 18052 were about peers and epochs of a
//! cluster; 16817, 16947, 17838 and 18212 about costs, which `titan-bench ime` measures.

use std::sync::atomic::{AtomicBool, Ordering};

use titan_ime::RangeCache;
use titan_mvcc::Direction;

use super::place::{Place, delete, put, rows};

fn all(cache: &RangeCache) -> Vec<(Vec<u8>, Vec<u8>)> {
    rows(&cache.store().snapshot(), None, None, Direction::Forward)
}

/// The content of the engine alone.
fn in_engine(cache: &RangeCache) -> Vec<(Vec<u8>, Vec<u8>)> {
    let before = cache.stats();
    cache.drop_range(None, None);
    let found = all(cache);
    assert_eq!(cache.stats().parts.hits, before.parts.hits);
    found
}

#[test]
fn a_range_that_was_dropped_and_written_has_no_ghosts() {
    let cache = Place::new(2).open();
    let store = cache.store();
    for n in 0..50_u8 {
        put(store, &[n], b"old");
        cache.load(Some(&[0]), Some(&[25])).unwrap();
        put(store, &[n], b"held, or not");
        cache.drop_range(Some(&[0]), None);
        match n % 2 {
            0 => drop(delete(store, &[n])),
            _ => drop(put(store, &[n], b"not held")),
        }
        cache.load(Some(&[0]), Some(&[25])).unwrap();
        cache.audit().unwrap();
        cache.drop_range(None, None);
    }
    cache.load(None, None).unwrap();
    assert_eq!(all(&cache), in_engine(&cache));
}

#[test]
fn memory_is_given_back_exactly_once() {
    let mut place = Place::new(3);
    place.cache.segment_size = 3_000;
    let cache = place.open();
    let store = cache.store();
    for round in 0..10_u32 {
        drop(cache.begin_load(Some(b"x"), None).unwrap());
        let mut load = cache.begin_load(Some(b"x"), None).unwrap();
        load.step().unwrap();
        put(store, b"x1", &[1; 100]);
        drop(load);
        cache.load(None, None).unwrap();
        for n in 0..200_u32 {
            put(store, &(n * 7).to_be_bytes(), &[round as u8; 90]);
            if n % 3 == 0 {
                delete(store, &(n * 5).to_be_bytes());
            }
        }
        cache.maintain();
        let used = cache.stats().memory_used;
        assert!((1..1 << 20).contains(&used), "{used}");
        cache.drop_range(None, None);
        assert_eq!(cache.stats().memory_used, 0, "round {round}");
    }
}

#[test]
fn a_scan_goes_on_when_its_range_is_dropped_and_loaded_again() {
    let cache = Place::new(5).open();
    let store = cache.store();
    for n in 0..600_u32 {
        put(store, &n.to_be_bytes(), b"old");
    }
    for direction in [Direction::Forward, Direction::Backward] {
        cache.load(None, None).unwrap();
        let reader = store.snapshot();
        let before = rows(&reader, None, None, direction);
        let mut scan = reader.scan(None, None, direction).unwrap();
        let mut found = Vec::new();
        for row in scan.by_ref().take(100) {
            let row = row.unwrap();
            found.push((row.key, row.value.fetch().unwrap().to_vec()));
        }
        cache.drop_range(None, None);
        for n in (0..600_u32).step_by(2) {
            put(store, &n.to_be_bytes(), b"new");
        }
        cache.load(None, None).unwrap();
        delete(store, &300_u32.to_be_bytes());
        for row in scan {
            let row = row.unwrap();
            found.push((row.key, row.value.fetch().unwrap().to_vec()));
        }
        // `rows` has them in ascending order.
        found.sort();
        assert!(found == before, "{direction:?}");
        cache.audit().unwrap();
        cache.drop_range(None, None);
    }
}

#[test]
fn a_load_misses_no_commit_that_is_under_way() {
    let place = Place::new(8);
    let cache = place.open();
    let store = cache.store();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        for thread in 0..3_u32 {
            scope.spawn(move || {
                let mut n = 0_u32;
                while !is_over.load(Ordering::Relaxed) {
                    let mut transaction = store.begin();
                    let key = [thread.to_be_bytes(), (n % 50).to_be_bytes()].concat();
                    // In the row and in the index, or in none of them.
                    transaction.put(&[b"row", &*key].concat(), &n.to_be_bytes());
                    transaction.put(&[b"index", &*key].concat(), &n.to_be_bytes());
                    transaction.commit().unwrap();
                    n += 1;
                }
            });
        }
        for _ in 0..15 {
            cache.load(Some(b"index"), Some(b"indey")).unwrap();
            let snapshot = store.snapshot();
            let rows = |prefix: &[u8], to: &[u8]| {
                let rows = rows(&snapshot, Some(prefix), Some(to), Direction::Forward);
                let keys = rows.into_iter();
                keys.map(|(key, value)| (key[prefix.len()..].to_vec(), value))
                    .collect::<Vec<_>>()
            };
            assert_eq!(rows(b"row", b"rox"), rows(b"index", b"indey"));
            cache.audit().unwrap();
            cache.drop_range(None, None);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_was_split_is_pruned_on() {
    let mut place = Place::new(9);
    place.cache.segment_size = 3_000;
    let cache = place.open();
    let store = cache.store();
    cache.load(None, None).unwrap();
    let mut used = Vec::new();
    for round in 0..6_u32 {
        let reader = store.snapshot();
        for n in 0..200_u32 {
            put(store, &n.to_be_bytes(), &[round as u8; 60]);
        }
        cache.maintain();
        drop(reader);
        // The tails are folded once they are idle.
        cache.maintain();
        cache.maintain();
        used.push(cache.stats().memory_used);
    }
    assert!(cache.stats().splits > 0);
    let (first, last) = (used[1], used[5]);
    assert!(last < first + first / 10, "{used:?}");
}
