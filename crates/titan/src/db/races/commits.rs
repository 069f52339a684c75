//! The leader of the commit queue is stopped between its stages, and while it switches memtables.
//! Meanwhile others read, take snapshots, wait in line, and the process is killed. Nothing of a
//! batch is visible before all of it is, and a snapshot never changes.

use super::store::{
    AllContents, Contents, Store, abc, add, all, all_contents, assert_reads, at, compact, contents,
    now, scan, write,
};
use crate::{ColumnFamily, Db, ErrorKind, ReadOptions, Result, WriteBatch, WriteOptions};
use titan_testkit::gates::{Actor, Gates, race};

/// The gates of a commit before its batch is visible, in their order.
const UNPUBLISHED: [&str; 3] = [
    "commit: logged",
    "commit: entry inserted",
    "commit: inserted",
];

/// A family beside the default one. One batch has written to both.
fn with_family(gates: &Gates) -> (Store, ColumnFamily) {
    let store = Store::open(gates);
    let family = store.create("f");
    write_both(&store.db, &family, "1").unwrap();
    (store, family)
}

/// Writes to both families with one batch.
fn write_both(db: &Db, family: &ColumnFamily, value: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    add(&mut batch, db, &abc(value));
    add(&mut batch, family, &abc(value));
    db.write(batch, &WriteOptions::default())
}

fn both(value: &str) -> AllContents {
    all([("default", abc(value)), ("f", abc(value))])
}

/// Starts a commit of the value 2 for all keys of both families.
fn commit(store: &Store, family: &ColumnFamily) -> Actor<Result<()>> {
    let family = family.clone();
    store.spawn("writer", move |db| write_both(db, &family, "2"))
}

#[test]
fn readers_see_nothing_before_all_of_it_and_snapshots_never_change() {
    for gate in UNPUBLISHED.into_iter().chain(["commit: published"]) {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let writer = commit(&store, &family);
            stop.reached();
            let visible = match UNPUBLISHED.contains(&gate) {
                true => abc("1"),
                false => abc("2"),
            };
            let snapshot = store.db.snapshot();
            let families = [(*store.db).clone(), family.clone()];
            let iterators = families.each_ref().map(|family| {
                assert_reads(family, &ReadOptions::default(), &visible);
                assert_reads(family, &at(&snapshot), &visible);
                family.iter(&ReadOptions::default()).unwrap()
            });
            stop.open();
            writer.join().unwrap();
            for mut iter in iterators {
                assert_eq!(scan(&mut iter).unwrap(), visible, "{gate}");
            }
            for family in &families {
                assert_reads(family, &ReadOptions::default(), &abc("2"));
                assert_reads(family, &at(&snapshot), &visible);
                compact(family).unwrap();
                assert_reads(family, &at(&snapshot), &visible);
            }
            drop((families, family, snapshot));
            assert_eq!(store.finish(), both("2"));
        });
    }
}

#[test]
fn a_killed_process_has_all_of_the_batch_or_nothing() {
    for gate in UNPUBLISHED.into_iter().chain(["commit: published"]) {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let writer = commit(&store, &family);
            stop.reached();
            let found = store.after_a_kill();
            // It is in the WAL.
            assert_eq!(found, both("2"), "{gate}");
            stop.open();
            writer.join().unwrap();
            drop(family);
            assert_eq!(store.finish(), both("2"));
        });
    }
}

/// Every operation after the batch in line finds it whole.
#[test]
fn what_waits_in_line_comes_after_the_batch() {
    type Next = fn(&Db) -> Result<()>;
    const NEXT: [(&str, Next); 6] = [
        ("flush", |db| db.flush_all()),
        ("checkpoint", |db| db.checkpoint("/copy").map(drop)),
        ("sync", |db| db.sync_wal()),
        ("write", |db| db.put(b"a", b"3")),
        ("create", |db| {
            let options = db.options().clone();
            db.create_column_family("g", options).map(drop)
        }),
        ("drop", |db| {
            let family = db.column_family("f").unwrap();
            db.drop_column_family(&family)
        }),
    ];
    for gate in UNPUBLISHED {
        for (what, next) in NEXT {
            race(move |gates| {
                let (store, family) = with_family(gates);
                let stop = gates.stop_at(gate);
                let writer = commit(&store, &family);
                stop.reached();
                let snapshot = store.db.snapshot();
                let waiting = store.spawn("next", next);
                gates.first_of(&["queue: in line"]);
                stop.open();
                writer.join().unwrap();
                waiting.join().unwrap();
                let mut expected = both("2");
                match what {
                    "checkpoint" => assert_eq!(store.checkpoint_in("/copy"), expected),
                    "write" => {
                        let default = expected.get_mut("default").unwrap();
                        default.insert("a".to_owned(), "3".to_owned());
                    }
                    "create" => drop(expected.insert("g".to_owned(), Contents::new())),
                    "drop" => drop(expected.remove("f")),
                    _ => {}
                }
                assert_eq!(all_contents(&store.db), expected, "{what}");
                assert_eq!(store.after_a_kill(), expected, "{what}");
                assert_reads(&store.db, &at(&snapshot), &abc("1"));
                drop((family, snapshot));
                assert_eq!(store.finish(), expected);
            });
        }
    }
}

