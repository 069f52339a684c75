//! Snapshots and handles of one database are refused by another, with any numbers.

use titan::{
    ColumnFamilyId, ColumnFamilyOptions, Db, Error, ErrorKind, Options, ReadOptions, Result,
    WriteBatch, WriteOptions,
};

/// A database with a value and the family `other`, which has the same number in all of them.
fn database(dir: &tempfile::TempDir) -> Db {
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    let other = db
        .column_family("other")
        .map_or_else(
            || db.create_column_family("other", ColumnFamilyOptions::default()),
            Ok,
        )
        .unwrap();
    db.put(b"k", b"v").unwrap();
    other.put(b"k", b"v").unwrap();
    db
}

fn refused<T>(result: Result<T>) -> Error {
    let error = result.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains("another database"), "{error}");
    error
}

#[test]
fn a_snapshot_of_another_database() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [a, b] = [0, 1].map(|n| database(&dirs[n]));
    // So that the snapshot's number is also one of the other database.
    let at = |snapshot| ReadOptions {
        snapshot: Some(snapshot),
        ..ReadOptions::default()
    };
    let of_other = at(a.snapshot());
    for family in b.column_families() {
        refused(family.get_with(b"k", &of_other));
        refused(family.get_lazy_with(b"k", &of_other));
        refused(family.contains_key_with(b"k", &of_other));
        refused(family.iter(&of_other));
        let found = family.multi_get_with(&[b"k", b"k"], &of_other);
        assert_eq!(found.into_iter().map(refused).count(), 2);
        let found = family.multi_get_lazy_with(&[b"k", b"k"], &of_other);
        assert_eq!(found.into_iter().map(refused).count(), 2);
    }
    let own = at(b.snapshot());
    assert_eq!(b.get_with(b"k", &own).unwrap().as_deref(), Some(&b"v"[..]));

    // A later opening of the same directory continues the sequence numbers, but compactions may
    // have dropped entries that the snapshot saw.
    b.close().unwrap();
    drop(b);
    let b = database(&dirs[1]);
    refused(b.get_with(b"k", &own));
}

#[test]
fn a_batch_for_another_database() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [a, b] = [0, 1].map(|n| database(&dirs[n]));
    let [of_a, of_b] = [&a, &b].map(|db| db.column_family("other").unwrap());
    assert_eq!(of_a.id(), of_b.id());
    let sync = WriteOptions::default();

    let mut batch = WriteBatch::new();
    batch.put(&of_a, "x", "1").unwrap();
    refused(b.write(batch.clone(), &sync));
    let mut of_default = WriteBatch::new();
    of_default.delete(&*a, "k").unwrap();
    refused(b.write(of_default.clone(), &sync));
    // A batch with handles of both is refused, however they come together; nothing is added then.
    let before = batch.clone();
    refused(batch.put(&of_b, "x", "1"));
    refused(batch.delete_range(&*b, "a", "b"));
    let mut third = WriteBatch::new();
    third.put(&of_b, "x", "2").unwrap();
    refused(batch.append(&third));
    assert!(batch == before);
    for family in b.column_families() {
        assert_eq!(family.get(b"x").unwrap(), None);
        assert!(family.contains_key(b"k").unwrap());
    }

    // Operations that were rolled back do not count, and an id belongs to any database.
    let mut mixed = WriteBatch::new();
    mixed.put(of_a.id(), "id", "1").unwrap();
    mixed.set_save_point();
    mixed.put(&of_a, "x", "1").unwrap();
    mixed.rollback_to_save_point().unwrap();
    mixed.put(&of_b, "x", "1").unwrap();
    mixed.put(ColumnFamilyId::DEFAULT, "id", "1").unwrap();
    b.write(mixed, &sync).unwrap();
    assert!(of_b.contains_key(b"id").unwrap() && b.contains_key(b"id").unwrap());
    batch.clear();
    batch.put(&of_b, "y", "1").unwrap();
    b.write(batch, &sync).unwrap();

    // A handle belongs to one opening.
    let mut late = WriteBatch::new();
    late.put(&of_a, "late", "1").unwrap();
    drop((of_a, a));
    let a = database(&dirs[0]);
    refused(a.write(late, &sync));
    refused(a.write(of_default, &sync));
    assert!(
        !a.column_family("other")
            .unwrap()
            .contains_key(b"late")
            .unwrap()
    );
}

#[test]
fn a_family_with_the_name_of_one_that_was_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(&dir);
    let old = db.column_family("other").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&old, "x", "1").unwrap();
    db.drop_column_family(&old).unwrap();
    let new = db
        .create_column_family("other", ColumnFamilyOptions::default())
        .unwrap();
    let error = db.write(batch, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(new.get(b"x").unwrap(), None);
}
