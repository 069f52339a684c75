//! Loads that meet writes, that are abandoned at each step, that do not fit.

use std::sync::Arc;

use titan_ime::{Dropped, Error, Progress};
use titan_mvcc::Direction;
use titan_testkit::sim::SimVfs;

use super::place::{Place, delete, put, rows};

const ROWS: u32 = 3_000;

fn fill(place: &Place) -> titan_ime::RangeCache {
    let cache = place.open();
    let mut transaction = cache.store().begin();
    for n in 0..ROWS {
        transaction.put(&n.to_be_bytes(), &[n as u8; 40]);
    }
    transaction.commit().unwrap();
    cache
}

/// Writes that come at any step of a load are in memory as they are in the engine.
#[test]
fn writes_that_come_while_a_range_is_loaded_are_not_lost() {
    for step_of_write in 0..8 {
        let place = Place::new(1);
        let cache = fill(&place);
        let store = cache.store();
        let mut load = cache.begin_load(None, None).unwrap();
        for step in 0.. {
            if step == step_of_write {
                put(store, &5_u32.to_be_bytes(), b"new");
                put(store, b"\xff new key", b"new");
                delete(store, &7_u32.to_be_bytes());
                put(store, &9_u32.to_be_bytes(), b"first");
                put(store, &9_u32.to_be_bytes(), &[9; 1000]);
            }
            if load.step().unwrap() == Progress::Done {
                assert!(step >= 7, "{step}");
                break;
            }
        }
        let before = cache.stats();
        let now = store.snapshot();
        assert_eq!(
            now.get(&5_u32.to_be_bytes()).unwrap().as_deref(),
            Some(&b"new"[..])
        );
        assert_eq!(
            now.get(b"\xff new key").unwrap().as_deref(),
            Some(&b"new"[..])
        );
        assert_eq!(now.get(&7_u32.to_be_bytes()).unwrap(), None);
        assert_eq!(
            now.get(&9_u32.to_be_bytes()).unwrap().as_deref(),
            Some(&[9; 1000][..])
        );
        assert_eq!(
            rows(&now, None, None, Direction::Forward).len(),
            ROWS as usize
        );
        let after = cache.stats();
        assert_eq!(after.points.hits - before.points.hits, 2);
        assert_eq!(after.points.stored - before.points.stored, 1);
        assert_eq!(after.points.hits_nothing - before.points.hits_nothing, 1);
        assert_eq!(after.parts.not_held, before.parts.not_held);
        cache.audit().unwrap();
    }
}

/// However many come between two of its steps.
#[test]
fn a_load_ends_while_writes_go_on() {
    let cache = fill(&Place::new(1));
    let mut load = cache.begin_load(None, None).unwrap();
    let mut steps = 0;
    while load.step().unwrap() == Progress::Going {
        steps += 1;
        assert!(steps < 50, "the load does not end");
        let mut transaction = cache.store().begin();
        for n in 0..100_u32 {
            transaction.put(&n.to_be_bytes(), &[steps; 40]);
        }
        transaction.commit().unwrap();
        // The writes are applied.
        cache.stats();
    }
    let found = cache.store().snapshot().get(&7_u32.to_be_bytes()).unwrap();
    assert_eq!(found.as_deref(), Some(&[steps; 40][..]));
    assert_eq!(cache.stats().points.hits, 1);
    cache.audit().unwrap();
}

#[test]
fn a_load_can_be_abandoned_after_each_step_and_begun_again() {
    let place = Place::new(2);
    let cache = fill(&place);
    for steps in 0..8 {
        let mut load = cache.begin_load(None, None).unwrap();
        for _ in 0..steps {
            assert_eq!(load.step().unwrap(), Progress::Going);
        }
        put(cache.store(), b"while it is loaded", b"1");
        drop(load);
        let stats = cache.stats();
        assert_eq!(
            (stats.segments, stats.loading, stats.memory_used),
            (0, 0, 0),
            "{steps}"
        );
        // What an abandoned load had kept is not in the next one.
        put(cache.store(), b"while it is loaded", b"2");
    }
    assert_eq!(cache.stats().dropped_load_ended, 8);
    cache.load(None, None).unwrap();
    let found = cache.store().snapshot().get(b"while it is loaded").unwrap();
    assert_eq!(found.as_deref(), Some(&b"2"[..]));
    assert!(cache.audit().unwrap().keys > 0);
}

