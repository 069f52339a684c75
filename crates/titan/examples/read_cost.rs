//! Reads a small database in several ways, each in a function of its own, [`READS`] times, so that
//! `cargo xtask instructions` can count what each costs. An argument is the `stats_level`.
//!
//! Half of the keys are in a table of the last level, a quarter in two tables of level 0, the rest
//! in the memtable. Every eighth key is deleted, and a range of keys is deleted as a whole. All
//! blocks are in the block cache. A second family has values in a blob file.

use std::error::Error;
use std::hint::black_box;

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, DbIterator, DbOptions, Options,
    ReadOptions,
};

const KEYS: u64 = 16_384;
const READS: u64 = 10_000;
/// Keys with values in the blob file.
const LARGE: u64 = 1_024;

type Outcome = Result<(), Box<dyn Error>>;

/// Keys are even, so that there are keys between them.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&(2 * number).to_be_bytes());
    key
}

/// A sequence of numbers below `KEYS` that looks random.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50
}

/// Puts the keys of a part of all numbers.
fn put(db: &Db, part: impl Fn(u64) -> bool) -> Outcome {
    for number in (0..KEYS).filter(|number| part(*number)) {
        db.put(&key(number), &[7; 100])?;
    }
    Ok(())
}

fn fill(db: &Db) -> Outcome {
    put(db, |_| true)?;
    db.flush()?;
    db.compact_range(None, None, &CompactRangeOptions::default())?;
    put(db, |number| number % 8 == 1)?;
    db.flush()?;
    put(db, |number| number % 8 == 3)?;
    for number in (0..KEYS).step_by(8) {
        db.delete(&key(number))?;
    }
    db.flush()?;
    put(db, |number| number % 8 == 5)
}

/// Gets of keys whose number leaves `rest` when divided by 8.
fn gets(db: &Db, rest: u64, found: bool) -> Outcome {
    for n in 0..READS {
        let number = scattered(n) / 8 * 8 + rest;
        let value = black_box(db.get(black_box(&key(number)))?);
        assert_eq!(value.is_some(), found);
    }
    Ok(())
}

/// Moves over entries that exist.
fn walk(iter: &mut DbIterator, step: impl Fn(&mut DbIterator) -> titan::Result<()>) -> Outcome {
    for _ in 0..READS {
        step(iter)?;
        black_box(iter.key());
    }
    assert!(iter.valid());
    Ok(())
}

/// Makes a function of each, which is not part of its caller.
macro_rules! measured {
    ($($name:ident($on:ident: $type:ty) $body:block)*) => {
        $(#[inline(never)]
        fn $name($on: $type) -> Outcome $body)*
    };
}

measured! {
    measured_get_from_memtable(db: &Db) { gets(db, 5, true) }
    measured_get_from_level_0(db: &Db) { gets(db, 1, true) }
    measured_get_from_last_level(db: &Db) { gets(db, 7, true) }
    measured_get_deleted(db: &Db) { gets(db, 0, false) }
    measured_get_with_range_deletions(db: &Db) { gets(db, 3, true) }
    measured_next(iter: &mut DbIterator) { walk(iter, DbIterator::next) }
    measured_prev(iter: &mut DbIterator) { walk(iter, DbIterator::prev) }
    measured_next_with_range_deletions(iter: &mut DbIterator) { walk(iter, DbIterator::next) }
    measured_get_missing(db: &Db) {
        (0..READS).try_for_each(|n| {
            let mut key = key(scattered(n));
            key[15] += 1;
            assert!(black_box(db.get(black_box(&key))?).is_none());
            Ok(())
        })
    }
    measured_get_in_deleted_range(db: &Db) {
        (0..READS).try_for_each(|n| {
            assert!(black_box(db.get(black_box(&key(KEYS + scattered(n))))?).is_none());
            Ok(())
        })
    }
    measured_get_from_blob_file(large: &ColumnFamily) {
        (0..READS).try_for_each(|n| {
            let value = black_box(large.get(black_box(&key(scattered(n) % LARGE)))?);
            assert!(value.is_some());
            Ok(())
        })
    }
    measured_multi_get(db: &Db) {
        let options = ReadOptions::default();
        for n in 0..READS / 16 {
            let keys: Vec<_> = (0..16).map(|i| key(scattered(16 * n + i))).collect();
            black_box(db.multi_get_with(black_box(&keys), &options));
        }
        Ok(())
    }
    measured_seek(iter: &mut DbIterator) {
        (0..READS).try_for_each(|n| {
            iter.seek(black_box(&key(scattered(n))))?;
            black_box(iter.key());
            Ok(())
        })
    }
    measured_new_iterator(db: &Db) {
        let options = ReadOptions::default();
        (0..READS).try_for_each(|_| {
            black_box(db.iter(&options)?);
            Ok(())
        })
    }
}

fn main() -> Outcome {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let options = Options {
        db: DbOptions {
            use_direct_io_for_flush_and_compaction: false,
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            disable_auto_compactions: true,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(dir.path(), &options)?;
    if let Some(level) = std::env::args().nth(1) {
        db.set_options(&[("stats_level", &level)])?;
    }
    fill(&db)?;
    let large = db.create_column_family("large", options.default.clone())?;
    for number in 0..LARGE {
        large.put(&key(number), &[7; 4096])?;
    }
    large.flush()?;
    // Loads every block.
    for number in 0..KEYS {
        black_box(db.get(&key(number))?);
        black_box(large.get(&key(number))?);
    }
    measured_get_from_blob_file(&large)?;
    measured_get_from_memtable(&db)?;
    measured_get_from_level_0(&db)?;
    measured_get_from_last_level(&db)?;
    measured_get_deleted(&db)?;
    measured_get_missing(&db)?;
    measured_multi_get(&db)?;
    measured_new_iterator(&db)?;
    let mut iter = db.iter(&ReadOptions::default())?;
    measured_seek(&mut iter)?;
    iter.seek_to_first()?;
    measured_next(&mut iter)?;
    iter.seek_to_last()?;
    measured_prev(&mut iter)?;
    drop(iter);
    db.delete_range(&key(KEYS), &key(2 * KEYS))?;
    measured_get_with_range_deletions(&db)?;
    measured_get_in_deleted_range(&db)?;
    let mut iter = db.iter(&ReadOptions::default())?;
    iter.seek_to_first()?;
    measured_next_with_range_deletions(&mut iter)?;
    drop(iter);
    Ok(db.close()?)
}
