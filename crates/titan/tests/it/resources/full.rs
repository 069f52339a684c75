//! A device that is full: the deletions, openings and resumes that still work, and the room that
//! jobs leave alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use titan::{
    CompactRangeOptions, CompactionBeginEvent, Db, DbOptions, Error, ErrorKind, EventListener,
    Options, ReadOptions, WriteBatch, WriteOptions,
};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::{Errno, Fault, Loss, OpKind, SimVfs};

use crate::support::eventually;

const DIR: &str = "/data/db";

/// Files that opening and resuming need: a MANIFEST, OPTIONS, a WAL file.
const SLACK: u64 = 24 << 10;

fn options(vfs: &SimVfs) -> Options {
    let mut options = Options {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            clock: Arc::new(SimClock::with_seed(7)),
            ..DbOptions::default()
        },
        ..Options::default()
    };
    options.default.write_buffer_size = 256 << 10;
    options.default.enable_blob_files = false;
    options.default.target_file_size_base = 64 << 10;
    options.default.max_bytes_for_level_base = 256 << 10;
    options
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:08}").into_bytes()
}

/// A value that no codec makes smaller.
fn value(i: u32, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(i));
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

fn used(vfs: &SimVfs) -> u64 {
    vfs.used()
}

/// Puts from `from` on until one is refused; returns its number.
fn fill(db: &Db, from: u32) -> (u32, Error) {
    let refused = |i| db.put(&key(i), &value(i, 1000)).err().map(|e| (i, e));
    (from..1_000_000).find_map(refused).unwrap()
}

fn has(db: &Db, keys: std::ops::Range<u32>) {
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    for i in keys {
        assert!(iter.valid(), "{i}");
        assert_eq!(iter.key(), key(i));
        assert_eq!(iter.value().unwrap(), value(i, 1000), "{i}");
        iter.next().unwrap();
    }
    assert!(!iter.valid());
}

/// A full database with a memtable for whose table there is no room, closed.
fn full(vfs: &SimVfs) -> u32 {
    let db = Db::open(DIR, &options(vfs)).unwrap();
    (0..100).for_each(|i| db.put(&key(i), &value(i, 1000)).unwrap());
    vfs.set_capacity(Some(used(vfs) + (80 << 10)));
    let (filled, error) = fill(&db, 100);
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(filled > 150, "{filled}");
    drop(db);
    vfs.set_capacity(Some(used(vfs) + SLACK));
    filled
}

/// There is no room for a table of the log's entries, so the memtable stays with the log, and the
/// user's deletions make room.
#[test]
fn a_full_database_can_be_opened_and_emptied() {
    let vfs = SimVfs::new();
    let filled = full(&vfs);
    let db = Db::open(DIR, &options(&vfs)).unwrap();
    has(&db, 0..filled);
    assert_eq!(vfs.count(OpKind::Create, ".sst"), 0, "nothing is written");
    let error = db.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    let text = error.to_string();
    assert!(text.contains("flushing") && text.contains("KiB"), "{text}");
    assert!(db.background_error().is_none());
    db.delete_range(&key(0), &key(filled)).unwrap();
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    has(&db, 0..0);
    db.close().unwrap();
    assert!(used(&vfs) < SLACK, "{}", used(&vfs));
    has(&Db::open(DIR, &options(&vfs)).unwrap(), 0..0);
}

