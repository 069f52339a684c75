//! The report on space: its numbers agree with the directory and with the writes of the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use titan::vfs::Vfs;
use titan::{
    CollectionStatus, ColumnFamilyOptions, Db, DbOptions, FileSum, HolderKind, Options,
    ReadOptions, SpaceHolder, SpaceReport, SpaceUsage,
};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

use crate::support::{DIR, RECORD_HEADER, files, key, manual, open, options, value};

const KEYS: usize = 100;
const LEN: usize = 1000;
/// A record of one of the test's values, in a blob file.
const RECORD: u64 = RECORD_HEADER + 9 + LEN as u64;
/// Header and footer of a blob file.
const AROUND: u64 = 62;

fn put(db: &Db, keys: impl IntoIterator<Item = usize>, round: usize) {
    for n in keys {
        db.put(&key(n), &value(round * KEYS + n, LEN)).unwrap();
    }
    db.flush().unwrap();
}

fn compact(db: &Db) {
    db.compact_range(None, None, &Default::default()).unwrap();
}

/// The report of a database without running jobs, after a check of its invariants.
fn report(db: &Db, vfs: &SimVfs) -> SpaceReport {
    db.wait_idle().unwrap();
    let report = db.space_report().unwrap();
    let on_disk = |suffix: &str| -> u64 {
        let names = files(vfs, DIR, suffix).into_iter();
        let sizes = names.map(|name| vfs.size(format!("{DIR}/{name}").as_ref()).unwrap());
        sizes.sum()
    };
    let disk = &report.disk;
    assert_eq!(disk.sst_bytes, on_disk(".sst"));
    assert_eq!(disk.blob_bytes, on_disk(".blob"));
    assert_eq!(disk.map_bytes, on_disk(".blobmap"));
    assert_eq!(disk.wal_bytes, on_disk(".log"));
    assert_eq!(disk.total_bytes(), on_disk(""));
    let total = &report.total;
    assert_eq!(
        disk.data_bytes(),
        total.sst_bytes
            + total.blob_bytes
            + total.map_bytes
            + total.pinned_files.bytes
            + report.obsolete.bytes
            + report.unlisted.bytes,
        "{report:#?}"
    );
    let mut sum = SpaceUsage::default();
    for family in &report.families {
        sum += &family.usage;
        let files = family.blob_files.iter();
        for file in files.clone() {
            assert_eq!(file.file_bytes, file.total_bytes + AROUND);
            assert_eq!(file.total_bytes, file.live_bytes + file.garbage_bytes);
            assert!(file.pinned_bytes <= file.garbage_bytes, "{file:?}");
            assert_eq!(file.map_bytes > 0, file.logical_files != [file.number]);
        }
        let live: u64 = files.clone().map(|f| f.live_bytes).sum();
        let garbage: u64 = files.map(|f| f.garbage_bytes).sum();
        assert_eq!(live, family.usage.live_blob_bytes);
        assert_eq!(garbage, family.usage.garbage_blob_bytes);
        assert!(
            family.usage.shadowed_blob_bytes <= live,
            "{:?}",
            family.usage
        );
    }
    assert_eq!(sum, report.total);
    report
}

fn holders(report: &SpaceReport, kind: HolderKind) -> Vec<&SpaceHolder> {
    report.holders.iter().filter(|h| h.kind == kind).collect()
}

/// With a clock that the test advances.
fn timed(vfs: &SimVfs, default: ColumnFamilyOptions) -> (Options, SimClock) {
    let clock = SimClock::with_seed(1);
    let options = options(vfs, default);
    let db = DbOptions {
        clock: Arc::new(clock.clone()),
        ..options.db
    };
    (Options { db, ..options }, clock)
}

fn collecting() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        enable_blob_garbage_collection: true,
        ..manual()
    }
}

#[test]
fn what_lives_and_what_is_garbage_is_told_to_the_byte() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    put(&db, 0..KEYS, 0);
    put(&db, 0..30, 1);
    let before = report(&db, &vfs);
    // Nothing has found the overwritten values yet.
    assert_eq!(before.total.live_blob_bytes, 130 * RECORD);
    assert_eq!(before.total.garbage_blob_bytes, 0);
    assert_eq!(before.total.shadowed_blob_bytes, 30 * RECORD);

    compact(&db);
    let after = report(&db, &vfs);
    assert_eq!(after.total.live_blob_bytes, 100 * RECORD);
    assert_eq!(after.total.garbage_blob_bytes, 30 * RECORD);
    assert_eq!(after.total.shadowed_blob_bytes, 0);
    assert_eq!(after.total.pinned_blob_bytes, 0);
    let [old, new] = &after.families[0].blob_files[..] else {
        panic!("{after:#?}");
    };
    assert_eq!((old.live_bytes, new.live_bytes), (70 * RECORD, 30 * RECORD));
    assert_eq!((old.live_share(), new.live_share()), (0.7, 1.0));
    assert_eq!(
        (old.status, new.status),
        (CollectionStatus::Off, CollectionStatus::Off)
    );
    assert!(after.holders.is_empty(), "{:#?}", after.holders);
}

