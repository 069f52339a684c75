//! Collectors of table properties: the tables have the properties that they report and keep them,
//! and garbage that they report is compacted when its moment has come.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use titan::merge::builtin;
use titan::{
    CollectorContext, ColumnFamilyOptions, CompactRangeOptions, CompactionFilter,
    CompactionFilterFactory, Db, Decision, EntryKind, Error, ErrorKind, EventListener,
    FilterContext, FilterEntry, Options, ReadOptions, Result, Stated, TableEntry,
    TablePropertiesCollector, TablePropertiesCollectorFactory, TableReport,
};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use crate::rocksdb_tools::table_properties;
use crate::support::{DIR, key, manual, open, options, value};

/// Counts entries by kind, and bytes, as text.
struct Counting;

#[derive(Default)]
struct Counts {
    kinds: BTreeMap<String, u64>,
    bytes: u64,
    separated: u64,
    last: Option<Vec<u8>>,
}

impl TablePropertiesCollectorFactory for Counting {
    fn name(&self) -> &str {
        "tests.Counting"
    }

    fn create(&self, context: &CollectorContext<'_>) -> Option<Box<dyn TablePropertiesCollector>> {
        (context.column_family_name != "undescribed").then(|| Box::new(Counts::default()) as _)
    }
}

impl TablePropertiesCollector for Counts {
    fn add(&mut self, entry: &TableEntry<'_>) -> Result<()> {
        let is_point = entry.kind != EntryKind::RangeDeletion;
        if let Some(last) = self.last.as_ref().filter(|_| is_point) {
            assert!(&**last <= entry.key, "keys ascend");
        }
        self.last = Some(entry.key.to_vec());
        *self.kinds.entry(format!("{:?}", entry.kind)).or_default() += 1;
        self.bytes += entry.key.len() as u64 + entry.stored_len;
        self.separated += u64::from(entry.value.is_none());
        Ok(())
    }

    fn finish(&mut self) -> Result<TableReport> {
        let mut report = TableReport::default();
        let text = format!("{:?} separated {}", self.kinds, self.separated);
        report.properties.insert("tests.kinds".into(), text.into());
        let bytes = self.bytes.to_le_bytes().to_vec();
        report.properties.insert("tests.bytes".into(), bytes);
        Ok(report)
    }
}

fn collected_by(
    collectors: Vec<Arc<dyn TablePropertiesCollectorFactory>>,
    family: ColumnFamilyOptions,
) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        table_properties_collectors: collectors,
        ..family
    }
}

fn counted(family: ColumnFamilyOptions) -> ColumnFamilyOptions {
    collected_by(vec![Arc::new(Counting)], family)
}

fn kinds(properties: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    String::from_utf8(properties[&b"tests.kinds"[..]].clone()).unwrap()
}

