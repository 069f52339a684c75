//! A flush is stopped between reading the memtables and installing its table. Meanwhile the family
//! is dropped and created again, memtables are switched, a checkpoint is made, the database is
//! closed or killed.

use super::jobs::LOCKED;
use super::store::{
    Contents, Store, abc, add, all, assert_reads, at, compact, contents, ended_by_closing,
    ended_by_dropping, now, write,
};
use crate::{ColumnFamily, ColumnFamilyId, ErrorKind, ReadOptions, WriteBatch, WriteOptions};
use titan_testkit::gates::{Gates, race};

/// The gates of a flush at which it has no lock, in their order.
const UNLOCKED: [&str; 3] = [
    "flush: snapshots listed",
    "flush: written",
    "flush: to be installed",
];

/// All of them, and the one after.
fn every_gate() -> impl Iterator<Item = &'static str> {
    let gates = UNLOCKED.into_iter().chain(LOCKED);
    gates.chain(["flush: installed"])
}

/// Those at which it does not have the lock of the state.
fn every_gate_without_state() -> impl Iterator<Item = &'static str> {
    every_gate().filter(|gate| *gate != LOCKED[2])
}

/// A family beside the default one, both with entries in their memtables.
fn with_family(gates: &Gates) -> (Store, ColumnFamily) {
    let store = Store::open(gates);
    let family = store.create("f");
    write(&store.db, &abc("0"));
    write(&family, &abc("1"));
    (store, family)
}

#[test]
fn the_family_may_be_dropped_and_created_again_before_the_table_is_installed() {
    for gate in UNLOCKED {
        for flush_again in [false, true] {
            race(move |gates| {
                let (store, family) = with_family(gates);
                let stop = gates.stop_at(gate);
                let flush = store.spawn_with("flush", &family, |f| f.flush());
                stop.reached();
                store.db.drop_column_family(&family).unwrap();
                let again = store.create("f");
                write(&again, &contents([("b", "2")]));
                if flush_again {
                    again.flush().unwrap();
                }
                stop.open();
                // Nothing is left to be flushed.
                flush.join().unwrap();
                assert!(ended_by_dropping(&family.get(b"a")));
                store.db.wait_idle().unwrap();
                assert_eq!(now(&again), contents([("b", "2")]));
                drop((family, again));
                let expected = all([("default", abc("0")), ("f", contents([("b", "2")]))]);
                assert_eq!(store.finish(), expected);
            });
        }
    }
}

/// All families share the WAL, and a later sync may succeed although data is lost.
#[test]
fn a_failed_sync_of_the_wal_stops_writes_though_the_family_was_dropped() {
    race(|gates| {
        // So that no other thread flushes, and syncs.
        let store = Store::open_with(gates, |options| options.db.max_background_jobs = 1);
        let (family, third) = (store.create("f"), store.create("third"));
        write(&family, &abc("1"));
        let stop = gates.stop_at("flush: written");
        let flush = store.spawn_with("flush", &family, |f| f.flush());
        stop.reached();
        store.db.drop_column_family(&family).unwrap();
        write(&store.db, &abc("0"));
        // The file of the WAL that has this write is closed.
        let shared = &store.db.core.shared;
        let switched =
            shared.alone(|lead| shared.switch_to_flush(lead, &[ColumnFamilyId::DEFAULT]));
        assert_eq!(switched.unwrap().len(), 1);
        store.vfs.fail_syncs(1);
        stop.open();
        flush.join().unwrap();
        let stopped = store.db.wait_idle().unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::WritesStopped);
        let reason = store.db.background_error().unwrap().to_string();
        assert!(reason.contains("syncing the WAL"), "{reason}");
        store.db.resume().unwrap();
        drop((family, third));
        let expected = all([("default", abc("0")), ("third", contents([]))]);
        assert_eq!(store.finish(), expected);
    });
}

#[test]
fn the_family_may_be_dropped_while_the_table_is_installed() {
    for gate in LOCKED {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let flush = store.spawn_with("flush", &family, |f| f.flush());
            stop.reached();
            let dropped = family.clone();
            let dropping = store.spawn("drop", move |db| db.drop_column_family(&dropped));
            stop.open();
            dropping.join().unwrap();
            flush.join().unwrap();
            drop(family);
            assert_eq!(store.finish(), all([("default", abc("0"))]));
        });
    }
}

