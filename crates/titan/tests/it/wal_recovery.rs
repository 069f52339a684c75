//! Damage in WAL files: synced writes are never lost silently, and nothing that can be read is
//! deleted. The campaign `wal_damage` varies the place and the form of the damage.

use std::sync::{Arc, Mutex};

use titan::vfs::Vfs;
use titan::{
    Db, ErrorKind, EventListener, IngestOptions, Options, SstFileWriter, WalDamageEvent,
    WalRecoveryMode, WriteBatch, WriteOptions,
};
use titan_testkit::sim::{Loss, SimVfs};
use titan_tools::{RepairTo, check, repair};

use crate::support::{DIR, files, key, manual, options};

/// Notes an opening's report of damage.
#[derive(Default)]
struct Heard(Mutex<Option<WalDamageEvent>>);

impl EventListener for Heard {
    fn wal_damaged(&self, event: &WalDamageEvent) {
        *self.0.lock().unwrap() = Some(event.clone());
    }
}

/// Files that a killed process leaves.
fn killed(vfs: &SimVfs) -> SimVfs {
    let journal = vfs.journal();
    journal.crash_at(journal.len(), &Loss::None)
}

fn put(db: &Db, n: usize, sync: bool) {
    let mut batch = WriteBatch::new();
    batch.put(&**db, key(n), [b'v'; 50]).unwrap();
    let options = WriteOptions {
        sync,
        ..WriteOptions::default()
    };
    db.write(batch, &options).unwrap();
}

/// Where the bytes of `n` are in a log.
fn place_of(vfs: &SimVfs, log: &str, n: usize) -> u64 {
    let bytes = vfs.read_all(log).unwrap();
    let at = bytes.windows(9).position(|part| part == key(n)).unwrap();
    at as u64
}

fn only_log(vfs: &SimVfs) -> String {
    let logs = files(vfs, DIR, ".log");
    assert_eq!(logs.len(), 1, "{logs:?}");
    format!("{DIR}/{}", logs[0])
}

fn open_in(vfs: &SimVfs, mode: WalRecoveryMode) -> (titan::Result<Db>, Option<WalDamageEvent>) {
    let heard = Arc::new(Heard::default());
    let mut options = options(vfs, manual());
    options.db.wal_recovery_mode = mode;
    options.db.listeners = vec![Arc::clone(&heard) as _];
    let opened = Db::open(DIR, &options);
    let event = heard.0.lock().unwrap().clone();
    (opened, event)
}

fn present(db: &Db, n: usize) -> Vec<bool> {
    (0..n).map(|n| db.get(&key(n)).unwrap().is_some()).collect()
}

fn plain(vfs: &SimVfs) -> Options {
    options(vfs, manual())
}

#[test]
fn damage_of_what_was_synced_is_an_error_in_all_modes_but_one() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    (0..10).for_each(|n| put(&db, n, n % 2 == 0));
    let image = killed(&vfs);
    let log = only_log(&image);
    image.flip_bit(&log, place_of(&image, &log, 3)).unwrap();
    let damaged = image.read_all(&log).unwrap();
    for mode in [
        WalRecoveryMode::PointInTimeRecovery,
        WalRecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency,
    ] {
        let (opened, event) = open_in(&image, mode);
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(error.path(), Some(log.as_ref()), "{error}");
        assert!(event.is_none());
    }
    let report = check(DIR.as_ref(), &plain(&image), &mut |_| {}).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    let problem = report.problems[0].to_string();
    assert!(problem.contains("had been synced"), "{problem}");
    assert_eq!(image.read_all(&log).unwrap(), damaged);

    let (opened, event) = open_in(&image, WalRecoveryMode::SkipAnyCorruptedRecords);
    let mut expected = vec![true; 10];
    expected[3] = false;
    assert_eq!(present(&opened.unwrap(), 10), expected);
    let event = event.unwrap();
    assert_eq!((event.skipped, event.records_left), (1, 0), "{event}");
    let name = log.rsplit('/').next().unwrap();
    let kept = image.read_all(format!("{DIR}/lost/{name}")).unwrap();
    assert!(kept == damaged && !image.exists(log.as_ref()).unwrap());
}