fn reopened(db: Db, options: &Options) -> Db {
    db.close().unwrap();
    drop(db);
    let report = check(DIR.as_ref(), options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
    open(options)
}

#[test]
fn each_table_says_what_its_collectors_saw() {
    let vfs = SimVfs::new();
    let family = counted(ColumnFamilyOptions {
        merge_operator: builtin::by_name("stringappend"),
        ..manual()
    });
    let options = options(&vfs, family);
    let db = open(&options);
    for n in 0..10 {
        db.put(&key(n), &value(n, 20)).unwrap();
        db.put(&key(100 + n), &value(n, 300)).unwrap();
    }
    db.delete(&key(3)).unwrap();
    // It goes with its value.
    db.single_delete(&key(4)).unwrap();
    db.merge(&key(50), b"x").unwrap();
    let first = db.table_properties(None, None).unwrap();
    assert!(first.is_empty(), "nothing has been written to a table");
    db.flush().unwrap();
    db.delete_range(&key(0), &key(2)).unwrap();
    db.put(&key(200), b"v").unwrap();
    db.flush().unwrap();

    let tables = db.table_properties(None, None).unwrap();
    let [newer, older] = &tables[..] else {
        panic!("{tables:?}");
    };
    let expected = "{\"Deletion\": 1, \"Merge\": 1, \"Value\": 18} separated 10";
    let (newer, older) = match newer.file > older.file {
        true => (newer, older),
        false => (older, newer),
    };
    assert_eq!(kinds(&older.properties), expected);
    assert_eq!(older.entries, Some(20));
    let expected = "{\"RangeDeletion\": 1, \"Value\": 1} separated 0";
    assert_eq!(kinds(&newer.properties), expected);
    assert_eq!(newer.smallest, key(0));
    assert!(newer.garbage.is_empty());

    // Only the tables of the range.
    let within = |begin: usize, end: usize| {
        let tables = db.table_properties(Some(&key(begin)), Some(&key(end)));
        tables.unwrap().len()
    };
    assert_eq!(within(0, 999), 2);
    assert_eq!(within(201, 300), 0);
    assert_eq!(within(150, 300), 1);

    // They are the same after an opening, which opens no tables, and even without the collectors.
    let reports = |db: &Db| -> Vec<_> {
        let tables = db.table_properties(None, None).unwrap();
        tables.iter().map(|t| t.properties.clone()).collect()
    };
    let seen = reports(&db);
    let db = reopened(db, &options);
    assert_eq!(reports(&db), seen);
    drop(db);
    let without = crate::support::options(&vfs, manual());
    let db = open(&without);
    assert_eq!(reports(&db), seen);
    // A table written without collectors has no report.
    let forced = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &forced).unwrap();
    let tables = db.table_properties(None, None).unwrap();
    assert!(tables.iter().all(|table| table.properties.is_empty()));
    drop(db);
    let db = open(&options);
    db.compact_range(None, None, &forced).unwrap();
    let [table] = &db.table_properties(None, None).unwrap()[..] else {
        panic!("one table");
    };
    assert_eq!(kinds(&table.properties), "{\"Value\": 18} separated 10");
    reopened(db, &options);
}

#[test]
fn a_family_may_have_none() {
    let vfs = SimVfs::new();
    let options = options(&vfs, counted(manual()));
    let db = open(&options);
    let plain = db
        .create_column_family("undescribed", counted(manual()))
        .unwrap();
    plain.put(b"key", b"value").unwrap();
    plain.flush().unwrap();
    let tables = plain.table_properties(None, None).unwrap();
    assert!(tables[0].properties.is_empty());
    db.drop_column_family(&plain).unwrap();
    let e = plain.table_properties(None, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}

/// Fails in one of its three calls, by an error or a panic.
struct Failing {
    at: usize,
    panics: bool,
}

impl Failing {
    fn fails_at(&self, call: usize) -> Result<()> {
        match (self.at == call, self.panics) {
            (false, _) => Ok(()),
            (true, false) => Err(Error::new(ErrorKind::Internal, "broken")),
            (true, true) => panic!("broken"),
        }
    }
}

impl TablePropertiesCollectorFactory for Failing {
    fn name(&self) -> &str {
        "tests.Failing"
    }

    fn create(&self, _: &CollectorContext<'_>) -> Option<Box<dyn TablePropertiesCollector>> {
        let _ = self.fails_at(0);
        Some(Box::new(Failing { ..*self }))
    }
}

impl TablePropertiesCollector for Failing {
    fn add(&mut self, _: &TableEntry<'_>) -> Result<()> {
        self.fails_at(1)
    }

    fn finish(&mut self) -> Result<TableReport> {
        self.fails_at(2)?;
        let mut report = TableReport::default();
        let name = match self.at {
            4 => "rocksdb.num.entries",
            _ => "tests.failing",
        };
        report.properties.insert(name.into(), vec![1]);
        Ok(report)
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        if self.at == 3 && self.panics && !std::thread::panicking() {
            panic!("broken");
        }
    }
}

#[derive(Default)]
struct Notified(Mutex<Vec<String>>);

impl EventListener for Notified {
    fn table_properties_collector_failed(&self, error: &Error) {
        self.0.lock().unwrap().push(error.to_string());
    }
}

#[test]
fn a_collector_that_fails_costs_only_its_own_report() {
    let cases = [
        (0, true),
        (1, false),
        (1, true),
        (2, false),
        (2, true),
        (3, true),
        (4, false),
    ];
    for (at, panics) in cases {
        let vfs = SimVfs::new();
        let failing: Arc<dyn TablePropertiesCollectorFactory> = match at {
            // Its factory's destructor is not to panic.
            3 => Arc::new(Dropping),
            _ => Arc::new(Failing { at, panics }),
        };
        let family = collected_by(vec![failing, Arc::new(Counting)], manual());
        let mut options = options(&vfs, family);
        let notified = Arc::new(Notified::default());
        options.db.listeners = vec![notified.clone()];
        let db = open(&options);
        for n in 0..10 {
            db.put(&key(n), &value(n, 150)).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(
            None,
            None,
            &CompactRangeOptions {
                force_bottommost: true,
            },
        )
        .unwrap();
        let [table] = &db.table_properties(None, None).unwrap()[..] else {
            panic!("one table");
        };
        assert_eq!(kinds(&table.properties), "{\"Value\": 10} separated 10");
        let fails = at != 3;
        assert_eq!(table.properties.contains_key(&b"tests.failing"[..]), !fails);
        let notified = notified.0.lock().unwrap().clone();
        assert_eq!(notified.is_empty(), !fails, "at {at}: {notified:?}");
        for text in notified {
            assert!(text.contains("'tests.Failing'"), "{text}");
        }
        let db = reopened(db, &options);
        assert_eq!(db.get(&key(7)).unwrap().as_deref(), Some(&*value(7, 150)));
    }
}

/// A factory of collectors whose destructors panic.
struct Dropping;

impl TablePropertiesCollectorFactory for Dropping {
    fn name(&self) -> &str {
        "tests.Dropping"
    }

    fn create(&self, _: &CollectorContext<'_>) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(Failing {
            at: 3,
            panics: true,
        }))
    }
}