/// An opening for writing says how much it needs, and that is enough.
#[test]
fn an_opening_on_a_device_without_any_room_says_what_it_needs() {
    for families in [0, 7] {
        let vfs = SimVfs::new();
        let mut options = options(&vfs);
        for i in 0..families {
            let family = options.default.clone();
            options.families.insert(format!("family{i}"), family);
        }
        let db = Db::open(DIR, &options).unwrap();
        for i in 0..50 {
            db.put(&key(i), &value(i, 1000)).unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();
        drop(db);
        vfs.set_capacity(Some(used(&vfs)));
        let error = Db::open(DIR, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        let text = error.to_string();
        let need = text
            .split_once("needs ")
            .and_then(|(_, rest)| rest.split(' ').next());
        let need: u64 = need
            .and_then(|kib| kib.parse().ok())
            .unwrap_or_else(|| panic!("{text}"));
        assert!(need < 100, "{text}");
        has(&Db::open_read_only(DIR, &options).unwrap(), 0..50);
        vfs.set_capacity(Some(used(&vfs) + (need << 10)));
        has(&Db::open(DIR, &options).unwrap(), 0..50);
    }
}

/// Logs that resuming leaves in the directory are deleted once their memtables are flushed.
#[test]
fn logs_of_many_resumes_on_a_full_device_go_when_there_is_room() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &options(&vfs)).unwrap();
    (0..100).for_each(|i| db.put(&key(i), &value(i, 1000)).unwrap());
    vfs.set_capacity(Some(used(&vfs) + (40 << 10)));
    let (mut filled, _) = fill(&db, 100);
    for round in 0..4_u64 {
        vfs.set_capacity(Some(used(&vfs) + SLACK));
        db.resume().unwrap();
        db.put(&key(filled), &value(filled, 1000)).unwrap();
        filled += 1;
        vfs.set_capacity(Some(used(&vfs)));
        let error = db.put(&key(filled), &value(filled, 1000)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        has(&db, 0..filled);
        let journal = vfs.journal();
        for loss in [Loss::None, Loss::Random(round)] {
            let left = journal.crash_at(journal.len(), &loss);
            left.set_capacity(None);
            let opened = Db::open(DIR, &options(&left)).unwrap();
            if loss == Loss::None {
                has(&opened, 0..filled);
            }
        }
    }
    vfs.set_capacity(None);
    db.resume().unwrap();
    has(&db, 0..filled);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let logs = vfs.list(DIR).unwrap();
    let logs = logs.iter().filter(|name| name.ends_with(".log")).count();
    assert_eq!(logs, 1);
    let journal = vfs.journal();
    let left = journal.crash_at(journal.len(), &Loss::All);
    has(&Db::open(DIR, &options(&left)).unwrap(), 0..filled);
}

/// An opening after another, and a crash of each: each finds the same logs.
#[test]
fn kept_logs_are_replayed_again_after_any_crash() {
    let vfs = SimVfs::new();
    let filled = full(&vfs);
    let nearly_full = |vfs: &SimVfs| vfs.set_capacity(Some(vfs.used() + SLACK));
    nearly_full(&vfs);
    let mut image = vfs;
    let mut end = filled;
    for round in 0..3_u64 {
        let db = Db::open(DIR, &options(&image)).unwrap();
        has(&db, 0..end);
        let synced = WriteOptions::synced();
        let mut batch = WriteBatch::new();
        batch.put(&*db, key(end), value(end, 1000)).unwrap();
        db.write(batch, &synced).unwrap();
        end += 1;
        // Writes that are not synced may be lost, but only from the end.
        let journal = image.journal();
        for loss in [Loss::None, Loss::All, Loss::Random(round)] {
            let left = journal.crash_at(journal.len(), &loss);
            nearly_full(&left);
            has(&Db::open(DIR, &options(&left)).unwrap(), 0..end);
        }
        image = journal.crash_at(journal.len(), &Loss::All);
        nearly_full(&image);
    }
    image.set_capacity(None);
    let db = Db::open(DIR, &options(&image)).unwrap();
    has(&db, 0..end);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let logs = image.list(DIR).unwrap();
    let logs = logs.iter().filter(|name| name.ends_with(".log")).count();
    assert_eq!(logs, 1);
}

/// The process before could not sync its log. The kernel takes the bytes that it holds for written,
/// and an opening that keeps the log relies on it.
#[test]
fn kept_logs_are_durable_also_after_a_sync_that_failed_in_the_process_before() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &options(&vfs)).unwrap();
    (0..100).for_each(|i| db.put(&key(i), &value(i, 1000)).unwrap());
    let sync = Fault::on([OpKind::Sync]).path("*.log");
    vfs.inject(sync.error(Errno::IO).losing_pages());
    db.sync_wal().unwrap_err();
    drop(db);
    vfs.set_capacity(Some(used(&vfs) + SLACK));
    let db = Db::open(DIR, &options(&vfs)).unwrap();
    assert_eq!(vfs.count(OpKind::Create, ".sst"), 0, "the log is kept");
    has(&db, 0..100);
    let mut batch = WriteBatch::new();
    batch.put(&*db, key(100), value(100, 1000)).unwrap();
    db.write(batch, &WriteOptions::synced()).unwrap();
    let journal = vfs.journal();
    for loss in [Loss::None, Loss::All, Loss::Random(5)] {
        let left = journal.crash_at(journal.len(), &loss);
        has(&Db::open(DIR, &options(&left)).unwrap(), 0..101);
    }
}

