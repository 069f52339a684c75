//! Filters that fail or panic: a typed error, nothing lost, everything else goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use titan::{
    ColumnFamilyOptions, CompactionFilter, CompactionFilterFactory, Db, Decision, Error, ErrorKind,
    EventListener, FilterContext, FilterEntry, Result, Revisit,
};
use titan_testkit::sim::SimVfs;

use super::{Filter, close_and_check, compact};
use crate::support::{eventually, key, manual, open, options, value};

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

/// Panics in one of its methods, or when its filter is dropped.
#[derive(Clone, Copy, PartialEq)]
enum Panics {
    Name,
    Create,
    AtFlush,
    Revisit,
    Drop,
}

impl CompactionFilterFactory for Panics {
    fn name(&self) -> &str {
        assert!(*self != Panics::Name, "a bug of the factory");
        "tests.Panics"
    }

    fn create(&self, _: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        assert!(*self != Panics::Create, "a bug of the factory");
        Some(Box::new(RemovesAll(*self == Panics::Drop)))
    }

    fn at_flush(&self) -> bool {
        assert!(*self != Panics::AtFlush, "a bug of the factory");
        false
    }

    fn revisit(&self) -> Option<Revisit> {
        assert!(*self != Panics::Revisit, "a bug of the factory");
        None
    }
}

struct RemovesAll(bool);

impl CompactionFilter for RemovesAll {
    fn filter(&mut self, _: &FilterEntry<'_>) -> Result<Decision> {
        Ok(Decision::Remove)
    }
}

impl Drop for RemovesAll {
    fn drop(&mut self) {
        assert!(!self.0, "a bug of the filter's destructor");
    }
}

#[test]
fn a_factory_or_a_destructor_that_panics_stops_nothing() {
    use Panics::{AtFlush, Create, Drop, Name, Revisit};
    for panics in [Name, Create, AtFlush, Revisit, Drop] {
        let vfs = SimVfs::new();
        let mut options = options(&vfs, manual());
        options.default.compaction_filter = Some(Arc::new(panics));
        let db = open(&options);
        for n in 0..10 {
            db.put(&key(n), &value(n, 500)).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(db.get(&key(3)).unwrap().unwrap(), value(3, 500));
        let compacted = db.compact_range(None, None, &Default::default());
        match panics {
            Create => {
                let error = compacted.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::CompactionFilter, "{error}");
                assert!(error.to_string().contains("a bug of the factory"));
                assert_eq!(db.get(&key(3)).unwrap().unwrap(), value(3, 500));
            }
            _ => {
                compacted.unwrap();
                assert_eq!(db.get(&key(3)).unwrap(), None);
            }
        }
        // Writes go on.
        db.put(&key(3), b"new").unwrap();
        db.flush().unwrap();
        assert_eq!(db.get(&key(3)).unwrap().unwrap(), "new");
        close_and_check(db, &options);
    }
}

#[test]
fn closing_does_not_wait_for_a_long_filter_to_see_all_entries() {
    let vfs = SimVfs::new();
    let (tell, told) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let (tell, gone) = (Mutex::new(tell), Mutex::new(gone));
    let filter = Filter::new(move |entry: &FilterEntry<'_>| {
        if entry.key() == key(0) {
            tell.lock().unwrap().send(()).unwrap();
            gone.lock().unwrap().recv().unwrap();
        }
        // The job would drop everything.
        Ok(Decision::Remove)
    });
    let options = options(&vfs, filter.of(manual()));
    let db = open(&options);
    for n in 0..5000 {
        db.put(&key(n), &value(n, 20)).unwrap();
    }
    db.flush().unwrap();
    std::thread::scope(|scope| {
        let compaction = scope.spawn(|| db.compact_range(None, None, &Default::default()));
        told.recv().unwrap();
        let closing = scope.spawn(|| db.close());
        eventually("closing", || db.get(b"any").is_err());
        go.send(()).unwrap();
        let abandoned = compaction.join().unwrap().unwrap_err();
        assert_eq!(abandoned.kind(), ErrorKind::Closed, "{abandoned}");
        closing.join().unwrap().unwrap();
    });
    drop(db);
    let mut plain = options.clone();
    plain.default.compaction_filter = None;
    let db = open(&plain);
    assert!((0..5000).all(|n| db.get(&key(n)).unwrap().is_some()));
    close_and_check(db, &plain);
}

/// Calls functions that would wait for the job that calls it.
struct Reenters {
    db: Arc<OnceLock<Db>>,
    kinds: Arc<Mutex<Vec<Result<(), ErrorKind>>>>,
}

impl Reenters {
    fn call(&self) {
        let Some(db) = self.db.get() else {
            return;
        };
        let outcomes = [
            db.compact_range(None, None, &Default::default()),
            db.collect_garbage(None, None, &Default::default())
                .map(drop),
            db.pause_garbage_collection().map(drop),
            db.wait_idle(),
            db.close(),
        ];
        let kinds = outcomes.map(|outcome| outcome.map_err(|e| e.kind()));
        self.kinds.lock().unwrap().extend(kinds);
    }
}

#[test]
fn what_would_wait_for_the_job_of_a_filter_fails_within_it() {
    let vfs = SimVfs::new();
    let reenters = Arc::new(Reenters {
        db: Arc::default(),
        kinds: Arc::default(),
    });
    let within = Arc::clone(&reenters);
    let filter = Filter::new(move |entry: &FilterEntry<'_>| -> Result<Decision> {
        within.call();
        let db = within.db.get().unwrap();
        // Reads go on.
        assert!(db.get(entry.key())?.is_some());
        Ok(Decision::Keep)
    });
    let options = options(&vfs, filter.of(manual()));
    let db = open(&options);
    db.put(b"k", b"v").unwrap();
    reenters.db.set(db.clone()).ok().unwrap();
    let force = titan::CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &force).unwrap();
    let kinds = reenters.kinds.lock().unwrap();
    assert!(kinds.len() >= 5, "{kinds:?}");
    let refused = Err(ErrorKind::InvalidArgument);
    assert!(kinds.iter().all(|kind| *kind == refused), "{kinds:?}");
    assert_eq!(db.get(b"k").unwrap().unwrap(), "v");
    db.wait_idle().unwrap();
}