#[test]
fn families_are_told_apart_and_summed() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    let pages = db.create_column_family("pages", manual()).unwrap();
    put(&db, 0..10, 0);
    for n in 0..20 {
        pages.put(&key(n), &value(n, LEN)).unwrap();
    }
    pages.flush().unwrap();
    vfs.write_all(format!("{DIR}/notes.txt"), b"mine").unwrap();
    vfs.write_all(format!("{DIR}/900000.sst"), b"left").unwrap();
    let told = report(&db, &vfs);
    let live = told.families.iter();
    let live: Vec<_> = live.map(|f| (&*f.name, f.usage.live_blob_bytes)).collect();
    assert_eq!(live, [("default", 10 * RECORD), ("pages", 20 * RECORD)]);
    assert_eq!(told.foreign, FileSum { files: 1, bytes: 4 });
    assert_eq!(told.unlisted, FileSum { files: 1, bytes: 4 });

    // An iterator keeps everything of a family that was dropped.
    let iterator = pages.iter(&ReadOptions::default()).unwrap();
    db.drop_column_family(&pages).unwrap();
    let kept = db.space_report().unwrap();
    let [holder] = &kept.holders[..] else {
        panic!("{:#?}", kept.holders);
    };
    assert_eq!(holder.column_family, Some(pages.id()));
    assert_eq!(holder.pinned_files.files, 2, "a table and a blob file");
    assert_eq!(kept.total.pinned_files, holder.pinned_files);
    assert_eq!(kept.families.len(), 1);
    drop(iterator);
    let gone = report(&db, &vfs);
    assert_eq!(gone.total.pinned_files, FileSum::default());
    assert_eq!(gone.total.live_blob_bytes, 10 * RECORD);
}

#[test]
fn readers_of_older_versions_are_named_with_what_they_keep() {
    let vfs = SimVfs::new();
    let (options, clock) = timed(&vfs, manual());
    let db = open(&options);
    put(&db, 0..KEYS, 0);
    let second = Duration::from_secs(1);
    let old = db.iter(&ReadOptions::default()).unwrap();
    clock.advance(2 * second);
    let twin = db.iter(&ReadOptions::default()).unwrap();
    clock.advance(3 * second);
    put(&db, 0..30, 1);
    let newer = db.iter(&ReadOptions::default()).unwrap();
    compact(&db);

    let told = report(&db, &vfs);
    let iterators = holders(&told, HolderKind::Iterator);
    let [first, second] = &iterators[..] else {
        panic!("{:#?}", told.holders);
    };
    assert_eq!((first.count, first.age_micros), (2, 5_000_000));
    assert_eq!((second.count, second.age_micros), (1, 0));
    // The one reads the first table, the other both; the overwritten values are in a file that
    // stays.
    assert_eq!(
        (first.pinned_files.files, second.pinned_files.files),
        (1, 2)
    );
    assert_eq!(first.pinned_blob_bytes, 30 * RECORD);
    assert_eq!(second.pinned_blob_bytes, 30 * RECORD);
    assert_eq!(told.total.pinned_blob_bytes, 30 * RECORD);
    assert_eq!(told.total.pinned_files, second.pinned_files);
    assert_eq!(holders(&told, HolderKind::Reader).len(), 0);

    drop((old, twin, newer));
    let told_again = db.space_report().unwrap();
    assert_eq!(told_again.obsolete, told.total.pinned_files);
    assert_eq!(told_again.total.pinned_files, FileSum::default());
    let told = report(&db, &vfs);
    assert!(told.holders.is_empty(), "{:#?}", told.holders);
    assert_eq!(told.total.pinned_blob_bytes, 0);
}

#[test]
fn a_lazy_value_keeps_what_its_version_has() {
    let vfs = SimVfs::new();
    let (options, clock) = timed(&vfs, manual());
    let db = open(&options);
    put(&db, 0..KEYS, 0);
    let lazy = db.get_lazy(&key(1)).unwrap();
    clock.advance(Duration::from_secs(5));
    put(&db, 0..KEYS, 1);
    compact(&db);
    clock.advance(Duration::from_secs(7));
    let told = report(&db, &vfs);
    let [reader] = &told.holders[..] else {
        panic!("{:#?}", told.holders);
    };
    assert_eq!(reader.kind, HolderKind::Reader);
    // At least as old as the replacement of its version.
    assert_eq!(reader.age_micros, 7_000_000);
    // The table, and the blob file of which nothing lives.
    assert_eq!(reader.pinned_files.files, 2);
    let blob_file = KEYS as u64 * RECORD + AROUND;
    assert!(reader.pinned_files.bytes > blob_file, "{reader:?}");
    assert_eq!(reader.pinned_blob_bytes, 0);
    drop(lazy);
    assert!(report(&db, &vfs).holders.is_empty());
}

