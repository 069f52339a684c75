//! Failures of one database, and the others of its `Env` that go on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use titan::{
    Comparator, Db, Env, EnvOptions, ErrorKind, EventListener, FlushBeginEvent, WriteOptions,
};
use titan_testkit::child::in_child;
use titan_testkit::clock::SimClock;
use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};

use super::{elsewhere, in_env};
use crate::support::{Hopeless, eventually, key, value};

/// With two threads: jobs that occupy both would block everything.
fn small_env() -> Env {
    Env::new(EnvOptions {
        max_background_jobs: 2,
        ..EnvOptions::default()
    })
    .unwrap()
}

fn assert_works(db: &Db) {
    let flushes = db.statistics().flushes();
    for n in 0..10 {
        db.put(&key(n), &value(n, 200)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.statistics().flushes(), flushes + 1);
    assert_eq!(db.get(&key(7)).unwrap().unwrap(), value(7, 200));
}

#[test]
fn a_listener_that_panics_harms_no_database() {
    let (env, vfs) = (small_env(), SimVfs::new());
    let mut options = in_env(&env, &vfs);
    let quiet = Db::open("/quiet", &options).unwrap();
    options.db.listeners = vec![Arc::new(Hopeless)];
    let hopeless = Db::open("/hopeless", &options).unwrap();
    for _ in 0..5 {
        assert_works(&hopeless);
        assert_works(&quiet);
    }
    assert!(hopeless.statistics().listener_panics() >= 15);
    assert_eq!(quiet.statistics().listener_panics(), 0);
    assert_eq!(env.usage().threads, 3);
}

/// Panics from some comparison on.
#[derive(Debug)]
struct Fragile {
    left: Arc<AtomicUsize>,
}

impl Comparator for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let left = &self.left;
        let counted = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            Some(left.saturating_sub(1))
        });
        assert_ne!(counted, Ok(0), "no comparison is left");
        a.cmp(b)
    }
}

#[test]
fn a_panic_in_a_job_stops_writes_of_its_database_alone() {
    let (env, vfs) = (small_env(), SimVfs::new());
    let options = in_env(&env, &vfs);
    let others = [1, 2].map(|n| Db::open(format!("/other{n}"), &options).unwrap());
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let mut fragile = options.clone();
    fragile.default.comparator = Arc::new(Fragile {
        left: Arc::clone(&left),
    });
    let broken = Db::open("/broken", &fragile).unwrap();
    for n in 0..10 {
        broken.put(&key(n), &value(n, 200)).unwrap();
    }
    // The job on a background thread compares keys.
    left.store(1, Ordering::SeqCst);
    assert_eq!(broken.flush().unwrap_err().kind(), ErrorKind::WritesStopped);
    left.store(usize::MAX, Ordering::SeqCst);
    others.iter().for_each(assert_works);
    assert_eq!(env.usage().threads, 3);
    broken.resume().unwrap();
    assert_works(&broken);
}

#[test]
fn a_full_device_of_one_database_concerns_no_other() {
    let (env, full, vfs) = (small_env(), SimVfs::new(), SimVfs::new());
    let options = in_env(&env, &vfs);
    let db = Db::open("/db", &options).unwrap();
    let lacking = Db::open("/db", &elsewhere(&options, &full)).unwrap();
    lacking.put("k", value(1, 200)).unwrap();
    let fault = Fault::on([OpKind::Append]).path("*.sst").forever();
    full.inject(fault.error(Errno::NO_SPACE));
    assert_eq!(lacking.flush().unwrap_err().kind(), ErrorKind::NoSpace);
    assert_works(&db);
    full.clear_faults();
    lacking.flush().unwrap();
    assert_works(&lacking);
}

#[test]
fn databases_with_different_clocks_and_file_systems_share_an_env() {
    let (env, vfs) = (small_env(), SimVfs::new());
    let usual = Db::open("/db", &in_env(&env, &vfs)).unwrap();
    let mut options = elsewhere(&in_env(&env, &vfs), &SimVfs::new());
    options.db.clock = Arc::new(SimClock::with_seed(1));
    let own_clock = Db::open("/db", &options).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut options = in_env(&env, &vfs);
    options.db.vfs = Arc::new(titan::vfs::StdVfs);
    let on_disk = Db::open(dir.path(), &options).unwrap();
    for db in [&usual, &own_clock, &on_disk] {
        assert_works(db);
    }
    for db in [&own_clock, &usual, &on_disk] {
        db.close().unwrap();
    }
    assert_eq!(env.usage().threads, 0);
}

/// Drops the last handle of its database when a flush begins and others are gone.
struct Last {
    db: Mutex<Option<Db>>,
    /// Ends when they are.
    told: Mutex<Receiver<()>>,
}

impl EventListener for Last {
    fn flush_begun(&self, _: &FlushBeginEvent) {
        let _ = self.told.lock().unwrap().recv();
        drop(self.db.lock().unwrap().take());
    }
}

/// The job cannot be waited for on its own thread; the directory is free once it has ended.
#[test]
fn a_database_that_is_closed_in_its_own_job_gives_its_directory_free() {
    is_closed_in_its_own_job(WriteOptions::default());
}

/// Closing flushes writes that no log has, and so waits for the flush that calls it.
#[test]
fn a_database_with_unlogged_writes_may_be_closed_in_its_own_job() {
    is_closed_in_its_own_job(WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    });
}

fn is_closed_in_its_own_job(writes: WriteOptions) {
    let (env, vfs) = (small_env(), SimVfs::new());
    let options = in_env(&env, &vfs);
    let other = Db::open("/other", &options).unwrap();
    let (tell, told) = mpsc::channel();
    let last = Arc::new(Last {
        db: Mutex::default(),
        told: Mutex::new(told),
    });
    let mut listened = options.clone();
    listened.db.listeners = vec![Arc::clone(&last) as _];
    listened.default.write_buffer_size = 64 << 10;
    let db = Db::open("/db", &listened).unwrap();
    *last.db.lock().unwrap() = Some(db.clone());
    // The full memtable is flushed by a background thread.
    db.put_with(b"k", value(1, 70_000), &writes).unwrap();
    db.put_with(b"l", value(2, 10), &writes).unwrap();
    drop(db);
    drop(tell);
    eventually("the database is closed", || env.usage().databases == 1);
    assert_works(&other);
    eventually("the directory is free", || {
        match Db::open("/db", &options) {
            Ok(db) => {
                assert_eq!(db.get(b"k").unwrap().unwrap(), value(1, 70_000));
                assert_eq!(db.get(b"l").unwrap().unwrap(), value(2, 10));
                true
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
                false
            }
        }
    });
}

/// The threads are not in a child of the process: a database there would wait for them for ever.
#[test]
fn a_child_of_the_process_must_make_an_env_of_its_own() {
    let (env, vfs) = (small_env(), SimVfs::new());
    let options = in_env(&env, &vfs);
    let dir = tempfile::tempdir().unwrap();
    let mut on_disk = options.clone();
    on_disk.db.vfs = Arc::new(titan::vfs::StdVfs);
    in_child(60, || {
        let error = Db::open(dir.path(), &on_disk).err().ok_or("it is opened")?;
        match error.kind() == ErrorKind::InvalidOption {
            true => Ok(()),
            false => Err(error.to_string()),
        }
    })
    .unwrap();
    assert_works(&Db::open(dir.path(), &on_disk).unwrap());
}
