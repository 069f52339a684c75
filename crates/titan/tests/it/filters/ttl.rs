//! Time to live, with a clock that the test advances.

use std::sync::Arc;
use std::time::Duration;

use titan::{ColumnFamilyOptions, Db, Options, TimeToLive};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

use super::{close_and_check, compact};
use crate::support::{key, manual, open, options, value};

const AGE: u64 = 6400;
/// The distance of two recorded times.
const GRANULARITY: u64 = AGE / 64;

fn living(vfs: &SimVfs, clock: &SimClock, automatic: bool) -> Options {
    let family = ColumnFamilyOptions {
        disable_auto_compactions: !automatic,
        compaction_filter: Some(Arc::new(TimeToLive::new(Duration::from_secs(AGE)))),
        ..manual()
    };
    let mut options = options(vfs, family);
    options.db.clock = Arc::new(clock.clone());
    options
}

fn seconds(clock: &SimClock, seconds: u64) {
    clock.advance(Duration::from_secs(seconds));
}

fn alive(db: &Db, n: usize) -> bool {
    db.get(&key(n)).unwrap().is_some()
}

#[test]
fn values_live_for_their_time_across_flushes_compactions_and_openings() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(1));
    let options = living(&vfs, &clock, false);
    let mut db = open(&options);
    // One value each 200 seconds, in memtables of ten, two of which are replayed from the WAL.
    for n in 0..32 {
        db.put(&key(n), &value(n, 500)).unwrap();
        seconds(&clock, 2 * GRANULARITY);
        if n % 10 == 9 {
            db.flush().unwrap();
        }
        if n == 19 {
            compact(&db);
            close_and_check(db, &options);
            db = open(&options);
        }
    }
    db.flush().unwrap();
    // 6400 seconds have passed: the first value expires now, or within the granularity.
    for n in 0..32 {
        compact(&db);
        assert!(alive(&db, n + 1) || n == 31, "{n}: dropped before its time");
        seconds(&clock, GRANULARITY + 1);
        compact(&db);
        assert!(!alive(&db, n), "{n}");
        assert!(alive(&db, n + 1) || n == 31, "{n}: dropped before its time");
        seconds(&clock, GRANULARITY - 1);
    }
    assert_eq!(db.statistics().filter_blob_reads(), 0);
    close_and_check(db, &options);
}

#[test]
fn tables_with_expired_values_are_compacted_by_themselves() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(2));
    let options = living(&vfs, &clock, true);
    let db = open(&options);
    for n in 0..20 {
        db.put(&key(n), &value(n, 500)).unwrap();
    }
    db.flush().unwrap();
    compact(&db);
    let compactions = || db.statistics().compactions();
    let before = compactions();
    seconds(&clock, AGE - 100);
    db.wait_idle().unwrap();
    assert!((0..20).all(|n| alive(&db, n)));
    assert_eq!(compactions(), before, "nothing is due");
    seconds(&clock, 100 + GRANULARITY + 2);
    db.wait_idle().unwrap();
    assert!((0..20).all(|n| !alive(&db, n)));
    assert_eq!(compactions(), before + 1);
    close_and_check(db, &options);
}

/// The time after which no value is left, at the latest: its life, an eighth of it for the
/// rewriting of tables, the granularity, and the rounding of times.
const GONE_AFTER: u64 = AGE + AGE / 8 + GRANULARITY + 3;

#[test]
fn what_waits_in_a_memtable_expires_without_any_further_write() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(5));
    let options = living(&vfs, &clock, true);
    let db = open(&options);
    for n in 0..20 {
        db.put(&key(n), &value(n, 500)).unwrap();
    }
    let flushes = || db.statistics().flushes();
    seconds(&clock, AGE);
    db.wait_idle().unwrap();
    assert!((0..20).all(|n| alive(&db, n)));
    assert_eq!(flushes(), 0, "before its time");
    // Younger values in the same memtable.
    db.put(&key(20), &value(20, 500)).unwrap();
    seconds(&clock, GRANULARITY + 1);
    db.wait_idle().unwrap();
    assert!((0..20).all(|n| !alive(&db, n)));
    assert!(alive(&db, 20));
    assert_eq!(flushes(), 1);
    // The value flushed with them expires in its table, and the one written next in its memtable.
    db.put(&key(21), &value(21, 500)).unwrap();
    for step in 0..10 {
        assert!(alive(&db, 21), "{step}");
        seconds(&clock, AGE / 10);
        db.wait_idle().unwrap();
    }
    assert!(!alive(&db, 20));
    seconds(&clock, GRANULARITY + 1);
    db.wait_idle().unwrap();
    assert!(!alive(&db, 21));
    assert_eq!(flushes(), 2);
    close_and_check(db, &options);
}

