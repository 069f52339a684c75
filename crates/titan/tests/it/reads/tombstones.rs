//! Deleted keys do not slow down reads: queues, and idle databases. All costs are counted.

use std::sync::Arc;
use std::time::Duration;

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompressionType, Db, FamilyMetrics, Options, ReadOptions,
    TimeToLive, WriteBatch, WriteOptions,
};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::{Loss, SimVfs};

use crate::support::{eventually, key, manual, open, options};

/// The most dead entries that a pop steps over.
const MOST: u64 = 5000;

fn metrics(family: &ColumnFamily) -> FamilyMetrics {
    family.metrics()
}

/// Entries that reads stepped over during a call.
fn skipped(family: &ColumnFamily, read: impl FnOnce()) -> u64 {
    let before = metrics(family).skipped_entries;
    read();
    metrics(family).skipped_entries - before
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Front,
    Back,
    Prefix,
}

/// The first or last key, found by a new iterator, or by a search within a prefix.
fn peek(db: &Db, end: End) -> Option<Vec<u8>> {
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    match end {
        End::Front => iter.seek_to_first().unwrap(),
        End::Back => iter.seek_to_last().unwrap(),
        End::Prefix => {
            let found = db.first_in_prefix(b"", b"key").unwrap();
            return found.map(|(key, _)| key.to_vec());
        }
    }
    iter.valid().then(|| iter.key().to_vec())
}

/// Takes keys from one end until none is left; returns the most entries that one pop stepped over.
fn pop_all(db: &Db, end: End, mut expected: Vec<usize>) -> u64 {
    if end == End::Back {
        expected.reverse();
    }
    let mut most = 0;
    for n in expected {
        let mut found = None;
        most = most.max(skipped(db, || found = peek(db, end)));
        assert_eq!(found, Some(key(n)), "{end:?}");
        db.delete(&key(n)).unwrap();
    }
    let empty = skipped(db, || assert_eq!(peek(db, end), None));
    most.max(empty)
}

fn put(db: &Db, keys: std::ops::Range<usize>) {
    let mut batch = WriteBatch::new();
    for n in keys {
        batch.put(&**db, key(n), b"job").unwrap();
    }
    db.write(batch, &WriteOptions::default()).unwrap();
}

fn delete(db: &Db, keys: std::ops::Range<usize>) {
    let mut batch = WriteBatch::new();
    for n in keys {
        batch.delete(&**db, key(n)).unwrap();
    }
    db.write(batch, &WriteOptions::default()).unwrap();
}

/// Keys whose values are where they say: in the memtable, in tables, or in both.
fn queue(of: usize, flushed: bool, options: &Options) -> Db {
    let db = open(options);
    put(&db, 0..of);
    if flushed {
        db.flush().unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
    }
    db
}

#[test]
fn a_pop_steps_over_few_dead_entries_however_many_were_popped() {
    for end in [End::Front, End::Back, End::Prefix] {
        for flushed in [false, true] {
            let vfs = SimVfs::new();
            // Nothing is flushed or compacted meanwhile.
            let options = options(&vfs, manual());
            let db = queue(1500, flushed, &options);
            let most = pop_all(&db, end, (0..1500).collect());
            assert!(most < MOST / 10, "{end:?}, flushed {flushed}: {most}");
        }
    }
}

/// Ranges are in memory only. So the first pop after an opening, and no other one, walks over the
/// entries popped before it.
#[test]
fn only_the_first_pop_after_an_opening_steps_over_what_was_popped_before() {
    const POPPED: usize = 8000;
    for flushed in [false, true] {
        for killed in [false, true] {
            let what = format!("flushed {flushed}, killed {killed}");
            let mut vfs = SimVfs::new();
            let db = queue(POPPED + 100, flushed, &options(&vfs, manual()));
            for n in 0..POPPED {
                db.delete(&key(n)).unwrap();
            }
            match killed {
                false => db.close().unwrap(),
                true => {
                    let journal = vfs.journal();
                    vfs = journal.crash_at(journal.len(), &Loss::None);
                }
            }
            drop(db);
            let db = open(&options(&vfs, manual()));
            let first = skipped(&db, || assert_eq!(peek(&db, End::Front), Some(key(POPPED))));
            assert!(first <= 2 * POPPED as u64, "{what}: {first}");
            let most = pop_all(&db, End::Front, (POPPED..POPPED + 100).collect());
            assert!(most < MOST / 50, "{what}: {most}");
        }
    }
}

