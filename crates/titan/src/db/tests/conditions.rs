//! Conditional commits: which writes count as a conflict, wherever their traces are.

use std::path::Path;

use crate::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Conditions, Db, DbOptions, ErrorKind,
    Options, Result, ReverseBytewiseComparator, Snapshot, WriteBatch, WriteOptions,
};

/// Nothing runs in the background; values of 20 bytes and more are separated.
fn options() -> Options {
    Options {
        db: DbOptions {
            vfs: std::sync::Arc::new(crate::vfs::MemoryVfs::default()),
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            disable_auto_compactions: true,
            min_blob_size: 20,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

fn open() -> Db {
    Db::open(Path::new("/db"), &options()).unwrap()
}

fn compact(family: &ColumnFamily) {
    let bottom = CompactRangeOptions {
        force_bottommost: true,
    };
    family.compact_range(None, None, &bottom).unwrap();
}

/// Writes `to` if `key` is unchanged.
fn write_if(db: &Db, snapshot: &Snapshot, family: &ColumnFamily, key: &str) -> Result<()> {
    let mut conditions = Conditions::since(snapshot);
    conditions.unchanged(family, key)?;
    let mut batch = WriteBatch::new();
    batch.put(family, "to", "x")?;
    let as_before = batch.clone();
    let written = db.write_if(&mut batch, &conditions, &WriteOptions::default());
    assert!(written.is_ok() || batch == as_before, "it is lost");
    written
}

#[track_caller]
fn assert_conflict(result: Result<()>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Conflict);
}

type Step = (&'static str, fn(&ColumnFamily));

/// Steps that write the key `k`, which may have been put once before.
const WRITES: [Step; 8] = [
    ("put", |f| f.put(b"k", b"2").unwrap()),
    ("large put", |f| f.put(b"k", &[b'2'; 100]).unwrap()),
    ("delete", |f| f.delete(b"k").unwrap()),
    ("single delete", |f| f.single_delete(b"k").unwrap()),
    ("range that begins there", |f| {
        f.delete_range(b"k", b"l").unwrap()
    }),
    ("range over it", |f| f.delete_range(b"a", b"z").unwrap()),
    ("delete and put", |f| {
        f.delete(b"k").unwrap();
        f.put(b"k", b"1").unwrap();
    }),
    ("put and single delete", |f| {
        f.delete(b"k").unwrap();
        f.put(b"k", b"1").unwrap();
        f.single_delete(b"k").unwrap();
    }),
];

/// Steps that do not write it.
const OTHERS: [Step; 3] = [
    ("nothing", |_| {}),
    ("neighbours", |f| {
        f.put(b"j", b"2").unwrap();
        f.delete(b"k\0").unwrap();
    }),
    ("ranges beside it", |f| {
        f.delete_range(b"a", b"k").unwrap();
        f.delete_range(b"k\0", b"z").unwrap();
    }),
];

const MOVES: [Step; 5] = [
    ("memtable", |_| {}),
    ("flushed", |f| f.flush().unwrap()),
    ("flushed, then more", |f| {
        f.flush().unwrap();
        f.put(b"zz", b"z").unwrap();
    }),
    ("compacted", |f| compact(f)),
    ("compacted twice", |f| {
        compact(f);
        f.put(b"k2", b"z").unwrap();
        compact(f);
    }),
];

#[test]
fn every_write_of_a_key_is_a_conflict_wherever_its_trace_is() {
    let db = open();
    for existed in [false, true] {
        for (moved, move_it) in MOVES {
            for (write, write_it) in WRITES.into_iter().chain(OTHERS) {
                let name = format!("{existed} {moved} {write}");
                let family = db.create_column_family(&name, options().default).unwrap();
                if existed {
                    family.put(b"k", b"0").unwrap();
                }
                move_it(&family);
                let before = db.snapshot();
                write_it(&family);
                let expected = WRITES.iter().any(|(name, _)| *name == write);
                for (moved, move_it) in MOVES {
                    move_it(&family);
                    let written = write_if(&db, &before, &family, "k").map_err(|e| e.kind());
                    let conflict = written == Err(ErrorKind::Conflict);
                    assert_eq!(conflict, expected, "{name}, {moved}: {written:?}");
                    assert!(conflict || written.is_ok(), "{name}, {moved}");
                }
                // Newer snapshots do not see it as new.
                let after = db.snapshot();
                write_if(&db, &after, &family, "k").unwrap();
                assert!(family.contains_key(b"to").unwrap());
                db.drop_column_family(&family).unwrap();
            }
        }
    }
}

/// A put and its single deletion leave nothing: the traces of both must survive for the snapshot.
#[test]
fn a_key_that_came_and_went_is_a_conflict_after_compactions() {
    let db = open();
    let before = db.snapshot();
    db.put(b"k", b"1").unwrap();
    let between = db.latest_sequence_number();
    db.single_delete(b"k").unwrap();
    for _ in 0..3 {
        compact(&db);
        assert_conflict(write_if(&db, &before, &db, "k"));
        let mut conditions = Conditions::since(&before);
        conditions.unchanged_since(&*db, "k", between).unwrap();
        assert_conflict(db.check_conditions(&conditions));
    }
    drop(before);
    compact(&db);
    assert_eq!(
        db.metrics().families[0]
            .levels
            .iter()
            .map(|l| l.files)
            .sum::<usize>(),
        0
    );
}

#[test]
fn a_condition_may_begin_after_its_snapshot_and_not_before() {
    let db = open();
    db.put(b"k", b"1").unwrap();
    let snapshot = db.snapshot();
    db.put(b"k", b"2").unwrap();
    let later = db.latest_sequence_number();
    let mut conditions = Conditions::since(&snapshot);
    let too_early = conditions.unchanged_since(&*db, "k", crate::SequenceNumber(0));
    assert_eq!(too_early.unwrap_err().kind(), ErrorKind::InvalidArgument);
    conditions.unchanged_since(&*db, "k", later).unwrap();
    db.check_conditions(&conditions).unwrap();
    compact(&db);
    db.check_conditions(&conditions).unwrap();
    conditions
        .unchanged_since(&*db, "x", later.plus(1))
        .unwrap();
    let future = db.check_conditions(&conditions);
    assert_eq!(future.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_error_names_family_and_key_and_nothing_is_written() {
    let db = open();
    let family = db.create_column_family("pages", options().default).unwrap();
    let snapshot = db.snapshot();
    family.put(b"k\xff\n", b"1").unwrap();
    let mut conditions = Conditions::since(&snapshot);
    conditions.unchanged(&*db, "a").unwrap();
    conditions.unchanged(&family, b"k\xff\n").unwrap();
    assert_eq!((conditions.len(), conditions.is_empty()), (2, false));
    let mut batch = WriteBatch::new();
    batch.put(&*db, "a", "1").unwrap();
    let error = db
        .write_if(batch, &conditions, &WriteOptions::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("after sequence number"), "{error}");
    assert!(error.message().ends_with("and retry"), "{error}");
    assert!(error.message().contains(r"'k\xff\n'"), "{error}");
    assert!(error.message().contains("column family pages"), "{error}");
    assert_eq!(db.get(b"a").unwrap(), None);
    assert_eq!(db.latest_sequence_number().0, 1);
}

#[test]
fn what_belongs_to_another_database_or_is_gone_is_refused() {
    let (db, other) = (open(), open());
    let invalid = |result: Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
    };
    invalid(write_if(&db, &other.snapshot(), &db, "k"));
    let mut conditions = Conditions::since(&db.snapshot());
    conditions.unchanged(&*other, "k").unwrap();
    let mixed = conditions.unchanged(&*db, "k").map(drop);
    invalid(mixed);
    let empty = || WriteBatch::new();
    invalid(db.write_if(empty(), &conditions, &WriteOptions::default()));

    let family = db.create_column_family("f", options().default).unwrap();
    let mut conditions = Conditions::since(&db.snapshot());
    conditions.unchanged(&family, "k").unwrap();
    db.check_conditions(&conditions).unwrap();
    db.drop_column_family(&family).unwrap();
    invalid(db.write_if(empty(), &conditions, &WriteOptions::default()));

    let conditions = Conditions::since(&db.snapshot());
    db.close().unwrap();
    let closed = db.write_if(empty(), &conditions, &WriteOptions::default());
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn range_deletions_are_compared_in_the_order_of_the_family() {
    let db = open();
    let reverse = ColumnFamilyOptions {
        comparator: std::sync::Arc::new(ReverseBytewiseComparator),
        ..options().default
    };
    let family = db.create_column_family("reverse", reverse).unwrap();
    let before = db.snapshot();
    family.delete_range(b"m", b"c").unwrap();
    for _ in 0..2 {
        assert_conflict(write_if(&db, &before, &family, "m"));
        assert_conflict(write_if(&db, &before, &family, "d"));
        write_if(&db, &before, &family, "c").unwrap();
        write_if(&db, &before, &family, "n").unwrap();
        family.flush().unwrap();
    }
}

#[test]
fn an_entity_is_a_write_as_any_other() {
    let db = open();
    let before = db.snapshot();
    db.put_entity(b"k", [("column", "value")]).unwrap();
    assert_conflict(write_if(&db, &before, &db, "k"));
}
