//! A directory of RocksDB 11.8 whose entities have large columns in blob files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use titan::merge::builtin;
use titan::{
    CompactRangeOptions, CompactionFilter, CompactionFilterFactory, Db, Decision, FilterContext,
    FilterEntry, Options, ReadOptions, Result, Stated, SystemClock, TimeToLive,
};
use titan_testkit::clock::SimClock;
use titan_tools::{RepairTo, check, downgrade, repair};

use super::{Columns, Model, assert_reads, default_of, read};
use crate::directory::{copy, files_ending, shown};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rocksdb-11.8-wide-columns")
}

/// Content of a family.
fn model(db: &Db, family: &str) -> Model {
    let family = db.column_family(family).unwrap();
    let mut iter = family.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    let mut model = Model::new();
    while iter.valid() {
        model.insert(iter.key().to_vec(), read(&iter.columns().unwrap()));
        iter.next().unwrap();
    }
    model
}

/// In the notation of the fixture's list of columns.
fn as_text(family: &str, model: &Model) -> String {
    use crate::directory::hex;
    let mut text = String::new();
    for (key, columns) in model {
        for (name, value) in columns {
            let (key, name, value) = (hex(key), hex(name), shown(value));
            text.push_str(&format!("{family}\t{key}\t{name}\t{value}\n"));
        }
    }
    text
}

fn keys(model: &Model) -> Vec<Vec<u8>> {
    model.keys().cloned().collect()
}

