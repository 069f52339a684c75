//! Listeners that panic, and jobs of threads that unwind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionEvent, Db, ErrorKind, EventListener,
    FlushEvent,
};
use titan_testkit::sim::{Fault, OpKind, SimVfs};

use crate::support::{eventually, open, options};

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
            // The job ran on this thread, which is the user's, and so did the panic.
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

/// Panics at every notification about failures and flushes.
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
