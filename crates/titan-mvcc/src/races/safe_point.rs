//! A thread is stopped while it takes a snapshot, moves the safe point, or looks for conflicts.

use titan_testkit::gates::race;

use super::{Raced, TTL, get, is_before_safe_point, prewrite, put};
use crate::{PessimisticLock, Result, Store, Timestamp, Wait};

#[test]
fn the_safe_point_does_not_pass_a_snapshot_that_is_being_taken() {
    race(|gates| {
        let raced = Raced::new(gates);
        let first = put(&raced.store, b"a", b"1");
        let commit = gates.stop_at("commit: has its timestamp");
        let writer = raced.spawn("writer", |store| put(store, b"a", b"2"));
        commit.reached();
        let stop = gates.stop_at("hold: has its timestamp");
        let reader = raced.spawn("reader", |store| store.snapshot());
        stop.reached();
        commit.open();
        gates.first_of(&["hold: to end"]);
        let second = raced.store.now();
        assert!(second > first);
        // A safe point that moved now could pass the reader's timestamp.
        assert!(raced.store.core().safe_point.is_locked());
        let mover = raced.spawn("mover", move |store| store.advance_safe_point(second));
        stop.open();
        let snapshot = reader.join();
        assert_eq!(snapshot.timestamp(), first);
        assert_eq!(writer.join(), second);
        let moved = mover.join().unwrap();
        raced.drop_old_versions();
        // The reader has come first.
        assert_eq!(moved, first);
        assert_eq!(get(&snapshot, b"a").as_deref(), Some("1"));
        drop(snapshot);
        assert_eq!(raced.store.advance_safe_point(second).unwrap(), second);
        raced.drop_old_versions();
        assert!(is_before_safe_point(&raced.store.snapshot_at(first)));
        raced.finish();
    });
}

/// Reads before it are refused at once, and versions are dropped only once it is durable: a kill
/// leaves the old one and all versions.
#[test]
fn nothing_is_dropped_while_a_safe_point_is_not_stored() {
    race(|gates| {
        let raced = Raced::new(gates);
        let first = put(&raced.store, b"a", b"1");
        let second = put(&raced.store, b"a", b"2");
        let stop = gates.stop_at("safe point: moved, not stored");
        let mover = raced.spawn("mover", move |store| store.advance_safe_point(second));
        stop.reached();
        assert!(is_before_safe_point(&raced.store.snapshot_at(first)));
        raced.drop_old_versions();
        let killed = raced.after_a_kill();
        let old = killed.snapshot_at(first).unwrap();
        assert_eq!(get(&old, b"a").as_deref(), Some("1"));
        stop.open();
        assert_eq!(mover.join().unwrap(), second);
        raced.drop_old_versions();
        let killed = raced.after_a_kill();
        assert!(is_before_safe_point(&killed.snapshot_at(first)));
        assert_eq!(get(&killed.snapshot(), b"a").as_deref(), Some("2"));
        raced.finish();
    });
}

/// A transaction begins, another one deletes its key, and the safe point passes the deletion: no
/// version is left that would show the conflict.
#[test]
fn a_conflict_whose_versions_are_dropped_meanwhile_is_not_overlooked() {
    type Lock = fn(&Store, Timestamp) -> Result<()>;
    let ways: [(&str, Lock); 2] = [
        ("prewrite: to be checked", |store, start| {
            prewrite(store, b"a", b"mine", start).map(drop)
        }),
        ("lock: to be checked", |store, start| {
            let request = PessimisticLock {
                primary: b"a",
                start,
                for_update: start,
                since: start,
                ttl: TTL,
                wait: Wait::No,
                return_values: false,
            };
            let calls = store.percolator();
            calls.pessimistic_lock(&[b"a"], &request).map(drop)
        }),
    ];
    for (gate, lock) in ways {
        race(move |gates| {
            let raced = Raced::new(gates);
            put(&raced.store, b"a", b"1");
            let start = raced.next();
            let mut deletion = raced.store.begin();
            deletion.delete(b"a");
            deletion.commit().unwrap();
            let stop = gates.stop_at(gate);
            let late = raced.spawn("late", move |store| lock(store, start));
            stop.reached();
            let now = raced.store.now();
            assert_eq!(raced.store.advance_safe_point(now).unwrap(), now);
            raced.drop_old_versions();
            stop.open();
            let refused = late.join();
            assert!(is_before_safe_point(&refused), "{gate}: {refused:?}");
            raced.finish();
        });
    }
}
