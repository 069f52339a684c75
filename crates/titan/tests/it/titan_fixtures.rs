//! Directories that earlier versions of Titan wrote, one for each change of a format, are kept for
//! ever: everything in them can be read, and they can be written to, collected and repaired.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, Options,
    ReverseBytewiseComparator, WriteBatch, WriteOptions,
};
use titan_tools::{RepairTo, inspect, repair};

use crate::directory::{Rows, as_text, assert_same_text, check_all, contents, copy, files};
use crate::support::{key, value};

/// The most that a fixture may take in the repository.
const MAX_BYTES: u64 = 200 << 10;

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/titan")
}

fn expected_of(fixture: &Path) -> PathBuf {
    PathBuf::from(format!("{}.expected.tsv", fixture.display()))
}

/// The fixtures, oldest first, with the content that must be read from each.
fn fixtures() -> Vec<(PathBuf, String)> {
    let numbered = (1..).map(|n| place().join(format!("format-{n}")));
    let existing = numbered.take_while(|dir| dir.exists());
    let fixtures: Vec<_> = existing
        .map(|dir| {
            let expected = std::fs::read_to_string(expected_of(&dir)).unwrap();
            (dir, expected)
        })
        .collect();
    assert!(!fixtures.is_empty());
    fixtures
}

/// Options of the families of a fixture. Nothing is compacted but on request, so that the content
/// of the fixture does not depend on the times of jobs.
fn family() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        disable_auto_compactions: true,
        compression: CompressionType::None,
        min_blob_size: 100,
        blob_file_size: 64 << 10,
        block_size: 512,
        ..ColumnFamilyOptions::default()
    }
}

fn put(family: &ColumnFamily, keys: impl IntoIterator<Item = usize>, round: usize, len: usize) {
    for n in keys {
        let value = value(round * 1000 + n, len);
        family.put(&key(n), &value).unwrap();
    }
}

fn compact(family: &ColumnFamily) {
    let everything = CompactRangeOptions {
        force_bottommost: true,
    };
    family.flush().unwrap();
    family.compact_range(None, None, &everything).unwrap();
}

/// Writes every format of Titan's own that a directory may have. With a format change, this adds
/// it.
fn write_all_formats(dir: &Path) -> Db {
    let options = Options {
        default: family(),
        ..Options::default()
    };
    let db = Db::open(dir, &options).unwrap();

    // Separated values that were relocated once, and others twice; inline values among them.
    for round in 0..4 {
        put(&db, (round..40).step_by(round + 1), round, 600);
        put(&db, 100..110, round, 40);
        compact(&db);
        db.collect_garbage(None, None, &Default::default()).unwrap();
    }
    // A family that is gone.
    let dropped = db.create_column_family("dropped", family()).unwrap();
    put(&dropped, 0..5, 0, 300);
    dropped.flush().unwrap();
    db.drop_column_family(&dropped).unwrap();
    // Garbage that is not collected, and the part that a snapshot sees.
    put(&db, 50..60, 4, 500);
    let snapshot = db.snapshot();
    put(&db, 50..60, 5, 300);
    compact(&db);
    drop(snapshot);

    // Holes among values of several blocks.
    let punched = ColumnFamilyOptions {
        enable_blob_garbage_collection: true,
        blob_garbage_collection_punch_holes: true,
        ..family()
    };
    let punched = db.create_column_family("punched", punched).unwrap();
    put(&punched, 0..4, 0, 20_400);
    compact(&punched);
    put(&punched, [1], 1, 120);
    compact(&punched);
    db.wait_idle().unwrap();
    assert!(db.statistics().gc_hole_bytes() > 0, "no holes here");

    // Compressed values, and range tombstones in tables of several levels, one of which covers
    // relocated values.
    let codecs = ColumnFamilyOptions {
        compression: CompressionType::Zstd,
        blob_compression_type: CompressionType::Lz4,
        ..family()
    };
    let codecs = db.create_column_family("codecs", codecs).unwrap();
    for n in 0..30 {
        let value = [value(n, 100), vec![7; 400]].concat();
        codecs.put(&key(n), &value).unwrap();
    }
    compact(&codecs);
    codecs.delete_range(&key(3), &key(6)).unwrap();
    codecs.delete(&key(9)).unwrap();
    codecs.flush().unwrap();
    codecs.delete_range(&key(5), &key(8)).unwrap();
    codecs.put(b"once", b"value").unwrap();
    codecs.single_delete(b"once").unwrap();
    codecs.put(&key(6), b"again").unwrap();
    codecs.flush().unwrap();
    db.delete_range(&key(20), &key(23)).unwrap();
    db.flush().unwrap();

    // Another order of keys.
    let reversed = ColumnFamilyOptions {
        comparator: Arc::new(ReverseBytewiseComparator),
        ..family()
    };
    let reversed = db.create_column_family("reversed", reversed).unwrap();
    put(&reversed, 0..10, 0, 200);
    reversed.delete_range(&key(4), &key(2)).unwrap();
    reversed.flush().unwrap();

    // Only in the WAL: a batch over all families.
    let mut batch = WriteBatch::new();
    for family in db.column_families() {
        batch.put(&family, key(7), value(7, 700)).unwrap();
        batch.delete(&family, key(8)).unwrap();
        batch.put(&family, "in the WAL", family.name()).unwrap();
    }
    batch.delete_range(&*db, key(30), key(33)).unwrap();
    db.write(batch, &WriteOptions::default()).unwrap();
    db
}

