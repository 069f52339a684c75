//! Time until garbage is found, and the rest of it in an idle database.

use std::sync::Arc;

use parking_lot::Mutex;
use titan::{ColumnFamilyId, ColumnFamilyOptions, Db, EventListener, Options, StallEvent};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

use super::{KEYS, LEN, checked};
use crate::support::{collecting, eventually, key, open, options, value};

/// Compacts automatically; the number of tables at level 0 alone causes compactions late.
fn automatic() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        disable_auto_compactions: false,
        level0_file_num_compaction_trigger: 10,
        write_buffer_size: 64 << 10,
        ..collecting()
    }
}

fn put_all(db: &Db, round: usize) {
    for n in 0..KEYS {
        db.put(&key(n), &value(round * KEYS + n, LEN)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

fn same(db: &Db, round: usize) {
    for n in 0..KEYS {
        let found = db.get(&key(n)).unwrap().unwrap();
        assert_eq!(found, value(round * KEYS + n, LEN));
    }
}

fn blob_bytes(db: &Db) -> u64 {
    let metrics = db.metrics();
    metrics.families.iter().map(|f| f.blob_bytes).sum()
}

const LIVE: u64 = (KEYS * LEN) as u64;

#[test]
fn what_flushes_hide_is_found_before_there_are_many_tables() {
    for collects in [false, true] {
        let vfs = SimVfs::new();
        let family = ColumnFamilyOptions {
            enable_blob_garbage_collection: collects,
            write_buffer_size: 1 << 20,
            max_space_amp: 1.1,
            ..automatic()
        };
        let options = options(&vfs, family);
        let db = open(&options);
        let rounds = 7;
        for round in 0..rounds {
            put_all(&db, round);
        }
        match collects {
            // Each round shadows 200 KB: five of them are more than a write buffer.
            true => assert!(blob_bytes(&db) < 6 * LIVE, "{}", blob_bytes(&db)),
            false => assert!(blob_bytes(&db) > 7 * LIVE, "{}", blob_bytes(&db)),
        }
        same(&db, rounds - 1);
        db.close().unwrap();
        checked(&options);
    }
}

#[test]
fn new_keys_hide_nothing() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        write_buffer_size: 1 << 20,
        max_space_amp: 1.1,
        ..automatic()
    };
    let options = options(&vfs, family);
    let db = open(&options);
    for round in 0..8 {
        for n in 0..KEYS {
            // Keys between the existing ones.
            db.put(&key(n * 10 + round), &value(n, LEN)).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    assert_eq!(db.statistics().compactions(), 0);
    db.close().unwrap();
}

#[test]
fn what_a_snapshot_kept_goes_after_it() {
    let vfs = SimVfs::new();
    let options = options(&vfs, automatic());
    let db = open(&options);
    put_all(&db, 0);
    let snapshot = db.snapshot();
    put_all(&db, 1);
    db.compact_range(None, None, &Default::default()).unwrap();
    db.wait_idle().unwrap();
    assert!(blob_bytes(&db) > 2 * LIVE, "both versions live");
    drop(snapshot);
    // No other event causes background jobs.
    eventually("what the snapshot kept", || blob_bytes(&db) < LIVE * 5 / 4);
    same(&db, 1);
    db.close().unwrap();
    checked(&options);
}

#[test]
fn a_database_that_is_left_alone_settles() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        write_buffer_size: 64 << 20,
        ..automatic()
    };
    let mut options: Options = options(&vfs, family);
    options.db.clock = Arc::new(SimClock::with_seed(1));
    let db = open(&options);
    put_all(&db, 0);
    for n in 0..KEYS {
        db.put(&key(n), &value(KEYS + n, LEN)).unwrap();
    }
    // All of it is in the memtable; the clock advances by itself.
    eventually("settling", || {
        db.wait_idle().unwrap();
        db.metrics().families[0].memtable_bytes < LIVE / 10 && blob_bytes(&db) < LIVE * 5 / 4
    });
    same(&db, 1);
    db.close().unwrap();
    checked(&options);
    same(&open(&options), 1);
}

#[test]
fn a_write_buffer_too_large_for_the_bound_is_told() {
    #[derive(Default)]
    struct Told(Mutex<Vec<u64>>);
    impl EventListener for Told {
        fn space_bound_loosened(&self, _: ColumnFamilyId, bytes: u64) {
            self.0.lock().push(bytes);
        }
    }
    for (write_buffer_size, told) in [(64 << 20, vec![]), (100 << 20, vec![400 << 20])] {
        let vfs = SimVfs::new();
        let family = ColumnFamilyOptions {
            write_buffer_size,
            ..collecting()
        };
        let mut options = options(&vfs, family);
        let listener = Arc::new(Told::default());
        options.db.listeners.push(Arc::clone(&listener) as Arc<_>);
        let db = open(&options);
        assert_eq!(*listener.0.lock(), told);
        db.put(b"k", b"v").unwrap();
        assert_eq!(db.metrics().families[0].stall, StallEvent::Normal);
    }
}
