//! Filters and merge operators in one family.

use titan::merge::builtin::by_name;
use titan::{ColumnFamilyOptions, Db, Options};
use titan_testkit::sim::SimVfs;

use super::{Filter, by_number, close_and_check, compact, expected};
use crate::support::{key, manual, open, options, value};

fn appending(filter: Filter, vfs: &SimVfs) -> Options {
    let family = ColumnFamilyOptions {
        merge_operator: by_name("stringappend"),
        ..filter.of(manual())
    };
    options(vfs, family)
}

/// Writes keys whose value is operands, and inline and separated ones with an operand each, in
/// tables of their own. Returns the values.
fn write(db: &Db) -> Vec<Vec<u8>> {
    let base = |n: usize| match n {
        0..20 => None,
        20..40 => Some(value(n, 10)),
        _ => Some(value(n, 1000)),
    };
    let bases: Vec<_> = (0..60).map(base).collect();
    for (n, base) in bases.iter().enumerate() {
        match base {
            Some(base) => db.put(&key(n), base).unwrap(),
            None => db.merge(&key(n), b"first").unwrap(),
        }
    }
    db.flush().unwrap();
    for n in 0..60 {
        db.merge(&key(n), b"more").unwrap();
    }
    db.flush().unwrap();
    let base = bases
        .into_iter()
        .map(|b| b.unwrap_or_else(|| b"first".into()));
    base.map(|base| [&base[..], b",more"].concat()).collect()
}

#[test]
fn a_filter_decides_about_what_operands_became() {
    let vfs = SimVfs::new();
    let options = appending(Filter::new(by_number), &vfs);
    let db = open(&options);
    let values = write(&db);
    compact(&db);
    assert_eq!(db.statistics().filter_entries(), 60);
    for (n, before) in values.iter().enumerate() {
        let found = db.get(&key(n)).unwrap().map(|v| v.to_vec());
        assert_eq!(found, expected(n, before), "{n}");
    }
    close_and_check(db, &options);
}

#[test]
fn a_removed_result_stays_as_a_deletion_while_a_snapshot_may_ask_for_it() {
    let vfs = SimVfs::new();
    let options = appending(Filter::new(by_number), &vfs);
    let db = open(&options);
    let snapshot = db.snapshot();
    let transaction = db.begin(&Default::default()).unwrap();
    transaction.guard(&db, key(0)).unwrap();
    let values = write(&db);
    compact(&db);
    for (n, before) in values.iter().enumerate() {
        let found = db.get(&key(n)).unwrap().map(|v| v.to_vec());
        assert_eq!(found, expected(n, before), "{n}");
    }
    let late = transaction.commit().unwrap_err();
    assert_eq!(late.kind(), titan::ErrorKind::Conflict);
    drop(snapshot);
    close_and_check(db, &options);
}

/// The values that snapshots alone see stay counted as shadowed data, although the same compaction
/// drops the separated bases of other keys.
#[test]
fn bases_that_were_combined_are_not_taken_for_shadowed_data() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        merge_operator: by_name("stringappend"),
        ..manual()
    };
    let options = options(&vfs, family);
    let db = open(&options);
    let put = |keys: std::ops::Range<usize>| {
        for n in keys {
            db.put(&key(n), &value(n, 1000)).unwrap();
        }
        db.flush().unwrap();
    };
    put(0..10);
    let snapshot = db.snapshot();
    put(0..10);
    put(20..30);
    for n in 20..30 {
        db.merge(&key(n), b"more").unwrap();
    }
    db.flush().unwrap();
    let shadowed = || {
        db.wait_idle().unwrap();
        let usage = db.space_report().unwrap().total;
        usage.shadowed_blob_bytes + usage.snapshot_blob_bytes
    };
    let before = shadowed();
    assert!(before > 10_000, "{before}");
    compact(&db);
    assert_eq!(shadowed(), before, "now kept for the snapshot");
    drop(snapshot);
    close_and_check(db, &options);
}