#[test]
fn a_segment_that_is_dropped_ends_its_load() {
    let mut place = Place::new(3);
    place.cache.segment_size = 1 << 20;
    let cache = fill(&place);
    for steps in 0..8 {
        let mut load = cache.begin_load(None, None).unwrap();
        for _ in 0..steps {
            load.step().unwrap();
        }
        assert_eq!(cache.drop_range(Some(b"a"), None), 1);
        // The range is free at once, and another load does not disturb.
        cache.load(None, None).unwrap();
        let gone = load.step().unwrap_err();
        assert!(
            matches!(
                gone,
                Error::Abandoned {
                    why: Dropped::Asked
                }
            ),
            "{gone}"
        );
        assert_eq!(cache.stats().segments, 1);
        cache.drop_range(None, None);
    }
}

/// The store tells the hook of a range that ends. No copy of it stays.
#[test]
fn a_range_that_the_store_destroys_is_dropped() {
    let mut place = Place::new(14);
    place.cache.segment_size = 4 << 10;
    let cache = fill(&place);
    let store = cache.store();
    let (from, to) = (1_000_u32.to_be_bytes(), 2_000_u32.to_be_bytes());
    let destroy = || store.percolator().destroy_range(&from, Some(&to)).unwrap();
    cache.load(None, None).unwrap();
    let before = store.snapshot();
    destroy();
    for snapshot in [&before, &store.snapshot()] {
        for direction in [Direction::Forward, Direction::Backward] {
            let found = rows(snapshot, None, None, direction);
            assert_eq!(found.len(), ROWS as usize - 1_000);
        }
        assert_eq!(snapshot.get(&from).unwrap(), None);
        assert!(snapshot.get(&to).unwrap().is_some());
    }
    assert!(cache.stats().dropped_bypassed > 0, "{:?}", cache.stats());
    cache.audit().unwrap();
    put(store, &from, b"new");
    cache.drop_range(None, None);
    let mut load = cache.begin_load(None, None).unwrap();
    load.step().unwrap();
    destroy();
    let ended = load.finish();
    cache.audit().unwrap();
    let found = store.snapshot().get(&from).unwrap();
    assert_eq!(found, None, "{ended:?}");
}