fn assert_sound(dir: &Path, options: &Options) {
    let report = check(dir, options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

fn compact(db: &Db) {
    let all = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &all).unwrap();
}

#[test]
fn columns_are_what_was_written() {
    let expected = format!("{}.columns.tsv", fixture().display());
    let expected = std::fs::read_to_string(expected).unwrap();
    let dir = copy(&fixture());
    let options = Options::default();
    let text = |db: &Db| {
        let families = ["default", "inline"];
        families
            .map(|name| as_text(name, &model(db, name)))
            .concat()
    };
    assert_eq!(
        text(&Db::open_read_only(dir.path(), &options).unwrap()),
        expected
    );
    for _ in 0..2 {
        let db = Db::open(dir.path(), &options).unwrap();
        assert_eq!(text(&db), expected);
        db.wait_idle().unwrap();
        assert_eq!(text(&db), expected);
        for name in ["default", "inline"] {
            let (family, model) = (db.column_family(name).unwrap(), model(&db, name));
            assert_reads(
                &family,
                &ReadOptions::default(),
                &model,
                &keys(&model),
                name,
            );
        }
        db.close().unwrap();
        assert_sound(dir.path(), &options);
    }
}

/// Opening for writing, a checkpoint, and all code that counts pointers, keep the files of the
/// columns.
#[test]
fn what_columns_point_to_is_no_garbage() {
    let dir = copy(&fixture());
    let options = Options::default();
    let referenced = |db: &Db| {
        let metrics = db.metrics().families.remove(0);
        let levels = metrics.levels.iter();
        let referenced: u64 = levels.map(|l| l.referenced_blob_bytes).sum();
        assert_eq!(referenced, metrics.live_blob_bytes);
        (metrics.blob_files, referenced)
    };
    let db = Db::open(dir.path(), &options).unwrap();
    db.wait_idle().unwrap();
    let model = model(&db, "default");
    let before = referenced(&db);
    assert!(before.0 > 1 && before.1 > 10_000, "{before:?}");
    let place = tempfile::tempdir().unwrap();
    db.checkpoint(place.path().join("checkpoint")).unwrap();
    assert_eq!(referenced(&db), before);
    db.close().unwrap();
    for dir in [dir.path().to_owned(), place.path().join("checkpoint")] {
        let db = Db::open(&dir, &options).unwrap();
        db.collect_garbage(None, None, &Default::default()).unwrap();
        let after = db.metrics().families.remove(0);
        assert_eq!(after.garbage_blob_bytes, 0);
        assert_reads(
            &db,
            &ReadOptions::default(),
            &model,
            &keys(&model),
            "collected",
        );
        db.close().unwrap();
        assert_sound(&dir, &options);
    }
}

#[test]
fn records_of_columns_are_relocated_and_come_back() {
    for seed in 0..4 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let dir = copy(&fixture());
        let mut options = Options::default();
        options.default.merge_operator = Some(builtin::by_name("stringappend").unwrap());
        options.default.stated = Stated::fields(&["merge_operator"]);
        let mut db = Db::open(dir.path(), &options).unwrap();
        let mut model = model(&db, "default");
        let all = keys(&model);
        for round in 0..3 {
            let what = format!("seed {seed}, round {round}");
            for key in &all {
                match rng.u8(..10) {
                    0 => {
                        db.delete(key).unwrap();
                        model.remove(key);
                    }
                    1 => {
                        let columns = Columns::from([(b"n".to_vec(), vec![b'n'; 400])]);
                        db.put_entity(key, &columns).unwrap();
                        model.insert(key.clone(), columns);
                    }
                    2 | 3 => {
                        db.merge(key, b"operand").unwrap();
                        let columns = model.entry(key.clone()).or_default();
                        let value = match (columns.is_empty(), default_of(columns)) {
                            (true, _) => b"operand".to_vec(),
                            (false, base) => [base, b",operand"].concat(),
                        };
                        columns.insert(Vec::new(), value);
                    }
                    4 => {
                        db.put(key, &[b'p'; 300]).unwrap();
                        let columns = Columns::from([(Vec::new(), vec![b'p'; 300])]);
                        model.insert(key.clone(), columns);
                    }
                    _ => {}
                }
            }
            assert_reads(&db, &ReadOptions::default(), &model, &all, &what);
            db.collect_garbage(None, None, &Default::default()).unwrap();
            assert_reads(&db, &ReadOptions::default(), &model, &all, &what);
            db.close().unwrap();
            assert_sound(dir.path(), &options);
            db = Db::open(dir.path(), &options).unwrap();
            assert_reads(&db, &ReadOptions::default(), &model, &all, &what);
        }
        assert!(
            !files_ending(dir.path(), ".blobmap").is_empty(),
            "seed {seed}"
        );
        db.close().unwrap();

        let report = downgrade(dir.path(), &options, &mut |_| {}).unwrap();
        assert!(!report.plan.tables.is_empty(), "seed {seed}: {report:?}");
        assert_sound(dir.path(), &options);
        assert!(files_ending(dir.path(), ".blobmap").is_empty());
        // Where values are not separated any more, columns come back into the tables.
        options.default.enable_blob_files = false;
        options.default.stated = Stated::fields(&["merge_operator", "enable_blob_files"]);
        let db = Db::open(dir.path(), &options).unwrap();
        assert_reads(&db, &ReadOptions::default(), &model, &all, "downgraded");
        compact(&db);
        assert_reads(&db, &ReadOptions::default(), &model, &all, "inline");
        assert_eq!(db.metrics().families[0].blob_files, 0, "seed {seed}");
        db.close().unwrap();
        assert_sound(dir.path(), &options);
    }
}

/// Notes the values that it is shown; removes, changes and keeps by the last digit of the key.
#[derive(Clone, Default)]
struct Filter(Arc<Mutex<Columns>>);

impl CompactionFilterFactory for Filter {
    fn name(&self) -> &str {
        "tests.Filter"
    }

    fn create(&self, _: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(self.clone()))
    }
}

impl CompactionFilter for Filter {
    fn filter(&mut self, entry: &FilterEntry<'_>) -> Result<Decision> {
        let value = entry.value().fetch()?;
        assert_eq!(entry.stored_len(), value.len() as u64);
        // A later compaction sees the values that this one leaves.
        let mut seen = self.0.lock().unwrap();
        let first = seen.entry(entry.key().to_vec());
        first.or_insert_with(|| value.to_vec());
        Ok(match entry.key().last() {
            Some(b'1' | b'2') => Decision::Remove,
            Some(b'3') => Decision::ChangeValue(b"short".to_vec()),
            Some(b'4') => Decision::ChangeValue(vec![b'L'; 500]),
            _ => Decision::Keep,
        })
    }
}

