//! `downgrade`: nothing refers to relocated records any more, and everything else is unchanged.

use std::path::Path;
use std::sync::Arc;

use titan::vfs::Vfs;
use titan::{ColumnFamilyOptions, CompressionType, Db, ErrorKind, Options, WriteBatch};
use titan_testkit::sim::{Errno, Fault, Loss, OpKind, SimVfs};
use titan_tools::{Progress, check, downgrade, plan_downgrade};

use titan_testkit::model::Model;
use titan_testkit::reads::contents;
use titan_testkit::setup::{DIR, collecting, files, key, manual, open, options, value};

const KEYS: usize = 150;

/// Garbage is collected as soon as there is any.
fn compressing(compression: CompressionType) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        target_file_size_base: 4 << 10,
        block_size: 512,
        blob_compression_type: compression,
        ..collecting()
    }
}

/// Overwrites a part of the keys, others in each round, with values of all sizes and deletions of
/// each kind.
fn write(db: &Db, round: usize) {
    let mut rng = fastrand::Rng::with_seed(round as u64);
    for family in db.column_families() {
        for n in 0..KEYS {
            match rng.u32(..20) {
                0..4 if round > 0 => {}
                4 => family.delete(&key(n)).unwrap(),
                5 => {
                    let mut batch = WriteBatch::new();
                    batch.delete_range(&family, key(n), key(n + 2)).unwrap();
                    db.write(batch, &Default::default()).unwrap();
                }
                6 => family.put(&key(n), &value(round, 50)).unwrap(),
                _ if round > 0 && rng.bool() => {}
                _ => family.put(&key(n), &value(round * KEYS + n, 1000)).unwrap(),
            }
        }
        family.flush().unwrap();
        if round % 4 != 3 {
            let all = Default::default();
            family.compact_range(None, None, &all).unwrap();
        }
    }
    db.wait_idle().unwrap();
}

/// A database with relocated records in three families, one of them compressed, and a family
/// without any; with tables at several levels, and writes that are only in WAL files.
fn fill(vfs: &SimVfs) -> (Options, Model) {
    let mut options = options(vfs, compressing(CompressionType::None));
    let families = [
        ("lz4", compressing(CompressionType::Lz4)),
        ("other", compressing(CompressionType::None)),
        ("unmoved", manual()),
    ];
    let families = families.map(|(name, options)| (name.to_owned(), options));
    options.families.extend(families);
    let db = open(&options);
    // A snapshot keeps several versions of keys.
    let snapshot = db.snapshot();
    (0..3).for_each(|round| write(&db, round));
    drop(snapshot);
    (3..8).for_each(|round| write(&db, round));
    assert!(db.statistics().garbage_collections() > 2);
    db.close().unwrap();
    // Garbage in the files that collections wrote.
    let db = open(&without_collecting(&options));
    for (n, family) in db.column_families().iter().enumerate() {
        (0..KEYS / 10).for_each(|n| family.put(&key(n), &value(n, 500)).unwrap());
        family.flush().unwrap();
        family
            .compact_range(None, None, &Default::default())
            .unwrap();
        family.put(b"in the WAL", &value(n, 500)).unwrap();
    }
    let all = contents(&db).unwrap();
    db.close().unwrap();
    assert!(files(vfs, DIR, ".blobmap").len() > 2);
    (options, all)
}

fn look(options: &Options) -> Model {
    let db = open(options);
    let found = contents(&db).unwrap();
    db.close().unwrap();
    found
}

