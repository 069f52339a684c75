//! A thread that puts a value from a reader is stopped between its steps. Meanwhile others read,
//! write, take snapshots and make checkpoints, or the process is killed: the value is there from
//! one moment on, after everything that was written before it.

use std::io::Read;

use super::store::{Contents, Store, abc, all, contents, now};
use crate::Db;
use crate::gates::control::{Gates, race};

const LEN: u64 = 1 << 20;

fn long() -> String {
    "x".repeat(LEN as usize)
}

fn put(db: &Db) {
    let put = db.put_reader("a", std::io::repeat(b'x').take(LEN));
    assert_eq!(put.unwrap(), LEN);
}

/// An old value of each key in a table, and newer ones in the memtable.
fn store(gates: &Gates) -> Store {
    let store = Store::open(gates);
    super::store::write(&store.db, &abc("0"));
    store.db.flush().unwrap();
    super::store::write(&store.db, &abc("1"));
    store
}

fn with_long(mut before: Contents) -> Contents {
    before.insert("a".to_owned(), long());
    before
}

#[test]
fn the_value_is_visible_from_its_publication_on_and_snapshots_before_it_stay() {
    for (gate, is_installed) in [
        ("value: piece written", false),
        ("value: to be installed", false),
        ("value: table written", false),
        ("value: installed", true),
        ("bypass: published", true),
    ] {
        race(move |gates| {
            let store = store(gates);
            let stop = gates.stop_at(gate);
            let putting = store.spawn("put", put);
            stop.reached();
            let is_visible = gate == "bypass: published";
            let expected = match is_visible {
                true => with_long(abc("1")),
                false => abc("1"),
            };
            assert_eq!(now(&store.db), expected, "{gate}");
            let snapshot = store.db.snapshot();
            let killed = store.after_a_kill();
            let found = match is_installed {
                true => with_long(abc("1")),
                false => abc("1"),
            };
            assert_eq!(killed, all([("default", found)]), "{gate}");
            stop.open();
            putting.join();
            let at = |key: &str| snapshot.get(&store.db, key).unwrap().unwrap();
            assert_eq!(at("a"), expected["a"].as_bytes(), "{gate}");
            assert_eq!(now(&store.db), with_long(abc("1")), "{gate}");
            assert_eq!(store.finish(), all([("default", with_long(abc("1")))]));
        });
    }
}

#[test]
fn writes_before_the_lead_are_older_and_those_after_it_newer() {
    for gate in ["value: piece written", "value: to be installed"] {
        race(move |gates| {
            let store = store(gates);
            let stop = gates.stop_at(gate);
            let putting = store.spawn("put", put);
            stop.reached();
            super::store::write(&store.db, &abc("2"));
            stop.open();
            putting.join();
            assert_eq!(now(&store.db), with_long(abc("2")), "{gate}");
            store.db.put("a", "3").unwrap();
            let expected = contents([("a", "3"), ("b", "2"), ("c", "2")]);
            assert_eq!(store.finish(), all([("default", expected)]));
        });
    }
}

#[test]
fn a_checkpoint_has_no_value_that_is_put_after_its_moment() {
    for gate in ["checkpoint: barrier set", "checkpoint: flushed"] {
        race(move |gates| {
            let store = store(gates);
            store.create("f");
            let stop = gates.stop_at(gate);
            let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
            stop.reached();
            let waits = gates.stop_at("families: checkpoint waited for");
            // After the moment, and before the value.
            store.db.put("b", "2").unwrap();
            let putting = store.spawn("put", |db| {
                // Nothing is in the memtable of this family, so the wait is that of the lead.
                let family = db.column_family("f").unwrap();
                family
                    .put_reader("a", std::io::repeat(b'x').take(LEN))
                    .unwrap();
            });
            waits.reached();
            waits.open();
            stop.open();
            checkpoint.join().unwrap();
            putting.join();
            let copied = all([("default", abc("1")), ("f", Contents::new())]);
            assert_eq!(store.checkpoint_in("/copy"), copied, "{gate}");
            let expected = contents([("a", "1"), ("b", "2"), ("c", "1")]);
            let found = store.finish();
            assert_eq!(found["default"], expected);
            assert_eq!(found["f"], contents([("a", &*long())]));
        });
    }
}

#[test]
fn a_compaction_beside_the_installation_keeps_what_snapshots_before_the_value_see() {
    race(|gates| {
        let store = Store::open(gates);
        super::store::write(&store.db, &abc("0"));
        store.db.flush().unwrap();
        let installed = gates.stop_at("value: installed");
        let putting = store.spawn("put", put);
        installed.reached();
        let listed = gates.stop_at("compaction: snapshots listed");
        let compacting = store.spawn("compact", |db| {
            let tables = db.table_properties(None, None).unwrap();
            let numbers: Vec<_> = tables.iter().map(|table| table.file).collect();
            db.compact_files(&numbers, 1)
        });
        listed.reached();
        let snapshot = store.db.snapshot();
        installed.open();
        putting.join();
        listed.open();
        compacting.join().unwrap();
        let before = snapshot.get(&store.db, "a").unwrap();
        assert_eq!(before.as_deref(), Some(&b"0"[..]));
        drop(snapshot);
        assert_eq!(store.finish(), all([("default", with_long(abc("0")))]));
    });
}

#[test]
fn a_reader_that_sees_a_later_write_sees_the_value() {
    race(|gates| {
        let store = Store::open(gates);
        super::store::write(&store.db, &abc("0"));
        // So that the reader's memtable is empty.
        store.db.flush().unwrap();
        let stop = gates.stop_at("read: sequence number to be chosen");
        let reading = store.spawn("read", |db| {
            let found = db.multi_get(&["a", "b"]).into_iter();
            found
                .map(|value| value.unwrap().unwrap())
                .collect::<Vec<_>>()
        });
        stop.reached();
        put(&store.db);
        store.db.put("b", "1").unwrap();
        stop.open();
        let found = reading.join();
        let is_old = |value: &[u8]| value.starts_with(b"0");
        let lacks_value = is_old(&found[0]) && !is_old(&found[1]);
        assert!(!lacks_value, "a later write, without the value before it");
        let expected = with_long(contents([("a", ""), ("b", "1"), ("c", "0")]));
        assert_eq!(store.finish(), all([("default", expected)]));
    });
}
