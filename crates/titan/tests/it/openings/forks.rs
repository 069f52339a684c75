//! Children that are forked while a database is open: they read, change nothing and wait for
//! nothing.

use std::collections::BTreeMap;
use std::path::Path;

use titan::{
    CollectGarbageOptions, ColumnFamily, CompactRangeOptions, Conditions, Db, Error, ErrorKind,
    FileNumber, Options, ReadOptions, Secondary, TransactionOptions, WriteBatch, WriteOptions,
};
use titan_testkit::child::in_child;

use crate::support::{key, value};

/// Longer than any of these children takes that does not wait for ever.
const SECONDS: u32 = 60;

/// A database with entries in tables, in blob files and in memory, of two families.
fn filled(dir: &Path) -> (Db, ColumnFamily) {
    let mut options = Options::default();
    options.default.min_blob_size = 100;
    let db = Db::open(dir, &options).unwrap();
    let other = db
        .create_column_family("other", options.default.clone())
        .unwrap();
    for n in 0..300 {
        db.put(&key(n), &value(n, 50 + n)).unwrap();
        other.put(&key(n), &value(n + 1000, 20)).unwrap();
        if n == 200 {
            db.flush_all().unwrap();
        }
    }
    db.wait_idle().unwrap();
    (db, other)
}

/// The contents of all files of a directory.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    names
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn read_all(db: &Db, other: &ColumnFamily) {
    for n in 0..300 {
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 50 + n), "{n}");
        let got = other.get(&key(n)).unwrap().unwrap();
        assert_eq!(got, value(n + 1000, 20), "{n}");
    }
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    let mut count = 0;
    while iter.valid() {
        assert_eq!(iter.value().unwrap(), value(count, 50 + count));
        count += 1;
        iter.next().unwrap();
    }
    assert_eq!(count, 300);
    let keys = [key(1), key(250)];
    let many = db.multi_get(&keys);
    assert!(many.into_iter().all(|got| got.unwrap().is_some()));
}

/// Runs `run` in a child, again if it waits for ever: another test's thread may have had a lock at
/// the moment of the fork that waking threads needs. A program that has other threads cannot do
/// this at all.
fn unless_a_lock_is_held(run: &mut dyn FnMut() -> Result<(), String>) {
    for _ in 0..8 {
        match in_child(20, &mut *run) {
            Ok(()) => return,
            Err(e) if e.contains("signal 14") => {}
            Err(e) => panic!("{e}"),
        }
    }
    panic!("it waits for ever");
}

fn refused<T>(what: &str, outcome: Result<T, Error>) {
    let Err(error) = outcome else {
        panic!("{what}: it succeeded");
    };
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{what}: {error}");
}

/// Everything that would change the database, or wait for a thread of it.
fn refuses_changes(db: &Db, other: &ColumnFamily) {
    let in_parent = |text: &str| assert!(text.contains("before a fork"), "{text}");
    in_parent(&db.put(b"k", b"v").unwrap_err().to_string());
    refused("put", other.put(b"k", b"v"));
    refused("delete", db.delete(&key(1)));
    refused("put_entity", db.put_entity(b"k", [("name", "value")]));
    // A short value goes to the log, a long one to a file of its own.
    refused("put_reader", db.put_reader(b"k", &b"v"[..]));
    let long = vec![b'v'; 3 << 20];
    refused("put_reader", other.put_reader(b"k", &long[..]));
    refused("delete_range", db.delete_range(&key(1), &key(2)));
    let mut batch = WriteBatch::new();
    batch.put(&**db, b"k", b"v").unwrap();
    refused("write", db.write(batch, &WriteOptions::synced()));
    refused(
        "write",
        db.write(WriteBatch::new(), &WriteOptions::default()),
    );
    let conditions = Conditions::since(&db.snapshot());
    let written = db.write_if(WriteBatch::new(), &conditions, &WriteOptions::default());
    refused("write_if", written);
    refused("begin", db.begin(&TransactionOptions::pessimistic()));
    refused("transaction", db.transaction(|t| t.put(db, b"k", b"v")));
    refused(
        "compare_and_set",
        db.compare_and_set(b"k", None, Some(b"v")),
    );
    refused("flush", db.flush());
    refused("flush_all", db.flush_all());
    refused("sync_wal", db.sync_wal());
    refused("barrier", db.barrier(|_| ()));
    refused("resume", db.resume());
    refused("wait_idle", db.wait_idle());
    refused(
        "set_options",
        db.set_options(&[("write_buffer_size", "1048576")]),
    );
    let compacted = db.compact_range(None, None, &CompactRangeOptions::default());
    refused("compact_range", compacted);
    refused("compact_files", db.compact_files(&[FileNumber(1)], 6));
    let collected = db.collect_garbage(None, None, &CollectGarbageOptions::default());
    refused("collect_garbage", collected);
    refused("pause", db.pause_garbage_collection());
    refused("create", db.create_column_family("new", Default::default()));
    let opened = db.open_or_create_column_family("new", Default::default());
    refused("open_or_create", opened);
    refused("drop", db.drop_column_family(other));
    refused("checkpoint", db.checkpoint("/nowhere/at/all"));
    refused("space_report", db.space_report());
    refused("close", db.close());
    refused("close", db.close());
}

