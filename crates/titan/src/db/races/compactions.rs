//! A compaction is stopped between listing the snapshots and installing its tables. Meanwhile the
//! family is dropped and created again, newer tables are flushed, garbage is collected, the
//! database is closed or killed.

use super::jobs::RacedJob;
use super::store::{
    Contents, Store, abc, all, assert_reads, collect, compact, contents, ended_by_closing, write,
};
use crate::{CollectGarbageOptions, ColumnFamily, ReadOptions};
use titan_testkit::gates::{Gates, race};

/// The gates of a compaction at which it has no lock, in their order.
const UNLOCKED: [&str; 2] = ["compaction: snapshots listed", "compaction: written"];

const COMPACTION: RacedJob = RacedJob {
    name: "compaction",
    unlocked: UNLOCKED,
    with_family,
    run: compact,
};

fn before() -> Contents {
    contents([("a", "2"), ("b", "2"), ("c", "0")])
}

/// A family with tables at level 0 that overwrite each other.
fn with_family(gates: &Gates) -> (Store, ColumnFamily) {
    let store = Store::open(gates);
    let family = store.create("f");
    write(&family, &abc("0"));
    family.flush().unwrap();
    for value in ["1", "2"] {
        write(&family, &contents([("a", value), ("b", value)]));
        family.flush().unwrap();
    }
    (store, family)
}

#[test]
fn the_family_may_be_dropped_and_created_again_before_the_tables_are_installed() {
    COMPACTION.may_lose_its_family_before_it_installs();
}

#[test]
fn the_family_may_be_dropped_while_the_tables_are_installed() {
    COMPACTION.may_lose_its_family_while_it_installs();
}

/// An iterator and a lazy value that were created before read the files that the compaction
/// replaces.
#[test]
fn readers_and_a_killed_process_lose_nothing_at_any_step() {
    COMPACTION.loses_nothing_at_any_step(before);
}

#[test]
fn closing_waits_for_a_compaction_on_the_thread_of_a_user() {
    COMPACTION.is_waited_for_by_closing(before);
}

/// The job ends after the thread that closes has looked, and before it waits.
#[test]
fn closing_hears_of_the_end_of_a_job_for_which_it_is_about_to_wait() {
    race(|gates| {
        let (store, family) = with_family(gates);
        let stop = gates.stop_at("compaction: written");
        let waits = gates.stop_at("jobs: waited for");
        let compaction = store.spawn_with("compaction", &family, compact);
        stop.reached();
        let close = store.spawn("close", |db| db.close());
        waits.reached();
        stop.open();
        assert!(ended_by_closing(&compaction.join()));
        waits.open();
        close.join().unwrap();
        drop(family);
        let expected = all([("default", Contents::new()), ("f", before())]);
        store.finish_closed(&expected);
    });
}

#[test]
fn tables_that_are_flushed_meanwhile_stay_newer() {
    for gate in UNLOCKED {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let compaction = store.spawn_with("compaction", &family, compact);
            stop.reached();
            write(&family, &contents([("a", "3")]));
            family.delete(b"c").unwrap();
            family.flush().unwrap();
            family.delete_range(b"b", b"c").unwrap();
            family.flush().unwrap();
            let expected = contents([("a", "3")]);
            assert_reads(&family, &ReadOptions::default(), &expected);
            stop.open();
            compaction.join().unwrap();
            assert_reads(&family, &ReadOptions::default(), &expected);
            compact(&family).unwrap();
            drop(family);
            let expected = all([("default", Contents::new()), ("f", expected)]);
            assert_eq!(store.finish(), expected);
        });
    }
}

/// The pointers that the compaction copies name logical files, wherever their records are.
#[test]
fn values_may_be_relocated_meanwhile() {
    for gate in UNLOCKED {
        race(move |gates| {
            let (store, family) = with_family(gates);
            compact(&family).unwrap();
            write(&family, &contents([("b", "3")]));
            family.flush().unwrap();
            let expected = contents([("a", "2"), ("b", "3"), ("c", "0")]);
            let stop = gates.stop_at(gate);
            let compaction = store.spawn_with("compaction", &family, compact);
            stop.reached();
            // Another compaction would wait for the first one.
            let options = CollectGarbageOptions {
                compact: false,
                ..CollectGarbageOptions::default()
            };
            family.collect_garbage(None, None, &options).unwrap();
            stop.open();
            compaction.join().unwrap();
            assert_reads(&family, &ReadOptions::default(), &expected);
            collect(&family).unwrap();
            assert_reads(&family, &ReadOptions::default(), &expected);
            drop(family);
            let expected = all([("default", Contents::new()), ("f", expected)]);
            assert_eq!(store.finish(), expected);
        });
    }
}
