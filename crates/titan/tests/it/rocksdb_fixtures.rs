//! Directories that several releases of RocksDB wrote are opened in place. Every way of reading
//! returns everything, also after writing, separation of values, and compaction.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions, ErrorKind, Options,
    Secondary, Stated, WriteBatch, WriteOptions,
};
use titan_tools::{RepairTo, repair};

use crate::directory::{
    Rows, as_text, assert_same_text, check_all, contents, copy, files, files_ending,
};

fn fixtures() -> Vec<PathBuf> {
    directories("", 25)
}

/// The directories with undecided transactions.
fn undecided() -> Vec<PathBuf> {
    directories("undecided", 3)
}

/// The databases in a directory of the fixtures; there are at least so many.
fn directories(within: &str, least: usize) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = std::fs::read_dir(dir.join(within)).unwrap();
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    // Directories that are refused are elsewhere.
    paths.retain(|p| p.join("CURRENT").exists());
    paths.sort();
    assert!(paths.len() >= least, "fixtures are missing: {paths:?}");
    paths
}

/// Small files; values that RocksDB kept inline are separated.
fn options(blob_compression_type: CompressionType) -> Options {
    Options {
        db: DbOptions {
            create_if_missing: false,
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            target_file_size_base: 128 << 10,
            max_bytes_for_level_base: 512 << 10,
            min_blob_size: 200,
            blob_file_size: 128 << 10,
            blob_compression_type,
            // All fixtures are written under the same options, not under those in RocksDB's
            // OPTIONS.
            stated: Stated::all(),
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

/// The same for all families of a database, regardless of its OPTIONS file.
fn stated_for_all(mut options: Options, dir: &Path) -> Options {
    let kept = Options::load(dir).unwrap().families;
    let families = kept.into_keys().map(|name| (name, options.default.clone()));
    options.families = families.collect();
    options
}

#[test]
fn every_fixture_opens_and_reads_as_rocksdb_read_it() {
    for fixture in fixtures() {
        let name = fixture.file_name().unwrap().to_str().unwrap();
        let expected = format!("{}.expected.tsv", fixture.display());
        let expected = std::fs::read_to_string(expected).unwrap();
        let dir = copy(&fixture);
        let secondary = Secondary::open(dir.path(), &options(CompressionType::None)).unwrap();
        let followed = contents(&secondary.db()).unwrap();
        assert_same_text(&as_text(&followed), &expected, &format!("{name}, followed"));
        // The first opening replays the log, the second one reads the tables that the first one
        // made of it.
        let mut before = None;
        for opening in ["first", "second"] {
            let what = format!("{name}, {opening} opening");
            let db = Db::open(dir.path(), &options(CompressionType::None)).unwrap();
            let all = contents(&db).unwrap();
            assert_same_text(&as_text(&all), &expected, &what);
            check_all(&db, &all, &what);
            let names: Vec<_> = db
                .column_families()
                .iter()
                .map(|f| f.name().to_owned())
                .collect();
            assert_eq!(*before.get_or_insert(names.clone()), names, "{what}");
            db.close().unwrap();
            let listed = Db::list_column_families(dir.path(), &Options::default()).unwrap();
            assert_eq!(listed, names, "{what}");
        }
    }
}

#[test]
fn every_fixture_is_repaired_with_and_without_its_manifest() {
    for fixture in fixtures() {
        let name = fixture.file_name().unwrap().to_str().unwrap();
        let expected = format!("{}.expected.tsv", fixture.display());
        let expected = std::fs::read_to_string(expected).unwrap();
        let options = options(CompressionType::None);
        let dir = copy(&fixture);
        let repaired = |to: &str| {
            let to = dir.path().join(to);
            let target = RepairTo::Directory(to.clone());
            let report = repair(dir.path(), &target, &options, &mut |_| {}).unwrap();
            let checked = titan_tools::check(&to, &options, &mut |_| {}).unwrap();
            assert!(
                checked.problems.is_empty(),
                "{name}: {:?}",
                checked.problems
            );
            let db = Db::open(&to, &options).unwrap();
            let all = contents(&db).unwrap();
            db.close().unwrap();
            (report, as_text(&all))
        };
        let (report, text) = repaired("whole");
        assert!(report.lost.is_empty(), "{name}: {:?}", report.lost);
        assert_same_text(&text, &expected, name);
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let path = file.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap();
            if file.starts_with("MANIFEST") || file == "CURRENT" {
                std::fs::remove_file(path).unwrap();
            }
        }
        let (report, text) = repaired("without");
        assert!(!report.lost.is_empty(), "{name}: no MANIFEST is no loss?");
        assert_same_text(&text, &expected, &format!("{name} without MANIFEST"));
    }
}

#[test]
fn tables_of_level_db_are_linked_checked_and_deleted_under_their_names() {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rocksdb-9.8-from-leveldb");
    let expected = std::fs::read_to_string(format!("{}.expected.tsv", fixture.display())).unwrap();
    let dir = copy(&fixture);
    let found = files_ending(dir.path(), ".ldb").len();
    assert!(found > 3, "{found}");
    let options = options(CompressionType::None);
    let sound = |dir: &Path| {
        let checked = titan_tools::check(dir, &options, &mut |_| {}).unwrap();
        assert!(checked.problems.is_empty(), "{:?}", checked.problems);
    };
    sound(dir.path());
    let db = Db::open(dir.path(), &options).unwrap();
    assert_eq!(files_ending(dir.path(), ".ldb").len(), found);
    let space = db.space_report().unwrap();
    assert!(space.disk.sst_bytes > 50_000, "{:?}", space.disk);
    let place = tempfile::tempdir().unwrap();
    let checkpoint = place.path().join("checkpoint");
    db.checkpoint(&checkpoint).unwrap();
    // There they have the engine's names.
    assert!(files_ending(&checkpoint, ".ldb").is_empty());
    sound(&checkpoint);
    let everything = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &everything).unwrap();
    db.wait_idle().unwrap();
    assert!(files_ending(dir.path(), ".ldb").is_empty());
    db.close().unwrap();
    for dir in [dir.path(), &checkpoint] {
        sound(dir);
        let db = Db::open(dir, &options).unwrap();
        let text = as_text(&contents(&db).unwrap());
        assert_same_text(&text, &expected, &dir.display().to_string());
    }
}

#[test]
fn keys_in_tables_of_rocksdb_are_counted_without_reading_them() {
    for fixture in fixtures() {
        let name = fixture.file_name().unwrap().to_str().unwrap();
        // Tables of LevelDB do not say how many entries they have.
        let says = !name.contains("leveldb");
        let dir = copy(&fixture);
        let db = Db::open_read_only(dir.path(), &options(CompressionType::None)).unwrap();
        for family in db.column_families() {
            let what = format!("{name}, {}", family.name());
            let tables = family.table_properties(None, None).unwrap();
            let entries: u64 = tables.iter().filter_map(|table| table.entries).sum();
            assert!(
                !says || tables.iter().all(|t| t.entries.is_some()),
                "{what}"
            );
            assert!(!says || tables.is_empty() || entries > 0, "{what}");
            if name == "rocksdb-11.8-default" {
                let estimated = family.metrics().estimated_keys;
                let rows = contents(&db).unwrap();
                let (_, rows) = rows.iter().find(|(n, _)| n == family.name()).unwrap();
                // Range deletions and overwritten versions are not known.
                let keys = rows.len() as u64;
                let near = keys * 2 / 3..keys * 3 / 2;
                assert!(near.contains(&estimated), "{what}: {estimated} of {keys}");
            }
        }
    }
}

/// Compactions need two levels, and RocksDB could not read the second.
#[test]
fn one_level_is_read_and_written_to_only_if_levels_are_stated() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rocksdb-11.8-default");
    let expected = std::fs::read_to_string(format!("{}.expected.tsv", fixture.display())).unwrap();
    let dir = copy(&fixture);
    let newest = files(dir.path())
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("OPTIONS-"))
        .max()
        .unwrap();
    let text = std::fs::read_to_string(&newest).unwrap();
    assert!(text.contains("num_levels=7"));
    std::fs::write(&newest, text.replace("num_levels=7", "num_levels=1")).unwrap();
    let unstated = Options {
        db: DbOptions {
            create_if_missing: false,
            ..DbOptions::default()
        },
        ..Options::default()
    };
    let error = Db::open(dir.path(), &unstated).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    assert!(error.to_string().contains("num_levels=1"), "{error}");
    let db = Db::open_read_only(dir.path(), &unstated).unwrap();
    assert_same_text(&as_text(&contents(&db).unwrap()), &expected, "read");
    let checked = titan_tools::check(dir.path(), &unstated, &mut |_| {}).unwrap();
    assert!(checked.problems.is_empty(), "{:?}", checked.problems);
    drop(db);
    // All families must be stated; then it is a database of this engine.
    let of_one = options(CompressionType::None);
    assert!(Db::open(dir.path(), &of_one).is_err(), "the family second");
    let stated = stated_for_all(of_one, dir.path());
    let db = Db::open(dir.path(), &stated).unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path(), &unstated).unwrap();
    assert_same_text(&as_text(&contents(&db).unwrap()), &expected, "taken over");
}