/// Values live for an hour.
fn living(vfs: &SimVfs, clock: &SimClock) -> Options {
    let mut options = options(vfs, manual());
    options.db.clock = Arc::new(clock.clone());
    let filter = TimeToLive::new(Duration::from_secs(3600));
    options.default.compaction_filter = Some(Arc::new(filter));
    options
}

#[test]
fn a_pop_steps_over_few_dead_entries_where_values_have_a_time_to_live() {
    for end in [End::Front, End::Back, End::Prefix] {
        let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(4));
        let options = living(&vfs, &clock);
        let db = open(&options);
        // It keeps expired values as tombstones.
        let snapshot = db.snapshot();
        put(&db, 0..3000);
        db.flush().unwrap();
        clock.advance(Duration::from_secs(7200));
        put(&db, 1000..2000);
        db.compact_range(None, None, &Default::default()).unwrap();
        assert!(metrics(&db).tombstones >= 2000);
        let most = pop_all(&db, end, (1000..2000).collect());
        assert!(most < MOST, "{end:?}: {most}");
        let steps = skipped(&db, || assert_eq!(peek(&db, end), None));
        assert!(steps < MOST / 50, "{end:?}: {steps}");
        drop(snapshot);
    }
}

/// An iterator has the tables from before, in which the values are.
#[test]
fn what_a_filter_removed_stays_visible_to_iterators_that_are_open() {
    for (end, deleted, living_keys) in [(End::Front, 0..50, 50..100), (End::Back, 50..100, 0..50)] {
        let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(5));
        let db = open(&living(&vfs, &clock));
        let snapshot = db.snapshot();
        put(&db, 0..100);
        delete(&db, deleted);
        db.flush().unwrap();
        let mut iter = db.iter(&ReadOptions::default()).unwrap();
        clock.advance(Duration::from_secs(7200));
        db.compact_range(None, None, &Default::default()).unwrap();
        assert_eq!(peek(&db, end), None);
        assert_eq!(metrics(&db).dead_ranges, 1);
        match end {
            End::Back => iter.seek_to_last().unwrap(),
            _ => iter.seek_to_first().unwrap(),
        }
        let mut shown = 0;
        while iter.valid() {
            shown += 1;
            match end {
                End::Back => iter.prev().unwrap(),
                _ => iter.next().unwrap(),
            }
        }
        assert_eq!(shown, living_keys.len(), "{end:?}");
        drop(snapshot);
    }
}

/// Jobs are appended while others are taken, and some come back to the front.
#[test]
fn a_queue_that_is_filled_meanwhile_shows_every_job() {
    let vfs = SimVfs::new();
    let mut options = options(&vfs, manual());
    options.default.write_buffer_size = 64 << 10;
    let db = queue(1000, true, &options);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut model: std::collections::BTreeSet<usize> = (0..1000).collect();
    let (mut next, mut most) = (1000, 0);
    for step in 0..3000 {
        let mut found = None;
        most = most.max(skipped(&db, || found = peek(&db, End::Front)));
        assert_eq!(found, model.first().map(|n| key(*n)), "step {step}");
        if let Some(n) = model.pop_first() {
            db.delete(&key(n)).unwrap();
        }
        match rng.u8(..16) {
            0 => {
                // It failed, and is to be done again.
                let again = rng.usize(..next);
                db.put(&key(again), b"again").unwrap();
                model.insert(again);
            }
            1..14 => {
                db.put(&key(next), b"job").unwrap();
                model.insert(next);
                next += 1;
            }
            _ => {}
        }
        if step % 800 == 799 {
            db.flush().unwrap();
        }
    }
    assert!(most < MOST, "{most}");
}

