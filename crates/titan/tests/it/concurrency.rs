//! Threads that write, read, flush, compact, create and drop families, and close, at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use titan::{
    ColumnFamily, ColumnFamilyId, ColumnFamilyOptions, CompactRangeOptions, CompactionEvent, Db,
    ErrorKind, EventListener, FlushEvent, Options, ReadOptions, Result, StallCause, StallEvent,
    WriteBatch, WriteOptions,
};
use titan_testkit::sim::{Fault, OpKind, SimVfs};

use crate::support::{DIR, eventually, key, manual, open, options, scaled, value};

fn busy() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 32 << 10,
        target_file_size_base: 8 << 10,
        min_blob_size: 100,
        ..ColumnFamilyOptions::default()
    }
}

/// Held open or shut by a test; who meets it shut waits.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicU64,
}

impl Gate {
    fn shut(&self) {
        *self.shut.lock() = true;
    }

    fn open(&self) {
        *self.shut.lock() = false;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut shut = self.shut.lock();
        if *shut {
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        while *shut {
            self.opened.wait(&mut shut);
        }
    }
}

#[derive(Default)]
struct Stalls(Mutex<Vec<StallEvent>>);

impl EventListener for Stalls {
    fn stall_changed(&self, _: ColumnFamilyId, event: StallEvent) {
        self.0.lock().push(event);
    }
}

/// Each key has the same value in both families, always: every batch says so.
fn write_pair(db: &Db, a: &ColumnFamily, b: &ColumnFamily, rng: &mut fastrand::Rng) -> Result<()> {
    let key = key(rng.usize(..50));
    let mut batch = WriteBatch::new();
    match rng.u8(..10) {
        0 => {
            batch.delete(a, &key)?;
            batch.delete(b, &key)?;
        }
        1 => {
            let other = crate::support::key(rng.usize(..50));
            let (from, to) = (key.clone().min(other.clone()), key.max(other));
            batch.delete_range(a, &from, &to)?;
            batch.delete_range(b, &from, &to)?;
        }
        _ => {
            let value = value(rng.usize(..), [5, 200, 900][rng.usize(..3)]);
            batch.put(a, &key, &value)?;
            batch.put(b, &key, &value)?;
        }
    }
    let options = WriteOptions {
        sync: rng.u8(..20) == 0,
        ..WriteOptions::default()
    };
    db.write(batch, &options)
}

fn compare_pairs(
    db: &Db,
    a: &ColumnFamily,
    b: &ColumnFamily,
    rng: &mut fastrand::Rng,
) -> Result<()> {
    let options = ReadOptions {
        snapshot: Some(db.snapshot()),
        prefetch_values: rng.usize(..10),
        ..ReadOptions::default()
    };
    if rng.bool() {
        let key = key(rng.usize(..50));
        let (in_a, in_b) = (a.get_with(&key, &options)?, b.get_with(&key, &options)?);
        assert!(in_a == in_b, "{key:?} torn apart");
        return Ok(());
    }
    let (mut in_a, mut in_b) = (a.iter(&options)?, b.iter(&options)?);
    in_a.seek_to_first()?;
    in_b.seek_to_first()?;
    while in_a.valid() && in_b.valid() {
        assert_eq!(in_a.key(), in_b.key(), "torn apart");
        assert!(
            in_a.value()? == in_b.value()?,
            "{:?} torn apart",
            in_a.key()
        );
        in_a.next()?;
        in_b.next()?;
    }
    assert_eq!(in_a.valid(), in_b.valid());
    Ok(())
}

fn disturb(db: &Db, families: [&ColumnFamily; 2], rng: &mut fastrand::Rng) -> Result<()> {
    let family = families[rng.usize(..2)];
    let compact = CompactRangeOptions {
        force_bottommost: rng.bool(),
    };
    match rng.u8(..6) {
        0 => family.flush(),
        1 => db.flush_all(),
        2 => family.compact_range(None, None, &compact),
        3 => family.compact_range(Some(&key(10)), Some(&key(30)), &compact),
        4 => db.sync_wal(),
        _ => {
            let _ = db.metrics();
            Ok(())
        }
    }
}

/// Creates a family, uses it, and drops it while another thread may still be writing to it.
fn come_and_go(db: &Db, rng: &mut fastrand::Rng) -> Result<()> {
    let name = format!("passing {}", rng.u64(..));
    let family = db.create_column_family(&name, busy())?;
    for i in 0..20 {
        family.put(&key(i), &value(i, 300))?;
    }
    if rng.bool() {
        family.flush()?;
    }
    let it = family.iter(&ReadOptions::default())?;
    std::thread::scope(|scope| {
        let late = scope.spawn(|| (0..50).find_map(|i| family.put(&key(i), b"late").err()));
        db.drop_column_family(&family)?;
        if let Some(e) = late.join().unwrap() {
            assert!(
                matches!(e.kind(), ErrorKind::InvalidArgument | ErrorKind::Closed),
                "{e}"
            );
        }
        assert!(family.put(b"k", b"v").is_err());
        assert!(family.flush().is_err(), "a dropped family is not flushed");
        assert!(family.iter(&ReadOptions::default()).is_err());
        drop(it);
        Ok(())
    })
}

type Act<'a> = &'a (dyn Fn(&mut fastrand::Rng) -> Result<()> + Sync);

/// Calls `act` until `over` says so, or it fails.
fn repeat(seed: u64, act: Act<'_>, over: impl Fn() -> bool) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    while !over() {
        act(&mut rng)?;
    }
    Ok(())
}

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
fn closing_ends_everything_and_nothing_is_touched_afterwards() {
    for seed in 0..scaled(15) {
        let vfs = SimVfs::new();
        let options = options(&vfs, busy());
        let db = open(&options);
        let a = db.create_column_family("a", busy()).unwrap();
        let b = db.create_column_family("b", busy()).unwrap();
        let written = AtomicU64::new(0);
        let closed = Arc::new(AtomicBool::new(false));
        let touched = Arc::new(Mutex::new(Vec::new()));
        let (is_closed, touches) = (Arc::clone(&closed), Arc::clone(&touched));
        vfs.set_hook(move |call| {
            let changes = !matches!(
                call.kind,
                OpKind::Open | OpKind::Read | OpKind::Stat | OpKind::ReadDir
            );
            if changes && is_closed.load(Ordering::SeqCst) {
                touches.lock().push(format!("{call:?}"));
            }
        });
        let acts: [Act<'_>; 6] = [
            &|rng| {
                written.fetch_add(1, Ordering::SeqCst);
                write_pair(&db, &a, &b, rng)
            },
            &|rng| write_pair(&db, &a, &b, rng),
            &|rng| compare_pairs(&db, &a, &b, rng),
            &|rng| disturb(&db, [&a, &b], rng),
            &|rng| disturb(&db, [&a, &b], rng),
            &|rng| come_and_go(&db, rng),
        ];
        std::thread::scope(|scope| {
            for (n, act) in acts.into_iter().enumerate() {
                scope.spawn(move || {
                    let e = repeat(seed * 10 + n as u64, act, || false).unwrap_err();
                    assert_eq!(e.kind(), ErrorKind::Closed, "seed {seed}, {n}: {e}");
                });
            }
            eventually("writes", || written.load(Ordering::SeqCst) > 40 * seed);
            db.close().unwrap();
            closed.store(true, Ordering::SeqCst);
            db.close().unwrap();
        });
        assert_eq!(*touched.lock(), [""; 0], "seed {seed}");
        vfs.clear_hook();
        drop((a, b, db));
        let db = open(&options);
        let (a, b) = (
            db.column_family("a").unwrap(),
            db.column_family("b").unwrap(),
        );
        for seed in 0..5 {
            compare_pairs(&db, &a, &b, &mut fastrand::Rng::with_seed(seed)).unwrap();
        }
    }
}

