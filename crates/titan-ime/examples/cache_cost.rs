//! Reads and writes a range that the cache holds, each way in a function of its own, of [`KEYS`]
//! rows, so that `cargo xtask instructions` can count what each costs.

#![allow(clippy::unwrap_used, missing_docs, reason = "a program for measuring")]

use std::hint::black_box;
use std::time::Duration;

use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::{Direction, Snapshot, Store, StoreOptions};

const KEYS: u32 = 10_000;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

#[inline(never)]
fn measured_get(snapshot: &Snapshot) {
    for n in 0..KEYS {
        black_box(snapshot.get(&key(n.wrapping_mul(7919) % KEYS)).unwrap());
    }
}

#[inline(never)]
fn measured_miss(snapshot: &Snapshot) {
    for n in 0..KEYS {
        black_box(snapshot.get(&key(KEYS + n)).unwrap());
    }
}

#[inline(never)]
fn measured_forward(snapshot: &Snapshot) {
    let scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    assert_eq!(scan.map(black_box).count() as u32, KEYS);
}

#[inline(never)]
fn measured_backward(snapshot: &Snapshot) {
    let scan = snapshot.scan(None, None, Direction::Backward).unwrap();
    assert_eq!(scan.map(black_box).count() as u32, KEYS);
}

#[inline(never)]
fn measured_commit(store: &Store) {
    for n in 0..KEYS {
        let mut transaction = store.begin();
        transaction.put(&key(n), b"another value");
        transaction.commit().unwrap();
    }
}

fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = CacheOptions {
        maintenance: None,
        chooses: false,
        safe_lag: Duration::ZERO,
        ..CacheOptions::default()
    };
    let cache = RangeCache::open(dir.path(), &StoreOptions::default(), &options).unwrap();
    let store = cache.store();
    for round in 0..3_u32 {
        for n in 0..KEYS {
            let mut transaction = store.begin();
            transaction.put(&key(n), &[round as u8; 100]);
            transaction.commit().unwrap();
        }
    }
    cache.load(None, None).unwrap();
    let snapshot = store.snapshot();
    measured_get(&snapshot);
    measured_miss(&snapshot);
    measured_forward(&snapshot);
    measured_backward(&snapshot);
    measured_commit(store);
    drop(snapshot);
    cache.close().unwrap();
}
