//! Listeners that panic, and jobs of threads that unwind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionFilter, CompactionFilterFactory, Db,
    ErrorKind, EventListener, FilterContext,
};
use titan_testkit::sim::{Fault, OpKind, SimVfs};

use crate::support::{Hopeless, eventually, key, manual, open, options, value};

/// Records which panics of others it is notified of. Panics at each of them.
#[derive(Default)]
struct Informed(Mutex<Vec<String>>);

impl EventListener for Informed {
    fn listener_panicked(&self, error: &titan::Error) {
        self.0.lock().unwrap().push(error.to_string());
        panic!("at a panic");
    }
}

/// Fails while it is told to.
#[derive(Default)]
struct Failing(AtomicBool);

impl CompactionFilterFactory for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn create(&self, _: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        assert!(!self.0.load(Ordering::SeqCst), "as told");
        None
    }
}

#[test]
fn a_listener_that_panics_stops_nothing() {
    let vfs = SimVfs::new();
    let failing = Arc::new(Failing::default());
    let mut options = options(
        &vfs,
        ColumnFamilyOptions {
            compaction_filter: Some(failing.clone()),
            ..manual()
        },
    );
    options.db.max_background_jobs = 1;
    let informed = Arc::new(Informed::default());
    options.db.listeners = vec![Arc::new(Hopeless), informed.clone()];
    let db = open(&options);
    let force = CompactRangeOptions {
        force_bottommost: true,
    };
    // Half of the values of the first round are garbage after the second.
    for (round, keys) in [(0, 20), (1, 10)] {
        for n in 0..keys {
            db.put(&key(n), &value(n + round, 500)).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(None, None, &force).unwrap();
    }
    db.collect_garbage(None, None, &Default::default()).unwrap();
    failing.0.store(true, Ordering::SeqCst);
    let failed = db.compact_range(None, None, &force).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::CompactionFilter);
    failing.0.store(false, Ordering::SeqCst);
    assert!(db.background_error().is_none());
    // A failure is the same as without the listener.
    vfs.inject(Fault::on([OpKind::Create]).path("*.sst").times(1));
    db.put(b"k", b"v").unwrap();
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::WritesStopped);
    db.resume().unwrap();
    db.put(b"k", b"w").unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), "w");
    db.close().unwrap();
    let known = informed.0.lock().unwrap();
    for callback in [
        "memtable_sealed",
        "flush_begun",
        "flush_finished",
        "compaction_begun",
        "compaction_finished",
        "garbage_collection_begun",
        "garbage_collected",
        "compaction_filter_failed",
        "writes_stopped",
    ] {
        let is_it = |error: &&String| {
            error.contains("Hopeless panicked (at") && error.contains(&format!("in {callback}"))
        };
        assert!(known.iter().any(|e| is_it(&e)), "{callback}: {known:?}");
    }
    // Those of `Informed` count, and are not reported.
    assert!(known.iter().all(|error| error.contains("Hopeless")));
    assert_eq!(db.statistics().listener_panics(), 2 * known.len() as u64);
}

/// Panics when a file cannot be deleted, while armed.
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

/// Compacts when it is dropped.
struct CompactsWhenDropped(Db);

impl Drop for CompactsWhenDropped {
    fn drop(&mut self) {
        let force = CompactRangeOptions {
            force_bottommost: true,
        };
        self.0.compact_range(None, None, &force).unwrap();
    }
}

#[test]
fn a_job_of_a_destructor_stops_no_writes_though_its_thread_unwinds() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, ColumnFamilyOptions::default()));
    db.put(b"k", b"v").unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _compacts = CompactsWhenDropped(db.clone());
        panic!("something else");
    }));
    assert!(unwound.is_err());
    assert_eq!(db.statistics().compactions(), 1);
    db.put(b"k", b"after").unwrap();
    db.close().unwrap();
}