#[test]
fn closing_waits_for_a_compaction_that_a_user_runs() {
    let vfs = SimVfs::new();
    let options = options(&vfs, manual());
    let db = open(&options);
    for _ in 0..2 {
        for i in 0..100 {
            db.put(&key(i), &value(i, 200)).unwrap();
        }
        db.flush().unwrap();
    }
    let gate = Arc::new(Gate::default());
    let [done, late] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (hooked, is_done, is_late) = (Arc::clone(&gate), Arc::clone(&done), Arc::clone(&late));
    vfs.set_hook(move |call| {
        if call.kind == OpKind::Append && call.path.extension().is_some_and(|e| e == "sst") {
            hooked.pass();
        }
        is_late.fetch_or(is_done.load(Ordering::SeqCst), Ordering::SeqCst);
    });
    gate.shut();
    std::thread::scope(|scope| {
        let compact = scope.spawn(|| db.compact_range(None, None, &CompactRangeOptions::default()));
        eventually("the compaction", || gate.waiting.load(Ordering::SeqCst) > 0);
        let close = scope.spawn(|| {
            db.close().unwrap();
            done.store(true, Ordering::SeqCst);
        });
        eventually("closing", || db.get(b"k").is_err());
        assert!(!done.load(Ordering::SeqCst), "the compaction still writes");
        gate.open();
        close.join().unwrap();
        // It may have been through with its last entry when it was told to give up.
        let outcome = compact.join().unwrap();
        assert!(outcome.is_ok() || outcome.is_err_and(|e| e.kind() == ErrorKind::Closed));
        assert!(!late.load(Ordering::SeqCst), "written to after closing");
    });
    vfs.clear_hook();
    drop(db);
    let db = open(&options);
    for i in 0..100 {
        assert_eq!(db.get(&key(i)).unwrap().unwrap(), value(i, 200));
    }
}

