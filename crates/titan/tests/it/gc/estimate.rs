//! Shadowed data of every cause is reported as it is, and its space is given back once the database
//! is idle.

use std::sync::Arc;

use titan::{ColumnFamilyOptions, Db, Options, SpaceUsage};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

use super::checked;
use crate::support::{RECORD_HEADER, collecting, eventually, key, manual, open, options, value};

const LEN: usize = 1000;
/// A record of one of the test's large values, in a blob file.
const RECORD: u64 = RECORD_HEADER + 9 + LEN as u64;
/// A value that stays inline.
const SMALL: usize = 50;

fn usage(db: &Db) -> SpaceUsage {
    db.wait_idle().unwrap();
    db.space_report().unwrap().total
}

/// The reported estimate, and the bytes that a full compaction then finds.
fn estimate_and_truth(db: &Db) -> (u64, u64) {
    let before = usage(db);
    db.compact_range(None, None, &Default::default()).unwrap();
    let after = usage(db);
    assert_eq!(after.shadowed_blob_bytes, 0);
    let found = before.live_blob_bytes - after.live_blob_bytes;
    (before.shadowed_blob_bytes, found)
}

fn put(db: &Db, keys: impl IntoIterator<Item = usize>, len: usize) {
    keys.into_iter()
        .for_each(|n| db.put(&key(n), &value(n, len)).unwrap());
}

fn delete(db: &Db, keys: impl IntoIterator<Item = usize>) {
    keys.into_iter().for_each(|n| db.delete(&key(n)).unwrap());
}

/// Large values at even keys and small ones at odd keys, in several tables.
fn mixed(db: &Db) {
    for start in [0, 100, 200] {
        put(db, (start..start + 100).step_by(2), LEN);
        put(db, (start + 1..start + 100).step_by(2), SMALL);
        db.flush().unwrap();
    }
}

#[test]
fn a_deletion_hides_what_its_key_has() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    mixed(&db);
    // Deletes small values, and keys that do not exist, also between existing ones.
    delete(&db, (1..300).step_by(2).chain(1000..2000));
    db.flush().unwrap();
    assert_eq!(usage(&db).shadowed_blob_bytes, 0);
    delete(&db, (0..30).step_by(2));
    db.flush().unwrap();
    assert_eq!(usage(&db).shadowed_blob_bytes, 15 * RECORD);
    // Once more: there is nothing left at these.
    delete(&db, 0..30);
    db.flush().unwrap();
    assert_eq!(estimate_and_truth(&db), (15 * RECORD, 15 * RECORD));
}

#[test]
fn a_small_value_hides_a_large_one() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    mixed(&db);
    put(&db, 0..90, SMALL - 1);
    // A large value over small ones shadows nothing.
    put(&db, (101..150).step_by(2), LEN);
    db.flush().unwrap();
    assert_eq!(estimate_and_truth(&db), (45 * RECORD, 45 * RECORD));
}

#[test]
fn a_range_deletion_hides_what_it_covers() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    mixed(&db);
    let delete = |from, to| db.delete_range(&key(from), &key(to)).unwrap();
    // A whole table, and parts of its neighbours.
    delete(60, 240);
    // Covered entries are not counted again for any later entry or range.
    put(&db, (70..80).step_by(2), LEN);
    delete(150, 180);
    db.flush().unwrap();
    assert_eq!(usage(&db).shadowed_blob_bytes, 90 * RECORD);
    put(&db, (90..100).step_by(2), LEN);
    delete(50, 110);
    db.flush().unwrap();
    // Five more before the covered entries, and the five put first. Those put now never got to a
    // file.
    assert_eq!(usage(&db).shadowed_blob_bytes, 100 * RECORD);
    delete(0, 1000);
    db.flush().unwrap();
    let all = 155 * RECORD;
    assert_eq!(estimate_and_truth(&db), (all, all));
}

#[test]
fn a_range_deletion_counts_nothing_that_entries_hide_already() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    mixed(&db);
    // By deletions alone, by small values, and by large ones.
    delete(&db, (0..100).step_by(2));
    db.flush().unwrap();
    put(&db, (100..200).step_by(2), SMALL);
    db.flush().unwrap();
    put(&db, (200..300).step_by(2), LEN);
    db.flush().unwrap();
    assert_eq!(usage(&db).shadowed_blob_bytes, 150 * RECORD);
    db.delete_range(&key(0), &key(1000)).unwrap();
    db.flush().unwrap();
    assert_eq!(estimate_and_truth(&db), (200 * RECORD, 200 * RECORD));
}

#[test]
fn what_was_deleted_and_written_again_and_again_counts_once_each_time() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    for round in 1..5_u64 {
        put(&db, 0..100, LEN);
        db.flush().unwrap();
        db.delete_range(&key(0), &key(100)).unwrap();
        db.flush().unwrap();
        assert_eq!(usage(&db).shadowed_blob_bytes, round * 100 * RECORD);
    }
    // Both in one memtable.
    put(&db, 0..100, LEN);
    db.flush().unwrap();
    db.delete_range(&key(0), &key(100)).unwrap();
    put(&db, 0..100, LEN);
    db.flush().unwrap();
    assert_eq!(estimate_and_truth(&db), (500 * RECORD, 500 * RECORD));
}

