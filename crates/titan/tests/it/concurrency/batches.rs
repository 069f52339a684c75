//! Readers see whole batches, and a batch that fails does not affect others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use titan::{ColumnFamilyOptions, Db, ErrorKind, Options, ReadOptions, WriteBatch, WriteOptions};
use titan_testkit::sim::{OpKind, SimVfs};

use super::{Act, Gate, busy, come_and_go, compare_pairs, disturb, repeat, write_pair};
use crate::support::{DIR, eventually, key, manual, open, options, scaled, value};

fn everything_at_once(path: &Path, options: &Options, batches: u64) {
    let db = Db::open(path, options).unwrap();
    let a = db.create_column_family("a", busy()).unwrap();
    let b = db.create_column_family("b", busy()).unwrap();
    let writing = AtomicU64::new(3);
    let others: [Act<'_>; 4] = [
        &|rng| compare_pairs(&db, &a, &b, rng),
        &|rng| compare_pairs(&db, &a, &b, rng),
        &|rng| disturb(&db, [&a, &b], rng),
        &|rng| come_and_go(&db, rng),
    ];
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (db, a, b, writing) = (&db, &a, &b, &writing);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                let written = (0..batches).try_for_each(|_| write_pair(db, a, b, &mut rng));
                writing.fetch_sub(1, Ordering::SeqCst);
                written.unwrap();
            });
        }
        for (seed, act) in others.into_iter().enumerate() {
            let over = || writing.load(Ordering::SeqCst) == 0;
            scope.spawn(move || repeat(seed as u64, act, over).unwrap());
        }
    });
    compare_pairs(&db, &a, &b, &mut fastrand::Rng::with_seed(1)).unwrap();
    assert!(db.background_error().is_none());
    db.close().unwrap();
    drop((a, b, db));
    let db = Db::open(path, options).unwrap();
    let (a, b) = (
        db.column_family("a").unwrap(),
        db.column_family("b").unwrap(),
    );
    for seed in 0..20 {
        compare_pairs(&db, &a, &b, &mut fastrand::Rng::with_seed(seed)).unwrap();
    }
}

#[test]
fn batches_are_seen_whole_in_memory() {
    let vfs = SimVfs::new();
    everything_at_once(Path::new(DIR), &options(&vfs, busy()), scaled(1500));
}

#[test]
fn batches_are_seen_whole_on_a_real_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        default: busy(),
        ..Options::default()
    };
    everything_at_once(dir.path(), &options, scaled(400));
}

#[test]
fn a_batch_for_a_dropped_family_fails_alone() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    let gone = db.create_column_family("gone", manual()).unwrap();
    db.drop_column_family(&gone).unwrap();
    let gate = Gate::shut_at(&vfs, |call| call.kind == OpKind::Append);
    std::thread::scope(|scope| {
        // One write blocks the queue, so that the others are committed together.
        let first = scope.spawn(|| db.put(b"first", b"1"));
        eventually("the first write", || {
            gate.waiting.load(Ordering::SeqCst) == 1
        });
        let (db, gone) = (&db, &gone);
        let started = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..8)
            .map(|i| {
                let started = Arc::clone(&started);
                scope.spawn(move || {
                    started.fetch_add(1, Ordering::SeqCst);
                    if i % 3 == 0 {
                        gone.put(&key(i), b"lost")
                    } else {
                        db.put(&key(i), b"kept")
                    }
                })
            })
            .collect();
        eventually("writers", || started.load(Ordering::SeqCst) == 8);
        gate.open();
        first.join().unwrap().unwrap();
        for (i, writer) in writers.into_iter().enumerate() {
            let written = writer.join().unwrap();
            match written {
                Ok(()) => assert!(i % 3 != 0),
                Err(e) => assert!(
                    i % 3 == 0 && e.kind() == ErrorKind::InvalidArgument,
                    "{i}: {e}"
                ),
            }
            assert_eq!(db.contains_key(&key(i)).unwrap(), i % 3 != 0);
        }
    });
}

#[test]
fn a_large_batch_is_seen_whole() {
    let db = open(&options(&SimVfs::new(), ColumnFamilyOptions::default()));
    let done = AtomicBool::new(false);
    let keys = 5000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20 {
                let mut batch = WriteBatch::new();
                for i in 0..keys {
                    batch.put(&*db, key(i), value(round, 8)).unwrap();
                }
                db.write(batch, &WriteOptions::default()).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let options = ReadOptions {
                snapshot: Some(db.snapshot()),
                ..ReadOptions::default()
            };
            let first = db.get_with(&key(0), &options).unwrap();
            assert_eq!(db.get_with(&key(keys - 1), &options).unwrap(), first);
        }
    });
}