#[test]
fn a_batch_for_a_dropped_family_fails_alone() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    let gone = db.create_column_family("gone", manual()).unwrap();
    db.drop_column_family(&gone).unwrap();
    let gate = Arc::new(Gate::default());
    let hooked = Arc::clone(&gate);
    vfs.set_hook(move |call| {
        if call.kind == OpKind::Append {
            hooked.pass();
        }
    });
    gate.shut();
    std::thread::scope(|scope| {
        // One holds the queue up, so that the others are committed together.
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
fn writes_wait_while_memtables_wait_for_their_flush() {
    let vfs = SimVfs::new();
    let stalls = Arc::new(Stalls::default());
    let mut options = options(
        &vfs,
        ColumnFamilyOptions {
            max_write_buffer_number: 2,
            ..busy()
        },
    );
    options.db.listeners.push(stalls.clone());
    let db = open(&options);
    let gate = Arc::new(Gate::default());
    let hooked = Arc::clone(&gate);
    vfs.set_hook(move |call| {
        if call.kind == OpKind::Create && call.path.extension().is_some_and(|e| e == "sst") {
            hooked.pass();
        }
    });
    gate.shut();
    let no_slowdown = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    let put = |i: usize| {
        let mut batch = WriteBatch::new();
        batch.put(&*db, key(i), value(i, 1000)).unwrap();
        db.write(batch, &no_slowdown)
    };
    let mut written = 0;
    let refused = loop {
        match put(written) {
            Ok(()) => written += 1,
            Err(e) => break e,
        }
        assert!(written < 1000, "memtables grow without limit");
    };
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert!(refused.to_string().contains("memtables"), "{refused}");
    assert_eq!(
        *stalls.0.lock(),
        [StallEvent::Stopped(StallCause::Memtables)]
    );
    assert_eq!(
        db.metrics().families[0].stall,
        StallEvent::Stopped(StallCause::Memtables)
    );
    assert_eq!(
        db.property("rocksdb.is-write-stopped").as_deref(),
        Some("1")
    );
    assert_eq!(
        db.get(&key(0)).unwrap().unwrap(),
        value(0, 1000),
        "reads go on"
    );
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| db.put(b"patient", b"1"));
        assert_eq!(db.get(b"patient").unwrap(), None);
        gate.open();
        waits.join().unwrap().unwrap();
    });
    eventually("the end of the stall", || {
        stalls.0.lock().last() == Some(&StallEvent::Normal)
    });
    put(written).unwrap();
    assert!(db.contains_key(b"patient").unwrap());
    for i in 0..=written {
        assert_eq!(db.get(&key(i)).unwrap().unwrap(), value(i, 1000));
    }
}

#[test]
fn writes_slow_down_and_stop_with_the_files_of_level_0() {
    let vfs = SimVfs::new();
    let stalls = Arc::new(Stalls::default());
    let mut options = options(
        &vfs,
        ColumnFamilyOptions {
            level0_file_num_compaction_trigger: 2,
            level0_slowdown_writes_trigger: 3,
            level0_stop_writes_trigger: 4,
            enable_blob_files: false,
            ..ColumnFamilyOptions::default()
        },
    );
    options.db.listeners.push(stalls.clone());
    let db = open(&options);
    let gate = Arc::new(Gate::default());
    let hooked = Arc::clone(&gate);
    // Flushes are let through; the first compaction, which reads what they wrote, is not.
    vfs.set_hook(move |call| {
        if call.kind == OpKind::Open && call.path.extension().is_some_and(|e| e == "sst") {
            hooked.pass();
        }
    });
    gate.shut();
    let fill = |i: usize| {
        db.put(&key(0), &value(i, 50)).unwrap();
        db.put(&key(i), &value(i, 50)).unwrap();
        db.flush().unwrap();
    };
    fill(1);
    fill(2);
    eventually("a compaction", || gate.waiting.load(Ordering::SeqCst) > 0);
    fill(3);
    fill(4);
    let delayed = StallEvent::Delayed(StallCause::Level0Files);
    let stopped = StallEvent::Stopped(StallCause::Level0Files);
    eventually("the stall", || *stalls.0.lock() == [delayed, stopped]);
    let mut batch = WriteBatch::new();
    batch.put(&*db, b"k", b"v").unwrap();
    let options = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    let refused = db.write(batch, &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| db.put(b"patient", b"1"));
        gate.open();
        waits.join().unwrap().unwrap();
    });
    db.wait_idle().unwrap();
    assert_eq!(stalls.0.lock().last(), Some(&StallEvent::Normal));
    assert_eq!(db.get(&key(0)).unwrap().unwrap(), value(4, 50));
    assert!(db.statistics().stall_micros() > 0);
}

