//! Reads and writes versions in a range that the cache holds.

#![allow(clippy::unwrap_used, missing_docs, reason = "a program for measuring")]

#[path = "../../titan-mvcc/examples/measured/mod.rs"]
mod measured;

use std::time::Duration;

use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::StoreOptions;

fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = CacheOptions {
        maintenance: None,
        chooses: false,
        safe_lag: Duration::ZERO,
        ..CacheOptions::default()
    };
    let cache = RangeCache::open(dir.path(), &StoreOptions::default(), &options).unwrap();
    measured::fill(cache.store());
    cache.load(None, None).unwrap();
    measured::measure(cache.store());
    cache.close().unwrap();
}