/// A transaction that is prepared and not decided is neither applied nor left out, and nothing is
/// written: RocksDB's TransactionDB can still decide it.
#[test]
fn undecided_transactions_are_refused_by_name() {
    for fixture in undecided() {
        let dir = copy(&fixture);
        let state = || -> Vec<(PathBuf, Vec<u8>)> {
            let mut found = files(dir.path());
            found.retain(|path| !path.ends_with("LOCK"));
            let content = |path: PathBuf| (path.clone(), std::fs::read(path).unwrap());
            found.into_iter().map(content).collect()
        };
        let before = state();
        let options = options(CompressionType::None);
        let to = RepairTo::Directory(dir.path().join("repaired"));
        for error in [
            Db::open(dir.path(), &options).unwrap_err(),
            Db::open_read_only(dir.path(), &options).unwrap_err(),
            Secondary::open(dir.path(), &options).unwrap_err(),
            titan_tools::check(dir.path(), &options, &mut |_| {}).unwrap_err(),
            repair(dir.path(), &to, &options, &mut |_| {}).unwrap_err(),
        ] {
            let what = format!("{}: {error}", fixture.display());
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}");
            assert!(error.message().contains("'in doubt'"), "{what}");
            assert_eq!(state(), before, "{what}");
        }
    }
}