#[test]
fn damage_of_what_was_not_synced_ends_the_log_and_what_follows_is_kept() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    (0..10).for_each(|n| put(&db, n, n == 1));
    let image = killed(&vfs);
    let log = only_log(&image);
    image.flip_bit(&log, place_of(&image, &log, 4)).unwrap();
    let damaged = image.read_all(&log).unwrap();

    // A reader says so too, and changes nothing.
    let report = check(DIR.as_ref(), &plain(&image), &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let told = |note: &String| note.starts_with("5 records after offset");
    assert!(report.notes.iter().any(told), "{:?}", report.notes);
    let heard = Arc::new(Heard::default());
    let mut reading = plain(&image);
    reading.db.listeners = vec![Arc::clone(&heard) as _];
    let view = Db::open_read_only(DIR, &reading).unwrap();
    assert_eq!(present(&view, 5), [true, true, true, true, false]);
    drop(view);
    let event = heard.0.lock().unwrap().take().unwrap();
    assert_eq!((event.records_left, event.kept.len()), (5, 0), "{event}");
    assert_eq!(image.read_all(&log).unwrap(), damaged);
    assert!(!image.exists(format!("{DIR}/lost").as_ref()).unwrap());

    let (opened, event) = open_in(&image, WalRecoveryMode::PointInTimeRecovery);
    let db = opened.unwrap();
    let found = present(&db, 10);
    assert_eq!(found.iter().filter(|there| **there).count(), 4, "{found:?}");
    let event = event.unwrap();
    assert_eq!((event.skipped, event.records_left), (0, 5), "{event}");
    let name = log.rsplit('/').next().unwrap();
    assert!(
        event
            .to_string()
            .ends_with(&format!("kept in lost/: {name}")),
        "{event}"
    );
    assert!(image.read_all(format!("{DIR}/lost/{name}")).unwrap() == damaged);
    drop(db);
    let report = check(DIR.as_ref(), &plain(&image), &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// The end of the log of a closed database says how far it was synced, as the next group does in
/// one that goes on.
#[test]
fn the_last_write_before_closing_is_known_to_be_synced() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    (0..3).for_each(|n| put(&db, n, false));
    db.close().unwrap();
    let log = only_log(&vfs);
    vfs.flip_bit(&log, place_of(&vfs, &log, 2)).unwrap();
    let (opened, _) = open_in(&vfs, WalRecoveryMode::default());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Corruption);
}

/// Files that were closed have been synced if a later one says so.
#[test]
fn damage_at_the_end_of_a_closed_log_is_found_by_the_one_after_it() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    let second = db.create_column_family("second", manual()).unwrap();
    put(&db, 0, false);
    second.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    put(&db, 1, true);
    put(&db, 2, false);
    let image = killed(&vfs);
    let logs = files(&image, DIR, ".log");
    assert_eq!(logs.len(), 2);
    let first = format!("{DIR}/{}", logs[0]);
    // All of it from there on, as if it had never been written.
    let bytes = image.read_all(&first).unwrap();
    let at = bytes.windows(2).rposition(|part| part == b"\x01a").unwrap();
    let mut lost = bytes[..at].to_vec();
    lost.resize(bytes.len(), 0);
    image.write_all(&first, &lost).unwrap();
    let (opened, _) = open_in(&image, WalRecoveryMode::default());
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.path(), Some(first.as_ref()), "{error}");
}