/// A group of several families, of which one has nothing in the logs, and each is flushed when
/// there is room.
#[test]
fn families_keep_their_memtables_apart() {
    let vfs = SimVfs::new();
    let mut with_families = options(&vfs);
    for name in ["a", "b", "idle"] {
        let family = with_families.default.clone();
        with_families.families.insert(name.to_owned(), family);
    }
    let open = |vfs: &SimVfs| {
        let mut options = with_families.clone();
        options.db.vfs = Arc::new(vfs.clone());
        Db::open(DIR, &options).unwrap()
    };
    let db = open(&vfs);
    let write = |db: &Db, i: u32| {
        let (a, b) = (
            db.column_family("a").unwrap(),
            db.column_family("b").unwrap(),
        );
        let mut batch = WriteBatch::new();
        batch.put(&a, key(i), value(i, 500)).unwrap();
        batch.put(&b, key(i), value(i, 600)).unwrap();
        db.write(batch, &WriteOptions::default())
    };
    (0..40).for_each(|i| write(&db, i).unwrap());
    db.column_family("a").unwrap().flush().unwrap();
    vfs.set_capacity(Some(used(&vfs) + (60 << 10)));
    let filled = (40..).find(|i| write(&db, *i).is_err()).unwrap();
    drop(db);
    vfs.set_capacity(Some(used(&vfs) + SLACK));
    let check = |db: &Db| {
        for (name, len) in [("a", 500), ("b", 600)] {
            let family = db.column_family(name).unwrap();
            for i in 0..filled {
                assert_eq!(
                    family.get(&key(i)).unwrap().unwrap(),
                    value(i, len),
                    "{name} {i}"
                );
            }
            assert!(family.get(&key(filled)).unwrap().is_none());
        }
    };
    for _ in 0..2 {
        let db = open(&vfs);
        check(&db);
        drop(db);
    }
    let db = open(&vfs);
    vfs.set_capacity(None);
    db.column_family("b").unwrap().flush().unwrap();
    let journal = vfs.journal();
    check(&open(&journal.crash_at(journal.len(), &Loss::All)));
    db.flush_all().unwrap();
    let journal = vfs.journal();
    check(&open(&journal.crash_at(journal.len(), &Loss::All)));
}

/// The log is cut where the refused batch begins, and goes on in another file.
#[test]
fn resuming_on_a_full_device_needs_no_room_for_memtables() {
    for reopens in [false, true] {
        let vfs = SimVfs::new();
        let db = Db::open(DIR, &options(&vfs)).unwrap();
        (0..100).for_each(|i| db.put(&key(i), &value(i, 1000)).unwrap());
        vfs.set_capacity(Some(used(&vfs) + (40 << 10)));
        let (filled, _) = fill(&db, 100);
        assert!(db.background_error().is_some());
        let error = db.put(b"k", b"v").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WritesStopped);
        vfs.set_capacity(Some(used(&vfs) + SLACK));
        db.resume().unwrap();
        assert_eq!(vfs.count(OpKind::Create, ".sst"), 0);
        // The sequence numbers of the refused batch are given out again.
        db.put(&key(filled), &value(filled, 1000)).unwrap();
        db.sync_wal().unwrap();
        has(&db, 0..filled + 1);
        let journal = vfs.journal();
        for loss in [Loss::None, Loss::All, Loss::Random(3)] {
            let left = journal.crash_at(journal.len(), &loss);
            has(&Db::open(DIR, &options(&left)).unwrap(), 0..filled + 1);
        }
        let db = match reopens {
            false => db,
            true => {
                drop(db);
                Db::open(DIR, &options(&vfs)).unwrap()
            }
        };
        (0..filled + 1).for_each(|i| db.delete(&key(i)).unwrap());
        db.flush().unwrap();
        has(&db, 0..0);
    }
}

/// A sync that failed says nothing about the log, so resuming writes everything to new files.
#[test]
fn a_log_whose_sync_found_no_room_is_not_relied_on() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &options(&vfs)).unwrap();
    db.put(&key(0), &value(0, 1000)).unwrap();
    let fault = Fault::on([OpKind::Sync]).path("*.log");
    vfs.inject(fault.error(Errno::NO_SPACE).losing_pages());
    db.sync_wal().unwrap_err();
    db.resume().unwrap();
    assert_eq!(vfs.count(OpKind::Create, ".sst"), 1);
    let journal = vfs.journal();
    let left = journal.crash_at(journal.len(), &Loss::All);
    has(&Db::open(DIR, &options(&left)).unwrap(), 0..1);
}

