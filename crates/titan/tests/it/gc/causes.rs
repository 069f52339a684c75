//! Several causes of garbage at once, and several snapshots that see a part of it: each record
//! counts once, and goes when nothing sees it any more.

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, HolderKind, ReadOptions, SpaceUsage,
};
use titan_testkit::sim::SimVfs;

use super::{Model, blob_bytes, checked, contents, reopened};
use crate::support::{RECORD_HEADER, files, key, manual, open, options, value};

const KEYS: usize = 200;
const LEN: usize = 1000;
/// A record of one value.
const RECORD: u64 = RECORD_HEADER + 9 + LEN as u64;

/// Collects on request only; a blob file has some sixty records.
fn on_request() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        blob_file_size: 64 << 10,
        ..manual()
    }
}

fn put(family: &ColumnFamily, model: &mut Model, round: usize, keys: std::ops::Range<usize>) {
    for n in keys {
        let value = value(round * KEYS + n, LEN);
        family.put(&key(n), &value).unwrap();
        model.insert(key(n), value);
    }
}

fn delete_range(family: &ColumnFamily, model: &mut Model, keys: std::ops::Range<usize>) {
    let (from, to) = (key(keys.start), key(keys.end));
    family.delete_range(&from, &to).unwrap();
    model.retain(|key, _| *key < from || *key >= to);
}

fn usage(db: &Db) -> SpaceUsage {
    db.wait_idle().unwrap();
    db.space_report().unwrap().total
}

fn compact(family: &ColumnFamily) {
    family.flush().unwrap();
    let everything = CompactRangeOptions {
        force_bottommost: true,
    };
    family.compact_range(None, None, &everything).unwrap();
}

#[test]
fn what_is_overwritten_range_deleted_and_dropped_counts_once_and_goes() {
    let vfs = SimVfs::new();
    let mut options = options(&vfs, on_request());
    options.families.insert("dropped".to_owned(), on_request());
    let db = open(&options);
    let dropped = db.column_family("dropped").unwrap();
    let mut model = Model::new();
    put(&db, &mut model, 0, 0..KEYS);
    put(&dropped, &mut Model::new(), 1, 0..KEYS);
    db.flush_all().unwrap();
    let files_before = files(&vfs, "/db", ".blob").len();
    // Garbage of the family that stays: overwritten, range-deleted, or both.
    put(&db, &mut model, 2, 0..100);
    delete_range(&db, &mut model, 50..150);
    db.flush().unwrap();
    let before = usage(&db);
    assert_eq!(before.shadowed_blob_bytes, 150 * RECORD);
    assert_eq!(before.garbage_blob_bytes, 0);
    // And of the one that goes.
    put(&dropped, &mut Model::new(), 3, 0..20);
    compact(&dropped);
    assert_eq!(usage(&db).garbage_blob_bytes, 20 * RECORD);

    // Dropping frees the files of that family, its garbage included, and nothing else.
    db.drop_column_family(&dropped).unwrap();
    let after = usage(&db);
    assert_eq!(after.garbage_blob_bytes, 0);
    assert_eq!(after.shadowed_blob_bytes, 150 * RECORD);
    assert!(files(&vfs, "/db", ".blob").len() < files_before);
    compact(&db);
    // Files of which nothing is live are gone. The rest of the 150 records is garbage.
    let known = usage(&db);
    assert_eq!(known.live_blob_bytes, 100 * RECORD);
    assert_eq!(after.live_blob_bytes, 250 * RECORD);
    assert_eq!(known.shadowed_blob_bytes, 0);
    let garbage = known.garbage_blob_bytes;
    assert!(garbage > 0 && garbage < 150 * RECORD, "{garbage}");
    let records = blob_bytes(&vfs) - 62 * files(&vfs, "/db", ".blob").len();
    assert_eq!(records as u64, 100 * RECORD + garbage);
    let summary = db.collect_garbage(None, None, &Default::default()).unwrap();
    assert!(!summary.files.is_empty());
    let collected = usage(&db);
    assert_eq!(collected.garbage_blob_bytes, 0);
    assert_eq!(collected.live_blob_bytes, 100 * RECORD);
    // Nothing but the live records is left, and 62 bytes a file.
    let left = blob_bytes(&vfs) as u64;
    assert!((100 * RECORD..101 * RECORD).contains(&left), "{left}");
    assert_eq!(contents(&db, &ReadOptions::default()), model);
    options.families.clear();
    reopened(db, &options, &model);
}

/// Two snapshots of different moments around collections. Values that only one of them sees go with
/// that one, in either order of their release.
#[test]
fn what_each_of_two_snapshots_sees_goes_with_it() {
    for newer_first in [false, true] {
        let vfs = SimVfs::new();
        let options = options(&vfs, on_request());
        let db = open(&options);
        let mut model = Model::new();
        put(&db, &mut model, 0, 0..KEYS);
        compact(&db);
        let at_first = model.clone();
        let first = db.snapshot();
        // 50 keys overwritten, 50 range-deleted.
        put(&db, &mut model, 1, 0..50);
        delete_range(&db, &mut model, 50..100);
        compact(&db);
        let at_second = model.clone();
        let second = db.snapshot();
        // 30 of those that were overwritten are again, and 50 more for the first time.
        put(&db, &mut model, 2, 20..50);
        put(&db, &mut model, 2, 100..150);
        compact(&db);
        let collect = || {
            db.collect_garbage(None, None, &Default::default()).unwrap();
            usage(&db)
        };
        // The present needs 150 records. Only the first snapshot sees 100 of those that were
        // overwritten or deleted before the second one, only the second one 30, both another 50.
        let both = collect();
        assert_eq!(both.live_blob_bytes, (150 + 100 + 30 + 50) * RECORD);
        assert_eq!(both.garbage_blob_bytes, 0);
        let holders = db.space_report().unwrap().holders;
        let snapshots = holders.iter().filter(|h| h.kind == HolderKind::Snapshot);
        assert_eq!(snapshots.map(|h| h.count).sum::<usize>(), 2);
        assert_eq!(db.metrics().snapshots, 2);
        let mut at = [(first, at_first), (second, at_second)].map(|(snapshot, model)| {
            let options = ReadOptions {
                snapshot: Some(snapshot),
                ..ReadOptions::default()
            };
            Some((options, model))
        });
        let see_what_they_saw = |at: &[Option<(ReadOptions, Model)>; 2]| {
            for (options, model) in at.iter().flatten() {
                assert_eq!(contents(&db, options), *model);
            }
            assert_eq!(contents(&db, &ReadOptions::default()), model);
        };
        see_what_they_saw(&at);

        at[usize::from(newer_first)] = None;
        compact(&db);
        let one = collect();
        let seen_by_the_other = if newer_first { 100 + 50 } else { 30 + 50 };
        assert_eq!(one.live_blob_bytes, (150 + seen_by_the_other) * RECORD);
        see_what_they_saw(&at);
        at = [None, None];
        compact(&db);
        let none = collect();
        assert_eq!(none.live_blob_bytes, 150 * RECORD);
        assert_eq!(none.garbage_blob_bytes + none.pinned_blob_bytes, 0);
        see_what_they_saw(&at);
        db.close().unwrap();
        checked(&options);
    }
}
