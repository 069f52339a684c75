//! A reader is stopped before, between and after it takes its super version and its sequence
//! number. Meanwhile entries are overwritten or deleted, and data that it might still need is
//! flushed, compacted, collected and deleted. It must see the database of one moment, which is not
//! before the read began; with a snapshot, that of the snapshot.

use super::store::{Contents, Store, Way, abc, at, collect, compact, contents, scan, write};
use crate::{ColumnFamily, ReadOptions, Result, WriteBatch, WriteOptions};
use titan_testkit::gates::{Gates, race};

/// Steps while the reader is stopped. Each returns the contents after every write.
type Meanwhile = (&'static str, fn(&Store) -> Vec<Contents>);

const MEANWHILE: [Meanwhile; 7] = [
    ("written", |store| vec![overwrite(store, "new")]),
    ("overwritten and compacted", |store| {
        let after = overwrite(store, "new");
        compact(&store.db).unwrap();
        vec![after]
    }),
    ("deleted and compacted", |store| {
        for key in ["a", "b"] {
            store.db.delete(key.as_bytes()).unwrap();
        }
        compact(&store.db).unwrap();
        vec![contents([("b", "2"), ("c", "0")]), contents([("c", "0")])]
    }),
    ("a range deleted and compacted", |store| {
        store.db.delete_range(b"a", b"c").unwrap();
        compact(&store.db).unwrap();
        vec![contents([("c", "0")])]
    }),
    ("flushed, then written", |store| {
        store.db.flush().unwrap();
        vec![overwrite(store, "new")]
    }),
    ("written and flushed again and again", |store| {
        let round = |value| {
            let after = overwrite(store, value);
            store.db.flush().unwrap();
            after
        };
        ["new", "newer", "newest"].map(round).to_vec()
    }),
    ("overwritten, compacted and collected", |store| {
        let after = overwrite(store, "new");
        collect(&store.db).unwrap();
        vec![after]
    }),
];

/// Overwrites every key but `c`.
fn overwrite(store: &Store, value: &str) -> Contents {
    write(&store.db, &contents([("a", value), ("b", value)]));
    contents([("a", value), ("b", value), ("c", "0")])
}

/// Every key in a table, and newer versions of `a` and `b` in the memtable.
fn store(gates: &Gates) -> (Store, Contents) {
    let store = Store::open(gates);
    write(&store.db, &abc("0"));
    compact(&store.db).unwrap();
    overwrite(&store, "1");
    let before = overwrite(&store, "2");
    (store, before)
}

/// Stops a reader of each kind at `gate` while each of these things happens.
fn read_across(gate: &'static str, with_snapshot: bool) {
    for way in Way::ALL {
        for (what, happen) in MEANWHILE {
            race(move |gates| {
                let (store, before) = store(gates);
                let snapshot = with_snapshot.then(|| store.db.snapshot());
                let options = snapshot.as_ref().map_or_else(ReadOptions::default, at);
                let stop = gates.stop_at(gate);
                let reader = store.spawn("reader", move |db| way.read(db, &options));
                stop.reached();
                // The reader has the only one left.
                drop(snapshot);
                let mut states = vec![before];
                states.extend(happen(&store));
                stop.open();
                let found = reader.join().unwrap();
                if with_snapshot {
                    states.truncate(1);
                }
                let allowed: Vec<_> = states.iter().map(|state| way.shows(state)).collect();
                assert!(
                    allowed.contains(&found),
                    "{way:?} at {gate:?}, {what}: {found:?}, which is not one of {allowed:?}"
                );
                store.finish();
            });
        }
    }
}

#[test]
fn a_reader_that_has_taken_nothing_sees_one_moment() {
    read_across("read: super version to be loaded", false);
}

#[test]
fn a_reader_that_has_no_sequence_number_sees_one_moment() {
    read_across("read: sequence number to be chosen", false);
}

#[test]
fn a_reader_that_has_taken_both_sees_one_moment() {
    read_across("read: pinned", false);
}

#[test]
fn a_reader_with_a_snapshot_and_without_a_super_version_sees_the_snapshot() {
    read_across("read: super version to be loaded", true);
}

#[test]
fn a_reader_with_a_snapshot_and_a_super_version_sees_the_snapshot() {
    read_across("read: pinned", true);
}

/// The iterator alone has the snapshot, and stands in the middle while the rest happens.
#[test]
fn an_iterator_sees_its_moment_to_the_end() {
    for (what, happen) in MEANWHILE {
        for with_snapshot in [false, true] {
            race(move |gates| {
                let (store, before) = store(gates);
                let snapshot = with_snapshot.then(|| store.db.snapshot());
                let options = snapshot.as_ref().map_or_else(ReadOptions::default, at);
                let mut iter = store.db.iter(&options).unwrap();
                drop((snapshot, options));
                iter.seek(b"b").unwrap();
                happen(&store);
                assert_eq!(iter.value().unwrap().first(), Some(&b'2'), "{what}");
                assert_eq!(scan(&mut iter).unwrap(), before, "{what}");
                drop(iter);
                store.finish();
            });
        }
    }
}

/// Entries that were in a memtable when it was switched, and later ones, range tombstones among
/// them.
#[test]
fn an_iterator_that_is_created_while_memtables_are_switched_sees_one_moment() {
    for gate in [
        "read: super version to be loaded",
        "read: sequence number to be chosen",
        "read: pinned",
    ] {
        race(move |gates| {
            let (store, before) = store(gates);
            let mut states = vec![before];
            let stop = gates.stop_at(gate);
            let reader = store.spawn("reader", |db| scan(&mut db.iter(&ReadOptions::default())?));
            stop.reached();
            states.push(overwrite(&store, "3"));
            // The switch and the installation of the table are two steps.
            let flush = gates.stop_at("flush: to be installed");
            let flushing = store.spawn("flush", |db| db.flush());
            flush.reached();
            store.db.delete_range(b"a", b"z").unwrap();
            states.push(Contents::new());
            write(&store.db, &contents([("b", "4")]));
            states.push(contents([("b", "4")]));
            stop.open();
            let found = reader.join().unwrap();
            assert!(states.contains(&found), "{gate}: {found:?}");
            flush.open();
            flushing.join().unwrap();
            assert_eq!(store.finish()["default"], contents([("b", "4")]));
        });
    }
}

/// A way to find one key, over those that are dead.
type Find = fn(&ColumnFamily) -> Result<Option<Vec<u8>>>;

const FINDS: [(&str, Find); 3] = [
    ("forward", |family| {
        let mut iter = family.iter(&ReadOptions::default())?;
        iter.seek_to_first()?;
        Ok(iter.valid().then(|| iter.key().to_vec()))
    }),
    ("backward", |family| {
        let mut iter = family.iter(&ReadOptions::default())?;
        iter.seek_to_last()?;
        Ok(iter.valid().then(|| iter.key().to_vec()))
    }),
    ("of a prefix", |family| {
        let found = family.first_in_prefix(b"", b"")?;
        Ok(found.map(|(key, _)| key.to_vec()))
    }),
];

/// The keys from `a00` to `a39` have values in a table; all but those in `live` were deleted since.
fn mostly_deleted(gates: &Gates, live: &[&str]) -> Store {
    let store = Store::open(gates);
    let keys: Vec<String> = (0..40).map(|n| format!("a{n:02}")).collect();
    for key in &keys {
        store.db.put(key.as_bytes(), b"v").unwrap();
    }
    store.db.flush().unwrap();
    for key in keys.iter().filter(|key| !live.contains(&key.as_str())) {
        store.db.delete(key.as_bytes()).unwrap();
    }
    store
}

/// It has the memtable from before a switch, and a number of which the newer memtable has entries.
/// It must not take for dead an entry that it does not see there.
#[test]
fn a_reader_across_a_switch_of_memtables_calls_no_live_key_dead() {
    for (way, find) in FINDS {
        race(move |gates| {
            let store = mostly_deleted(gates, &[]);
            let stop = gates.stop_at("read: sequence number to be chosen");
            let reader = store.spawn("reader", move |db| find(db));
            stop.reached();
            store.db.flush().unwrap();
            store.db.put(b"a20", b"v").unwrap();
            stop.open();
            reader.join().unwrap();
            for (later, find) in FINDS {
                let found = find(&store.db).unwrap();
                assert_eq!(found.as_deref(), Some(&b"a20"[..]), "{way}, then {later}");
            }
            assert_eq!(store.finish()["default"], contents([("a20", "v")]));
        });
    }
}

/// Another reader has found that keys are dead. One of them is so only by a batch, of which the
/// reader must see nothing or all.
#[test]
fn a_reader_across_a_switch_of_memtables_sees_no_half_of_a_batch() {
    for (way, find) in FINDS {
        race(move |gates| {
            let store = mostly_deleted(gates, &["a20"]);
            let stop = gates.stop_at("read: sequence number to be chosen");
            let reader = store.spawn("reader", move |db| find(db));
            stop.reached();
            store.db.flush().unwrap();
            let mut batch = WriteBatch::new();
            batch.delete(&*store.db, b"a20").unwrap();
            batch.put(&*store.db, b"z", b"v").unwrap();
            let shared = &store.db.core.shared;
            shared.write(&mut batch, &WriteOptions::default()).unwrap();
            let mut iter = store.db.iter(&ReadOptions::default()).unwrap();
            assert_eq!(scan(&mut iter).unwrap(), contents([("z", "v")]));
            drop(iter);
            assert_eq!(store.db.metrics().families[0].dead_ranges, 1);
            stop.open();
            let found = reader.join().unwrap();
            let found = found.as_deref();
            assert!(
                found == Some(b"a20") || found == Some(b"z"),
                "{way}: {found:?}"
            );
            assert_eq!(store.finish()["default"], contents([("z", "v")]));
        });
    }
}