/// The promise of [`TimeToLive`], wherever a value is when it expires.
#[test]
fn a_value_is_gone_in_time_from_every_level() {
    for level in 0..9 {
        let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(level));
        let mut options = living(&vfs, &clock, true);
        // Neighbours of the value fill the levels above the last one.
        options.default.max_bytes_for_level_base = 4 << 10;
        options.default.target_file_size_base = 1 << 10;
        options.default.max_bytes_for_level_multiplier = 2;
        let db = open(&options);
        let busy = db
            .create_column_family("busy", ColumnFamilyOptions::default())
            .unwrap();
        let put = |n: usize| db.put(&key(n), &value(n, 300)).unwrap();
        put(100);
        // In the memtable, in a table of level 0, and deeper with each compaction.
        for n in 0..level as usize {
            if n % 2 == 1 {
                (0..20).for_each(|other| put(200 * (other % 2) + 3 * other));
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
            if n == 1 {
                compact(&db);
            }
        }
        // Writes of another family do not keep it.
        for _ in 0..20 {
            busy.put(b"k", b"v").unwrap();
            seconds(&clock, GONE_AFTER / 20 + 1);
            db.wait_idle().unwrap();
        }
        assert!(!alive(&db, 100), "{level}");
        let left = db.metrics().families.remove(0);
        assert_eq!(left.live_blob_bytes, 0, "{level}: {left:?}");
        close_and_check(db, &options);
    }
}

/// A filter that flushes do not ask sees the entries of a memtable once they are in a table.
#[test]
fn every_filter_with_revisits_sees_what_waits_in_a_memtable() {
    use titan::{CompactionFilter, CompactionFilterFactory, FilterContext, Revisit};
    struct Late(TimeToLive);
    impl CompactionFilterFactory for Late {
        fn name(&self) -> &str {
            "tests.Late"
        }
        fn create(&self, context: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
            self.0.create(context)
        }
        fn revisit(&self) -> Option<Revisit> {
            self.0.revisit()
        }
    }
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(6));
    let mut options = living(&vfs, &clock, true);
    let filter = Late(TimeToLive::new(Duration::from_secs(AGE)));
    options.default.compaction_filter = Some(Arc::new(filter));
    let db = open(&options);
    db.put(&key(1), &value(1, 500)).unwrap();
    db.delete_range(b"x", b"y").unwrap();
    for _ in 0..2 {
        seconds(&clock, GONE_AFTER / 2);
        db.wait_idle().unwrap();
    }
    seconds(&clock, AGE / 8);
    db.wait_idle().unwrap();
    assert!(!alive(&db, 1));
    close_and_check(db, &options);
}

/// Where nothing is compacted by itself, nothing is flushed for its age either.
#[test]
fn without_automatic_compactions_no_memtable_is_flushed_for_its_age() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(7));
    let options = living(&vfs, &clock, false);
    let db = open(&options);
    db.put(&key(1), &value(1, 500)).unwrap();
    seconds(&clock, 2 * GONE_AFTER);
    db.wait_idle().unwrap();
    assert_eq!(db.statistics().flushes(), 0);
    assert!(alive(&db, 1));
}

#[test]
fn what_was_there_before_counts_from_when_its_table_was_written() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(3));
    let mut unfiltered = options(&vfs, manual());
    unfiltered.db.clock = Arc::new(clock.clone());
    let db = open(&unfiltered);
    db.put(&key(1), &value(1, 500)).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let options = living(&vfs, &clock, true);
    let db = open(&options);
    seconds(&clock, AGE - 1);
    db.wait_idle().unwrap();
    compact(&db);
    assert!(alive(&db, 1));
    // The compaction recorded the time of its table, so it did not start anew.
    seconds(&clock, AGE / 8 + 2);
    db.wait_idle().unwrap();
    assert!(!alive(&db, 1));
    close_and_check(db, &options);
}

/// A filter that keeps old values must not cause compactions without end.
#[test]
fn tables_are_not_rewritten_for_ever() {
    use titan::{CompactionFilter, CompactionFilterFactory, FilterContext, Revisit};
    struct Keeps;
    impl CompactionFilterFactory for Keeps {
        fn name(&self) -> &str {
            "tests.Keeps"
        }
        fn create(&self, _: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
            None
        }
        fn revisit(&self) -> Option<Revisit> {
            Some(Revisit {
                age: Duration::from_secs(AGE),
                interval: Duration::from_secs(1000),
            })
        }
    }
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(4));
    let mut options = living(&vfs, &clock, true);
    options.default.compaction_filter = Some(Arc::new(Keeps));
    let db = open(&options);
    db.put(&key(1), &value(1, 500)).unwrap();
    db.flush().unwrap();
    seconds(&clock, AGE + GRANULARITY + 2);
    for compactions in 1..4 {
        db.wait_idle().unwrap();
        assert_eq!(db.statistics().compactions(), compactions);
        seconds(&clock, 1001);
    }
    assert!(alive(&db, 1));
}
