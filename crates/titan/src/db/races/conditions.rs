//! A writer with conditions is stopped between its own check and its commit. The leader finds every
//! write that is published meanwhile, wherever a job then moves it; and writes of keys without a
//! condition do not make it refuse the batch.

use super::store::{Store, abc, compact, contents, now, write};
use crate::{ColumnFamily, Conditions, Db, ErrorKind, Result, Snapshot, WriteBatch, WriteOptions};
use titan_testkit::gates::race;

/// The gates of a writer before it enters the commit queue, in their order.
const UNCOMMITTED: [&str; 3] = [
    "conditions: sequence number chosen",
    "conditions: searched",
    "conditions: checked",
];

/// Puts `d` if `a` is as the snapshot sees it.
fn put_d(db: &Db, family: &ColumnFamily, snapshot: &Snapshot) -> Result<()> {
    let mut conditions = Conditions::since(snapshot);
    conditions.unchanged(family, "a")?;
    let mut batch = WriteBatch::new();
    batch.put(family, "d", "1")?;
    db.write_if(batch, &conditions, &WriteOptions::default())
}

type Write = fn(&ColumnFamily);

/// Writes of others meanwhile, and whether each is a conflict.
const MEANWHILE: [(Write, bool); 6] = [
    (|f| f.put(b"a", b"2").unwrap(), true),
    (|f| f.delete(b"a").unwrap(), true),
    (|f| f.single_delete(b"a").unwrap(), true),
    (|f| f.delete_range(b"", b"b").unwrap(), true),
    (|f| f.delete_range(b"b", b"c").unwrap(), false),
    (|f| f.put(b"b", b"2").unwrap(), false),
];

#[test]
fn a_write_after_the_check_is_found_by_the_leader_wherever_it_is_by_then() {
    let then: [Write; 3] = [|_| {}, |f| f.flush().unwrap(), |f| compact(f).unwrap()];
    for gate in UNCOMMITTED {
        for (meanwhile, is_conflict) in MEANWHILE {
            for then in then {
                race(move |gates| {
                    let store = Store::open(gates);
                    write(&store.db, &abc("1"));
                    let snapshot = store.db.snapshot();
                    let stop = gates.stop_at(gate);
                    let writer = store.spawn("writer", move |db| put_d(db, db, &snapshot));
                    stop.reached();
                    meanwhile(&store.db);
                    then(&store.db);
                    stop.open();
                    let written = writer.join().map_err(|e| e.kind());
                    let expected = match is_conflict {
                        true => Err(ErrorKind::Conflict),
                        false => Ok(()),
                    };
                    assert_eq!(written, expected, "{gate}");
                    assert_eq!(now(&store.db).contains_key("d"), !is_conflict);
                    store.finish();
                });
            }
        }
    }
}

/// The other batch is logged or inserted, and not published, when the writer checks: the writer
/// comes after it in line, and finds it published there.
#[test]
fn a_write_in_flight_during_the_check_is_found_by_the_leader() {
    for gate in ["commit: logged", "commit: inserted", "commit: published"] {
        race(move |gates| {
            let store = Store::open(gates);
            write(&store.db, &abc("1"));
            let snapshot = store.db.snapshot();
            let stop = gates.stop_at(gate);
            let other = store.spawn("other", |db| db.put(b"a", b"2"));
            stop.reached();
            let writer = store.spawn("writer", move |db| put_d(db, db, &snapshot));
            // If the other batch is published, the writer finds it itself.
            if gate != "commit: published" {
                gates.first_of(&["queue: in line"]);
            }
            stop.open();
            other.join().unwrap();
            assert_eq!(writer.join().unwrap_err().kind(), ErrorKind::Conflict);
            let after = store.finish();
            let expected = contents([("a", "2"), ("b", "1"), ("c", "1")]);
            assert_eq!(after["default"], expected);
        });
    }
}

/// Two writers in line, with conditions on each other's keys: the second is refused, the rest of
/// the group is committed.
#[test]
fn of_two_batches_in_a_group_that_exclude_each_other_one_is_written() {
    race(|gates| {
        let store = Store::open(gates);
        write(&store.db, &abc("1"));
        let snapshot = store.db.snapshot();
        let stop = gates.stop_at("commit: logged");
        let leader = store.spawn("leader", |db| db.put(b"x", b"1"));
        stop.reached();
        let swap = |from: &'static str, to: &'static str| {
            let snapshot = snapshot.clone();
            move |db: &Db| {
                let mut conditions = Conditions::since(&snapshot);
                conditions.unchanged(&**db, from)?;
                conditions.unchanged(&**db, to)?;
                let mut batch = WriteBatch::new();
                batch.put(&**db, to, "2")?;
                db.write_if(batch, &conditions, &WriteOptions::default())
            }
        };
        let ab = store.spawn("a to b", swap("a", "b"));
        let ba = store.spawn("b to a", swap("b", "a"));
        let plain = store.spawn("plain", |db| db.put(b"c", b"2"));
        while gates
            .passed()
            .iter()
            .filter(|g| **g == "queue: in line")
            .count()
            < 3
        {
            std::thread::yield_now();
        }
        stop.open();
        leader.join().unwrap();
        plain.join().unwrap();
        let written = [ab.join(), ba.join()];
        let refused: Vec<_> = written.iter().filter_map(|r| r.as_ref().err()).collect();
        assert_eq!(refused.len(), 1, "{written:?}");
        assert_eq!(refused[0].kind(), ErrorKind::Conflict);
        let after = store.finish()["default"].clone();
        let changed = ["a", "b"].map(|key| after[key] == "2");
        assert_ne!(changed[0], changed[1], "{after:?}");
        assert_eq!(after["c"], "2");
    });
}

#[test]
fn a_family_dropped_after_the_check_refuses_the_batch() {
    for gate in UNCOMMITTED {
        race(move |gates| {
            let store = Store::open(gates);
            let family = store.create("f");
            let snapshot = store.db.snapshot();
            let stop = gates.stop_at(gate);
            let of = family.clone();
            let writer = store.spawn("writer", move |db| {
                let mut conditions = Conditions::since(&snapshot);
                conditions.unchanged(&of, "a")?;
                let mut batch = WriteBatch::new();
                batch.put(&**db, "d", "1")?;
                db.write_if(batch, &conditions, &WriteOptions::default())
            });
            stop.reached();
            store.db.drop_column_family(&family).unwrap();
            stop.open();
            let refused = writer.join().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            drop(family);
            assert_eq!(store.finish()["default"], contents([]));
        });
    }
}