#[test]
fn sizes_that_differ_much_are_estimated_well() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    let mut rng = fastrand::Rng::with_seed(7);
    // Most are small, some a hundred times the average, like files in a directory.
    let len = |rng: &mut fastrand::Rng| (30.0 / (1.0 - rng.f64() * 0.9999).powf(0.9)) as usize;
    for n in 0..30_000 {
        let len = len(&mut rng);
        db.put(&key(n), &vec![7; len]).unwrap();
        if n % 10_000 == 9_999 {
            db.flush().unwrap();
        }
    }
    delete(&db, (0..30_000).filter(|n| n % 3 == 0));
    db.flush().unwrap();
    db.delete_range(&key(20_000), &key(23_000)).unwrap();
    db.flush().unwrap();
    let (estimate, truth) = estimate_and_truth(&db);
    let ratio = estimate as f64 / truth as f64;
    assert!((0.85..1.15).contains(&ratio), "{estimate} for {truth}");
}

#[test]
fn what_memtables_hide_is_told() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    mixed(&db);
    delete(&db, (0..30).step_by(2));
    assert_eq!(usage(&db).shadowed_blob_bytes, 15 * RECORD);
    db.delete_range(&key(0), &key(100)).unwrap();
    assert_eq!(usage(&db).shadowed_blob_bytes, 50 * RECORD);
    let metrics = db.metrics();
    assert_eq!(metrics.families[0].shadowed_blob_bytes, 50 * RECORD);
}

/// Compacts automatically; the number of tables at level 0 alone causes compactions late.
fn automatic() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        disable_auto_compactions: false,
        level0_file_num_compaction_trigger: 10,
        write_buffer_size: 1 << 20,
        ..collecting()
    }
}

#[test]
fn deleting_small_values_compacts_and_delays_nothing() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        max_space_amp: 1.1,
        ..automatic()
    };
    let db = open(&options(&vfs, family));
    put(&db, 0..3000, SMALL);
    put(&db, 3000..5000, LEN);
    db.flush().unwrap();
    delete(&db, 0..3000);
    db.flush().unwrap();
    assert_eq!(usage(&db).shadowed_blob_bytes, 0);
    assert_eq!(db.statistics().compactions(), 0);
    assert_eq!(db.metrics().families[0].stall, titan::StallEvent::Normal);
}

fn blob_bytes(db: &Db) -> u64 {
    db.metrics().families[0].blob_bytes
}

/// One way to shadow most of a thousand values in the memtable.
type Hide = fn(&Db);

#[test]
fn a_database_that_is_left_alone_gives_back_what_its_memtable_hides() {
    let ways: [Hide; 3] = [
        |db| delete(db, 0..940),
        |db| put(db, 0..940, SMALL),
        |db| db.delete_range(&key(0), &key(940)).unwrap(),
    ];
    for hide in ways {
        let vfs = SimVfs::new();
        let family = ColumnFamilyOptions {
            write_buffer_size: 64 << 20,
            ..automatic()
        };
        let mut options: Options = options(&vfs, family);
        options.db.clock = Arc::new(SimClock::with_seed(1));
        let db = open(&options);
        put(&db, 0..1000, LEN);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        hide(&db);
        // The clock advances by itself. Nothing else happens.
        let live = 60 * RECORD;
        eventually("giving back", || {
            db.wait_idle().unwrap();
            blob_bytes(&db) < live * 5 / 4
        });
        assert_eq!(db.get(&key(950)).unwrap().unwrap(), value(950, LEN));
        db.close().unwrap();
        checked(&options);
    }
}

#[test]
fn a_database_that_is_left_alone_leaves_a_memtable_that_hides_little() {
    let vfs = SimVfs::new();
    let mut options = options(&vfs, automatic());
    let clock = SimClock::with_seed(1);
    options.db.clock = Arc::new(clock.clone());
    let db = open(&options);
    put(&db, 0..1000, LEN);
    db.flush().unwrap();
    let flushes = db.statistics().flushes();
    // Many operations, but on keys that do not exist or have small values.
    delete(&db, 5000..8000);
    put(&db, 1001..1300, LEN);
    delete(&db, 0..10);
    eventually("time", || {
        clock.advance(std::time::Duration::from_secs(1));
        db.wait_idle().unwrap();
        clock.elapsed() > std::time::Duration::from_secs(60)
    });
    assert_eq!(db.statistics().flushes(), flushes);
}

#[test]
fn a_memtable_that_hides_much_is_flushed_before_it_is_full() {
    let ways: [fn(&Db, usize); 2] = [
        |db, n| put(db, [n], SMALL),
        |db, n| match n {
            2000 => db.delete_range(&key(0), &key(1500)).unwrap(),
            n => put(db, [10_000 + n], SMALL),
        },
    ];
    for hide in ways {
        let vfs = SimVfs::new();
        let db = open(&options(&vfs, automatic()));
        put(&db, 0..4000, LEN);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let flushes = db.statistics().flushes();
        for n in 0..4000 {
            hide(&db, n);
            if n % 64 == 0 {
                // Otherwise everything would be written before an estimate could run.
                db.wait_idle().unwrap();
            }
        }
        // A megabyte of small entries is several times as many.
        assert!(db.statistics().flushes() > flushes);
    }
}

#[test]
fn a_range_costs_a_table_only_what_is_within_its_bounds() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    put(&db, 500..510, LEN);
    db.flush().unwrap();
    // Many older ranges, none of which touches the keys of that table.
    for n in (0..1000).step_by(20).filter(|n| n / 100 != 5) {
        db.delete_range(&key(n), &key(n + 10)).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(usage(&db).shadowed_blob_bytes, 0);
    let lookups = || {
        let metrics = db.metrics();
        metrics.block_cache_hits + metrics.block_cache_misses
    };
    let before = lookups();
    // Covers the table as a whole, which is known from its bounds. The gaps between the older
    // ranges are elsewhere.
    db.delete_range(&key(0), &key(1000)).unwrap();
    db.flush().unwrap();
    assert_eq!(lookups(), before, "blocks of the table were read");
    assert_eq!(estimate_and_truth(&db), (10 * RECORD, 10 * RECORD));
}