/// One key with many versions among others: each direction finds it with few steps.
#[test]
fn a_key_that_was_written_often_is_found_with_few_steps() {
    let vfs = SimVfs::new();
    let options = options(&vfs, manual());
    let db = queue(3, false, &options);
    let snapshot = db.snapshot();
    for n in 0..2000_u32 {
        db.put(&key(1), &n.to_be_bytes()).unwrap();
    }
    for (snapshot, value) in [
        (None, 1999_u32.to_be_bytes().to_vec()),
        (Some(snapshot), b"job".to_vec()),
    ] {
        let read = ReadOptions {
            snapshot,
            ..ReadOptions::default()
        };
        let steps = skipped(&db, || {
            let mut iter = db.iter(&read).unwrap();
            iter.seek_to_last().unwrap();
            for n in [2, 1, 0] {
                assert_eq!(iter.key(), key(n));
                if n == 1 {
                    assert_eq!(iter.value().unwrap(), value);
                }
                iter.prev().unwrap();
            }
            assert!(!iter.valid());
            iter.seek_to_first().unwrap();
            for n in [0, 1, 2] {
                assert_eq!(iter.key(), key(n));
                iter.next().unwrap();
            }
        });
        assert!(steps < 50, "{steps}");
    }
}

/// A snapshot sees the values that it saw, also in ranges that are dead for others.
#[test]
fn a_snapshot_sees_what_was_popped_since() {
    let vfs = SimVfs::new();
    let options = options(&vfs, manual());
    let db = queue(500, true, &options);
    let snapshot = db.snapshot();
    pop_all(&db, End::Front, (0..500).collect());
    let read = ReadOptions {
        snapshot: Some(snapshot),
        ..ReadOptions::default()
    };
    let mut iter = db.iter(&read).unwrap();
    iter.seek_to_first().unwrap();
    for n in 0..500 {
        assert_eq!(iter.key(), key(n));
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    assert_eq!(iter.key(), key(499));
}

fn idle(vfs: &SimVfs, clock: &SimClock) -> Options {
    let family = ColumnFamilyOptions {
        disable_auto_compactions: false,
        ..manual()
    };
    let mut options = options(vfs, family);
    options.db.clock = Arc::new(clock.clone());
    options
}

/// The clock advances by itself. Nothing else happens.
#[test]
fn what_was_deleted_is_compacted_away_once_the_database_is_idle() {
    for flush_before in [false, true] {
        for flush_after in [false, true] {
            let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(1));
            let options = idle(&vfs, &clock);
            let db = open(&options);
            put(&db, 0..6000);
            if flush_before {
                db.flush().unwrap();
            }
            delete(&db, 0..5990);
            if flush_after {
                db.flush().unwrap();
            }
            eventually("tombstones stay", || metrics(&db).tombstones == 0);
            db.wait_idle().unwrap();
            let entries = metrics(&db).estimated_keys;
            assert_eq!(entries, 10, "{flush_before} {flush_after}");
            let compactions = db.statistics().compactions();
            assert!(compactions <= 4, "{compactions}");
            assert_eq!(db.space_report().unwrap().total.tombstones, 0);
            let steps = skipped(&db, || {
                assert_eq!(peek(&db, End::Front), Some(key(5990)));
            });
            assert_eq!(steps, 0, "{flush_before} {flush_after}");
        }
    }
}

/// Tombstones that a snapshot needs stay until it is released, and cost no compactions meanwhile.
#[test]
fn tombstones_wait_for_the_snapshots_that_need_them() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(2));
    let options = idle(&vfs, &clock);
    let db = open(&options);
    put(&db, 0..6000);
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    let snapshot = db.snapshot();
    delete(&db, 0..6000);
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    db.wait_idle().unwrap();
    let before = db.statistics().compactions();
    assert_eq!(metrics(&db).tombstones, 6000);
    clock.advance(std::time::Duration::from_secs(60));
    db.wait_idle().unwrap();
    assert_eq!(db.statistics().compactions(), before);
    drop(snapshot);
    eventually("tombstones stay", || metrics(&db).tombstones == 0);
    assert_eq!(peek(&db, End::Front), None);
}

