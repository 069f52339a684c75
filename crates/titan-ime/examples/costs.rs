//! Measures what the range cache saves a reader and costs a writer, on a store in a directory of
//! its own. Prints tables.

#![allow(
    clippy::unwrap_used,
    reason = "an example shows the calls, and ends where one fails"
)]

use std::time::{Duration, Instant};

use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::{Direction, StoreOptions};

/// Processor time of this thread so far; zero where the system does not say it.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// The same of the thread that puts writes into the segments.
fn applier_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let name = |task: &std::path::Path| std::fs::read_to_string(task.join("comm"));
    let mut tasks = tasks.filter_map(|task| Some(task.ok()?.path()));
    let applier = tasks.find(|task| name(task).is_ok_and(|name| name.trim() == "titan-ime-apply"));
    let stat = applier.and_then(|task| std::fs::read_to_string(task.join("schedstat")).ok());
    let nanos = stat.and_then(|stat| stat.split(' ').next()?.parse().ok());
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
        // The thread that puts writes into the segments is there, and maintenance does not come by
        // itself.
        maintenance: Some(Duration::from_secs(100_000)),
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

/// The cost of a round of commits.
struct Round {
    passed: Duration,
    /// Of the thread that commits, and of the one that puts writes into the segments.
    processor: [Duration; 2],
    /// The 99th percentile of a commit.
    p99: Duration,
}

impl Round {
    fn of(cache: &RangeCache, keys: &mut dyn Iterator<Item = Vec<u8>>, rows: usize) -> Round {
        let processor = || [processor_time(), applier_time()];
        let (begun, before) = (Instant::now(), processor());
        let mut last = begun;
        let mut took: Vec<Duration> = (0..ROWS / rows)
            .map(|_| {
                commit(cache, keys, rows);
                let now = Instant::now();
                now - std::mem::replace(&mut last, now)
            })
            .collect();
        let after = processor();
        took.sort();
        Round {
            passed: begun.elapsed(),
            processor: [after[0] - before[0], after[1] - before[1]],
            p99: took[took.len() * 99 / 100],
        }
    }
}

/// Rows of a round.
const ROWS: usize = 20_000;

/// Commits go to a table that is held and to one that is not, in turn. What does a round of the one
/// cost, as a part of the round of the other before it?
fn commits(cache: &RangeCache) {
    println!("commits of new rows of 100 bytes, not held and held in turn: microseconds a row");
    println!(
        "  time that passes, not held, held; ratio; ratio of the 99th percentiles; processor time of the thread, ratio; of the other thread"
    );
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
            let pairs: Vec<[Round; 2]> = (0..15)
                .map(|_| {
                    let pair = [
                        Round::of(cache, &mut not_held, rows),
                        Round::of(cache, &mut held, rows),
                    ];
                    // What is left is no cost of the next round.
                    let _ = cache.stats();
                    pair
                })
                .collect();
            let median = |of: &dyn Fn(&[Round; 2]) -> f64| {
                let mut all: Vec<f64> = pairs.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            };
            let each = |time: Duration| time.as_secs_f64() * 1e6 / ROWS as f64;
            let ratio = |pair: &[Round; 2], of: &dyn Fn(&Round) -> Duration| {
                of(&pair[1]).as_secs_f64() / of(&pair[0]).as_secs_f64()
            };
            println!(
                "  {:<10} {rows:>4} a commit {:>8.2} {:>6.2} {:>6.3} {:>6.2} {:>6.2} {:>6.2} {:>6.2}",
                ["random", "ascending"][usize::from(is_ascending)],
                median(&|pair| each(pair[0].passed)),
                median(&|pair| each(pair[1].passed)),
                median(&|pair| ratio(pair, &|round| round.passed)),
                median(&|pair| ratio(pair, &|round| round.p99)),
                median(&|pair| each(pair[0].processor[0])),
                median(&|pair| ratio(pair, &|round| round.processor[0])),
                median(&|pair| each(pair[1].processor[1])),
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
