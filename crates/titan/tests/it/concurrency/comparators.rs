//! Comparators that panic in background threads.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

use titan::{ColumnFamilyOptions, Comparator, ErrorKind};
use titan_testkit::sim::SimVfs;

use crate::support::{open, options};

/// Panics once it is asked by a background thread, while armed.
#[derive(Debug, Default)]
struct Panics(AtomicBool);

impl Comparator for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let thread = std::thread::current();
        let in_background = thread.name().is_some_and(|name| name == "titan-0");
        if in_background {
            let armed = self.0.swap(false, Memory::SeqCst);
            assert!(!armed, "a comparison in the background");
        }
        a.cmp(b)
    }
}

#[test]
fn a_panic_while_a_compaction_is_picked_stops_writes_and_ends_no_thread() {
    let vfs = SimVfs::new();
    let comparator = Arc::new(Panics::default());
    let family = ColumnFamilyOptions {
        comparator: comparator.clone(),
        disable_auto_compactions: true,
        ..ColumnFamilyOptions::default()
    };
    let mut options = options(&vfs, family);
    options.db.max_background_jobs = 1;
    let db = open(&options);
    for n in 0..8_u8 {
        db.put(b"first", &[n]).unwrap();
        db.put(b"last", &[n]).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    options.default.disable_auto_compactions = false;
    options.default.stated = titan::Stated::fields(&["disable_auto_compactions"]);
    comparator.0.store(true, Memory::SeqCst);
    let db = open(&options);
    // The first thing that the thread does is to look for a compaction, and one is due.
    let stopped = db.wait_idle().unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::WritesStopped);
    assert!(!comparator.0.load(Memory::SeqCst));
    let refused = db.put(b"k", b"refused").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WritesStopped);
    db.resume().unwrap();
    // By the same thread: there is no other.
    db.wait_idle().unwrap();
    assert_eq!(db.statistics().compactions(), 1);
    assert_eq!(db.get(b"last").unwrap().unwrap(), [7].as_slice());
    db.close().unwrap();
}
