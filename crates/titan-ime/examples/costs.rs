//! What the range cache saves a reader and costs a writer, in processor time of the thread, on a store in a directory
//! of its own. Prints a table.
//!
//! ```text
//! cargo run --release -p titan-ime --example costs
//! ```

#![allow(
    clippy::unwrap_used,
    reason = "an example shows the calls, and ends where one fails"
)]

use std::time::Duration;

use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::{Direction, StoreOptions};

/// Processor time of this thread so far; zero where the system does not say it.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Processor time is counted in ticks, so that a round must be long.
const ROUND: Duration = Duration::from_millis(60);

/// Microseconds of processor time of a call of `f`: the least of several rounds.
fn cost(mut f: impl FnMut()) -> f64 {
    let mut round = || {
        let before = processor_time();
        let mut calls = 0_u32;
        loop {
            (0..200).for_each(|_| f());
            calls += 200;
            let took = processor_time() - before;
            if took >= ROUND {
                return took.as_secs_f64() * 1e6 / f64::from(calls);
            }
        }
    };
    (0..7).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn open(dir: &std::path::Path) -> RangeCache {
    let options = CacheOptions {
        maintenance: None,
        safe_lag: Duration::ZERO,
        ..CacheOptions::default()
    };
    RangeCache::open(dir, &StoreOptions::default(), &options).unwrap()
}

fn key(table: u8, n: u64) -> Vec<u8> {
    format!("{table:03}/{n:016}").into_bytes()
}

fn put(cache: &RangeCache, key: &[u8]) {
    let mut transaction = cache.store().begin();
    transaction.put(key, &[7; 80]);
    transaction.commit().unwrap();
}

/// A queue: all rows but the last hundred are deleted. What does its first row cost?
fn queues(cache: &RangeCache) {
    println!("the first row of a queue, after so many dead ones: microseconds, steps");
    for (table, dead) in [(1, 100), (2, 1_000), (3, 10_000)] {
        for n in 0..dead + 100 {
            put(cache, &key(table, n));
        }
        for n in 0..dead {
            let mut transaction = cache.store().begin();
            transaction.delete(&key(table, n));
            transaction.commit().unwrap();
        }
        let (from, to) = (key(table, 0), key(table + 1, 0));
        let measure = |what: &str| {
            let mut steps = 0;
            let took = cost(|| {
                let snapshot = cache.store().snapshot();
                let mut scan = snapshot
                    .scan(Some(&from), Some(&to), Direction::Forward)
                    .unwrap();
                assert_eq!(scan.next().unwrap().unwrap().key, key(table, dead));
                let stats = scan.stats();
                steps = stats.next + stats.prev + stats.seek;
            });
            println!("  {dead:>6} dead, {what:<28} {took:>10.2} {steps:>8}");
        };
        measure("engine");
        cache.maintain();
        measure("gap that a scan has met");
        cache.drop_range(None, None);
        cache.load(Some(&from), Some(&to)).unwrap();
        measure("held");
        cache.drop_range(None, None);
    }
}

fn points(cache: &RangeCache) {
    println!("a get: microseconds");
    let rows = 100_000;
    for n in 0..rows {
        put(cache, &key(9, n));
    }
    cache
        .store()
        .db()
        .column_family("versions")
        .unwrap()
        .flush()
        .unwrap();
    let (from, to) = (key(9, 0), key(10, 0));
    let measure = |what: &str, offset: u64| {
        let snapshot = cache.store().snapshot();
        let mut n = 0_u64;
        let took = cost(|| {
            n = n.wrapping_add(7_919);
            let mut key = key(9, n % rows);
            key.resize(key.len() + offset as usize, b'x');
            assert_eq!(snapshot.get(&key).unwrap().is_some(), offset == 0);
        });
        println!("  {what:<36} {took:>10.2}");
    };
    measure("engine", 0);
    measure("engine, no such key", 1);
    cache.load(Some(&from), Some(&to)).unwrap();
    measure("held", 0);
    measure("held, no such key", 1);
    let stats = cache.stats();
    let each = stats.memory_used / rows;
    println!("  {each} bytes a row, {} segments", stats.segments);
    cache.drop_range(None, None);
}

fn commits(cache: &RangeCache) {
    println!("a commit of one new row of 100 bytes: microseconds");
    let measure = |what: &str, table: u8, is_ascending: bool| {
        let mut n = 0_u64;
        let took = cost(|| {
            n += 1;
            let key = match is_ascending {
                true => key(table, n),
                false => key(table, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16),
            };
            put(cache, &key);
        });
        println!("  {what:<36} {took:>10.2}");
    };
    measure("not held, ascending keys", 20, true);
    measure("not held, random keys", 21, false);
    cache.load(Some(&key(22, 0)), Some(&key(24, 0))).unwrap();
    measure("held, ascending keys", 22, true);
    measure("held, random keys", 23, false);
    cache.audit().unwrap();
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    queues(&cache);
    points(&cache);

    commits(&cache);
    cache.close().unwrap();
}
