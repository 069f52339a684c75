//! The memory that the cache says it takes, and what the allocator of this program says.
//!
//! A cache gives all its memory back when it is dropped. So the test compares the bytes that are
//! freed then, with what the allocator itself needs for each block, and the bytes that were
//! charged.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use titan::DbOptions;
use titan_ime::{CacheOptions, Progress, RangeCache};
use titan_mvcc::StoreOptions;
use titan_testkit::counted::{Counted, live_bytes_taken};
use titan_testkit::sim::SimVfs;

#[global_allocator]
static COUNTED: Counted = Counted;

fn open(cache: CacheOptions) -> RangeCache {
    let options = StoreOptions {
        db: DbOptions {
            vfs: Arc::new(SimVfs::new()),
            block_cache_size: 0,
            ..DbOptions::default()
        },
        retention: None,
        ..StoreOptions::default()
    };
    let cache = CacheOptions {
        maintenance: None,
        chooses: false,
        ..cache
    };
    RangeCache::open("/store", &options, &cache).unwrap()
}

fn commit(cache: &RangeCache, rows: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>) {
    let mut transaction = cache.store().begin();
    for (key, value) in rows {
        match value {
            Some(value) => transaction.put(&key, &value),
            None => transaction.delete(&key),
        }
    }
    transaction.commit().unwrap();
}

/// A key of 20 bytes, in no order, and a value of 80.
fn row(n: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    let key = format!("{:020}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (key.into_bytes(), Some(vec![n as u8; 80]))
}

/// Drops everything with `drop`, and compares. Returns the bytes that were freed.
fn check(what: &str, cache: &RangeCache, drop: impl FnOnce()) -> u64 {
    let charged = cache.stats().memory_used;
    let before = live_bytes_taken();
    drop();
    let freed = u64::try_from(before - live_bytes_taken()).unwrap();
    assert_eq!(cache.stats().memory_used, 0, "{what}");
    println!("{what}: {charged} bytes charged, {freed} freed");
    assert!(
        freed.abs_diff(charged) * 100 <= 5 * freed,
        "{what}: {charged} bytes were charged, and {freed} freed"
    );
    freed
}

fn check_all(what: &str, cache: &RangeCache) -> u64 {
    check(what, cache, || {
        cache.drop_range(None, None);
    })
}

/// One test, because all threads of a program share the counter.
#[test]
fn what_is_charged_is_what_is_allocated_up_to_a_twentieth() {
    const ROWS: u64 = 20_000;
    let cache = open(CacheOptions {
        safe_lag: Duration::ZERO,
        ..CacheOptions::default()
    });
    for from in (0..ROWS).step_by(1_000) {
        commit(&cache, (from..from + 1_000).map(row));
    }
    cache.load(None, None).unwrap();
    let freed = check_all("rows of 100 bytes, loaded", &cache);
    assert!(freed / ROWS <= 180, "{} bytes a row", freed / ROWS);

    cache.load(None, None).unwrap();
    for from in (ROWS..2 * ROWS).step_by(100) {
        commit(&cache, (from..from + 100).map(row));
    }
    let freed = check_all("rows of 100 bytes, half of them written", &cache);
    assert!(
        freed / (2 * ROWS) <= 180,
        "{} bytes a row",
        freed / (2 * ROWS)
    );

    // Readers keep old versions.
    cache.load(None, None).unwrap();
    let mut readers = Vec::new();
    for version in 0..5_u8 {
        readers.push(cache.store().snapshot());
        cache.maintain();
        let rows = (0..2_000).map(|n| (row(n).0, Some(vec![version; usize::from(version) * 20])));
        commit(&cache, rows);
    }
    cache.maintain();
    cache.maintain();
    check_all("chains of versions", &cache);
    drop(readers);

    // Values that stay in the engine, and rows that die.
    cache.load(None, None).unwrap();
    commit(&cache, (0..5_000).map(|n| (row(n).0, Some(vec![1; 1_000]))));
    commit(&cache, (5_000..9_000).map(|n| (row(n).0, None)));
    cache.maintain();
    cache.maintain();
    check_all("large values and deletions", &cache);

    // A load that keeps what is written meanwhile.
    let mut load = cache.begin_load(None, None).unwrap();
    for _ in 0..20 {
        assert_eq!(load.step().unwrap(), Progress::Going);
    }
    commit(&cache, (0..8_000).map(row));
    // Its cursor of the engine takes memory, too; so it is ended, and the delta is what counts
    // most.
    check("a load and its delta", &cache, || drop(load));

    // Ranges without rows take memory all the same.
    let cache = open(CacheOptions::default());
    for n in 0..2_000_u32 {
        let (from, to) = (n * 2, n * 2 + 1);
        cache
            .load(Some(&from.to_be_bytes()), Some(&to.to_be_bytes()))
            .unwrap();
    }
    check_all("ranges without rows", &cache);
}