/// Keys are a row and a version; a version is garbage from the version on that follows it in its
/// row.
#[derive(Clone, Default)]
struct Versions {
    /// Whether the filter drops garbage.
    drops: bool,
    moment: Arc<AtomicUsize>,
}

fn versioned(row: usize, version: u64) -> Vec<u8> {
    let mut key = format!("row{row:04}").into_bytes();
    // Newer versions come first.
    key.extend((!version).to_be_bytes());
    key
}

fn parts(key: &[u8]) -> (Vec<u8>, u64) {
    let (row, version) = key.split_at(key.len() - 8);
    (
        row.to_vec(),
        !u64::from_be_bytes(version.try_into().unwrap()),
    )
}

impl TablePropertiesCollectorFactory for Versions {
    fn name(&self) -> &str {
        "tests.Versions"
    }

    fn create(&self, _: &CollectorContext<'_>) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(Rows::default()))
    }
}

#[derive(Default)]
struct Rows {
    newer: Option<(Vec<u8>, u64)>,
    report: TableReport,
}

impl TablePropertiesCollector for Rows {
    fn add(&mut self, entry: &TableEntry<'_>) -> Result<()> {
        if entry.kind != EntryKind::Value {
            return Ok(());
        }
        let (row, version) = parts(entry.key);
        if let Some((newer, from)) = &self.newer
            && *newer == row
        {
            let bytes = entry.key.len() as u64 + entry.stored_len;
            self.report.garbage.add(*from, bytes);
        }
        self.newer = Some((row, version));
        Ok(())
    }

    fn finish(&mut self) -> Result<TableReport> {
        Ok(std::mem::take(&mut self.report))
    }
}

impl CompactionFilterFactory for Versions {
    fn name(&self) -> &str {
        "tests.Versions"
    }

    fn create(&self, _: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        let moment = self.moment.load(Ordering::Relaxed) as u64;
        self.drops.then(|| {
            Box::new(Dropped {
                moment,
                newer: None,
            }) as _
        })
    }
}

struct Dropped {
    moment: u64,
    newer: Option<(Vec<u8>, u64)>,
}

impl CompactionFilter for Dropped {
    fn filter(&mut self, entry: &FilterEntry<'_>) -> Result<Decision> {
        let (row, version) = parts(entry.key());
        let newer = self.newer.replace((row.clone(), version));
        Ok(match newer {
            Some((newer, from)) if newer == row && from <= self.moment => Decision::Remove,
            _ => Decision::Keep,
        })
    }
}

