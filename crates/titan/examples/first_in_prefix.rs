//! Compares the point read within a prefix with a get, on the same data in the same process:
//!
//! ```text
//! cargo run --release -p titan --example first_in_prefix [DIRECTORY]
//! ```
//!
//! 100,000 keys of 16 bytes have ten versions each: a key with a suffix of 8 bytes, and a value of 100
//! bytes. Rounds of each kind of read alternate; the ratio is that of the medians. The blocks fit the
//! block cache, or, with a cache of 1 MiB, come from the kernel's page cache.

#![allow(clippy::disallowed_methods, reason = "it measures times")]

use std::error::Error;
use std::time::Instant;

use titan::{CompactRangeOptions, Db, Options, ReadOptions, prefix};

const KEYS: u64 = 100_000;
const VERSIONS: u64 = 10;
const READS: usize = 100_000;
const ROUNDS: usize = 7;

fn key(number: u64, version: u64) -> Vec<u8> {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .into_bytes()
        .into_iter()
        .chain((u64::MAX - version).to_be_bytes())
        .collect()
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args()
        .nth(1)
        .map_or(temporary.path().to_owned(), Into::into);
    for (what, cache) in [("block cache", 512 << 20), ("page cache", 1 << 20)] {
        let mut options = Options::default();
        options.default.prefix_extractor = Some(prefix::fixed(16));
        options.db.block_cache_size = cache;
        let dir = dir.join(what.replace(' ', "-"));
        let db = Db::open(&dir, &options)?;
        for version in 0..VERSIONS {
            for number in 0..KEYS {
                db.put(&key(number, version), &[b'v'; 100])?;
            }
        }
        db.compact_range(None, None, &CompactRangeOptions::default())?;
        db.wait_idle()?;
        let mut random = fastrand::Rng::with_seed(1);
        let (mut gets, mut firsts, mut seeks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let wanted: Vec<u64> = (0..READS).map(|_| random.u64(..KEYS)).collect();
            let started = Instant::now();
            for number in &wanted {
                assert!(db.get(&key(*number, VERSIONS - 1))?.is_some());
            }
            gets.push(READS as f64 / started.elapsed().as_secs_f64());
            let started = Instant::now();
            for number in &wanted {
                let from = key(*number, VERSIONS - 1);
                let found = db.first_in_prefix(&from, &from[..16])?;
                assert!(found.is_some_and(|(found, value)| found == from && value.fetch().is_ok()));
            }
            firsts.push(READS as f64 / started.elapsed().as_secs_f64());
            let started = Instant::now();
            for number in &wanted {
                let from = key(*number, VERSIONS - 1);
                let mut iter = db.iter(&ReadOptions {
                    prefix: Some(from[..16].to_vec()),
                    ..ReadOptions::default()
                })?;
                iter.seek(&from)?;
                assert!(iter.valid());
            }
            seeks.push(READS as f64 / started.elapsed().as_secs_f64());
        }
        let (get, first, seek) = (median(gets), median(firsts), median(seeks));
        println!(
            "{what}: {get:.0} gets/s, first_in_prefix {first:.0}/s = {:.2} of that, an iterator {seek:.0}/s",
            first / get
        );
        db.close()?;
    }
    Ok(())
}
