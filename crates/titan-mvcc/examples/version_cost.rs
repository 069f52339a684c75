//! Reads and writes versions that are in the engine alone.

#![allow(clippy::unwrap_used, missing_docs, reason = "a program for measuring")]

mod measured;

use titan_mvcc::{Store, StoreOptions};

fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
    measured::fill(&store);
    store.db().flush().unwrap();
    store.drop_old_versions().unwrap();
    measured::measure(&store);
    store.close().unwrap();
}
