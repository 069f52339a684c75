//! Models the deletion of a file: it is deleted once, after its edit is durable and its last reader
//! has finished.

use std::sync::Arc;

use loom::sync::Arc as Held;

use super::files::{ObsoleteFiles, TableFile};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, model, spawn, thread};
use crate::version::edit::NewFile;

/// A directory with one table in it, and its current version.
struct Directory {
    queue: Arc<ObsoleteFiles>,
    current: Mutex<Option<Held<TableFile>>>,
    durable: AtomicBool,
    removed: AtomicU64,
}

impl Directory {
    fn new() -> Self {
        let queue = Arc::new(ObsoleteFiles::default());
        let meta = NewFile {
            number: FileNumber(7),
            ..NewFile::default()
        };
        let table = Held::new(TableFile::new(meta, None, &queue));
        Directory {
            queue,
            current: Mutex::new(Some(table)),
            durable: AtomicBool::new(false),
            removed: AtomicU64::new(0),
        }
    }

    /// As `Shared::purge`.
    fn purge(&self) {
        for obsolete in self.queue.take() {
            assert_eq!(obsolete, FileKind::Table(FileNumber(7)));
            assert!(
                self.durable.load(Ordering::Relaxed),
                "deleted before the edit was durable"
            );
            self.removed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As a reader at any time: takes the version, and reads the file.
    fn read(&self) {
        let held = self.current.lock().clone();
        if let Some(table) = held {
            assert_eq!(
                self.removed.load(Ordering::Relaxed),
                0,
                "deleted under a reader"
            );
            thread::yield_now();
            assert_eq!(
                self.removed.load(Ordering::Relaxed),
                0,
                "deleted under a reader"
            );
            drop(table);
        }
    }

    /// As `VersionSet::apply` with an edit that drops the table, and the steps after it.
    fn drop_table(&self) {
        let replaced = self.current.lock().clone();
        self.durable.store(true, Ordering::Relaxed);
        if let Some(table) = &replaced {
            table.mark_obsolete();
        }
        drop(self.current.lock().take());
        drop(replaced);
        self.purge();
    }
}

#[test]
fn a_dropped_file_goes_once_and_never_under_a_reader() {
    model(2, || {
        let directory = Held::new(Directory::new());
        let reader = directory.clone();
        let reader = spawn(move || {
            reader.read();
            reader.purge();
        });
        let other = directory.clone();
        let other = spawn(move || other.read());
        directory.drop_table();
        reader.join().unwrap();
        other.join().unwrap();
        directory.purge();
        assert_eq!(
            directory.removed.load(Ordering::Relaxed),
            1,
            "how often it was deleted"
        );
    });
}

#[test]
fn a_file_that_is_still_current_stays() {
    model(3, || {
        let directory = Held::new(Directory::new());
        let reader = directory.clone();
        let reader = spawn(move || {
            reader.read();
            reader.purge();
        });
        directory.read();
        directory.purge();
        reader.join().unwrap();
        drop(directory.current.lock().take());
        directory.purge();
        assert_eq!(directory.removed.load(Ordering::Relaxed), 0);
    });
}
