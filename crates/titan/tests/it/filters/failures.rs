//! Filters that fail or panic: a typed error, nothing lost, everything else goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use titan::{ColumnFamilyOptions, Decision, Error, ErrorKind, EventListener, FilterEntry, Result};
use titan_testkit::sim::SimVfs;

use super::{Filter, close_and_check, compact};
use crate::support::{key, manual, open, options, value};

#[derive(Default)]
struct Failures(Mutex<Vec<String>>);

impl EventListener for Failures {
    fn compaction_filter_failed(&self, error: &Error) {
        self.0.lock().unwrap().push(error.to_string());
    }
}

fn failing(how: &'static str, heals: &Arc<AtomicBool>) -> Filter {
    let healed = Arc::clone(heals);
    Filter::new(move |entry: &FilterEntry<'_>| -> Result<Decision> {
        if healed.load(Ordering::SeqCst) || entry.key() < &key(20)[..] {
            return Ok(Decision::Remove);
        }
        assert_ne!(how, "panics", "a bug of the filter");
        Err(Error::new(ErrorKind::Busy, "not now"))
    })
}

#[test]
fn a_filter_that_fails_loses_nothing_and_stops_nothing() {
    for how in ["panics", "fails"] {
        let vfs = SimVfs::new();
        let listener = Arc::new(Failures::default());
        let heals = Arc::new(AtomicBool::new(false));
        let filter = failing(how, &heals).at_flush();
        let family = ColumnFamilyOptions {
            disable_auto_compactions: false,
            level0_file_num_compaction_trigger: 2,
            ..manual()
        };
        let mut options = options(&vfs, filter.of(family));
        options.db.listeners = vec![listener.clone()];
        let db = open(&options);
        // Flushes and compactions that are due go on without the filter.
        for round in 0..6 {
            for n in 0..50 {
                db.put(&key(n), &value(n + round, 500)).unwrap();
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
        let level0 = db.metrics().families[0].levels[0].files;
        assert!(level0 < 2, "{level0} tables of level 0");
        for n in 0..50 {
            assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n + 5, 500));
        }
        // One that a caller waits for fails.
        let error = db
            .compact_range(None, None, &Default::default())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CompactionFilter, "{error}");
        let text = error.to_string();
        for part in ["tests.Filter", "default", "key000020"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            text.contains("a bug of the filter") || text.contains("not now"),
            "{text}"
        );
        let failures = listener.0.lock().unwrap().len() as u64;
        assert!(failures >= 7, "{failures}");
        assert_eq!(db.statistics().filter_failures(), failures);
        for n in 0..50 {
            assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n + 5, 500));
        }
        heals.store(true, Ordering::SeqCst);
        compact(&db);
        for n in 0..50 {
            assert_eq!(db.get(&key(n)).unwrap(), None);
        }
        close_and_check(db, &options);
    }
}
