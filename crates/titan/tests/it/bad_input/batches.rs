//! Batches and records that cannot be applied.

use titan::{
    BatchOp, ColumnFamilyId, ColumnFamilyOptions, Db, Error, ErrorKind, ReadOptions, WriteBatch,
    WriteOptions,
};

use super::small;
use crate::directory::{contents, scan};

/// A batch as bytes: operations, `count` of which take a sequence number.
fn encoded(count: u32, operations: &[&[u8]]) -> Vec<u8> {
    let mut data = vec![0; 8];
    data.extend_from_slice(&count.to_le_bytes());
    data.extend(operations.iter().flat_map(|op| op.iter()));
    data
}

fn field(bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![u8::try_from(bytes.len()).unwrap()];
    field.extend_from_slice(bytes);
    field
}

/// Tag, key and value of an operation on the default family.
fn operation(tag: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    [vec![tag], field(key), field(value)].concat()
}

#[test]
fn unknown_and_dropped_families_are_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    db.put(b"key", b"before").unwrap();
    let dropped = db
        .create_column_family("dropped", ColumnFamilyOptions::default())
        .unwrap();
    dropped.put(b"key", b"gone").unwrap();
    dropped.flush().unwrap();
    let mut prepared = WriteBatch::new();
    prepared.put(&*db, b"key", b"half").unwrap();
    prepared.put(&dropped, b"key", b"half").unwrap();
    db.drop_column_family(&dropped).unwrap();

    let refused = |e: Error| {
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    };
    let mut unknown = WriteBatch::new();
    unknown.put(&*db, b"key", b"half").unwrap();
    unknown.delete(ColumnFamilyId(77), b"key").unwrap();
    for batch in [prepared, unknown] {
        refused(db.write(batch, &WriteOptions::default()).unwrap_err());
    }
    refused(dropped.put(b"key", b"v").unwrap_err());
    refused(dropped.delete_range(b"a", b"b").unwrap_err());
    refused(dropped.get(b"key").unwrap_err());
    refused(dropped.contains_key(b"key").unwrap_err());
    refused(dropped.multi_get(&[b"key"]).remove(0).unwrap_err());
    refused(dropped.iter(&ReadOptions::default()).err().unwrap());
    refused(db.drop_column_family(&dropped).unwrap_err());
    refused(db.drop_column_family(&db).unwrap_err());

    assert_eq!(db.get(b"key").unwrap().unwrap(), "before");
    assert!(db.background_error().is_none());
    // The name is free again; the new family has no data of the old one.
    let again = db
        .create_column_family("dropped", ColumnFamilyOptions::default())
        .unwrap();
    assert_ne!(again.id(), dropped.id());
    assert_eq!(scan(&again).unwrap(), []);
    let e = db
        .create_column_family("dropped", ColumnFamilyOptions::default())
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}");
    db.close().unwrap();
    drop((db, again, dropped));
    let db = Db::open(dir.path(), &small()).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), "before");
    assert_eq!(scan(&db.column_family("dropped").unwrap()).unwrap(), []);
}

#[test]
fn the_log_of_a_family_dropped_since_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let dropped = db.create_column_family("dropped", small().default).unwrap();
    for i in 0..100_u8 {
        let mut batch = WriteBatch::new();
        batch.put(&dropped, [i], vec![i; 300]).unwrap();
        batch.put(&*db, [i], [i]).unwrap();
        db.write(batch, &WriteOptions::default()).unwrap();
    }
    db.drop_column_family(&dropped).unwrap();
    db.put(b"after", b"the drop").unwrap();
    let before = contents(&db).unwrap();
    // Not closed: the log is replayed as after the end of the process.
    let crashed = crate::directory::copy(dir.path());
    let db = Db::open(crashed.path(), &small()).unwrap();
    assert_eq!(contents(&db).unwrap(), before);
    assert_eq!(db.column_families().len(), 1);
}

#[test]
fn a_write_without_log_cannot_be_synced() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&*db, b"key", b"value").unwrap();
    let both = WriteOptions {
        disable_wal: true,
        ..WriteOptions::synced()
    };
    let e = db.write(batch, &both).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert_eq!(db.get(b"key").unwrap(), None);
    db.put(b"key", b"value").unwrap();
}

#[test]
fn encoded_batches_are_checked() {
    let put = operation(0x01, b"key", b"value");
    let good = encoded(1, &[&put]);
    let batch = WriteBatch::from_data(good.clone()).unwrap();
    let ops: Vec<_> = batch.iter().map(Result::unwrap).collect();
    let expected = BatchOp::Put {
        cf: ColumnFamilyId::DEFAULT,
        key: b"key",
        value: b"value",
    };
    assert_eq!(ops, [expected]);
    for len in 0..good.len() {
        let e = WriteBatch::from_data(&good[..len]).unwrap_err();
        assert!(e.is_corruption(), "{len} bytes: {e}");
    }
    for (bad, what) in [
        (encoded(2, &[&put]), "a count too large"),
        (encoded(0, &[&put]), "a count too small"),
        (encoded(1, &[&[0x42, 1, 2, 3]]), "an unknown operation"),
        (encoded(u32::MAX, &[]), "a count of nothing"),
    ] {
        let e = WriteBatch::from_data(bad).unwrap_err();
        assert!(e.is_corruption(), "{what}: {e}");
    }
}

#[test]
fn operations_that_cannot_be_applied_leave_nothing_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    db.put(b"key", b"before").unwrap();
    let put = operation(0x01, b"key", b"half");
    for (operation, what) in [
        (
            operation(0x11, b"key", b"\x01\x05\x00\x00\x00"),
            "a blob pointer",
        ),
        (vec![0x09], "the start of a transaction"),
        ([vec![0x0b], field(b"id")].concat(), "a commit"),
    ] {
        let takes_sequence = operation[0] == 0x11;
        let data = encoded(1 + u32::from(takes_sequence), &[&put, &operation]);
        let batch = WriteBatch::from_data(data).unwrap();
        let e = db.write(batch, &WriteOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{what}: {e}");
        assert_eq!(db.get(b"key").unwrap().unwrap(), "before", "{what}");
        assert!(db.background_error().is_none(), "{what}");
    }
    db.put(b"another", b"goes on").unwrap();
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), &small()).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), "before");
    assert_eq!(db.get(b"another").unwrap().unwrap(), "goes on");
}

/// RocksDB's put with a time of its own. The time is of no consequence here.
#[test]
fn a_timed_put_is_a_put() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let data = encoded(1, &[&operation(0x18, b"key", b"value12345678")]);
    let batch = WriteBatch::from_data(data).unwrap();
    db.write(batch, &WriteOptions::default()).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
    // From the log.
    db.close().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
    let no_time = encoded(1, &[&operation(0x18, b"key", b"1234567")]);
    assert!(WriteBatch::from_data(no_time).unwrap_err().is_corruption());
}