/// The flush gives up the WAL file before the one that has the batch, and not that one.
#[test]
fn an_older_flush_may_be_installed_meanwhile() {
    for gate in UNPUBLISHED {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let written = gates.stop_at("flush: to be installed");
            let flush = store.spawn("flush", |db| db.flush());
            written.reached();
            let stop = gates.stop_at(gate);
            let writer = commit(&store, &family);
            stop.reached();
            written.open();
            flush.join().unwrap();
            assert_reads(&store.db, &ReadOptions::default(), &abc("1"));
            assert_reads(&family, &ReadOptions::default(), &abc("1"));
            assert_eq!(store.after_a_kill(), both("2"), "{gate}");
            stop.open();
            writer.join().unwrap();
            assert_eq!(store.after_a_kill(), both("2"), "{gate}");
            drop(family);
            assert_eq!(store.finish(), both("2"));
        });
    }
}

/// The switch is made by a flush, or by a commit that finds a full memtable.
#[test]
fn memtables_are_switched_while_readers_read_and_writers_wait() {
    for gate in ["switch: WAL file started", "switch: memtables switched"] {
        for is_full in [false, true] {
            race(move |gates| {
                let store = Store::open_with(gates, |options| {
                    options.default.write_buffer_size = 64 << 10;
                });
                write(&store.db, &abc("1"));
                store.db.delete_range(b"c", b"d").unwrap();
                let expected = contents([("a", "1"), ("b", "1")]);
                let fill = [b'.'; 80 << 10];
                let switching = match is_full {
                    true => {
                        store.db.put(b"b", &[b"1", &fill[..]].concat()).unwrap();
                        let stop = gates.stop_at(gate);
                        let switching = store.spawn("switch", |db| db.put(b"d", b"1"));
                        (stop, switching)
                    }
                    false => {
                        let stop = gates.stop_at(gate);
                        (stop, store.spawn("switch", |db| db.flush()))
                    }
                };
                let (stop, switching) = switching;
                stop.reached();
                let snapshot = store.db.snapshot();
                assert_reads(&store.db, &ReadOptions::default(), &expected);
                assert_reads(&store.db, &at(&snapshot), &expected);
                let mut iter = store.db.iter(&ReadOptions::default()).unwrap();
                assert_eq!(store.after_a_kill()["default"], expected);
                let writer = store.spawn("writer", |db| db.put(b"a", b"2"));
                gates.first_of(&["queue: in line"]);
                stop.open();
                switching.join().unwrap();
                writer.join().unwrap();
                let mut after = expected.clone();
                after.insert("a".to_owned(), "2".to_owned());
                if is_full {
                    after.insert("d".to_owned(), "1".to_owned());
                }
                assert_eq!(now(&store.db), after);
                assert_eq!(store.after_a_kill()["default"], after);
                assert_eq!(scan(&mut iter).unwrap(), expected);
                assert_reads(&store.db, &at(&snapshot), &expected);
                drop((iter, snapshot));
                assert_eq!(store.finish()["default"], after);
            });
        }
    }
}

/// A leader waits for a flush. Writers after it in line that do not want to wait get an error at
/// once, and the others are committed when it ends.
#[test]
fn writers_that_do_not_want_to_wait_do_not_wait_in_line_for_a_leader_that_does() {
    race(|gates| {
        let store = Store::open_with(gates, |options| {
            options.default.max_write_buffer_number = 2;
        });
        let stop = gates.stop_at("flush: written");
        write(&store.db, &abc("1"));
        let first = store.spawn("first flush", |db| db.flush());
        stop.reached();
        // Both come to the leader's line before writes are stopped, so neither is refused before.
        let admitted = gates.stop_at("commit: logged");
        let before = store.spawn("before", |db| db.put(b"a", b"2"));
        admitted.reached();
        // The first flush and the writes before it may have been in line too.
        let in_line = || {
            let passed = gates.passed().into_iter();
            passed.filter(|gate| *gate == "queue: in line").count()
        };
        let earlier = in_line();
        let line = |n: usize| {
            while in_line() < earlier + n {
                std::thread::yield_now();
            }
        };
        let flush = store.spawn("second flush", |db| db.flush());
        line(1);
        let leader = store.spawn("leader", |db| db.put(b"b", b"2"));
        line(2);
        let hasty = store.spawn("hasty", |db| {
            let mut batch = WriteBatch::new();
            batch.put(&**db, "c", "2")?;
            let options = WriteOptions {
                no_slowdown: true,
                ..WriteOptions::default()
            };
            db.write(batch, &options)
        });
        line(3);
        admitted.open();
        before.join().unwrap();
        gates.first_of(&["stall: waited for"]);
        assert_eq!(hasty.join().unwrap_err().kind(), ErrorKind::Busy);
        stop.open();
        leader.join().unwrap();
        first.join().unwrap();
        flush.join().unwrap();
        let expected = contents([("a", "2"), ("b", "2"), ("c", "1")]);
        assert_eq!(store.finish()["default"], expected);
    });
}