#[test]
fn readers_and_a_killed_process_lose_nothing_at_any_step() {
    for gate in every_gate() {
        race(move |gates| {
            let (store, family) = with_family(gates);
            family.flush().unwrap();
            write(&family, &contents([("a", "2"), ("b", "2")]));
            let expected = contents([("a", "2"), ("b", "2"), ("c", "1")]);
            let snapshot = store.db.snapshot();
            let stop = gates.stop_at(gate);
            let flush = store.spawn_with("flush", &family, |f| f.flush());
            stop.reached();
            assert_reads(&family, &ReadOptions::default(), &expected);
            assert_reads(&family, &at(&snapshot), &expected);
            let expected = all([("default", abc("0")), ("f", expected)]);
            assert_eq!(store.after_a_kill(), expected, "{gate}");
            stop.open();
            flush.join().unwrap();
            drop((snapshot, family));
            assert_eq!(store.finish(), expected);
        });
    }
}

/// Memtables that are switched while a flush is stopped are in WAL files that its edit must keep.
#[test]
fn what_is_written_and_switched_meanwhile_survives_a_kill() {
    for gate in ["flush: written", "flush: to be installed"] {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let flush = store.spawn_with("flush", &family, |f| f.flush());
            stop.reached();
            write(&family, &contents([("a", "2")]));
            let switch = gates.stop_at("switch: memtables switched");
            let newer = store.spawn_with("newer flush", &family, |f| f.flush());
            switch.reached();
            switch.open();
            write(&family, &contents([("b", "3")]));
            let installed = gates.stop_at("flush: installed");
            stop.open();
            installed.reached();
            let expected = contents([("a", "2"), ("b", "3"), ("c", "1")]);
            let expected = all([("default", abc("0")), ("f", expected)]);
            assert_eq!(store.after_a_kill(), expected);
            installed.open();
            flush.join().unwrap();
            newer.join().unwrap();
            assert_eq!(store.after_a_kill(), expected);
            drop(family);
            assert_eq!(store.finish(), expected);
        });
    }
}

/// Each family has a part of one batch. After one table is installed, the part of the other one is
/// still in a WAL file.
#[test]
fn tables_of_two_families_may_be_installed_in_both_orders() {
    for first in [0, 1] {
        race(move |gates| {
            let store = Store::open(gates);
            let families = ["f", "g"].map(|name| store.create(name));
            let mut batch = WriteBatch::new();
            for family in &families {
                add(&mut batch, family, &abc("1"));
            }
            store.db.write(batch, &WriteOptions::default()).unwrap();
            let stopped = families.each_ref().map(|family| {
                let stop = gates.stop_at("flush: to be installed");
                let flush = store.spawn_with("flush", family, |f| f.flush());
                stop.reached();
                (stop, flush)
            });
            let expected = all([
                ("default", Contents::new()),
                ("f", abc("1")),
                ("g", abc("1")),
            ]);
            assert_eq!(store.after_a_kill(), expected);
            let mut stopped = Vec::from(stopped);
            if first == 1 {
                stopped.reverse();
            }
            for (stop, flush) in stopped {
                stop.open();
                flush.join().unwrap();
                assert_eq!(store.after_a_kill(), expected);
            }
            drop(families);
            assert_eq!(store.finish(), expected);
        });
    }
}

#[test]
fn a_checkpoint_waits_for_the_flush_and_has_nothing_newer() {
    for gate in every_gate_without_state() {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let flush = store.spawn_with("flush", &family, |f| f.flush());
            stop.reached();
            write(&family, &contents([("a", "2")]));
            let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
            gates.first_of(&["checkpoint: barrier set"]);
            write(&store.db, &contents([("a", "3")]));
            write(&family, &contents([("b", "3")]));
            let newer = store.spawn("newer flush", |db| db.flush_all());
            stop.open();
            checkpoint.join().unwrap();
            flush.join().unwrap();
            newer.join().unwrap();
            let expected = contents([("a", "2"), ("b", "1"), ("c", "1")]);
            let expected = all([("default", abc("0")), ("f", expected)]);
            assert_eq!(store.checkpoint_in("/copy"), expected);
            drop(family);
            let after = store.finish();
            assert_eq!(after["f"], contents([("a", "2"), ("b", "3"), ("c", "1")]));
        });
    }
}

