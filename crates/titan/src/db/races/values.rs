//! A reader that knows where its values are is stopped before it reads them. Meanwhile they are
//! relocated, once or twice, and the file that the reader knows is deleted; or the entries are
//! overwritten, and compactions drop them.

use super::store::{Contents, Store, collect, compact, large, scan, shown};
use crate::format::file_name::FileKind;
use crate::{ColumnFamily, DbIterator, ReadOptions};
use titan_testkit::gates::{Gates, race};

const KEYS: usize = 24;

fn key(n: usize) -> String {
    format!("key{n:02}")
}

/// A file of separated values, half of which are garbage, and a newer file with the rest.
fn store(gates: &Gates) -> Store {
    let store = Store::open(gates);
    let put = |n: usize, value: &str| {
        let value = large(&format!("{value}{n}"));
        store.db.put(key(n).as_bytes(), value.as_bytes()).unwrap();
    };
    (0..KEYS).for_each(|n| put(n, "old"));
    store.db.flush().unwrap();
    (0..KEYS).filter(|n| n % 2 == 1).for_each(|n| put(n, "new"));
    compact(&store.db).unwrap();
    store
}

fn expected() -> Contents {
    let value = |n| if n % 2 == 1 { "new" } else { "old" };
    let entry = |n| (key(n), format!("{}{n}", value(n)));
    (0..KEYS).map(entry).collect()
}

/// The oldest blob file in the directory.
fn oldest_blob_file(store: &Store) -> FileKind {
    let mut files = store.data_files().into_iter();
    files.find(|f| matches!(f, FileKind::Blob(_))).unwrap()
}

fn overwrite(store: &Store, keys: impl Iterator<Item = usize>) {
    for n in keys {
        store.db.put(key(n).as_bytes(), b"small").unwrap();
    }
}

/// Steps that happen to the values. Returns whether that deletes the file with the older ones.
type Meanwhile = (&'static str, fn(&Store) -> bool);

const MEANWHILE: [Meanwhile; 4] = [
    ("relocated", |store| {
        collect(&store.db).unwrap();
        true
    }),
    ("relocated twice", |store| {
        collect(&store.db).unwrap();
        // Makes garbage of a part of the file that the first collection wrote.
        overwrite(store, (0..KEYS).step_by(4));
        collect(&store.db).unwrap();
        true
    }),
    ("overwritten and compacted", |store| {
        overwrite(store, 0..KEYS);
        compact(&store.db).unwrap();
        // The version that the reader has pins it.
        false
    }),
    ("overwritten, compacted and collected", |store| {
        overwrite(store, 0..KEYS / 2);
        collect(&store.db).unwrap();
        true
    }),
];

fn multi_get(family: &ColumnFamily) -> Contents {
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let values = family.multi_get(&keys);
    let values = values.into_iter().map(|v| shown(&v.unwrap().unwrap()));
    keys.into_iter().zip(values).collect()
}

fn get(family: &ColumnFamily) -> Contents {
    let value = family.get(key(2).as_bytes()).unwrap().unwrap();
    [(key(2), shown(&value))].into()
}

fn get_lazy(family: &ColumnFamily) -> Contents {
    let value = family.get_lazy(key(2).as_bytes());
    [(key(2), shown(&value.unwrap().unwrap().fetch().unwrap()))].into()
}

fn scanned(family: &ColumnFamily) -> Contents {
    scan(&mut family.iter(&ReadOptions::default()).unwrap()).unwrap()
}

/// Stops a reader at `gate` while each of these things happens; compares the values that it finds
/// of `keys` keys.
fn read_across(gate: &'static str, keys: usize, read: fn(&ColumnFamily) -> Contents) {
    for (what, happen) in MEANWHILE {
        race(move |gates| {
            let store = store(gates);
            let oldest = oldest_blob_file(&store);
            let stop = gates.stop_at(gate);
            let reader = store.spawn("reader", move |db| read(db));
            stop.reached();
            let deleted = happen(&store);
            assert_eq!(!store.data_files().contains(&oldest), deleted, "{what}");
            stop.open();
            let found = reader.join();
            assert_eq!(found.len(), keys, "{what}");
            for (key, value) in &found {
                assert_eq!(expected().get(key), Some(value), "{what}");
            }
            store.finish();
        });
    }
}

#[test]
fn a_multi_get_finds_values_that_are_relocated_before_it_opens_their_files() {
    read_across("fetch: all located", KEYS, multi_get);
}

#[test]
fn a_multi_get_finds_values_that_are_relocated_before_it_reads_them() {
    read_across("fetch: reads planned", KEYS, multi_get);
}

#[test]
fn a_get_finds_a_value_that_is_relocated_before_it_opens_the_file() {
    read_across("fetch: located", 1, get);
}

#[test]
fn a_get_finds_a_value_that_is_relocated_before_it_reads_it() {
    read_across("fetch: file opened", 1, get);
}

#[test]
fn a_lazy_value_that_is_relocated_while_it_is_fetched_is_found() {
    read_across("fetch: located", 1, get_lazy);
    read_across("fetch: file opened", 1, get_lazy);
}

/// The first gate is that of a read of one value; the second is that of the readahead.
#[test]
fn an_iterator_finds_values_that_are_relocated_while_it_reads_them_ahead() {
    read_across("fetch: located", KEYS, scanned);
    read_across("fetch: all located", KEYS, scanned);
}

#[test]
fn a_lazy_value_that_is_relocated_before_it_is_fetched_is_found() {
    for (what, happen) in MEANWHILE {
        race(move |gates| {
            let store = store(gates);
            let lazy = |n| {
                let value = store.db.get_lazy(key(n).as_bytes());
                value.unwrap().unwrap()
            };
            let values: Vec<_> = (0..KEYS).map(lazy).collect();
            happen(&store);
            for (n, value) in values.iter().enumerate() {
                let found = shown(&value.fetch().unwrap());
                assert_eq!(Some(&found), expected().get(&key(n)), "{what}");
            }
            drop(values);
            store.finish();
        });
    }
}

/// Steps over `count` entries and takes their values.
fn take(iter: &mut DbIterator, count: usize, into: &mut Contents) {
    for _ in 0..count {
        into.insert(shown(iter.key()), shown(&iter.value().unwrap()));
        iter.next().unwrap();
    }
}

#[test]
fn an_iterator_finds_values_that_are_relocated_after_it_planned_to_read_them() {
    for (what, happen) in MEANWHILE {
        // After so many values there are reads in the window that have not been done.
        for taken in 1..12 {
            race(move |gates| {
                let store = store(gates);
                let mut iter = store.db.iter(&ReadOptions::default()).unwrap();
                iter.seek_to_first().unwrap();
                let mut found = Contents::new();
                take(&mut iter, taken, &mut found);
                happen(&store);
                take(&mut iter, KEYS - taken, &mut found);
                assert_eq!(found, expected(), "{what} after {taken}");
                drop(iter);
                store.finish();
            });
        }
    }
}

#[test]
fn a_new_reader_finds_values_at_their_new_place_while_another_has_the_old_one() {
    race(|gates| {
        let store = store(gates);
        let stop = gates.stop_at("fetch: file opened");
        let reader = store.spawn("reader", |db| get(db));
        stop.reached();
        collect(&store.db).unwrap();
        assert_eq!(multi_get(&store.db), expected());
        stop.open();
        assert_eq!(reader.join()[&key(2)], "old2");
        store.finish();
    });
}
