//! Transactions in two phases: memory has versions alone, and every read looks at the locks first.

use titan_mvcc::Direction;

use super::place::{Place, delete, put, rows};

/// The secondary key of a transaction that has committed is still locked: the version is older than
/// the readers that come, and not there yet. Large values stay in the engine.
#[test]
fn a_version_that_comes_late_is_found_in_a_range_that_is_held() {
    for new in [&b"new"[..], &[7; 1_000]] {
        comes_late(new);
    }
}

fn comes_late(new: &[u8]) {
    for direction in [Direction::Forward, Direction::Backward] {
        for is_scan in [false, true] {
            let cache = Place::new(1).open();
            let store = cache.store();
            for key in [b"a", b"b", b"c", b"d"] {
                put(store, key, b"old");
            }
            cache.load(None, None).unwrap();
            let before = store.snapshot();
            let mut transaction = store.begin();
            transaction.put(b"a", new);
            transaction.put(b"b", new);
            transaction.delete(b"c");
            let prewritten = transaction.prewrite().unwrap();
            assert_eq!(before.get(b"b").unwrap().as_deref(), Some(&b"old"[..]));
            // The process stops before the second phase has reached the secondary keys.
            drop(prewritten.commit_primary().unwrap());
            let after = store.snapshot();
            let expected = [(b"a", new), (b"b", new), (b"d", b"old")];
            if is_scan {
                let expected = expected.map(|(key, value)| (key.to_vec(), value.to_vec()));
                assert_eq!(rows(&after, None, None, direction), expected);
            } else {
                for (key, value) in expected {
                    assert_eq!(after.get(key).unwrap().as_deref(), Some(value));
                }
                assert_eq!(after.get(b"c").unwrap(), None);
            }
            assert_eq!(rows(&before, None, None, direction).len(), 4);
            let stats = cache.stats();
            assert_eq!(
                (stats.segments, stats.points.not_held, stats.parts.not_held),
                (1, 0, 0)
            );
            cache.audit().unwrap();
        }
    }
}

/// Records of transactions that were rolled back are written and deleted; memory has none of them.
#[test]
fn rolled_back_transactions_change_nothing_in_memory() {
    let mut place = Place::new(2);
    // An async commit has committed when all keys are locked.
    place.store.transactions.async_commit = false;
    let cache = place.open();
    let store = cache.store();
    put(store, b"key", b"value");
    cache.load(None, None).unwrap();
    let held = cache.stats().memory_used;
    for _ in 0..10 {
        let mut transaction = store.begin();
        transaction.put(b"key", b"never");
        transaction.put(b"other", b"never");
        transaction.prewrite().unwrap().rollback();
    }
    let stats = cache.stats();
    assert_eq!((stats.segments, stats.memory_used), (1, held), "{stats:?}");
    let found = store.snapshot().get(b"key").unwrap();
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
    delete(store, b"key");
    assert_eq!(store.snapshot().get(b"key").unwrap(), None);
    cache.audit().unwrap();
}