#[test]
fn closing_waits_until_the_table_is_installed() {
    for gate in every_gate_without_state() {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let flush = store.spawn_with("flush", &family, |f| f.flush());
            stop.reached();
            let close = store.spawn("close", |db| db.close());
            gates.first_of(&["close: threads to be waited for"]);
            stop.open();
            close.join().unwrap();
            assert!(ended_by_closing(&flush.join()), "{gate}");
            let passed = gates.passed();
            let at = |name| passed.iter().position(|passed| *passed == name).unwrap();
            assert!(at("flush: installed") < at("close: jobs have ended"));
            drop(family);
            store.finish_closed(&all([("default", abc("0")), ("f", abc("1"))]));
        });
    }
}

/// Without a WAL only a flush makes them durable. Those that came during a flush are closing's to
/// flush.
#[test]
fn closing_keeps_unlogged_writes_from_before_and_during_a_flush() {
    for gate in UNLOCKED {
        race(move |gates| {
            let store = Store::open(gates);
            let put = |entries: &Contents| {
                let mut batch = WriteBatch::new();
                add(&mut batch, &store.db, entries);
                let unlogged = WriteOptions {
                    disable_wal: true,
                    ..WriteOptions::default()
                };
                store.db.write(batch, &unlogged).unwrap();
            };
            put(&abc("1"));
            let stop = gates.stop_at(gate);
            let flush = store.spawn("flush", |db| db.flush());
            stop.reached();
            put(&contents([("b", "2")]));
            stop.open();
            flush.join().unwrap();
            store.db.close().unwrap();
            let expected = contents([("a", "1"), ("b", "2"), ("c", "1")]);
            store.finish_closed(&all([("default", expected)]));
        });
    }
}

/// The flush ends after the caller has looked, and before it waits.
#[test]
fn a_caller_that_is_about_to_wait_for_the_flush_hears_of_its_end() {
    race(|gates| {
        let (store, family) = with_family(gates);
        let written = gates.stop_at("flush: written");
        let waits = gates.stop_at("flush: waited for");
        let flush = store.spawn_with("flush", &family, |f| f.flush());
        written.reached();
        waits.reached();
        written.open();
        store.db.wait_idle().unwrap();
        waits.open();
        flush.join().unwrap();
        drop(family);
        store.finish();
    });
}

/// The compaction does not know the table of the flush, which is newer than all of its inputs.
#[test]
fn a_compaction_may_be_installed_before_the_table() {
    for gate in ["flush: written", "flush: to be installed"] {
        race(move |gates| {
            let store = Store::open_with(gates, |options| {
                options.default.level0_file_num_compaction_trigger = 2;
                options.default.disable_auto_compactions = false;
            });
            write(&store.db, &abc("1"));
            store.db.flush().unwrap();
            let compaction = gates.stop_at("compaction: written");
            write(&store.db, &abc("2"));
            store.db.flush().unwrap();
            compaction.reached();
            write(&store.db, &contents([("a", "3")]));
            store.db.delete(b"c").unwrap();
            let installed = gates.stop_at("flush: installed");
            let stop = gates.stop_at(gate);
            let flush = store.spawn("flush", |db| db.flush());
            stop.reached();
            let install = gates.stop_at("install: edit durable");
            compaction.open();
            // It has the version set locked until all of it is installed.
            install.reached();
            install.open();
            let expected = contents([("a", "3"), ("b", "2")]);
            assert_reads(&store.db, &ReadOptions::default(), &expected);
            stop.open();
            installed.reached();
            assert_reads(&store.db, &ReadOptions::default(), &expected);
            installed.open();
            flush.join().unwrap();
            compact(&store.db).unwrap();
            assert_eq!(store.finish(), all([("default", expected)]));
        });
    }
}
