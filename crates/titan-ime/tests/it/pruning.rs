//! Old versions that go from memory, and readers that keep them.

use std::time::Duration;

use titan_mvcc::Direction;

use super::place::{Place, delete, put, rows};

/// A hold of the store keeps the store's versions. Memory keeps what readers need.
#[test]
fn holds_of_the_store_do_not_keep_versions_in_memory() {
    let cache = Place::new(1).open();
    let store = cache.store();
    cache.load(None, None).unwrap();
    put(store, b"key", b"first");
    let hold = store.hold("backup", store.now()).unwrap();
    let held = cache.stats().memory_used;
    for n in 0..1_000_u32 {
        put(store, b"key", &n.to_be_bytes());
    }
    cache.maintain();
    assert!(
        cache.stats().memory_used < held + 200,
        "{:?}",
        cache.stats()
    );
    // The store serves it still.
    let old = store.snapshot_at(hold.timestamp()).unwrap();
    assert_eq!(old.get(b"key").unwrap().as_deref(), Some(&b"first"[..]));
    assert_eq!(cache.stats().points.too_old, 1);
}

/// An old reader keeps the one version that it needs, and not all that came later.
#[test]
fn an_old_reader_is_served_and_does_not_keep_what_came_later() {
    let cache = Place::new(2).open();
    let store = cache.store();
    cache.load(None, None).unwrap();
    put(store, b"key", b"first");
    put(store, b"other", b"first");
    let old = store.snapshot();
    cache.maintain();
    let before = cache.stats().memory_used;
    for n in 0..1_000_u32 {
        put(store, b"key", &n.to_be_bytes());
        delete(store, b"other");
        if n % 10 == 0 {
            cache.maintain();
        }
    }
    cache.maintain();
    assert!(
        cache.stats().memory_used < before + 500,
        "{:?}",
        cache.stats()
    );
    let expected = [b"key", &b"other"[..]].map(|key| (key.to_vec(), b"first".to_vec()));
    assert_eq!(rows(&old, None, None, Direction::Forward), expected);
    assert_eq!(cache.stats().parts.hits, 1);
    drop(old);
    cache.maintain();
    assert_eq!(
        rows(&store.snapshot(), None, None, Direction::Forward).len(),
        1
    );
}

/// A scan that began before its rows were pruned goes on in the engine.
#[test]
fn a_reader_of_long_life_is_handed_over_to_the_engine() {
    let mut place = Place::new(3);
    place.cache.safe_lag = Duration::from_secs(3600);
    let cache = place.open();
    let store = cache.store();
    cache.load(None, None).unwrap();
    for n in 0..300_u32 {
        put(store, &n.to_be_bytes(), b"old");
    }
    let snapshot = store.snapshot();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut scan = snapshot.scan(None, None, direction).unwrap();
        let first: Vec<_> = scan.by_ref().take(5).map(|row| row.unwrap().key).collect();
        cache.drop_range(None, None);
        for n in 0..300_u32 {
            put(store, &n.to_be_bytes(), b"new");
        }
        let rest = scan.map(|row| row.unwrap()).map(|row| {
            assert_eq!(row.value.fetch().unwrap(), &b"old"[..]);
            row.key
        });
        let mut keys: Vec<_> = first.into_iter().chain(rest).collect();
        keys.sort();
        let expected: Vec<_> = (0..300_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        assert_eq!(keys, expected);
        cache.load(None, None).unwrap();
    }
}

/// A deletion goes together with what it deleted, also where nothing is written any more.
#[test]
fn deleted_rows_leave_nothing() {
    let cache = Place::new(4).open();
    let store = cache.store();
    cache.load(None, None).unwrap();
    let empty = cache.stats().memory_used;
    for n in 0..500_u32 {
        put(store, &n.to_be_bytes(), b"value");
    }
    let reader = store.snapshot();
    cache.maintain();
    for n in 0..500_u32 {
        delete(store, &n.to_be_bytes());
    }
    assert_eq!(rows(&reader, None, None, Direction::Forward).len(), 500);
    drop(reader);
    cache.maintain();
    assert!(
        cache.stats().memory_used <= empty + 200,
        "{:?}",
        cache.stats()
    );
    cache.audit().unwrap();
}

/// A timestamp that a load pruned is not served, also after a join with a neighbour that served it.
#[test]
fn what_a_load_pruned_is_read_from_the_engine_and_joining_does_not_change_that() {
    let cache = Place::new(5).open();
    let store = cache.store();
    cache.load(None, Some(b"b")).unwrap();
    let middle = put(store, b"key", b"first");
    put(store, b"a", b"first");
    put(store, b"key", b"second");
    cache.load(Some(b"b"), None).unwrap();
    for joins in [0, 1] {
        assert_eq!(cache.stats().joins, joins);
        let old = store.snapshot_at(middle).unwrap();
        assert_eq!(old.get(b"key").unwrap().as_deref(), Some(&b"first"[..]));
        let expected = [(b"key".to_vec(), b"first".to_vec())];
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(rows(&old, None, None, direction), expected);
        }
        drop(old);
        cache.maintain();
    }
}

/// Of the first reader the load knows, and keeps what it finds; the second one began after the load
/// had looked.
#[test]
fn a_reader_from_before_a_load_finds_what_it_found() {
    let cache = Place::new(6).open();
    let store = cache.store();
    put(store, b"gone", b"old");
    let middle = put(store, b"key", b"old");
    let known = store.snapshot();
    put(store, b"key", b"new");
    delete(store, b"gone");
    let mut load = cache.begin_load(None, None).unwrap();
    let unknown = store.snapshot_at(middle).unwrap();
    let hidden = store
        .snapshot_at(titan_mvcc::Timestamp(middle.0 - 1))
        .unwrap();
    while load.step().unwrap() == titan_ime::Progress::Going {}
    put(store, b"key", b"newest");
    cache.maintain();
    let expected = [b"gone", &b"key"[..]].map(|key| (key.to_vec(), b"old".to_vec()));
    for direction in [Direction::Forward, Direction::Backward] {
        let before = cache.stats().parts;
        assert_eq!(rows(&known, None, None, direction), expected);
        assert_eq!(cache.stats().parts.hits, before.hits + 1);
        assert_eq!(rows(&unknown, None, None, direction), expected);
        assert_eq!(rows(&hidden, None, None, direction), expected[..1]);
        assert!(cache.stats().parts.too_old > before.too_old);
        let newest = rows(&store.snapshot(), None, None, direction);
        assert_eq!(newest, [(b"key".to_vec(), b"newest".to_vec())]);
    }
}