#[test]
fn a_load_that_does_not_fit_holds_nothing_and_writes_go_on() {
    let mut place = Place::new(4);
    for limit in [0, 1, 10_000, 100_000] {
        place.cache.memory_limit = limit;
        let fresh = Place::new(4);
        place.store = fresh.store;
        let cache = fill(&place);
        let refused = cache.load(None, None).unwrap_err();
        assert!(
            matches!(refused, Error::MemoryLimit { .. }),
            "{limit}: {refused}"
        );
        put(cache.store(), b"key", b"value");
        let stats = cache.stats();
        assert_eq!(
            (stats.segments, stats.loading, stats.memory_used),
            (0, 0, 0),
            "{limit}"
        );
        let found = cache.store().snapshot().get(b"key").unwrap();
        assert_eq!(found.as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_write_over_the_limit_drops_segments_and_pinned_ones_last() {
    let mut place = Place::new(5);
    place.cache.memory_limit = 400_000;
    place.cache.segment_size = 1 << 20;
    let cache = fill(&place);
    let bounds = [0_u32, 1_000, 2_000].map(|n| n.to_be_bytes());
    cache
        .begin_pinned_load(Some(&bounds[0]), Some(&bounds[1]))
        .unwrap()
        .finish()
        .unwrap();
    cache.load(Some(&bounds[1]), Some(&bounds[2])).unwrap();
    cache.load(Some(&bounds[2]), None).unwrap();
    assert_eq!(cache.stats().segments, 3);
    for n in 0..1_000_u32 {
        let mut key = n.to_be_bytes().to_vec();
        key.push(1);
        put(cache.store(), &key, &[1; 200]);
        let stats = cache.stats();
        assert!(stats.memory_used <= stats.memory_limit, "{stats:?}");
    }
    let stats = cache.stats();
    assert!((1..3).contains(&stats.segments), "{stats:?}");
    let before = stats.points.hits;
    cache.store().snapshot().get(&bounds[0]).unwrap();
    assert_eq!(cache.stats().points.hits, before + 1);
    cache.audit().unwrap();
}

#[test]
fn a_load_takes_over_what_is_held_and_loads_the_rest() {
    // The rows from 1,000 to 1,999 are held.
    for (from, to, more) in [
        (None, None, 2),
        (None, Some(1_500_u32), 1),
        (Some(1_500_u32), None, 1),
        (Some(1_200), Some(1_700), 0),
        (Some(1_000), Some(2_000), 0),
        (Some(500), Some(1_001), 1),
    ] {
        let (from, to) = (from.map(u32::to_be_bytes), to.map(u32::to_be_bytes));
        let (from, to) = (from.as_ref().map(|k| &k[..]), to.as_ref().map(|k| &k[..]));
        let place = Place::new(6);
        let cache = fill(&place);
        let held = [1_000_u32, 2_000].map(u32::to_be_bytes);
        cache.load(Some(&held[0]), Some(&held[1])).unwrap();
        // Twice: of the second one nothing is left to load.
        for _ in 0..2 {
            cache.load(from, to).unwrap();
            assert_eq!(cache.stats().loads, 1 + more, "{from:?} to {to:?}");
        }
        let snapshot = cache.store().snapshot();
        for direction in [Direction::Forward, Direction::Backward] {
            let before = cache.stats().parts.not_held;
            let found = rows(&snapshot, from, to, direction);
            assert_eq!(cache.stats().parts.not_held, before, "{from:?} to {to:?}");
            cache.drop_range(None, None);
            assert_eq!(rows(&snapshot, from, to, direction), found);
            cache.load(from, to).unwrap();
        }
        cache.audit().unwrap();
    }
}

#[test]
fn ranges_that_the_program_is_loading_or_that_are_empty_are_refused() {
    let place = Place::new(6);
    let cache = fill(&place);
    let mut load = cache.begin_load(Some(b"b"), Some(b"d")).unwrap();
    for _ in 0..2 {
        let refused = cache.begin_load(None, Some(b"c")).unwrap_err();
        assert!(matches!(refused, Error::Overlaps), "{refused}");
        load.step().unwrap();
    }
    load.finish().unwrap();
    let refused = cache.begin_load(Some(b"x"), Some(b"x")).unwrap_err();
    assert!(matches!(refused, Error::EmptyRange), "{refused}");
    cache
        .begin_load(None, Some(b"c"))
        .unwrap()
        .finish()
        .unwrap();
}

#[test]
fn what_is_held_already_is_pinned_by_a_pinned_load() {
    let place = Place::new(6);
    let cache = fill(&place);
    cache.load(Some(b"b"), Some(b"c")).unwrap();
    assert!(!cache.held()[0].is_pinned);
    let load = cache.begin_pinned_load(Some(b"a"), Some(b"d")).unwrap();
    load.finish().unwrap();
    let held = cache.held();
    assert!(held.iter().all(|range| range.is_pinned), "{held:?}");
    cache.maintain();
    assert!(cache.held().iter().all(|range| range.is_pinned));
}

/// A program that loads its ranges whenever it starts, with a cache that remembers them.
#[test]
fn a_range_is_loaded_at_each_start_whatever_the_cache_has_remembered() {
    let mut place = Place::new(16);
    place.cache.chooses = true;
    for start in 0..4 {
        let cache = place.open();
        if start == 0 {
            for n in 0..3_000_u32 {
                put(
                    cache.store(),
                    &[&b"o"[..], &n.to_be_bytes()].concat(),
                    b"row",
                );
            }
        }
        // The cache has not begun to load what it remembers, or has, or is done.
        for _ in 0..start {
            cache.maintain();
        }
        let load = cache.begin_pinned_load(Some(b"o"), Some(b"p")).unwrap();
        load.finish().unwrap();
        cache.load(Some(b"o"), Some(b"p")).unwrap();
        cache.maintain();
        let before = cache.stats().parts.not_held;
        let found = rows(
            &cache.store().snapshot(),
            Some(b"o"),
            Some(b"p"),
            Direction::Forward,
        );
        assert_eq!((found.len(), cache.stats().parts.not_held), (3_000, before));
        assert_eq!(cache.stats().loading, 0);
        cache.audit().unwrap();
        cache.close().unwrap();
    }
}

/// A load of the cache itself gives way, wherever it is.
#[test]
fn a_load_that_the_cache_has_begun_gives_way_to_one_of_the_program() {
    let mut place = Place::new(17);
    place.cache.chooses = true;
    let cache = place.open();
    let mut transaction = cache.store().begin();
    for n in 0..60_000_u32 {
        transaction.put(&[&b"o"[..], &n.to_be_bytes()].concat(), b"row");
    }
    transaction.commit().unwrap();
    cache.load(Some(b"o"), Some(b"p")).unwrap();
    cache.close().unwrap();
    let cache = place.open();
    cache.maintain();
    // The rest of it takes some more looks.
    assert_eq!((cache.stats().loading, cache.stats().loads), (1, 0));
    cache.load(Some(b"o"), Some(b"oz")).unwrap();
    assert_eq!((cache.stats().loading, cache.stats().loads), (0, 1));
    for _ in 0..5 {
        cache.maintain();
    }
    cache.audit().unwrap();
}

/// For any content of a range and any limit.
#[test]
fn no_step_of_a_load_exceeds_the_limit() {
    let place = Place::new(18);
    let cache = place.open();
    let mut rng = fastrand::Rng::with_seed(18);
    for n in 0..4_000_u32 {
        let key = [&n.to_be_bytes()[..], &vec![b'k'; rng.usize(..60)]].concat();
        put(cache.store(), &key, &vec![b'v'; rng.usize(..256)]);
        if n % 100 == 0 {
            // A row with many versions, all of which a reader may find.
            for version in 0..50 {
                put(cache.store(), &key, &[version; 200]);
            }
        }
    }
    cache.set_memory_limit(usize::MAX / 4);
    cache.load(None, None).unwrap();
    let whole = cache.stats().memory_used as usize;
    cache.drop_range(None, None);
    let mut done = 0;
    for part in 1..40 {
        let limit = whole * part / 32;
        cache.set_memory_limit(limit);
        let mut load = cache.begin_load(None, None).unwrap();
        let ended = loop {
            let stepped = load.step();
            let used = cache.stats().memory_used as usize;
            assert!(used <= limit, "{used} of {limit}");
            match stepped {
                Ok(Progress::Going) => {}
                ended => break ended,
            }
        };
        match ended {
            Err(Error::MemoryLimit { used, .. }) => assert!(used <= limit && part < 36, "{part}"),
            ended => {
                assert!(ended.is_ok(), "{ended:?}");
                done += 1;
            }
        }
        drop(load);
        cache.drop_range(None, None);
        assert_eq!(cache.stats().memory_used, 0);
    }
    assert!(done > 3, "{done}");
}

#[test]
fn segments_that_grow_are_split_and_those_that_shrink_are_joined() {
    let mut place = Place::new(7);
    place.cache.segment_size = 20_000;
    let cache = place.open();
    let store = cache.store();
    cache.load(None, None).unwrap();
    let reader = store.snapshot();
    for from in (0..2_000_u32).step_by(100) {
        let mut transaction = store.begin();
        for n in from..from + 100 {
            transaction.put(&n.to_be_bytes(), &[n as u8; 80]);
        }
        transaction.commit().unwrap();
        cache.maintain();
    }
    let stats = cache.stats();
    assert!(stats.splits >= 4 && stats.segments >= 5, "{stats:?}");
    let full = store.snapshot();
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(rows(&full, None, None, direction).len(), 2_000);
        assert_eq!(rows(&reader, None, None, direction).len(), 0);
    }
    cache.audit().unwrap();
    drop((reader, full));
    for n in 0..2_000_u32 {
        delete(store, &n.to_be_bytes());
    }
    cache.maintain();
    let stats = cache.stats();
    assert_eq!(stats.segments, 1, "{stats:?}");
    assert!(stats.joins >= 4 && stats.memory_used < 1_000, "{stats:?}");
    put(store, b"key", b"value");
    assert_eq!(
        rows(&store.snapshot(), None, None, Direction::Backward).len(),
        1
    );
    assert_eq!(cache.stats().parts.not_held, 0);
    cache.audit().unwrap();
}

/// Nothing is held after a step that failed, so the next one does not say that something is.
#[test]
fn a_load_that_has_failed_is_never_done() {
    let mut place = Place::new(8);
    place.cache.segment_size = 1 << 20;
    let cache = fill(&place);
    for steps in 0..8 {
        let mut load = cache.begin_load(None, None).unwrap();
        for _ in 0..steps {
            assert_eq!(load.step().unwrap(), Progress::Going);
        }
        cache.set_memory_limit(0);
        assert!(load.step().is_err());
        cache.set_memory_limit(usize::MAX);
        for _ in 0..2 {
            let gone = load.step().unwrap_err();
            assert!(matches!(gone, Error::Abandoned { .. }), "{steps}: {gone}");
        }
        assert_eq!((cache.stats().segments, cache.stats().loading), (0, 0));
    }
    // One that is done stays so, even if the range is dropped.
    let mut load = cache.begin_load(None, None).unwrap();
    while load.step().unwrap() == Progress::Going {}
    assert_eq!(load.step().unwrap(), Progress::Done);
    cache.set_memory_limit(0);
    assert_eq!(load.step().unwrap(), Progress::Done);
}

#[test]
fn ranges_without_rows_do_not_stand_in_for_the_memory_that_is_to_be_freed() {
    let place = Place::new(9);
    let cache = fill(&place);
    // The oldest ones, so that they go first.
    for n in 0..5_u8 {
        cache.load(Some(&[0xf0 + n]), Some(&[0xf1 + n])).unwrap();
    }
    cache.load(None, Some(&ROWS.to_be_bytes())).unwrap();
    let used = cache.stats().memory_used as usize;
    for limit in [used - 1, used / 2, 0] {
        cache.set_memory_limit(limit);
        let stats = cache.stats();
        assert!(stats.memory_used <= limit as u64, "{stats:?}");
    }
    assert_eq!(cache.stats().segments, 0);
}

#[test]
fn a_step_of_a_load_that_panics_leaves_the_range_free() {
    let place = Place::new(10);
    let vfs = SimVfs::new();
    let mut store = place.store.clone();
    store.db.vfs = Arc::new(vfs.clone());
    store.db.block_cache_size = 0;
    let cache = titan_ime::RangeCache::open("/store", &store, &place.cache).unwrap();
    put(cache.store(), b"key", b"value");
    let versions = cache.store().db().column_family("versions").unwrap();
    versions.flush().unwrap();
    let mut load = cache.begin_load(None, None).unwrap();
    vfs.set_hook(|call| panic!("as a test asks: {call:?}"));
    let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| load.step()));
    vfs.clear_hook();
    assert!(stepped.is_err(), "the step read nothing");
    drop(load);
    let stats = cache.stats();
    assert_eq!((stats.loading, stats.memory_used), (0, 0), "{stats:?}");
    cache.load(None, None).unwrap();
    let found = cache.store().snapshot().get(b"key").unwrap();
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
}