/// Panics when a job of its kind was installed, while armed.
#[derive(Default)]
struct Panics {
    at_flushes: AtomicBool,
    at_compactions: AtomicBool,
}

impl EventListener for Panics {
    fn flush_finished(&self, _: &FlushEvent) {
        assert!(!self.at_flushes.load(Ordering::SeqCst), "a flush");
    }

    fn compaction_finished(&self, _: &CompactionEvent) {
        assert!(!self.at_compactions.load(Ordering::SeqCst), "a compaction");
    }
}

#[test]
fn a_listener_that_panics_stops_writes_and_nothing_waits_for_its_job() {
    let vfs = SimVfs::new();
    let panics = Arc::new(Panics::default());
    let mut options = options(&vfs, ColumnFamilyOptions::default());
    options.db.max_background_jobs = 1;
    options.db.listeners.push(panics.clone());
    let db = open(&options);
    for (armed, is_flush) in [(&panics.at_flushes, true), (&panics.at_compactions, false)] {
        db.put(b"k", b"before").unwrap();
        armed.store(true, Ordering::SeqCst);
        let force = CompactRangeOptions {
            force_bottommost: true,
        };
        match is_flush {
            true => drop(db.flush()),
            // On this thread, which is the user's: the panic is too.
            false => assert!(
                catch_unwind(AssertUnwindSafe(|| db.compact_range(None, None, &force))).is_err()
            ),
        }
        eventually("the failure", || db.background_error().is_some());
        let refused = db.put(b"k", b"refused").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WritesStopped);
        armed.store(false, Ordering::SeqCst);
        db.resume().unwrap();
        assert_eq!(db.get(b"k").unwrap().unwrap(), "before");
        db.put(b"k", b"after").unwrap();
        db.flush().unwrap();
        db.compact_range(None, None, &force).unwrap();
        assert_eq!(db.get(b"k").unwrap().unwrap(), "after");
    }
    panics.at_flushes.store(true, Ordering::SeqCst);
    db.put(b"k", b"last").unwrap();
    let _ = db.flush();
    eventually("the failure", || db.background_error().is_some());
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::WritesStopped);
    drop(db);
    options.db.listeners.clear();
    assert_eq!(open(&options).get(b"k").unwrap().unwrap(), "last");
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

/// Panics whenever it is told anything about failures and flushes.
struct Hopeless;

impl EventListener for Hopeless {
    fn flush_finished(&self, _: &FlushEvent) {
        panic!("a flush");
    }

    fn writes_stopped(&self, _: &titan::Error) {
        panic!("a failure");
    }
}

#[test]
fn a_listener_that_panics_at_the_news_of_its_panic_does_not_end_the_process() {
    let vfs = SimVfs::new();
    let mut options = options(&vfs, ColumnFamilyOptions::default());
    options.db.listeners.push(Arc::new(Hopeless));
    let db = open(&options);
    db.put(b"k", b"v").unwrap();
    let _ = db.flush();
    eventually("the failure", || db.background_error().is_some());
    let refused = db.put(b"k", b"refused").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WritesStopped);
    assert_eq!(db.get(b"k").unwrap().unwrap(), "v");
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::WritesStopped);
}

/// Panics when a file cannot be deleted, while it is armed.
#[derive(Default)]
struct Orderly(AtomicBool);

impl EventListener for Orderly {
    fn deletion_failed(&self, _: &titan::Error) {
        assert!(!self.0.load(Ordering::SeqCst), "a file stays");
    }
}

#[test]
fn a_listener_that_panics_at_a_file_that_stays_ends_no_background_thread() {
    let vfs = SimVfs::new();
    let orderly = Arc::new(Orderly::default());
    let mut options = options(&vfs, ColumnFamilyOptions::default());
    options.db.max_background_jobs = 1;
    options.db.listeners.push(orderly.clone());
    let db = open(&options);
    orderly.0.store(true, Ordering::SeqCst);
    let fault = vfs.inject(Fault::on([OpKind::Remove]).forever());
    for n in 1..3 {
        db.put(b"k", b"v").unwrap();
        let flushed = Arc::new(AtomicBool::new(false));
        std::thread::spawn({
            let (db, flushed) = (db.clone(), Arc::clone(&flushed));
            move || {
                db.flush().unwrap();
                flushed.store(true, Ordering::SeqCst);
            }
        });
        eventually("the flush", || flushed.load(Ordering::SeqCst));
        eventually("the file that stays", || fault.hits() >= n);
    }
    orderly.0.store(false, Ordering::SeqCst);
    vfs.clear_faults();
    db.close().unwrap();
}