/// Old versions that a snapshot needs stay until it is released, and cost no compactions meanwhile.
/// Flushes keep some, and compactions.
#[test]
fn versions_that_a_released_snapshot_kept_are_compacted_away_once_the_database_is_idle() {
    for compacted in [false, true] {
        for reopened in [false, true] {
            let what = format!("compacted {compacted}, reopened {reopened}");
            let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(5));
            let options = idle(&vfs, &clock);
            let mut db = open(&options);
            put(&db, 0..6000);
            if compacted {
                db.flush().unwrap();
            }
            let snapshot = db.snapshot();
            put(&db, 0..6000);
            db.flush().unwrap();
            if compacted {
                db.compact_range(None, None, &Default::default()).unwrap();
            }
            db.wait_idle().unwrap();
            let before = db.statistics().compactions();
            clock.advance(Duration::from_secs(60));
            db.wait_idle().unwrap();
            assert_eq!(db.statistics().compactions(), before, "{what}");
            let scan = || {
                skipped(&db, || {
                    let mut iter = db.iter(&ReadOptions::default()).unwrap();
                    iter.seek_to_first().unwrap();
                    for n in 0..6000 {
                        assert_eq!(iter.key(), key(n));
                        iter.next().unwrap();
                    }
                    assert!(!iter.valid());
                })
            };
            assert!(scan() >= 6000, "{what}");
            drop(snapshot);
            if reopened {
                db.close().unwrap();
                db = open(&options);
            }
            let entries = || db.metrics().families[0].estimated_keys;
            eventually("old versions stay", || entries() == 6000);
            db.wait_idle().unwrap();
            assert!(db.statistics().compactions() <= before + 2, "{what}");
        }
    }
}

/// Bytes of the tables of a database.
fn table_bytes(db: &Db) -> u64 {
    metrics(db).levels.iter().map(|level| level.bytes).sum()
}

/// A database with this many values of 4,000 bytes, all in tables.
fn with_large_entries(vfs: &SimVfs, clock: &SimClock, count: usize) -> (Options, Db) {
    let family = ColumnFamilyOptions {
        enable_blob_files: false,
        compression: CompressionType::None,
        disable_auto_compactions: false,
        ..manual()
    };
    let mut options = options(vfs, family);
    options.db.clock = Arc::new(clock.clone());
    let db = open(&options);
    for n in 0..count {
        db.put(&key(n), &[7; 4000]).unwrap();
    }
    db.flush().unwrap();
    (options, db)
}

/// A few tombstones may delete most of the data. They are found in a memtable, also after they were
/// replayed, and in tables.
#[test]
fn few_tombstones_of_large_entries_are_compacted_away_once_the_database_is_idle() {
    for (flushed, reopened) in [(false, false), (false, true), (true, false), (true, true)] {
        for (collecting, in_level0) in [(false, false), (false, true), (true, false)] {
            let what = format!(
                "flushed {flushed}, reopened {reopened}, collecting {collecting}, in level 0 {in_level0}"
            );
            let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(6));
            let (mut options, mut db) = with_large_entries(&vfs, &clock, 1000);
            options.default.enable_blob_garbage_collection = collecting;
            if !in_level0 {
                db.compact_range(None, None, &Default::default()).unwrap();
            }
            db.close().unwrap();
            db = open(&options);
            assert!(table_bytes(&db) > 2 << 20, "{what}");
            // One by one, and in one batch. The database may seem idle before, but not in the
            // middle of the last ones: what is left then would be too little.
            for n in 0..500 {
                db.delete(&key(n)).unwrap();
            }
            delete(&db, 500..1000);
            if flushed {
                db.flush().unwrap();
            }
            if reopened {
                db.close().unwrap();
                db = open(&options);
            }
            eventually("large entries stay", || table_bytes(&db) == 0);
        }
    }
}