/// Wherever the current log is torn, no value of a transaction is read that was rolled back or
/// never committed.
#[test]
fn what_was_not_committed_is_never_read() {
    for fixture in [fixtures(), undecided()].concat() {
        let name = fixture.file_name().unwrap().to_str().unwrap();
        if !name.contains("committed") && !name.contains("prepared") {
            continue;
        }
        if let Some(log) = files_ending(&fixture, ".log").last() {
            let content = std::fs::read(log).unwrap();
            for len in (0..content.len()).step_by(23) {
                let dir = copy(&fixture);
                let log = dir.path().join(log.file_name().unwrap());
                std::fs::write(&log, &content[..len]).unwrap();
                let what = format!("{name}, {} cut at {len}", log.display());
                let db = match Db::open(dir.path(), &options(CompressionType::None)) {
                    Ok(db) => db,
                    Err(e) => {
                        let expected = [ErrorKind::Unsupported, ErrorKind::Corruption];
                        assert!(expected.contains(&e.kind()), "{what}: {e}");
                        continue;
                    }
                };
                for (_, rows) in contents(&db).unwrap() {
                    for (key, value) in rows {
                        let value = String::from_utf8(value).unwrap();
                        let key = String::from_utf8(key).unwrap();
                        assert!(value != "never" && value != "uncommitted", "{what}: {key}");
                    }
                }
            }
        }
    }
}

/// Writes the same to every family and to the model: overwrites and new keys with short and long
/// values, deletions of all three kinds.
fn write(db: &Db, model: &mut [(String, Rows)], rng: &mut fastrand::Rng) {
    for (name, rows) in model.iter_mut() {
        let family = db.column_family(name).unwrap();
        let mut rest: BTreeMap<Vec<u8>, Vec<u8>> = std::mem::take(rows).into_iter().collect();
        let keys: Vec<_> = rest.keys().cloned().collect();
        let mut batch = WriteBatch::new();
        for key in &keys {
            match rng.u32(0..6) {
                0 => {
                    let value = vec![rng.u8(..); rng.usize(0..3000)];
                    batch.put(&family, key, &value).unwrap();
                    rest.insert(key.clone(), value);
                }
                1 => {
                    batch.delete(&family, key).unwrap();
                    rest.remove(key);
                }
                _ => {}
            }
        }
        if keys.len() > 20 {
            let (begin, end) = (&keys[keys.len() / 2], &keys[keys.len() / 2 + 5]);
            batch.delete_range(&family, begin, end).unwrap();
            rest.retain(|key, _| key < begin || key >= end);
        }
        for i in 0..100 {
            let (key, value) = (format!("titan {i:03}"), vec![i; usize::from(i) * 20]);
            batch.put(&family, &key, &value).unwrap();
            rest.insert(key.into_bytes(), value);
        }
        db.write(batch, &WriteOptions::default()).unwrap();
        // Keys that were put once, then single-deleted.
        for i in (0..100).step_by(10) {
            let key = format!("titan {i:03}");
            // The second round puts the key a second time, so it needs a plain deletion.
            family.delete(key.as_bytes()).unwrap();
            family.put(b"titan once", &vec![i; 500]).unwrap();
            family.single_delete(b"titan once").unwrap();
            rest.remove(key.as_bytes());
        }
        *rows = rest.into_iter().collect();
    }
}

