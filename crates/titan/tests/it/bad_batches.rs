//! A batch that cannot be applied is refused before it is logged; other batches are not affected.

use titan::{ColumnFamilyId, Db, ErrorKind, Options, WriteBatch, WriteOptions};

/// A batch of one operation, decoded from bytes.
fn batch_of(count: u32, operation: &[u8]) -> WriteBatch {
    let mut data = vec![0; 8];
    data.extend_from_slice(&count.to_le_bytes());
    data.extend_from_slice(operation);
    WriteBatch::from_data(data).unwrap()
}

#[test]
fn they_leave_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    let mut nowhere = WriteBatch::new();
    nowhere.put(ColumnFamilyId(7), b"k", b"v").unwrap();
    let mut backwards = WriteBatch::new();
    backwards.put(ColumnFamilyId::DEFAULT, b"k", b"v").unwrap();
    backwards
        .delete_range(ColumnFamilyId::DEFAULT, b"b", b"a")
        .unwrap();
    let refused = [
        (batch_of(1, b"\x11\x01k\x01x"), ErrorKind::Unsupported), // a blob pointer
        (batch_of(0, b"\x09"), ErrorKind::Unsupported),           // a transaction begins
        (nowhere, ErrorKind::InvalidArgument),
        // RocksDB would not open a database with this in its WAL.
        (backwards, ErrorKind::InvalidArgument),
    ];
    for (batch, kind) in refused {
        let text = format!("{batch:?}");
        let error = db.write(batch, &WriteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
    }
    assert!(db.background_error().is_none());
    db.put(b"a", b"b").unwrap();
    drop(db);
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"b"[..]));
    assert!(!db.contains_key(b"k").unwrap());
}
