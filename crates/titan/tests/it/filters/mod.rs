//! Compaction filters: readers find the results of their decisions, garbage is exact, and a filter
//! that fails loses nothing.

mod failures;
mod merges;
mod model;
mod space;
mod ttl;

use std::sync::{Arc, Mutex};

use titan::{
    ColumnFamilyOptions, CompactionFilter, CompactionFilterFactory, Db, Decision, FilterContext,
    FilterEntry, FilterReason, Options, ReadOptions, Result, TransactionOptions,
};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use crate::support::{DIR, files, key, manual, open, options, value};

type Decide = dyn Fn(&FilterEntry<'_>) -> Result<Decision> + Send + Sync;

/// Facts that the filter was told about a job: reason, level, whether it is bottommost, whether
/// something is below "key", the oldest snapshot.
type Job = (FilterReason, usize, bool, bool, Option<u64>);

/// A filter that is a closure, and notes its jobs.
#[derive(Clone)]
struct Filter {
    decide: Arc<Decide>,
    at_flush: bool,
    jobs: Arc<Mutex<Vec<Job>>>,
}

impl Filter {
    fn new(decide: impl Fn(&FilterEntry<'_>) -> Result<Decision> + Send + Sync + 'static) -> Self {
        Filter {
            decide: Arc::new(decide),
            at_flush: false,
            jobs: Arc::default(),
        }
    }

    fn at_flush(self) -> Self {
        Filter {
            at_flush: true,
            ..self
        }
    }

    fn of(self, family: ColumnFamilyOptions) -> ColumnFamilyOptions {
        ColumnFamilyOptions {
            compaction_filter: Some(Arc::new(self)),
            ..family
        }
    }
}

impl CompactionFilterFactory for Filter {
    fn name(&self) -> &str {
        "tests.Filter"
    }

    fn create(&self, context: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        self.jobs.lock().unwrap().push((
            context.reason,
            context.level,
            context.is_bottommost,
            !context.nothing_below(b"key", b"kez"),
            context.oldest_snapshot.map(|s| s.0),
        ));
        Some(Box::new(self.clone()))
    }

    fn at_flush(&self) -> bool {
        self.at_flush
    }
}

impl CompactionFilter for Filter {
    fn filter(&mut self, entry: &FilterEntry<'_>) -> Result<Decision> {
        (self.decide)(entry)
    }
}

/// The number in a key of [`key`].
fn number(key: &[u8]) -> usize {
    let digits = std::str::from_utf8(&key[3..]).unwrap();
    digits.parse().unwrap()
}

fn compact(db: &Db) {
    db.compact_range(None, None, &Default::default()).unwrap();
}

/// Closes the database, and checks that pointers, accounts and scans agree.
fn close_and_check(db: Db, options: &Options) {
    db.close().unwrap();
    drop(db);
    let report = check(DIR.as_ref(), options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

/// Removes one in four keys, and changes two others to a small and a large value.
fn by_number(entry: &FilterEntry<'_>) -> Result<Decision> {
    Ok(match number(entry.key()) % 4 {
        0 => Decision::Remove,
        1 => Decision::ChangeValue(b"small".to_vec()),
        2 => Decision::ChangeValue(vec![b'L'; 300]),
        _ => Decision::Keep,
    })
}

fn expected(n: usize, before: &[u8]) -> Option<Vec<u8>> {
    match n % 4 {
        0 => None,
        1 => Some(b"small".to_vec()),
        2 => Some(vec![b'L'; 300]),
        _ => Some(before.to_vec()),
    }
}

#[test]
fn values_in_the_last_level_are_removed_and_changed_without_reading_them() {
    let vfs = SimVfs::new();
    let unfiltered = options(&vfs, manual());
    let db = open(&unfiltered);
    // Separated and inline ones.
    let len = |n: usize| if n < 50 { 1000 } else { 10 };
    for n in 0..100 {
        db.put(&key(n), &value(n, len(n))).unwrap();
    }
    compact(&db);
    db.close().unwrap();
    drop(db);

    let options = options(&vfs, Filter::new(by_number).of(manual()));
    let db = open(&options);
    compact(&db);
    for n in 0..100 {
        let found = db.get(&key(n)).unwrap().map(|v| v.to_vec());
        assert_eq!(found, expected(n, &value(n, len(n))), "{n}");
        let lazy = db.get_lazy(&key(n)).unwrap();
        if n % 4 == 2 {
            // Separated anew by its size.
            assert!(format!("{lazy:?}").contains("file"), "{lazy:?}");
        }
    }
    let s = db.statistics();
    assert_eq!(s.filter_entries(), 100);
    assert_eq!((s.filter_removed(), s.filter_changed()), (25, 50));
    assert_eq!((s.filter_blob_reads(), s.filter_blob_read_bytes()), (0, 0));
    close_and_check(db, &options);
    // It opens without the filter, and then nothing is filtered.
    let db = open(&unfiltered);
    compact(&db);
    assert_eq!(db.get(&key(3)).unwrap().unwrap(), value(3, 1000));
    assert_eq!(db.statistics().filter_entries(), 0);
}

#[test]
fn what_a_flush_removes_is_never_written() {
    let vfs = SimVfs::new();
    let filter = Filter::new(|_| Ok(Decision::Remove)).at_flush();
    let options = options(&vfs, filter.clone().of(manual()));
    let db = open(&options);
    for n in 0..50 {
        db.put(&key(n), &value(n, 1000)).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(files(&vfs, DIR, ".blob"), Vec::<String>::new());
    assert_eq!(db.get(&key(7)).unwrap(), None);
    let jobs = filter.jobs.lock().unwrap().clone();
    assert_eq!(jobs, [(FilterReason::Flush, 0, false, true, None)]);
    compact(&db);
    assert_eq!(
        files(&vfs, DIR, ".sst"),
        Vec::<String>::new(),
        "deletions are dropped"
    );
    close_and_check(db, &options);
}

#[test]
fn a_filter_is_told_about_its_job_and_may_respect_snapshots() {
    let vfs = SimVfs::new();
    let filter = Filter::new(|_| Ok(Decision::Remove));
    let options = options(&vfs, filter.clone().of(manual()));
    let db = open(&options);
    db.put(&key(1), b"old").unwrap();
    let snapshot = db.snapshot();
    db.put(&key(2), b"new").unwrap();
    compact(&db);
    let jobs = filter.jobs.lock().unwrap().clone();
    let last = db.metrics().families[0].levels.len() - 1;
    assert_eq!(jobs, [(FilterReason::Manual, last, true, false, Some(1))]);
    // As in RocksDB, the filter does not wait for the snapshot.
    let at = titan::ReadOptions {
        snapshot: Some(snapshot.clone()),
        ..Default::default()
    };
    assert_eq!(db.get_with(&key(1), &at).unwrap(), None);
    close_and_check(db, &options);
}

#[test]
fn keys_are_skipped_up_to_the_given_one_and_older_versions_stay_hidden() {
    let vfs = SimVfs::new();
    let unfiltered = options(&vfs, manual());
    let db = open(&unfiltered);
    for n in 0..40 {
        db.put(&key(n), &value(n, 500)).unwrap();
    }
    compact(&db);
    for n in 0..40 {
        db.put(&key(n), &value(n + 100, 500)).unwrap();
    }
    db.delete_range(&key(20), &key(22)).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let filter = Filter::new(|entry| {
        Ok(match number(entry.key()) {
            10 => Decision::SkipUntil(key(30)),
            // Not after the key: it stays.
            35 => Decision::SkipUntil(key(35)),
            n => {
                assert!(!(11..30).contains(&n), "{n} was to be skipped");
                Decision::Keep
            }
        })
    });
    let options = options(&vfs, filter.of(manual()));
    let db = open(&options);
    compact(&db);
    for n in 0..40 {
        let stays = !(10..30).contains(&n);
        let found = db.get(&key(n)).unwrap().map(|v| v.to_vec());
        assert_eq!(found, stays.then(|| value(n + 100, 500)), "{n}");
    }
    // Of 20 keys, two were deleted already.
    assert_eq!(db.statistics().filter_removed(), 18);
    close_and_check(db, &options);
}

#[test]
fn a_filter_may_read_values_and_that_is_counted_by_itself() {
    let vfs = SimVfs::new();
    let filter = Filter::new(|entry| {
        assert!(entry.is_separated() && entry.stored_len() == 500);
        let value = entry.value().fetch()?;
        Ok(match value[0] < 128 {
            true => Decision::Remove,
            false => Decision::Keep,
        })
    });
    let options = options(&vfs, filter.of(manual()));
    let db = open(&options);
    for n in 0..60 {
        db.put(&key(n), &value(n, 500)).unwrap();
    }
    compact(&db);
    assert_eq!(db.statistics().filter_blob_reads(), 60);
    assert_eq!(db.statistics().blob_reads(), 0);
    for n in 0..60 {
        let expected = Some(value(n, 500)).filter(|v| v[0] >= 128);
        assert_eq!(db.get(&key(n)).unwrap().map(|v| v.to_vec()), expected);
    }
    close_and_check(db, &options);
}

#[test]
fn what_a_filter_removes_still_conflicts_with_transactions() {
    let vfs = SimVfs::new();
    let options = options(&vfs, Filter::new(|_| Ok(Decision::Remove)).of(manual()));
    let db = open(&options);
    let transaction = db.begin(&TransactionOptions::default()).unwrap();
    assert_eq!(transaction.get_for_update(&db, key(1)).unwrap(), None);
    db.put(&key(1), b"meanwhile").unwrap();
    compact(&db);
    assert_eq!(db.get(&key(1)).unwrap(), None);
    transaction.put(&db, key(1), b"mine").unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.kind(), titan::ErrorKind::Conflict, "{error}");
}

#[test]
fn options_name_the_filter_of_the_family_and_of_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.default = Filter::new(|_| Ok(Decision::Remove)).of(options.default);
    options
        .families
        .insert("other".to_owned(), ColumnFamilyOptions::default());
    drop(Db::open(dir.path(), &options).unwrap());
    let mut named = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path());
    let file = named.find(|path| path.to_string_lossy().contains("OPTIONS-"));
    let text = std::fs::read_to_string(file.unwrap()).unwrap();
    let recorded = text
        .matches("compaction_filter_factory=tests.Filter")
        .count();
    assert_eq!(recorded, 1, "{text}");
    // A family that is not named is not filtered with the filter of the default one.
    options.families.clear();
    let db = Db::open(dir.path(), &options).unwrap();
    let other = db.column_family("other").unwrap();
    other.put(b"key000001", b"v").unwrap();
    other
        .compact_range(None, None, &Default::default())
        .unwrap();
    assert!(other.get(b"key000001").unwrap().is_some());
}

#[test]
fn a_filter_is_not_asked_about_what_only_snapshots_see() {
    let vfs = SimVfs::new();
    let filter = Filter::new(|_| Ok(Decision::ChangeValue(b"changed".to_vec())));
    let options = options(&vfs, filter.of(manual()));
    let db = open(&options);
    db.put(&key(1), b"old").unwrap();
    let at = titan::ReadOptions {
        snapshot: Some(db.snapshot()),
        ..Default::default()
    };
    db.put(&key(1), b"new").unwrap();
    compact(&db);
    assert_eq!(db.statistics().filter_entries(), 1);
    assert_eq!(db.get(&key(1)).unwrap().unwrap(), &b"changed"[..]);
    assert_eq!(db.get_with(&key(1), &at).unwrap().unwrap(), &b"old"[..]);
}

/// A later iterator has met a row of dead keys, one of which the filter has removed. It must not
/// tell that to an iterator that has the tables from before.
#[test]
fn an_open_iterator_shows_what_a_filter_has_removed_since() {
    let vfs = SimVfs::new();
    let filter = Filter::new(|entry| match number(entry.key()) {
        20 => Ok(Decision::Remove),
        _ => Ok(Decision::Keep),
    });
    let options = options(&vfs, filter.of(manual()));
    let db = open(&options);
    for n in 0..40 {
        db.put(&key(n), b"v").unwrap();
    }
    // It keeps the deletions.
    let snapshot = db.snapshot();
    for n in (0..40).filter(|n| *n != 20) {
        db.delete(&key(n)).unwrap();
    }
    let mut before = db.iter(&ReadOptions::default()).unwrap();
    compact(&db);
    let mut after = db.iter(&ReadOptions::default()).unwrap();
    after.seek_to_first().unwrap();
    assert!(!after.valid());
    drop(after);
    assert!(db.metrics().families[0].skipped_entries >= 39);
    before.seek_to_first().unwrap();
    assert_eq!(before.key(), key(20));
    before.seek_to_last().unwrap();
    assert_eq!(before.key(), key(20));
    drop((before, snapshot));
    close_and_check(db, &options);
}
