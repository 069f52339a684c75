//! A thread that takes a snapshot is stopped after it has chosen the sequence number. A job that
//! lists the snapshots now must wait for it, or must have only inputs that the snapshot sees whole.

use super::store::{Store, abc, assert_reads, at, compact, contents, write};
use titan_testkit::gates::race;

#[test]
fn what_a_snapshot_sees_is_not_dropped_while_it_is_taken() {
    race(|gates| {
        let store = Store::open(gates);
        write(&store.db, &abc("1"));
        store.db.flush().unwrap();
        let stop = gates.stop_at("snapshot: number chosen");
        let taking = store.spawn("snapshot", |db| db.snapshot());
        stop.reached();
        let overwrite = || {
            write(&store.db, &contents([("a", "2"), ("b", "2")]));
            store.db.delete(b"c").unwrap();
            compact(&store.db).unwrap();
        };
        // If the list is locked, jobs wait for the snapshot, so they come after it.
        let jobs_wait = store.db.core.shared.pins.snapshots.is_locked();
        if !jobs_wait {
            overwrite();
        }
        stop.open();
        let snapshot = taking.join();
        if jobs_wait {
            overwrite();
        }
        assert_reads(&store.db, &at(&snapshot), &abc("1"));
        drop(snapshot);
        store.finish();
    });
}

/// The other order: the job has listed the snapshots, and one is taken before its output is there.
#[test]
fn what_a_snapshot_sees_is_not_dropped_by_a_job_that_does_not_know_it() {
    for gate in [
        "flush: snapshots listed",
        "flush: to be installed",
        "compaction: snapshots listed",
        "compaction: written",
    ] {
        race(move |gates| {
            let store = Store::open(gates);
            write(&store.db, &abc("1"));
            store.db.flush().unwrap();
            write(&store.db, &contents([("a", "2"), ("b", "2")]));
            let before = contents([("a", "2"), ("b", "2"), ("c", "1")]);
            let stop = gates.stop_at(gate);
            let job = store.spawn("job", |db| compact(db));
            stop.reached();
            let snapshot = store.db.snapshot();
            write(&store.db, &contents([("a", "3"), ("b", "3")]));
            store.db.delete(b"c").unwrap();
            stop.open();
            job.join().unwrap();
            assert_reads(&store.db, &at(&snapshot), &before);
            compact(&store.db).unwrap();
            assert_reads(&store.db, &at(&snapshot), &before);
            drop(snapshot);
            let after = store.finish();
            assert_eq!(after["default"], contents([("a", "3"), ("b", "3")]));
        });
    }
}
