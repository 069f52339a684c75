//! `mvcc export` and `mvcc import`; `ingest` and `load --bulk`.
//!
//! | module | has |
//! |---|---|
//! | `stores` | stores in directories, files that are cut, damaged or others |
//! | `nodes` | nodes at an address |
//! | `tables` | tables made elsewhere |
//! | `bulk` | rows that go to tables |

mod bulk;
#[cfg(feature = "tikv")]
mod nodes;
mod stores;
mod tables;

use std::fs;
use std::path::Path;

use serde_json::Value;
use titan_mvcc::{Direction, Store, StoreOptions};

use crate::Place;

/// Pairs in the order of their keys.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn open(dir: impl AsRef<Path>) -> Store {
    let options = StoreOptions {
        retention: None,
        ..StoreOptions::default()
    };
    Store::open(dir, &options).unwrap()
}

/// Commits rows to a store, which is made if it is missing.
fn fill(dir: impl AsRef<Path>, rows: &[(Vec<u8>, Vec<u8>)]) {
    let store = open(dir);
    for some in rows.chunks(1000) {
        let mut transaction = store.begin();
        some.iter()
            .for_each(|(key, value)| transaction.put(key, value));
        transaction.commit().unwrap();
    }
    store.close().unwrap();
}

/// The rows of a store.
fn rows_of(dir: impl AsRef<Path>) -> Rows {
    let store = open(dir);
    let scan = store.snapshot().scan(None, None, Direction::Forward);
    let row = |row: titan_mvcc::Result<titan_mvcc::Row>| {
        let row = row.unwrap();
        (row.key, row.value.fetch().unwrap().to_vec())
    };
    let rows = scan.unwrap().map(row).collect();
    store.close().unwrap();
    rows
}

/// Bytes that compress badly.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| byte()).collect()
}

/// Rows of all shapes: keys that begin each other, bytes, empty values, values of several blocks.
fn shapes() -> Rows {
    let mut rows: Rows = (0..300_u32)
        .map(|n| {
            (
                format!("row {n:04}").into_bytes(),
                n.to_string().into_bytes(),
            )
        })
        .collect();
    for (n, len) in [0, 1, 8, 9, 700_000, 3 << 20, 5 << 20]
        .into_iter()
        .enumerate()
    {
        rows.push((format!("value {n}").into_bytes(), noise(n as u64, len)));
    }
    for key in [
        &b"\0"[..],
        b"\0\0",
        b"\0\xff",
        b"\xff",
        b"\xff\xff",
        b"\xff\xff\0",
    ] {
        rows.push((key.to_vec(), key.repeat(3)));
    }
    rows.sort();
    rows
}

fn export(place: &Place, more: &[&str]) -> Value {
    place.json(&[&["mvcc", "export", "--json"], more].concat())
}

fn import(place: &Place, more: &[&str]) -> Value {
    place.json(&[&["mvcc", "import", "--json"], more].concat())
}

/// Standard error of an export that fails.
fn no_export(place: &Place, more: &[&str]) -> String {
    place.refused(&[&["mvcc", "export"], more].concat())
}

/// Standard error of an import that fails.
fn no_import(place: &Place, more: &[&str]) -> String {
    place.refused(&[&["mvcc", "import"], more].concat())
}

/// Cuts a file.
fn cut(path: &Path, len: usize) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..len]).unwrap();
}