/// Asserts that a directory has the files that `write_all_formats` writes.
fn has_all_formats(dir: &Path, what: &str) {
    let mut kinds = std::collections::BTreeSet::new();
    for file in files(dir) {
        let extension = file.extension().and_then(|e| e.to_str()).unwrap_or("");
        if ["sst", "blob", "blobmap", "log"].contains(&extension) {
            let summary = inspect(&file, &mut |item| {
                kinds.insert(format!("{extension}: {}", item.kind));
                true
            });
            assert_eq!(summary.unwrap().damaged, 0, "{what}: {}", file.display());
        }
    }
    for kind in ["blob: record", "blob: hole", "sst: range deletion"] {
        assert!(kinds.contains(kind), "{what}: {kind} in {kinds:?}");
    }
    for extension in ["log", "blobmap"] {
        let there = kinds.iter().any(|kind| kind.starts_with(extension));
        assert!(there, "{what}: {extension} in {kinds:?}");
    }
    let kept = Options::load(dir).unwrap();
    assert_eq!(kept.default.block_size, 512, "{what}");
    let kept = kept.families;
    assert!(kept["punched"].blob_garbage_collection_punch_holes);
    assert_eq!(kept["codecs"].compression, CompressionType::Zstd, "{what}");
    let bytes = files(dir).into_iter().map(|f| f.metadata().unwrap().len());
    let bytes: u64 = bytes.sum();
    assert!(bytes < MAX_BYTES, "{what}: {bytes} bytes");
}

/// Adds the next fixture, when a format has changed. See the README of the fixtures.
#[test]
#[ignore = "writes a fixture into the sources"]
fn write_the_next_fixture() {
    let place = place();
    let mut numbered = (1..).map(|n| place.join(format!("format-{n}")));
    let target = numbered.find(|dir| !dir.exists()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = write_all_formats(dir.path());
    let expected = as_text(&contents(&db).unwrap());
    // Keeps the WAL, without the zeros that an open one may end in.
    db.close().unwrap();
    drop(db);
    has_all_formats(dir.path(), "new");
    std::fs::create_dir_all(&target).unwrap();
    for file in files(dir.path()) {
        let name = file.file_name().unwrap();
        if name != "LOCK" {
            std::fs::copy(&file, target.join(name)).unwrap();
        }
    }
    std::fs::write(expected_of(&target), expected).unwrap();
    println!("{}", target.display());
}

#[test]
fn every_format_ever_written_is_read_and_looking_changes_nothing() {
    for (fixture, expected) in fixtures() {
        let what = fixture.display().to_string();
        let dir = copy(&fixture);
        has_all_formats(dir.path(), &what);
        let bytes = || {
            let mut all = files(dir.path());
            all.retain(|path| !path.ends_with("LOCK"));
            let content = |path: PathBuf| (path.clone(), std::fs::read(path).unwrap());
            all.into_iter().map(content).collect::<Vec<_>>()
        };
        let before = bytes();
        let report = titan_tools::check(dir.path(), &Options::default(), &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "{what}: {:#?}", report.problems);
        let db = Db::open_read_only(dir.path(), &Options::default()).unwrap();
        let all = contents(&db).unwrap();
        assert_same_text(&as_text(&all), &expected, &what);
        check_all(&db, &all, &what);
        db.close().unwrap();
        assert!(bytes() == before, "{what}: looking changes files");
    }
}

/// Overwrites and deletes in every family.
fn change(db: &Db, model: &mut [(String, Rows)]) {
    for (name, rows) in model {
        let family = db.column_family(name).unwrap();
        for (n, (key, value)) in rows.iter_mut().enumerate() {
            if n % 3 == 0 {
                *value = crate::support::value(n, 900);
                family.put(key, value).unwrap();
            }
        }
        let mut n = 0;
        rows.retain(|(key, _)| {
            n += 1;
            let goes = n % 7 == 0;
            if goes {
                family.delete(key).unwrap();
            }
            !goes
        });
    }
}

#[test]
fn every_format_ever_written_is_taken_over_by_this_version() {
    for (fixture, expected) in fixtures() {
        let what = |step: &str| format!("{}: {step}", fixture.display());
        let dir = copy(&fixture);
        let options = Options::default();
        // Opening writes a new MANIFEST and flushes the WAL.
        let db = Db::open(dir.path(), &options).unwrap();
        let mut model = contents(&db).unwrap();
        assert_same_text(&as_text(&model), &expected, &what("opened"));
        check_all(&db, &model, &what("opened"));
        change(&db, &mut model);
        check_all(&db, &model, &what("changed"));
        db.close().unwrap();
        drop(db);

        let db = Db::open(dir.path(), &options).unwrap();
        check_all(&db, &model, &what("reopened"));
        for family in db.column_families() {
            compact(&family);
            let all = Default::default();
            family.collect_garbage(None, None, &all).unwrap();
        }
        check_all(&db, &model, &what("collected"));
        assert_eq!(db.space_report().unwrap().total.garbage_blob_bytes, 0);
        db.close().unwrap();
        drop(db);
        let report = titan_tools::check(dir.path(), &options, &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "{:#?}", report.problems);
        let kept = Options::load(dir.path()).unwrap().families;
        assert_eq!(kept["punched"].block_size, 512, "{}", what("options"));
        let db = Db::open(dir.path(), &options).unwrap();
        check_all(&db, &model, &what("opened once more"));
        db.close().unwrap();
    }
}

#[test]
fn every_format_ever_written_is_repaired() {
    for (fixture, expected) in fixtures() {
        let what = fixture.display().to_string();
        let dir = copy(&fixture);
        let to = dir.path().join("repaired");
        let target = RepairTo::Directory(to.clone());
        let report = repair(dir.path(), &target, &Options::default(), &mut |_| {}).unwrap();
        assert!(report.lost.is_empty(), "{what}: {:?}", report.lost);
        let db = Db::open(&to, &Options::default()).unwrap();
        let all = contents(&db).unwrap();
        assert_same_text(&as_text(&all), &expected, &what);
        db.close().unwrap();
    }
}