/// Operations in a log that an earlier resume abandoned are written before the new log is relied
/// on.
#[test]
fn a_resume_after_one_that_found_no_room_relies_on_no_log_either() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &options(&vfs)).unwrap();
    db.put(&key(0), &value(0, 1000)).unwrap();
    let sync = Fault::on([OpKind::Sync]).path("*.log");
    vfs.inject(sync.error(Errno::NO_SPACE).losing_pages());
    db.sync_wal().unwrap_err();
    let flush = Fault::on([OpKind::Append]).path("*.sst");
    vfs.inject(flush.error(Errno::NO_SPACE));
    let error = db.resume().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    db.resume().unwrap();
    db.put(&key(1), &value(1, 1000)).unwrap();
    db.sync_wal().unwrap();
    let journal = vfs.journal();
    let left = journal.crash_at(journal.len(), &Loss::All);
    has(&Db::open(DIR, &options(&left)).unwrap(), 0..2);
}

/// Counts compactions that begin.
#[derive(Default)]
struct Compactions(AtomicU64);

impl EventListener for Compactions {
    fn compaction_begun(&self, _: &CompactionBeginEvent) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A compaction that cannot fit is not begun, and writes go on.
#[test]
fn a_compaction_without_room_is_not_begun() {
    let vfs = SimVfs::new();
    let begun = Arc::new(Compactions::default());
    let mut options = options(&vfs);
    options.db.listeners = vec![begun.clone()];
    options.default.level0_file_num_compaction_trigger = 20;
    let db = Db::open(DIR, &options).unwrap();
    for round in 0..6 {
        (0..100).for_each(|i| db.put(&key(i * 7 + round), &value(i, 1000)).unwrap());
        db.flush().unwrap();
    }
    let before = used(&vfs);
    vfs.set_capacity(Some(before + 2 * SLACK));
    let set = [("level0_file_num_compaction_trigger", "2")];
    db.set_options(&set).unwrap();
    // One may begin if a thread asked for the room before it was taken away.
    db.wait_idle().unwrap();
    let written = vfs.bytes_written(".sst");
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    // Moving a table takes no room.
    let moved = begun.0.load(Ordering::Relaxed);
    let written = vfs.bytes_written(".sst") - written;
    assert!(
        written < SLACK,
        "{written}, {moved} begun: {:?}",
        db.metrics()
    );
    assert!(db.background_error().is_none());
    vfs.set_capacity(Some(3 * before));
    db.put(b"k", b"w").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(begun.0.load(Ordering::Relaxed) > moved);
    // The compaction may have begun before the last flush, whose table alone is below the trigger.
    assert!(db.metrics().families.remove(0).levels[0].files < 2);
}

/// A deletion makes room, however little there is: in pieces.
#[test]
fn deletions_are_compacted_in_what_room_there_is() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &options(&vfs)).unwrap();
    (0..3000).for_each(|i| db.put(&key(i), &value(i, 1000)).unwrap());
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let before = used(&vfs);
    vfs.set_capacity(Some(before + before / 6));
    // Half of them, everywhere.
    (0..3000)
        .step_by(2)
        .for_each(|i| db.delete(&key(i)).unwrap());
    db.flush().unwrap();
    // A compaction that lacks room at first is looked at again each second.
    eventually("the compaction of the deletions", || {
        db.wait_idle().unwrap();
        used(&vfs) < before * 7 / 10
    });
    for i in 0..3000 {
        let found = db.get(&key(i)).unwrap();
        assert_eq!(found.is_some(), i % 2 == 1, "{i}");
    }
}