#[test]
fn a_newest_log_that_is_missing_is_missed() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    let second = db.create_column_family("second", manual()).unwrap();
    second.put(b"a", b"1").unwrap();
    put(&db, 0, false);
    db.flush().unwrap();
    put(&db, 1, true);
    let image = killed(&vfs);
    let logs = files(&image, DIR, ".log");
    assert_eq!(logs.len(), 2);
    let newest = format!("{DIR}/{}", logs[1]);
    image.remove(newest.as_ref()).unwrap();

    let (opened, _) = open_in(&image, WalRecoveryMode::default());
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.path(), Some(newest.as_ref()), "{error}");
    let report = check(DIR.as_ref(), &plain(&image), &mut |_| {}).unwrap();
    let named = |e: &titan::Error| e.path() == Some(newest.as_ref());
    assert!(report.problems.iter().any(named), "{:?}", report.problems);
    let to = RepairTo::Directory("/repaired".into());
    let report = repair(DIR.as_ref(), &to, &plain(&image), &mut |_| {}).unwrap();
    let lost = report.lost.iter().any(|loss| loss.file == logs[1]);
    assert!(lost, "{:?}", report.lost);
    let (opened, _) = open_in(&image, WalRecoveryMode::SkipAnyCorruptedRecords);
    assert_eq!(present(&opened.unwrap(), 2), [true, false]);
}

/// Places of records without operations in a log.
fn marks(image: &SimVfs, log: &str) -> Vec<u64> {
    let bytes = image.read_all(log).unwrap();
    let all = 0..bytes.len() - 10;
    let marks = all.filter(|at| bytes[*at..].starts_with(b"titan.wal"));
    marks.map(|at| at as u64).collect()
}

/// Repairs a copy, which loses nothing. Returns the notes of the repair.
fn repaired(image: &SimVfs) -> Vec<String> {
    let to = RepairTo::Directory("/repaired".into());
    let report = repair(DIR.as_ref(), &to, &plain(image), &mut |_| {}).unwrap();
    assert!(report.lost.is_empty(), "{:?}", report.lost);
    report.notes
}

/// The first record names the file before; others say how far the log was synced. They have no
/// operations.
#[test]
fn a_damaged_record_without_operations_costs_nothing() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    (0..2).for_each(|n| put(&db, n, true));
    drop(db);
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    (2..6).for_each(|n| put(&db, n, n == 4));
    let image = killed(&vfs);
    let log = only_log(&image);
    let marks = marks(&image, &log);
    assert_eq!(marks.len(), 2, "one for the file before, one for the sync");
    for mark in marks {
        let image = killed(&image);
        image.flip_bit(&log, mark).unwrap();
        let told = |note: &String| note.ends_with("no operation is missing");
        let notes = repaired(&image);
        assert!(notes.iter().any(told), "{notes:?}");
        let (opened, event) = open_in(&image, WalRecoveryMode::default());
        assert_eq!(present(&opened.unwrap(), 6), [true; 6]);
        assert_eq!(event.unwrap().skipped, 1);
    }
}