#[test]
fn a_filter_sees_and_changes_the_default_column() {
    let dir = copy(&fixture());
    let filter = Filter::default();
    let mut options = Options::default();
    options.default.compaction_filter = Some(Arc::new(filter.clone()));
    let db = Db::open(dir.path(), &options).unwrap();
    let mut model = model(&db, "default");
    let all = keys(&model);
    compact(&db);
    let seen = std::mem::take(&mut *filter.0.lock().unwrap());
    assert!(seen.keys().eq(model.keys()));
    for (key, columns) in &model {
        assert_eq!(seen[key], default_of(columns));
    }
    model.retain(|key, columns| {
        let value = match key.last() {
            Some(b'1' | b'2') => return false,
            Some(b'3') => b"short".to_vec(),
            Some(b'4') => vec![b'L'; 500],
            _ => return true,
        };
        columns.insert(Vec::new(), value);
        true
    });
    assert_reads(&db, &ReadOptions::default(), &model, &all, "filtered");
    db.close().unwrap();
    assert_sound(dir.path(), &options);
    let db = Db::open(dir.path(), &options).unwrap();
    db.collect_garbage(None, None, &Default::default()).unwrap();
    assert_reads(&db, &ReadOptions::default(), &model, &all, "collected");
    db.close().unwrap();
    assert_sound(dir.path(), &options);
}

/// Entities of both versions expire, no earlier than they should, with the blob records of their
/// columns. Nothing is read for that.
#[test]
fn entities_have_a_time_to_live() {
    const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
    let dir = copy(&fixture());
    let clock = SimClock::with_seed(1);
    // The tables of the fixture have the time at which they were written.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    clock.advance(now - clock.unix_time());
    let mut options = Options::default();
    options.db.clock = Arc::new(clock.clone());
    options.default.compaction_filter = Some(Arc::new(TimeToLive::new(10 * YEAR)));
    let db = Db::open(dir.path(), &options).unwrap();
    let mut model = model(&db, "default");
    let all = keys(&model);
    compact(&db);
    assert_reads(&db, &ReadOptions::default(), &model, &all, "new");
    clock.advance(8 * YEAR);
    let young = [("", "value"), ("name", "another value")];
    db.put_entity(&all[3], young).unwrap();
    let young = young.map(|(name, value)| (name.into(), value.into()));
    model.insert(all[3].clone(), young.into());
    assert_reads(&db, &ReadOptions::default(), &model, &all, "young");
    // Now all but one are old.
    clock.advance(4 * YEAR);
    compact(&db);
    model.retain(|key, _| *key == all[3]);
    assert_reads(&db, &ReadOptions::default(), &model, &all, "old");
    assert_eq!(db.metrics().families[0].live_blob_bytes, 0);
    clock.advance(8 * YEAR);
    compact(&db);
    assert_reads(&db, &ReadOptions::default(), &Model::new(), &all, "all");
    assert_eq!(db.statistics().filter_blob_reads(), 0);
    db.close().unwrap();
    assert_sound(dir.path(), &options);
}

/// A repair loses the entities whose columns are damaged, names them, and keeps all others, also
/// those with columns in the same file.
#[test]
fn a_repair_rescues_columns_from_a_damaged_blob_file() {
    let options = Options::default();
    let whole = copy(&fixture());
    let expected = model(&Db::open(whole.path(), &options).unwrap(), "default");
    let (mut rescued, mut lost_in_all) = (0, 0);
    for file in files_ending(&fixture(), ".blob") {
        let dir = copy(&fixture());
        let path = dir.path().join(file.file_name().unwrap());
        let mut content = std::fs::read(&path).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        std::fs::write(&path, content).unwrap();
        let to = dir.path().join("repaired");
        let target = RepairTo::Directory(to.clone());
        let report = repair(dir.path(), &target, &options, &mut |_| {}).unwrap();
        let lost: u64 = report.lost.iter().filter_map(|loss| loss.entries).sum();
        assert!(lost <= 1, "{:?}", report.lost);
        lost_in_all += lost;
        assert_sound(&to, &options);
        let db = Db::open(&to, &options).unwrap();
        let found = model(&db, "default");
        let differing = expected
            .iter()
            .filter(|(key, columns)| found.get(*key) != Some(columns));
        // The lost entry may be one that a newer one shadows, or shadow an older one.
        assert!(differing.count() <= 1);
        rescued += found.len();
    }
    assert!(rescued > expected.len() && lost_in_all > 0);
}