/// A compaction that finds the device full all the same stops nothing, and is not tried at once
/// again.
#[test]
fn a_compaction_that_finds_the_device_full_stops_no_writes() {
    let vfs = SimVfs::new();
    let clock = SimClock::with_seed(7);
    let begun = Arc::new(Compactions::default());
    let mut options = options(&vfs);
    options.db.clock = Arc::new(clock.clone());
    options.db.listeners = vec![begun.clone()];
    options.default.level0_file_num_compaction_trigger = 2;
    // The thread that collects would let time pass.
    options.default.enable_blob_garbage_collection = false;
    let db = Db::open(DIR, &options).unwrap();
    let write = |round: u32| {
        (0..50).for_each(|i| db.put(&key(i), &value(i + round, 1000)).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
    };
    write(0);
    // The third table is that of a compaction.
    let fault = Fault::on([OpKind::Append])
        .path("*.sst")
        .error(Errno::NO_SPACE);
    let created = vfs.count(OpKind::Create, ".sst");
    assert_eq!(created, 1);
    let appends = vfs.count(OpKind::Append, ".sst");
    vfs.inject(fault.skip(appends).forever());
    write(1000);
    let tried = begun.0.load(Ordering::Relaxed);
    assert_eq!(tried, 1, "one was tried, once");
    assert!(db.background_error().is_none());
    db.put(b"z", b"z").unwrap();
    db.wait_idle().unwrap();
    assert_eq!(begun.0.load(Ordering::Relaxed), tried);
    vfs.clear_faults();
    clock.advance(std::time::Duration::from_secs(120));
    db.resume().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(begun.0.load(Ordering::Relaxed), tried + 1);
    let levels = db.metrics().families.remove(0).levels;
    assert_eq!(levels[0].files, 0);
}

/// Where a flush lacks room and memtables are full, writes say so instead of waiting, and deletions
/// go on.
#[test]
fn writes_that_would_wait_for_a_flush_without_room_are_refused() {
    let vfs = SimVfs::new();
    let mut options = options(&vfs);
    options.default.write_buffer_size = 64 << 10;
    let db = Db::open(DIR, &options).unwrap();
    (0..20).for_each(|i| db.put(&key(i), &value(i, 1000)).unwrap());
    // The log has room, a table has none.
    let fault = Fault::on([OpKind::Append])
        .path("*.sst")
        .error(Errno::NO_SPACE);
    vfs.inject(fault.forever());
    let (filled, error) = fill(&db, 20);
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(db.background_error().is_none());
    has(&db, 0..filled);
    (0..20).for_each(|i| db.delete(&key(i)).unwrap());
    db.put(b"k", b"v").unwrap_err();
    vfs.clear_faults();
    db.resume().unwrap();
    db.flush().unwrap();
    db.put(&key(filled), &value(filled, 1000)).unwrap();
    has_from(&db, 20, filled + 1);
}

/// Memtables are full, and a flush found no room. Once there is room the next write goes on,
/// whether or not a thread of the database has looked since.
#[test]
fn the_first_write_after_room_came_back_is_accepted() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(7));
    let mut options = options(&vfs);
    options.db.clock = Arc::new(clock.clone());
    options.default.write_buffer_size = 64 << 10;
    let db = Db::open(DIR, &options).unwrap();
    let mut next = 0;
    let mut put = || {
        let put = db.put(&key(next), &value(next, 1000));
        next += u32::from(put.is_ok());
        put
    };
    // A device that does not say how much room it has: it is tried again after a while.
    let fault = Fault::on([OpKind::Append]).path("*.sst");
    for _ in 0..3 {
        vfs.inject(fault.clone().error(Errno::NO_SPACE).forever());
        let refused = (0..1000).find_map(|_| put().err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        db.wait_idle().unwrap();
        vfs.clear_faults();
        // A flush that had begun before may still fail, and is tried again after a second.
        eventually("a write to be accepted", || {
            clock.advance(std::time::Duration::from_secs(2));
            put().is_ok()
        });
        db.wait_idle().unwrap();
    }
    // One that says so has room for the log, and none for a table.
    for _ in 0..3 {
        let refused = (0..1000).find_map(|_| {
            vfs.set_capacity(Some(used(&vfs) + (16 << 10)));
            put().err()
        });
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        db.wait_idle().unwrap();
        vfs.set_capacity(Some(used(&vfs) + (1 << 20)));
        put().unwrap();
        db.wait_idle().unwrap();
    }
    // A checkpoint tries at once, as a flush does.
    vfs.inject(fault.error(Errno::NO_SPACE).forever());
    (0..1000).find_map(|_| put().err()).unwrap();
    db.checkpoint("/data/copy").unwrap_err();
    vfs.clear_faults();
    db.checkpoint("/data/copy").unwrap();
    assert!(db.background_error().is_none());
    has(&db, 0..next);
}

fn has_from(db: &Db, from: u32, to: u32) {
    for i in 0..to {
        assert_eq!(db.get(&key(i)).unwrap().is_some(), i >= from, "{i}");
    }
}