/// BLOB-3, as far as it is visible from outside: after everything was compacted, and if nothing was
/// compressed, the bytes referenced are those of the records of all large values. Columns are not
/// in the model.
fn check_references(db: &Db, model: &[(String, Rows)], what: &str) {
    if what.contains("wide-columns") {
        return;
    }
    for (name, rows) in model {
        let family = db.column_family(name).unwrap();
        let metrics = family.metrics();
        let (all, live) = (metrics.blob_bytes, metrics.live_blob_bytes);
        assert_eq!(all, live + metrics.garbage_blob_bytes, "{what}, {name}");
        let large = rows.iter().filter(|(_, value)| value.len() >= 200);
        let records = large.map(|(key, value)| (32 + key.len() + value.len()) as u64);
        assert_eq!(live, records.sum::<u64>(), "{what}, {name}: {metrics:?}");
        let levels = metrics.levels.iter();
        let by_level: u64 = levels.map(|l| l.referenced_blob_bytes).sum();
        assert_eq!(by_level, live, "{what}, {name}: {metrics:?}");
    }
}

#[test]
fn every_fixture_is_written_to_flushed_compacted_and_reopened() {
    let compressions = [
        CompressionType::None,
        CompressionType::Lz4,
        CompressionType::Zstd,
    ];
    let mut references_checked = 0;
    for (seed, fixture) in (1..).zip(fixtures()) {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let own = compressions[rng.usize(0..3)];
        let name = fixture.file_name().unwrap().to_str().unwrap();
        let what = |step: &str| format!("{name}, {own:?}, seed {seed}: {step}");
        let dir = copy(&fixture);
        let options = &stated_for_all(options(own), dir.path());

        let db = Db::open(dir.path(), options).unwrap();
        let mut model = contents(&db).unwrap();
        write(&db, &mut model, rng);
        check_all(&db, &model, &what("written"));
        db.flush_all().unwrap();
        check_all(&db, &model, &what("flushed"));
        write(&db, &mut model, rng);
        db.close().unwrap();

        let db = Db::open(dir.path(), options).unwrap();
        check_all(&db, &model, &what("reopened"));
        let everything = CompactRangeOptions {
            force_bottommost: true,
        };
        for family in db.column_families() {
            family.compact_range(None, None, &everything).unwrap();
        }
        check_all(&db, &model, &what("compacted"));
        db.close().unwrap();

        let db = Db::open(dir.path(), options).unwrap();
        check_all(&db, &model, &what("compacted and reopened"));
        let metrics = db.metrics();
        let blob_files: usize = metrics.families.iter().map(|f| f.blob_files).sum();
        assert!(blob_files > 0, "{}", what("nothing was separated"));
        // The fixture's own blob files have values that RocksDB chose to compress, or small ones.
        if own == CompressionType::None && !name.contains("blob") {
            check_references(&db, &model, &what("references"));
            references_checked += 1;
        }
        db.close().unwrap();
    }
    assert!(references_checked > 0, "the seeds leave a check out");
}

/// Tables with dictionaries leave the cache of open files with the weight with which they entered.
#[test]
fn tables_with_dictionaries_go_in_and_out_of_a_small_cache() {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rocksdb-11.8-dictionaries");
    let place = copy(&fixture);
    let mut options = Options::default();
    options.db.max_open_files = 4096;
    options.db.max_open_files_memory = 1 << 20;
    let db = Db::open(place.path(), &options).unwrap();
    let before = contents(&db).unwrap();
    assert_eq!(contents(&db).unwrap(), before);
    for family in db.column_families() {
        let everything = CompactRangeOptions::default();
        family.compact_range(None, None, &everything).unwrap();
    }
    assert_eq!(contents(&db).unwrap(), before);
    assert!(db.metrics().open_files_memory <= 1 << 20);
    db.close().unwrap();
}
