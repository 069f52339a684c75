//! Values with columns: written entities are read back through any operations, and the values that
//! RocksDB keeps in blob files are neither lost nor counted wrongly.

mod model;
mod of_rocksdb;

use std::collections::BTreeMap;

use titan::merge::builtin;
use titan::{
    ColumnFamily, ColumnFamilyOptions, Db, ErrorKind, LazyValue, Options, ReadOptions,
    TransactionOptions, WideColumns, WriteBatch, WriteOptions,
};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use crate::support::{DIR, manual, open, options};

/// Values by name.
type Columns = BTreeMap<Vec<u8>, Vec<u8>>;
/// Columns by key. A value without columns is the default column.
type Model = BTreeMap<Vec<u8>, Columns>;

fn named<const N: usize>(columns: [(&str, &str); N]) -> Columns {
    let owned = |(name, value): (&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    columns.map(owned).into()
}

fn read(columns: &WideColumns) -> Columns {
    let all: Columns = columns
        .iter()
        .map(|(name, value)| (name.to_vec(), value.fetch().unwrap().to_vec()))
        .collect();
    assert_eq!(all.len(), columns.len());
    for (name, value) in &all {
        assert_eq!(columns.get(name).unwrap().fetch().unwrap(), value);
    }
    assert!(columns.get("no such column").is_none());
    all
}

/// Values that readers see which do not know of columns.
fn default_of(columns: &Columns) -> &[u8] {
    columns.get(&b""[..]).map_or(b"", Vec::as_slice)
}

/// A length that is known is that of the default column.
fn assert_len(lazy: &LazyValue, value: &[u8], what: &str) {
    if let Some(len) = lazy.len() {
        assert_eq!(len, value.len() as u64, "{what}");
    }
}

/// Every way of reading finds the content of the model. `keys` are those that there may be.
fn assert_reads(
    family: &ColumnFamily,
    options: &ReadOptions,
    model: &Model,
    keys: &[Vec<u8>],
    what: &str,
) {
    let many = family.multi_get_with(keys, options);
    for (key, multi) in keys.iter().zip(many) {
        let what = format!("{what}: {}", key.escape_ascii());
        let expected = model.get(key);
        let value = expected.map(default_of);
        assert_eq!(multi.unwrap().as_deref(), value, "{what}");
        let got = family.get_with(key, options).unwrap();
        assert_eq!(got.as_deref(), value, "{what}");
        let lazy = family.get_lazy_with(key, options).unwrap();
        if let Some(lazy) = &lazy {
            assert_len(lazy, value.unwrap(), &what);
        }
        assert_eq!(lazy.map(|lazy| lazy.fetch().unwrap()).as_deref(), value);
        assert_eq!(
            family.contains_key_with(key, options).unwrap(),
            value.is_some()
        );
        let entity = family.get_entity_with(key, options).unwrap();
        assert_eq!(entity.as_ref().map(read).as_ref(), expected, "{what}");
        if let Some(snapshot) = &options.snapshot {
            let entity = snapshot.get_entity(family, key).unwrap();
            assert_eq!(entity.as_ref().map(read).as_ref(), expected, "{what}");
        }
    }
    for take_values in [false, true] {
        let mut iter = family.iter(options).unwrap();
        iter.seek_to_first().unwrap();
        for (key, columns) in model {
            let what = format!("{what}, forward: {}", key.escape_ascii());
            assert!(iter.valid(), "{what}");
            assert_eq!(iter.key(), key, "{what}");
            if take_values {
                assert_eq!(iter.value().unwrap(), default_of(columns), "{what}");
            }
            assert_eq!(read(&iter.columns().unwrap()), *columns, "{what}");
            let lazy = iter.lazy_value().unwrap();
            assert_len(&lazy, default_of(columns), &what);
            assert_eq!(lazy.fetch().unwrap(), default_of(columns), "{what}");
            iter.next().unwrap();
        }
        assert!(!iter.valid(), "{what}");
    }
    let mut iter = family.iter(options).unwrap();
    iter.seek_to_last().unwrap();
    for (key, columns) in model.iter().rev() {
        assert_eq!(iter.key(), key, "{what}, backward");
        assert_eq!(iter.value().unwrap(), default_of(columns), "{what}");
        assert_eq!(read(&iter.columns().unwrap()), *columns, "{what}");
        iter.prev().unwrap();
    }
    assert!(!iter.valid(), "{what}");
}

/// Closes the database, and checks that pointers, accounts and scans agree.
fn close_and_check(db: Db, options: &Options) {
    db.close().unwrap();
    drop(db);
    let report = check(DIR.as_ref(), options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

fn appending() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        merge_operator: Some(builtin::by_name("stringappend").unwrap()),
        ..manual()
    }
}

#[test]
fn what_is_written_is_read_from_memory_log_and_tables() {
    let vfs = SimVfs::new();
    let options = options(&vfs, appending());
    let db = open(&options);
    db.put_entity(b"a", [("town", "Ulm"), ("", "Ann"), ("age", "41")])
        .unwrap();
    db.put_entity(b"b", [("age", "42")]).unwrap();
    db.put_entity::<&str, &str>(b"c", []).unwrap();
    db.put(b"d", b"plain").unwrap();
    db.put_entity(b"e", [("", "over"), ("x", "y")]).unwrap();
    db.merge(b"e", b"more").unwrap();
    db.put_entity(b"f", [("x", "y")]).unwrap();
    db.merge(b"f", b"more").unwrap();
    db.put_entity(b"g", [("", "gone")]).unwrap();
    db.delete(b"g").unwrap();
    let model = Model::from([
        (
            b"a".to_vec(),
            named([("town", "Ulm"), ("", "Ann"), ("age", "41")]),
        ),
        (b"b".to_vec(), named([("age", "42")])),
        (b"c".to_vec(), named([])),
        (b"d".to_vec(), named([("", "plain")])),
        (b"e".to_vec(), named([("", "over,more"), ("x", "y")])),
        // As in RocksDB: an entity without a default column has an empty value.
        (b"f".to_vec(), named([("", ",more"), ("x", "y")])),
    ]);
    let keys: Vec<Vec<u8>> = (b'a'..=b'h').map(|b| vec![b]).collect();
    let reads = |db: &Db, what| {
        assert_reads(db, &ReadOptions::default(), &model, &keys, what);
        let known = |key: &[u8]| db.get_lazy(key).unwrap().unwrap().len();
        assert_eq!((known(b"a"), known(b"b")), (Some(3), Some(0)), "{what}");
    };
    reads(&db, "written");
    db.close().unwrap();
    let db = open(&options);
    reads(&db, "replayed");
    let all = titan::CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &all).unwrap();
    reads(&db, "compacted");
    close_and_check(db, &options);
}