fn rows(versions: &Versions, family: ColumnFamilyOptions) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        compaction_filter: Some(Arc::new(versions.clone())),
        ..collected_by(vec![Arc::new(versions.clone())], family)
    }
}

const ROWS: usize = 50;
const VERSIONS: u64 = 10;

fn write_rows(db: &Db, len: usize) {
    for version in 1..=VERSIONS {
        for row in 0..ROWS {
            db.put(&versioned(row, version), &value(row, len)).unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

fn count(db: &Db) -> usize {
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    let mut n = 0;
    while iter.valid() {
        n += 1;
        iter.next().unwrap();
    }
    n
}

#[test]
fn what_is_garbage_from_a_moment_on_goes_when_the_moment_comes() {
    for len in [50, 1000] {
        let vfs = SimVfs::new();
        let versions = Versions {
            drops: true,
            ..Versions::default()
        };
        let family = ColumnFamilyOptions {
            disable_auto_compactions: false,
            write_buffer_size: 64 << 10,
            stated: Stated::all(),
            ..rows(&versions, manual())
        };
        let options = options(&vfs, family);
        let db = open(&options);
        write_rows(&db, len);
        let all = ROWS * VERSIONS as usize;
        assert_eq!(count(&db), all);
        assert_eq!(db.reported_garbage(), 0);

        // It does not come by itself, and not before the moment.
        versions.moment.store(VERSIONS as usize, Ordering::Relaxed);
        db.advance_garbage_moment(1);
        db.wait_idle().unwrap();
        assert_eq!(count(&db), all);

        db.advance_garbage_moment(VERSIONS);
        db.wait_idle().unwrap();
        let left = count(&db);
        assert!(left < all / 2, "{left} of {all} of {len} bytes are left");
        // Moments do not go back, and compacted tables are not compacted again.
        let compactions = || db.statistics().compactions();
        let before = compactions();
        db.advance_garbage_moment(2);
        db.advance_garbage_moment(VERSIONS + 1);
        db.wait_idle().unwrap();
        assert_eq!(compactions(), before);
        let db = reopened(db, &options);
        assert_eq!(count(&db), left);
        for row in 0..ROWS {
            let newest = db.get(&versioned(row, VERSIONS)).unwrap();
            assert_eq!(newest.as_deref(), Some(&*value(row, len)), "row {row}");
        }
    }
}

#[test]
fn what_a_compaction_leaves_is_not_waited_for() {
    let vfs = SimVfs::new();
    // The filter drops nothing.
    let versions = Versions::default();
    let options = options(&vfs, rows(&versions, manual()));
    let db = open(&options);
    write_rows(&db, 200);
    db.advance_garbage_moment(5);
    let at_first = db.reported_garbage();
    let entry = 7 + 8 + 200;
    // Versions 1 to 4 of each row.
    assert_eq!(at_first, 4 * ROWS as u64 * entry);
    let forced = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &forced).unwrap();
    assert_eq!(count(&db), ROWS * VERSIONS as usize, "nothing was dropped");
    assert_eq!(db.reported_garbage(), 0, "it was seen");
    db.advance_garbage_moment(7);
    assert_eq!(db.reported_garbage(), 2 * ROWS as u64 * entry);
    // The same after an opening, which begins at 0.
    let db = reopened(db, &options);
    assert_eq!(db.reported_garbage(), 0);
    db.advance_garbage_moment(7);
    assert_eq!(db.reported_garbage(), 2 * ROWS as u64 * entry);
}

#[test]
fn rocksdb_shows_what_collectors_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = Options {
        default: counted(ColumnFamilyOptions {
            enable_blob_files: false,
            ..manual()
        }),
        ..Options::default()
    };
    let db = Db::open(&path, &options).unwrap();
    for n in 0..10 {
        db.put(&key(n), &value(n, 50)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let Some(text) = table_properties(&path) else {
        return;
    };
    let kinds = "# tests.kinds: 0x";
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(kinds));
    let expected: String = b"{\"Value\": 10} separated 0"
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    assert_eq!(line, Some(&*expected), "{text}");
}