#[test]
fn snapshots_are_named_with_their_age() {
    let vfs = SimVfs::new();
    let (options, clock) = timed(&vfs, manual());
    let db = open(&options);
    put(&db, 0..KEYS, 0);
    let snapshot = db.snapshot();
    clock.advance(Duration::from_millis(1500));
    let twin = db.snapshot();
    put(&db, 0..KEYS, 1);
    let later = db.snapshot();
    let told = report(&db, &vfs);
    let [old, new] = &told.holders[..] else {
        panic!("{:#?}", told.holders);
    };
    assert_eq!((old.kind, old.count), (HolderKind::Snapshot, 2));
    assert_eq!(old.age_micros, 1_500_000);
    assert_eq!(old.sequence, Some(snapshot.sequence()));
    assert_eq!((new.count, new.sequence), (1, Some(later.sequence())));
    assert_eq!((old.pinned_blob_bytes, new.pinned_blob_bytes), (0, 0));

    // Only the old snapshot sees the values that the compaction has to preserve.
    compact(&db);
    let told = report(&db, &vfs);
    let values = KEYS as u64 * RECORD;
    assert_eq!(told.total.live_blob_bytes, 2 * KEYS as u64 * RECORD);
    assert_eq!(told.total.snapshot_blob_bytes, values);
    assert_eq!(told.total.shadowed_blob_bytes, 0);
    assert_eq!(told.holders[0].pinned_blob_bytes, values);
    drop((snapshot, twin, later));
    let told = report(&db, &vfs);
    assert!(told.holders.is_empty(), "{:#?}", told.holders);
    assert_eq!(told.total.snapshot_blob_bytes, 0);
    assert_eq!(told.total.shadowed_blob_bytes, values);
}

#[test]
fn an_iterator_held_through_collections_is_told_what_they_copied_for_it() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, collecting()));
    put(&db, 0..KEYS, 0);
    let iterator = db.iter(&ReadOptions::default()).unwrap();
    put(&db, 0..60, 1);
    compact(&db);
    db.wait_idle().unwrap();
    let told = report(&db, &vfs);
    assert!(db.statistics().garbage_collections() > 0);
    // Records that only the iterator sees were copied with the others.
    let mut moved = told.families[0]
        .blob_files
        .iter()
        .filter(|f| f.map_bytes > 0);
    let moved = moved.next().unwrap();
    assert_eq!(moved.total_bytes, KEYS as u64 * RECORD);
    assert_eq!(moved.pinned_bytes, 60 * RECORD);
    assert_eq!(moved.status, CollectionStatus::Pinned);
    assert_eq!(told.total.live_blob_bytes, KEYS as u64 * RECORD);
    assert_eq!(told.total.pinned_blob_bytes, 60 * RECORD);
    let [holder] = &told.holders[..] else {
        panic!("{:#?}", told.holders);
    };
    assert_eq!(holder.pinned_blob_bytes, 60 * RECORD);
    drop(iterator);
    put(&db, 60..70, 2);
    compact(&db);
    let told = report(&db, &vfs);
    assert_eq!(told.total.pinned_blob_bytes, 0);
    assert!(told.holders.is_empty(), "{:#?}", told.holders);
}

#[test]
fn each_file_is_judged() {
    let vfs = SimVfs::new();
    let options = options(&vfs, collecting());
    let db = open(&options);
    put(&db, 0..KEYS, 0);
    put(&db, 0..5, 1);
    compact(&db);
    db.wait_idle().unwrap();
    let statuses = |told: &SpaceReport| -> BTreeMap<u64, CollectionStatus> {
        let files = told.families[0].blob_files.iter();
        files.map(|f| (f.number.0, f.status)).collect()
    };
    let told = report(&db, &vfs);
    let little: Vec<_> = statuses(&told).into_values().collect();
    assert_eq!(
        little,
        [CollectionStatus::LittleGarbage, CollectionStatus::Clean]
    );
    db.close().unwrap();

    // A live record is damaged: the file cannot be collected.
    let first = told.families[0].blob_files[0].number.0;
    let path = format!("{DIR}/{first:06}.blob");
    vfs.flip_bit(&path, 30 + 50 * RECORD + 500).unwrap();
    let db = open(&options);
    put(&db, 60..90, 2);
    compact(&db);
    let told = report(&db, &vfs);
    assert_eq!(
        statuses(&told).get(&first),
        Some(&CollectionStatus::Damaged)
    );
}

#[test]
fn what_a_replayed_log_hides_is_known() {
    let vfs = SimVfs::new();
    let options = options(&vfs, manual());
    let db = open(&options);
    put(&db, 0..KEYS, 0);
    for n in 0..30 {
        db.put(&key(n), &value(n + 1, LEN)).unwrap();
    }
    for n in 30..40 {
        db.delete(&key(n)).unwrap();
    }
    db.close().unwrap();
    drop(db);
    let db = open(&options);
    let shadowed = db.space_report().unwrap().total.shadowed_blob_bytes;
    let expected = 40 * RECORD;
    assert!(
        (expected..expected + expected / 5).contains(&shadowed),
        "{shadowed}"
    );
}