#[test]
fn a_child_reads_the_database_of_its_parent_and_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (db, other) = filled(place.path());
    let snapshot = db.snapshot();
    let iter = db.iter(&ReadOptions::default()).unwrap();
    let lazy = db.get_lazy(&key(150)).unwrap();
    let transaction = db.begin(&TransactionOptions::pessimistic()).unwrap();
    transaction.put(&db, key(7), "own").unwrap();
    let pause = db.pause_garbage_collection().unwrap();
    let before = contents(place.path());
    // Taken by the child alone: in the parent they stay.
    let mut all = Some((db, other, snapshot, iter, lazy, pause));
    let mut transaction = Some(transaction);
    unless_a_lock_is_held(&mut || {
        let all = all.take().unwrap();
        let (db, other, _, _, lazy, _) = &all;
        read_all(db, other);
        assert_eq!(lazy.as_ref().unwrap().fetch().unwrap(), value(150, 200));
        refuses_changes(db, other);
        let transaction = transaction.take().unwrap();
        refused("put in a transaction", transaction.put(db, key(8), "own"));
        refused("commit", transaction.commit());
        // The last handles of everything.
        drop(all);
        Ok(())
    });
    assert!(contents(place.path()) == before, "the child changed files");
    let (db, other, ..) = all.unwrap();
    let transaction = transaction.unwrap();
    transaction.put(&db, key(8), "own").unwrap();
    transaction.commit().unwrap();
    assert_eq!(db.get(&key(8)).unwrap().unwrap(), "own");
    other.put(&key(9), b"own").unwrap();
    db.close().unwrap();
}

#[test]
fn a_parent_goes_on_after_its_children() {
    let place = tempfile::tempdir().unwrap();
    let (db, other) = filled(place.path());
    let mut expected = Vec::new();
    for round in 0..8 {
        unless_a_lock_is_held(&mut || {
            let (db, other) = (db.clone(), other.clone());
            refuses_changes(&db, &other);
            Ok(())
        });
        let key = format!("parent{round}").into_bytes();
        db.put(&key, &value(round, 5000)).unwrap();
        expected.push(key);
        match round % 4 {
            0 => db.flush().unwrap(),
            1 => db.sync_wal().unwrap(),
            2 => db
                .compact_range(None, None, &CompactRangeOptions::default())
                .unwrap(),
            _ => {}
        }
        let error = Db::open(place.path(), &Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    }
    db.close().unwrap();
    drop((db, other));
    let report = titan_tools::check(place.path(), &Options::default(), &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    let db = Db::open(place.path(), &Options::default()).unwrap();
    for (round, key) in expected.iter().enumerate() {
        assert_eq!(db.get(key).unwrap().unwrap(), value(round, 5000));
    }
}

/// A database without threads ends with its last handle, also in a child.
#[test]
fn the_lock_of_a_reader_stays_with_the_parent() {
    let place = tempfile::tempdir().unwrap();
    filled(place.path()).0.close().unwrap();
    let options = Options::default();
    let reader = Db::open_read_only(place.path(), &options).unwrap();
    let other = reader.column_family("other").unwrap();
    let mut kept = Some((reader, other));
    in_child(SECONDS, || {
        let (db, other) = kept.take().unwrap();
        read_all(&db, &other);
        refuses_changes(&db, &other);
        drop((db, other));
        Ok(())
    })
    .unwrap();
    let error = Db::open(place.path(), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    drop(kept);
    Db::open(place.path(), &options).unwrap().close().unwrap();
}

#[test]
fn a_child_may_open_databases_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let (db, other) = filled(&place.path().join("parent"));
    let mut in_child = || {
        let options = Options::default();
        let taken = Db::open(place.path().join("parent"), &options).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Locked, "{taken}");
        let secondary = Secondary::open(place.path().join("parent"), &options).unwrap();
        let view = secondary.db();
        read_all(&view, &view.column_family("other").unwrap());
        let own = Db::open(place.path().join("child"), &options).unwrap();
        own.put(b"k", b"v").unwrap();
        own.flush().unwrap();
        own.close().unwrap();
        refused("put", db.put(b"k", b"v"));
        Ok(())
    };
    unless_a_lock_is_held(&mut in_child);
    let own = Db::open(place.path().join("child"), &Options::default()).unwrap();
    assert_eq!(own.get(b"k").unwrap().unwrap(), &b"v"[..]);
    read_all(&db, &other);
    db.close().unwrap();
}