#[test]
fn columns_that_make_no_entity_are_refused() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    let error = db.put_entity(b"k", [("a", "1"), ("b", "2"), ("a", "3")]);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains("'a' is given twice"), "{error}");
    // Encoded by another program: no entity, one of a later version, and one with a pointer.
    for (entity, kind) in [
        (&b"\x01\x01"[..], ErrorKind::Corruption),
        (b"\x03\x00", ErrorKind::Unsupported),
        (
            b"\x02\x01\x01\x01\x00\x11\x00\x05\x01\x07\x40\x05\x00",
            ErrorKind::Unsupported,
        ),
    ] {
        let mut data = vec![0; 8];
        data.extend([1, 0, 0, 0, 0x16, 1, b'k', entity.len() as u8]);
        data.extend(entity);
        let batch = WriteBatch::from_data(data).unwrap();
        let error = db.write(batch, &WriteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert!(db.get(b"k").unwrap().is_none());
    db.put(b"k", b"still writable").unwrap();
}

#[test]
fn a_transaction_sees_the_columns_that_it_wrote() {
    let vfs = SimVfs::new();
    let options = options(&vfs, appending());
    let db = open(&options);
    db.put_entity(b"old", [("", "v"), ("x", "1")]).unwrap();
    let transaction = db.begin(&TransactionOptions::default()).unwrap();
    transaction
        .put_entity(&db, "new", [("x", "2"), ("", "w")])
        .unwrap();
    transaction.merge(&db, "old", "more").unwrap();
    transaction.merge(&db, "new", "more").unwrap();
    transaction.merge(&db, "third", "first").unwrap();
    let expected = Model::from([
        (b"new".to_vec(), named([("", "w,more"), ("x", "2")])),
        (b"old".to_vec(), named([("", "v,more"), ("x", "1")])),
        (b"third".to_vec(), named([("", "first")])),
    ]);
    let mut iter = transaction.iter(&db, &ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    for (key, columns) in &expected {
        assert_eq!(iter.key(), key);
        assert_eq!(iter.value().unwrap(), default_of(columns));
        assert_eq!(read(&iter.columns().unwrap()), *columns);
        iter.next().unwrap();
        let entity = transaction.get_entity(&db, key).unwrap().unwrap();
        assert_eq!(read(&entity), *columns);
        let value = transaction.get(&db, key).unwrap().unwrap();
        assert_eq!(value, default_of(columns));
    }
    assert!(!iter.valid());
    assert!(transaction.get_entity(&db, "none").unwrap().is_none());
    transaction.commit().unwrap();
    let keys: Vec<_> = expected.keys().cloned().collect();
    assert_reads(&db, &ReadOptions::default(), &expected, &keys, "committed");
    close_and_check(db, &options);
}
