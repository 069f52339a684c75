//! The first steps of every user.

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, Options, ReadOptions, WriteBatch, WriteOptions,
};

fn small() -> Options {
    Options {
        default: ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            target_file_size_base: 64 << 10,
            max_bytes_for_level_base: 256 << 10,
            min_blob_size: 256,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

fn value(i: u32, round: u32) -> Vec<u8> {
    let len = [10, 255, 256, 1000, 5000][(i % 5) as usize];
    let mut v = format!("value {i} {round} ").into_bytes();
    v.resize(len.max(v.len()), (i % 251) as u8);
    v
}

#[test]
fn everything_written_is_read_back_also_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let options = small();
    let db = Db::open(dir.path(), &options).unwrap();
    for round in 0..3 {
        for i in 0..2000 {
            if i % 3 == round || round == 0 {
                db.put(&key(i), &value(i, round)).unwrap();
            }
        }
    }
    for i in (0..2000).step_by(7) {
        db.delete(&key(i)).unwrap();
    }
    db.delete_range(&key(100), &key(120)).unwrap();
    let expected = |i: u32| {
        if i.is_multiple_of(7) || (100..120).contains(&i) {
            return None;
        }
        Some(value(i, if i.is_multiple_of(3) { 0 } else { i % 3 }))
    };
    let check = |db: &Db| {
        for i in 0..2000 {
            let got = db.get(&key(i)).unwrap();
            assert_eq!(got.as_deref(), expected(i).as_deref(), "key {i}");
            assert_eq!(db.contains_key(&key(i)).unwrap(), expected(i).is_some());
        }
        let mut it = db.iter(&ReadOptions::default()).unwrap();
        it.seek_to_first().unwrap();
        for i in (0..2000).filter(|i| expected(*i).is_some()) {
            assert!(it.valid(), "at {i}");
            assert_eq!(it.key(), key(i));
            assert_eq!(it.value().unwrap(), expected(i).unwrap());
            it.next().unwrap();
        }
        assert!(!it.valid());
        it.seek_to_last().unwrap();
        for i in (0..2000).rev().filter(|i| expected(*i).is_some()) {
            assert_eq!(it.key(), key(i));
            assert_eq!(it.value().unwrap(), expected(i).unwrap());
            it.prev().unwrap();
        }
        assert!(!it.valid());
    };
    check(&db);
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), &options).unwrap();
    check(&db);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    check(&db);
    drop(db);
    let db = Db::open(dir.path(), &options).unwrap();
    check(&db);
    let metrics = &db.metrics().families[0];
    assert!(
        metrics.blob_files > 0 && metrics.live_blob_bytes > 0,
        "{metrics:?}"
    );
}

#[test]
fn families_are_written_together() {
    let dir = tempfile::tempdir().unwrap();
    let options = small();
    let db = Db::open(dir.path(), &options).unwrap();
    let a = db
        .create_column_family("a", options.default.clone())
        .unwrap();
    let b = db
        .create_column_family("b", options.default.clone())
        .unwrap();
    for i in 0..1000 {
        let mut batch = WriteBatch::new();
        batch.put(&a, key(i), value(i, 1)).unwrap();
        batch.put(&b, key(i), value(i, 2)).unwrap();
        batch.delete(&*db, key(i)).unwrap();
        db.write(batch, &WriteOptions::default()).unwrap();
    }
    db.drop_column_family(&a).unwrap();
    assert!(a.get(&key(1)).is_err());
    drop((a, b, db));
    let db = Db::open(dir.path(), &options).unwrap();
    assert!(db.column_family("a").is_none());
    let b = db.column_family("b").unwrap();
    for i in 0..1000 {
        assert_eq!(b.get(&key(i)).unwrap().unwrap(), value(i, 2));
    }
    db.close().unwrap();
    assert_eq!(
        Db::list_column_families(dir.path(), &options).unwrap(),
        ["default", "b"]
    );
}

#[test]
fn ranges_that_end_before_they_begin_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = titan::Db::open(dir.path(), &titan::Options::default()).unwrap();
    db.put(b"b", b"1").unwrap();
    let range = |from: &[u8], to: &[u8]| {
        let compacted = db.compact_range(Some(from), Some(to), &Default::default());
        let collected = db.collect_garbage(Some(from), Some(to), &Default::default());
        [compacted.err(), collected.err()].map(|e| e.map(|e| e.kind()))
    };
    let refused = Some(titan::ErrorKind::InvalidArgument);
    assert_eq!(range(b"b", b"a"), [refused; 2]);
    assert_eq!(range(b"b", b"b"), [None; 2]);
    assert_eq!(range(b"a", b"b"), [None; 2]);
}