fn checked(options: &Options, what: &str) {
    let report = check(Path::new(DIR), options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{what}: {:#?}", report.problems);
    assert!(report.notes.is_empty(), "{what}: {:#?}", report.notes);
}

/// RocksDB can read the database.
fn plain(options: &Options, vfs: &SimVfs, what: &str) {
    let plan = plan_downgrade(Path::new(DIR), options).unwrap();
    assert_eq!(plan, Default::default(), "{what}");
    assert!(files(vfs, DIR, ".blobmap").is_empty(), "{what}");
}

/// Turns collections off, so that records that were not relocated stay so.
fn without_collecting(options: &Options) -> Options {
    let mut options = options.clone();
    options.default.enable_blob_garbage_collection = false;
    for family in options.families.values_mut() {
        family.enable_blob_garbage_collection = false;
    }
    options
}

#[test]
fn everything_is_there_and_nothing_is_moved() {
    let vfs = SimVfs::new();
    let (options, all) = fill(&vfs);
    checked(&options, "filled");
    let before = vfs.journal().len();
    let plan = plan_downgrade(Path::new(DIR), &options).unwrap();
    assert_eq!(vfs.journal().len(), before, "a plan writes nothing");
    assert!(plan.needed && plan.tables.len() > 3, "{plan:#?}");
    assert!(plan.tables.iter().all(|table| table.family != "unmoved"));
    let blobs = |vfs: &SimVfs| {
        let names = files(vfs, DIR, ".blob").into_iter();
        let read = |name: String| (vfs.read_all(format!("{DIR}/{name}")).unwrap(), name);
        names.map(read).collect::<Vec<_>>()
    };
    let blob_files = blobs(&vfs);
    vfs.reset_counters();

    let mut told = Vec::new();
    let mut tell = |at: Progress| told.push(at.done_bytes);
    let report = downgrade(Path::new(DIR), &options, &mut tell).unwrap();
    assert_eq!(report.plan, plan);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    assert_eq!(told.len(), plan.tables.len());
    assert_eq!(told.last(), Some(&plan.table_bytes));
    // As many bytes as announced, and no values.
    assert_eq!(vfs.bytes_written(".sst"), report.written_bytes);
    assert!(report.written_bytes.abs_diff(plan.table_bytes) < plan.table_bytes / 5);
    assert_eq!(vfs.bytes_written(".blob"), 0);
    assert!(blobs(&vfs) == blob_files);
    plain(&options, &vfs, "downgraded");
    checked(&options, "downgraded");
    // Then there is nothing left to do.
    let before = vfs.journal().len();
    downgrade(Path::new(DIR), &options, &mut |_| {}).unwrap();
    assert_eq!(vfs.journal().len(), before);
    let db = open(&without_collecting(&options));
    let families = db.metrics().families;
    let with_garbage = families.iter().filter(|f| f.garbage_blob_bytes > 0);
    assert!(with_garbage.count() > 2, "{families:#?}");
    assert_eq!(contents(&db).unwrap(), all);
    db.close().unwrap();
    checked(&options, "opened");
    plain(&options, &vfs, "opened");

    // The database works as before: garbage in the files is known, and collected.
    let db = open(&options);
    (8..12).for_each(|round| write(&db, round));
    assert!(db.statistics().garbage_collections() > 0);
    db.close().unwrap();
    checked(&options, "written to");
    downgrade(Path::new(DIR), &options, &mut |_| {}).unwrap();
    plain(&options, &vfs, "twice");
}

#[test]
fn a_manifest_that_only_once_told_of_moved_records_is_replaced() {
    let vfs = SimVfs::new();
    let (options, _) = fill(&vfs);
    let db = open(&options);
    for family in db.column_families() {
        family.delete_range(b"", b"z").unwrap();
        family
            .compact_range(None, None, &Default::default())
            .unwrap();
    }
    db.wait_idle().unwrap();
    db.put(b"key", &value(1, 1000)).unwrap();
    db.close().unwrap();
    assert!(files(&vfs, DIR, ".blobmap").is_empty());
    let plan = plan_downgrade(Path::new(DIR), &options).unwrap();
    assert!(plan.needed && plan.tables.is_empty(), "{plan:?}");
    downgrade(Path::new(DIR), &options, &mut |_| {}).unwrap();
    plain(&options, &vfs, "downgraded");
    checked(&options, "downgraded");
}

#[test]
fn a_crash_at_any_operation_leaves_a_database_with_the_same_content() {
    let vfs = SimVfs::new();
    let (original, all) = fill(&vfs);
    vfs.sync_all().unwrap();
    vfs.restart_journal();
    downgrade(Path::new(DIR), &original, &mut |_| {}).unwrap();
    let journal = vfs.journal();
    let mut outcomes = [0, 0];
    for point in journal.crash_points() {
        let other = [Loss::None, Loss::Random(3), Loss::Random(4)][point.index() % 3];
        for loss in [Loss::All, other] {
            let what = format!("crash {} {loss:?}", point.index());
            let at = |vfs: &SimVfs| {
                let mut options = without_collecting(&original);
                options.db.vfs = Arc::new(vfs.clone());
                options
            };
            // First as the crash left it, then downgraded again.
            let found = point.crash(&loss);
            let plan = plan_downgrade(Path::new(DIR), &at(&found));
            let plan = plan.unwrap_or_else(|e| panic!("{what}: {e}"));
            outcomes[usize::from(plan.needed)] += 1;
            assert_eq!(look(&at(&found)), all, "{what}");
            checked(&at(&found), &what);

            let again = point.crash(&loss);
            let options = at(&again);
            let done = downgrade(Path::new(DIR), &options, &mut |_| {});
            done.unwrap_or_else(|e| panic!("{what}: {e}"));
            if plan.needed {
                plain(&options, &again, &what);
            }
            assert_eq!(look(&options), all, "{what}, again");
            plain(&options, &again, &what);
            checked(&options, &what);
        }
    }
    assert!(outcomes.iter().all(|n| *n > 20), "{outcomes:?}");
}

#[test]
fn an_error_at_any_operation_leaves_a_database_with_the_same_content() {
    let vfs = SimVfs::new();
    let (original, all) = fill(&vfs);
    vfs.sync_all().unwrap();
    vfs.restart_journal();
    let journal = vfs.journal();
    let mut struck = 0;
    for n in 0.. {
        let vfs = journal.crash_at(0, &Loss::None);
        let mut options = without_collecting(&original);
        options.db.vfs = Arc::new(vfs.clone());
        let changing = [OpKind::Create, OpKind::Append, OpKind::Sync, OpKind::Rename];
        let kinds = changing.into_iter().chain([OpKind::SyncDir, OpKind::Read]);
        let hit = vfs.inject(Fault::on(kinds).skip(n).error(Errno::NO_SPACE));
        let done = downgrade(Path::new(DIR), &options, &mut |_| {});
        vfs.clear_faults();
        if hit.hits() == 0 {
            done.unwrap();
            break;
        }
        struck += 1;
        // After the switch, a failure to delete files is not an error.
        assert!(done.is_err() || !done.unwrap().notes.is_empty(), "{n}");
        assert_eq!(look(&options), all, "{n}");
        checked(&options, &format!("{n}"));
    }
    assert!(struck > 30, "{struck}");
}

#[test]
fn what_is_open_missing_or_damaged_is_refused() {
    let vfs = SimVfs::new();
    let (options, all) = fill(&vfs);
    let refused = |dir: &str| {
        let planned = plan_downgrade(Path::new(dir), &options).map(drop);
        let done = downgrade(Path::new(dir), &options, &mut |_| {}).map(drop);
        (planned.err().map(|e| e.kind()), done.unwrap_err().kind())
    };
    let both = |kind| (Some(kind), kind);
    assert_eq!(refused("/nothing"), both(ErrorKind::NotFound));
    let lock = vfs.lock(Path::new("/db/LOCK")).unwrap();
    assert_eq!(refused(DIR), both(ErrorKind::Locked));
    drop(lock);
    // Damage to what a downgrade must read. In each case nothing has changed.
    let before: Vec<_> = vfs.list(DIR).unwrap();
    let plan = plan_downgrade(Path::new(DIR), &options).unwrap();
    let map = files(&vfs, DIR, ".blobmap").remove(0);
    // The first entries of a table, and the index of a relocation map.
    let index = vfs.size(format!("{DIR}/{map}").as_ref()).unwrap() - 26;
    for (name, at) in [(plan.tables[0].file.clone(), 10), (map.clone(), index)] {
        let path = format!("{DIR}/{name}");
        vfs.flip_bit(&path, at).unwrap();
        let found = refused(DIR);
        assert_eq!(found, (None, ErrorKind::Corruption), "{name}");
        vfs.flip_bit(&path, at).unwrap();
        assert_eq!(vfs.list(DIR).unwrap(), before, "{name}");
    }
    let path = format!("{DIR}/{map}");
    let content = vfs.read_all(&path).unwrap();
    vfs.remove(Path::new(&path)).unwrap();
    assert_eq!(refused(DIR), both(ErrorKind::Corruption));
    vfs.write_all(&path, &content).unwrap();
    downgrade(Path::new(DIR), &options, &mut |_| {}).unwrap();
    assert_eq!(look(&options), all);
}
