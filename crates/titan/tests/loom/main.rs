//! Closing a whole database under every schedule with few preemptions: no job starts afterwards,
//! running jobs are waited for, and no thread is left waiting. Only in builds with `--cfg loom`.
#![cfg(loom)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loom::thread;
use titan::vfs::Vfs;
use titan::{ColumnFamilyOptions, Db, DbOptions, ErrorKind, Options};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

/// In words: opening and compacting need more stack than the threads of a model have.
const STACK: usize = 1 << 17;

fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    let builder = thread::Builder::new().stack_size(STACK);
    builder.spawn(body).unwrap()
}

/// Runs `user` beside closing, on a database with one unflushed entry.
fn closes_beside(preemptions: usize, user: fn(&Db) -> titan::Result<()>) {
    let schedules = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&schedules);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 100_000;
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        spawn(move || close_once(user)).join().unwrap();
    });
    println!("{schedules:?} schedules, up to {preemptions} preemptions each");
}

fn close_once(user: fn(&Db) -> titan::Result<()>) {
    let vfs = SimVfs::new();
    let options = Options {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            clock: Arc::new(SimClock::with_seed(1)),
            max_background_jobs: 1,
            block_cache_size: 0,
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            bloom_bits_per_key: 0.0,
            num_levels: 2,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open("/db", &options).unwrap();
    db.put(b"key", b"value").unwrap();
    let closed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&closed);
    vfs.set_hook(move |call| assert!(!seen.load(Ordering::Relaxed), "{call:?} after closing"));
    let other = db.clone();
    let other = spawn(move || user(&other));
    db.close().unwrap();
    closed.store(true, Ordering::Relaxed);
    if let Err(e) = other.join().unwrap() {
        assert_eq!(e.kind(), ErrorKind::Closed);
    }
    assert_eq!(db.get(b"key").unwrap_err().kind(), ErrorKind::Closed);
    drop(db);
    vfs.clear_hook();
    assert!(vfs.lock(Path::new("/db/LOCK")).is_ok());
}

#[test]
fn closing_beside_nothing() {
    closes_beside(2, |_| Ok(()));
}

#[test]
fn closing_beside_a_write() {
    closes_beside(2, |db| db.put(b"other", b"value"));
}

#[test]
fn closing_beside_a_flush() {
    closes_beside(2, |db| db.flush());
}

#[test]
fn closing_beside_closing() {
    closes_beside(2, Db::close);
}