/// Segments of any size.
#[test]
fn segments_may_be_as_large_or_as_small_as_there_are_numbers() {
    for segment_size in [0, 1, usize::MAX / 2 + 1, usize::MAX] {
        let mut place = Place::new(11);
        place.cache.segment_size = segment_size;
        let cache = fill(&place);
        cache.load(None, None).unwrap();
        for n in 0..200_u32 {
            put(cache.store(), &(n * 7).to_be_bytes(), &[1; 100]);
        }
        cache.maintain();
        let stats = cache.stats();
        assert!(
            !cache.is_off() && stats.segments > 0,
            "{segment_size}: {stats:?}"
        );
        assert_eq!(stats.segments == 1, segment_size > 1, "{stats:?}");
        cache.audit().unwrap();
    }
}

/// Also if the load is not stepped any more. What others hold stays.
#[test]
fn a_load_goes_first_if_memory_is_short_and_its_memory_goes_with_it() {
    let place = Place::new(12);
    let cache = fill(&place);
    cache.load(None, Some(&1_000_u32.to_be_bytes())).unwrap();
    let held = cache.stats().memory_used;
    let mut load = cache
        .begin_load(Some(&1_000_u32.to_be_bytes()), None)
        .unwrap();
    for _ in 0..4 {
        assert_eq!(load.step().unwrap(), Progress::Going);
    }
    for n in 2_000..2_050_u32 {
        put(cache.store(), &n.to_be_bytes(), &[1; 100]);
    }
    assert!(cache.stats().memory_used > held + 50_000);
    cache.set_memory_limit(held as usize + 1_000);
    let stats = cache.stats();
    assert_eq!(
        (stats.loading, stats.dropped_memory_limit),
        (0, 1),
        "{stats:?}"
    );
    // The load has its segment still, without content.
    assert!(
        stats.segments > 0 && stats.memory_used < held + 400,
        "{stats:?}"
    );
    let gone = load.step().unwrap_err();
    assert!(
        matches!(
            gone,
            Error::Abandoned {
                why: Dropped::MemoryLimit
            }
        ),
        "{gone}"
    );
}
