//! What the range cache saves a reader and costs a writer, in processor time of the thread, on a store in a directory
//! of its own. Prints a table.
//!
//! ```text
//! cargo run --release -p titan-ime --example costs [queues|points|commits]
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
        chooses: false,
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

/// A commit of `rows` new rows.
fn commit(cache: &RangeCache, keys: &mut dyn Iterator<Item = Vec<u8>>, rows: usize) {
    let mut transaction = cache.store().begin();
    for key in keys.take(rows) {
        transaction.put(&key, &[7; 80]);
    }
    transaction.commit().unwrap();
}

/// Commits go to a table that is held and to one that is not, in turn. What does a round of the one cost, as a part of the
/// round of the other before it?
fn commits(cache: &RangeCache) {
    println!(
        "commits of new rows of 100 bytes, not held and held in turn: microseconds a row, ratio of both"
    );
    const ROWS: usize = 20_000;
    let mut table = 20;
    for is_ascending in [true, false] {
        for rows in [1, 10, 100] {
            let keys = |table: u8| {
                (1..).map(move |n: u64| match is_ascending {
                    true => key(table, n),
                    false => key(table, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16),
                })
            };
            let (mut not_held, mut held) = (keys(table), keys(table + 1));
            commit(cache, &mut not_held, ROWS);
            commit(cache, &mut held, ROWS);
            cache
                .load(Some(&key(table + 1, 0)), Some(&key(table + 2, 0)))
                .unwrap();
            table += 2;
            let round = |keys: &mut dyn Iterator<Item = Vec<u8>>| {
                let before = processor_time();
                for _ in 0..ROWS / rows {
                    commit(cache, keys, rows);
                }
                (processor_time() - before).as_secs_f64() * 1e6 / ROWS as f64
            };
            let mut pairs: Vec<(f64, f64)> = (0..9)
                .map(|_| (round(&mut not_held), round(&mut held)))
                .collect();
            pairs.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
            let (a, b) = pairs[pairs.len() / 2];
            let order = ["random", "ascending"][usize::from(is_ascending)];
            println!(
                "  {order:<10} {rows:>4} a commit {a:>10.2} {b:>8.2} {:>8.2}",
                b / a
            );
        }
    }
    cache.audit().unwrap();
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let only = std::env::args().nth(1);
    let is_asked = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if is_asked("queues") {
        queues(&cache);
    }
    if is_asked("points") {
        points(&cache);
    }
    if is_asked("commits") {
        commits(&cache);
    }
    cache.close().unwrap();
}
