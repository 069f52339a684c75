//! A thread that creates or drops a family is stopped between its steps, or a reader is while a
//! family is dropped. A reader finds the contents or the error of a dropped family, never an empty
//! family.

use super::store::{Contents, Store, Way, abc, all, assert_reads, ended_by_dropping, write};
use crate::{ColumnFamily, ReadOptions};
use titan_testkit::gates::{Gates, race};

fn with_family(gates: &Gates) -> (Store, ColumnFamily) {
    let store = Store::open(gates);
    let family = store.create("f");
    write(&family, &abc("1"));
    family.flush().unwrap();
    write(&family, &abc("2"));
    (store, family)
}

#[test]
fn a_reader_of_a_family_that_is_dropped_meanwhile_finds_everything_or_an_error() {
    for gate in [
        "read: super version to be loaded",
        "read: sequence number to be chosen",
        "read: pinned",
    ] {
        for way in Way::ALL {
            race(move |gates| {
                let (store, family) = with_family(gates);
                let stop = gates.stop_at(gate);
                let reader = store.spawn_with("reader", &family, move |f| {
                    way.read(f, &ReadOptions::default())
                });
                stop.reached();
                store.db.drop_column_family(&family).unwrap();
                stop.open();
                let found = reader.join();
                match &found {
                    Ok(found) => assert_eq!(*found, way.shows(&abc("2")), "{way:?} at {gate}"),
                    Err(_) => assert!(ended_by_dropping(&found), "{way:?} at {gate}"),
                }
                drop(family);
                assert_eq!(store.finish(), all([("default", Contents::new())]));
            });
        }
    }
}

#[test]
fn readers_beside_a_drop_find_everything_until_it_has_happened() {
    for gate in ["drop: edit durable", "drop: family emptied"] {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let dropped = family.clone();
            let dropping = store.spawn("drop", move |db| db.drop_column_family(&dropped));
            stop.reached();
            if gate == "drop: edit durable" {
                assert_reads(&family, &ReadOptions::default(), &abc("2"));
                assert!(store.db.column_family("f").is_some());
            } else {
                for way in Way::ALL {
                    assert!(ended_by_dropping(
                        &way.read(&family, &ReadOptions::default())
                    ));
                }
                assert!(store.db.column_family("f").is_none());
            }
            let expected = all([("default", Contents::new())]);
            assert_eq!(store.after_a_kill(), expected);
            // It writes to a family that is there no more when it is its turn.
            let writer = store.spawn_with("writer", &family, |f| f.put(b"a", b"3"));
            gates.first_of(&["queue: in line"]);
            stop.open();
            dropping.join().unwrap();
            assert!(ended_by_dropping(&writer.join()));
            drop(family);
            assert_eq!(store.finish(), expected);
        });
    }
}

#[test]
fn a_family_is_found_once_it_is_durable_and_writers_wait() {
    race(|gates| {
        let store = Store::open(gates);
        let stop = gates.stop_at("create: edit durable");
        let options = store.options.default.clone();
        let creating = store.spawn("create", move |db| {
            let family = db.create_column_family("f", options)?;
            family.put(b"a", b"1")
        });
        stop.reached();
        assert!(store.db.column_family("f").is_none());
        let empty = all([("default", Contents::new()), ("f", Contents::new())]);
        assert_eq!(store.after_a_kill(), empty);
        let writer = store.spawn("writer", |db| db.put(b"a", b"0"));
        gates.first_of(&["queue: in line"]);
        stop.open();
        creating.join().unwrap();
        writer.join().unwrap();
        let one = |value: &str| Contents::from([("a".to_owned(), value.to_owned())]);
        assert_eq!(
            store.finish(),
            all([("default", one("0")), ("f", one("1"))])
        );
    });
}