/// The log that is damaged follows others: an idle family has an operation in the first one, or it
/// has none and the MANIFEST does not say so; and values from readers, or ingested files,
/// have taken numbers that no log has.
#[test]
fn a_damaged_record_without_operations_costs_nothing_in_a_database_of_several_families() {
    let long = vec![b'l'; 1 << 20];
    let cases = [(false, 0), (false, 1), (true, 0), (true, 1), (true, 2)];
    let cases = cases.map(|case| [(case, false), (case, true)]);
    for ((idle_has_one, values), in_files) in cases.into_iter().flatten() {
        let what = format!("idle family: {idle_has_one}, values: {values}, files: {in_files}");
        let vfs = SimVfs::new();
        let db = Db::open(DIR, &plain(&vfs)).unwrap();
        let idle = db.create_column_family("idle", manual()).unwrap();
        if idle_has_one {
            idle.put(b"a", b"1").unwrap();
        }
        put(&db, 0, true);
        for n in 0..values {
            match in_files {
                false => drop(db.put_reader(&[b'l', n], &long[..]).unwrap()),
                true => ingest(&db, &plain(&vfs), &[b'l', n], &long),
            }
            if n + 1 < values {
                // Else the log has nothing but its first record.
                put(&db, 6, true);
            }
        }
        if values == 0 {
            db.flush().unwrap();
        }
        (1..6).for_each(|n| put(&db, n, n == 4));
        let image = killed(&vfs);
        let logs = files(&image, DIR, ".log");
        let log = format!("{DIR}/{}", logs.last().unwrap());
        let marks = marks(&image, &log);
        assert!(marks.len() > 1, "{what}: {marks:?}");
        for mark in marks {
            let image = killed(&image);
            image.flip_bit(&log, mark).unwrap();
            repaired(&image);
            let (opened, event) = open_in(&image, WalRecoveryMode::default());
            let db = opened.unwrap_or_else(|e| panic!("{what}, {mark}: {e}"));
            assert_eq!(present(&db, 6), [true; 6], "{what}");
            assert_eq!(event.unwrap().skipped, 1, "{what}");
            for n in 0..values {
                assert_eq!(db.get(&[b'l', n]).unwrap().unwrap(), long, "{what}");
            }
            let idle = db.column_family("idle").unwrap();
            assert_eq!(idle.get(b"a").unwrap().is_some(), idle_has_one, "{what}");
        }
    }
}

/// Ingests a file with one value.
fn ingest(db: &Db, options: &Options, key: &[u8], value: &[u8]) {
    let mut file = SstFileWriter::create("/made.sst", options).unwrap();
    file.put(key, value).unwrap();
    file.finish().unwrap();
    db.ingest(&["/made.sst"], &IngestOptions::default())
        .unwrap();
}

/// A value from a reader begins a log. If another value comes next, that log has no operation. All
/// of its records may be in one block of the device.
#[test]
fn a_damaged_log_without_operations_costs_nothing() {
    let long = vec![b'l'; 1 << 20];
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    let idle = db.create_column_family("idle", manual()).unwrap();
    idle.put(b"a", b"1").unwrap();
    put(&db, 0, true);
    for n in 0..3 {
        db.put_reader([b'l', n], &long[..]).unwrap();
    }
    (1..4).for_each(|n| put(&db, n, true));
    let image = killed(&vfs);
    let logs = files(&image, DIR, ".log");
    // The first value also flushed the writes before.
    assert_eq!(logs.len(), 5);
    for log in &logs[1..4] {
        let log = format!("{DIR}/{log}");
        let image = killed(&image);
        for mark in marks(&image, &log) {
            image.flip_bit(&log, mark).unwrap();
        }
        repaired(&image);
        let (opened, event) = open_in(&image, WalRecoveryMode::default());
        let db = opened.unwrap();
        assert_eq!(present(&db, 4), [true; 4]);
        assert_eq!(event.unwrap().skipped, 1);
        for n in 0..3 {
            assert_eq!(db.get([b'l', n]).unwrap().unwrap(), long);
        }
    }
}

/// Bytes in a value are no record of the log, although they look like one.
#[test]
fn a_copy_of_a_log_in_a_damaged_value_is_not_replayed_and_proves_nothing() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &plain(&vfs)).unwrap();
    (0..4).for_each(|n| put(&db, n, true));
    let log = only_log(&vfs);
    let copy = vfs.read_all(&log).unwrap();
    put(&db, 4, false);
    let start = vfs.size(log.as_ref()).unwrap();
    db.put(b"copy", &copy).unwrap();
    put(&db, 5, false);
    let image = killed(&vfs);
    image.flip_bit(&log, start + 20).unwrap();
    let (opened, event) = open_in(&image, WalRecoveryMode::default());
    let found = present(&opened.unwrap(), 6);
    assert_eq!(found, [true, true, true, true, true, false]);
    assert_eq!(event.unwrap().records_left, 1);
}