/// Puts of other keys beside the deletions delete nothing, however often they are repeated.
#[test]
fn few_tombstones_beside_puts_of_the_same_keys_are_compacted_away_too() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(9));
    let (_, db) = with_large_entries(&vfs, &clock, 1000);
    // As above: the last ones in one batch.
    let last = std::iter::once(500..1000);
    for names in (0..500).map(|n| n..n + 1).chain(last) {
        let mut batch = WriteBatch::new();
        for n in names {
            batch.delete(&*db, key(n)).unwrap();
            batch.put(&*db, b"directory", n.to_le_bytes()).unwrap();
            batch.put(&*db, b"file", n.to_le_bytes()).unwrap();
        }
        db.write(batch, &WriteOptions::default()).unwrap();
    }
    eventually("large entries stay", || table_bytes(&db) < 4096);
}

/// Tables above the last level have few tombstones each, and together many.
#[test]
fn few_tombstones_in_each_of_many_tables_are_compacted_away_once_the_database_is_idle() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(8));
    let mut options = idle(&vfs, &clock);
    options.default.target_file_size_base = 16 << 10;
    options.default.max_bytes_for_level_base = 256 << 10;
    let db = open(&options);
    put(&db, 0..100_000);
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    delete(&db, 10_000..90_000);
    db.flush().unwrap();
    eventually("tombstones stay", || metrics(&db).tombstones == 0);
    assert_eq!(metrics(&db).estimated_keys, 20_000);
}

/// Tombstones that a snapshot needs cost nothing until it is released, and those of keys that were
/// never in tables nothing at all.
#[test]
fn few_tombstones_that_free_nothing_cost_no_jobs() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(7));
    let (_, db) = with_large_entries(&vfs, &clock, 1000);
    db.compact_range(None, None, &Default::default()).unwrap();
    let jobs = || (db.statistics().flushes(), db.statistics().compactions());
    let idle = || {
        clock.advance(Duration::from_secs(60));
        db.wait_idle().unwrap();
    };
    let before = jobs();
    for _ in 0..5 {
        put(&db, 2000..2100);
        delete(&db, 2000..2100);
        idle();
    }
    assert_eq!(jobs(), before);
    let snapshot = db.snapshot();
    delete(&db, 0..500);
    db.flush().unwrap();
    let before = jobs();
    idle();
    assert_eq!(jobs(), before, "beside a snapshot");
    drop(snapshot);
    let bytes = table_bytes(&db);
    eventually("large entries stay", || table_bytes(&db) < bytes * 2 / 3);
    let before = jobs();
    for n in 0..5 {
        db.put(&key(3000 + n), b"more").unwrap();
        idle();
    }
    assert_eq!(jobs(), before, "after the cleanup");
}

/// Few tombstones in much data are left to the compactions that come anyway, unless reads meet many
/// in a row.
#[test]
fn few_tombstones_are_compacted_only_where_reads_meet_them() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(3));
    let mut options = idle(&vfs, &clock);
    // So that the keys are in several tables.
    options.default.target_file_size_base = 256 << 10;
    options.default.max_bytes_for_level_base = 64 << 20;
    let db = open(&options);
    // Less than one key in 50 is deleted: more are compacted for the space that this frees.
    put(&db, 0..300_000);
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    delete(&db, 0..5000);
    // So that the table of the tombstones overlaps everything.
    db.delete(&key(299_999)).unwrap();
    db.flush().unwrap();
    clock.advance(std::time::Duration::from_secs(60));
    db.wait_idle().unwrap();
    let before = db.statistics().compactions();
    assert_eq!(metrics(&db).tombstones, 5001, "they overlap too much");
    // The first read steps over all of them, the next over few, and then they go.
    let steps = skipped(&db, || assert_eq!(peek(&db, End::Front), Some(key(5000))));
    assert!(steps > 5000, "{steps}");
    let steps = skipped(&db, || assert_eq!(peek(&db, End::Front), Some(key(5000))));
    assert!(steps < 100, "{steps}");
    assert!(metrics(&db).dead_range_keys > 4900);
    eventually("tombstones stay", || metrics(&db).tombstones == 0);
    assert_eq!(db.statistics().compactions(), before + 1);
    assert_eq!(peek(&db, End::Front), Some(key(5000)));
    assert_eq!(peek(&db, End::Back), Some(key(299_998)));
}
