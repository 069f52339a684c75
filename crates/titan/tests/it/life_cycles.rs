//! Every order of a few steps in the life of a column family, on the simulated file system: it is
//! created, written, flushed, compacted, collected, dropped and created again, while the MANIFEST
//! is replaced, checkpoints are made, iterators and snapshots are held, and the machine or the
//! process stops. At any time the contents are those of a model, the MANIFEST describes exactly the
//! versions that run, and the directory has exactly the files that the families need.
//!
//! `TITAN_LIFE_CYCLE_STEPS` sets the number of steps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(debug_assertions)]
use titan::internals::db::check_running;
use titan::{Db, DbIterator, ErrorKind, LazyValue, Options, ReadOptions, Snapshot};
use titan_campaigns::recovery::{is_sound, misplaced_files};
use titan_campaigns::settings::Settings;
use titan_campaigns::store::{DIR, Store, file};
use titan_testkit::apply::named;
use titan_testkit::ledger::{End, Ledger};
use titan_testkit::model::{Model, Pairs};
use titan_testkit::ops::Ops;
use titan_testkit::reads::{contents, scan};
use titan_testkit::sim::{Loss, SimVfs};

const NAME: &str = "family";
/// Steps of each sequence.
const STEPS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Drop,
    Put,
    Delete,
    Flush,
    FlushDefault,
    Compact,
    Collect,
    NewManifest,
    Checkpoint,
    Reopen,
    /// The machine stops, and nothing unsynced is kept.
    PowerCut,
    /// The process stops.
    Kill,
    /// An iterator, a lazy value and a snapshot come into being, or are read and released.
    Hold,
}

const ALL: [Step; 14] = [
    Step::Create,
    Step::Drop,
    Step::Put,
    Step::Delete,
    Step::Flush,
    Step::FlushDefault,
    Step::Compact,
    Step::Collect,
    Step::NewManifest,
    Step::Checkpoint,
    Step::Reopen,
    Step::PowerCut,
    Step::Kill,
    Step::Hold,
];

/// Two tables, garbage in a blob file, and entries in the WAL.
const GROWN: &[Step] = &[
    Step::Create,
    Step::Put,
    Step::Flush,
    Step::Put,
    Step::Compact,
    Step::Delete,
    Step::Flush,
    Step::Put,
];

/// The same, all of it held, and dropped.
const DROPPED: &[Step] = &[
    Step::Create,
    Step::Put,
    Step::Flush,
    Step::Put,
    Step::Compact,
    Step::Put,
    Step::Hold,
    Step::Drop,
];

/// Reads of a family that must go on through all steps.
struct Held {
    iterator: DbIterator,
    value: LazyValue,
    snapshot: Snapshot,
    family: titan::ColumnFamilyId,
    pairs: Pairs,
}

impl Held {
    fn of(store: &Store, pairs: &Pairs) -> Option<Held> {
        let family = named(&store.db, NAME).unwrap();
        let (first, _) = pairs.first_key_value()?;
        let mut iterator = family.iter(&ReadOptions::default()).unwrap();
        iterator.seek_to_first().unwrap();
        let value = family.get_lazy(first).unwrap();
        Some(Held {
            iterator,
            value: value.unwrap(),
            snapshot: store.db.snapshot(),
            family: family.id(),
            pairs: pairs.clone(),
        })
    }

    /// Reads everything that is held.
    fn release(mut self, db: &Db) {
        let (_, value) = self.pairs.first_key_value().unwrap();
        assert_eq!(self.value.fetch().unwrap(), value[..], "lazy value");
        for (key, value) in &self.pairs {
            assert!(self.iterator.valid(), "the iterator ends before {key:?}");
            assert_eq!(self.iterator.key(), key);
            assert_eq!(self.iterator.value().unwrap(), value[..]);
            self.iterator.next().unwrap();
        }
        assert!(!self.iterator.valid(), "the iterator goes on");
        let same = db.column_family(NAME).filter(|f| f.id() == self.family);
        if let Some(family) = same {
            let options = ReadOptions {
                snapshot: Some(self.snapshot),
                ..ReadOptions::default()
            };
            assert_eq!(scan(&family, &options, false).unwrap(), self.pairs);
        }
    }
}

/// Small write buffers and no job that no step asks for.
fn settings() -> Settings {
    Settings::jobs(1)
}

fn options(vfs: &SimVfs) -> Options {
    let mut options = settings().options(vfs);
    options.default.disable_auto_compactions = true;
    options.default.enable_blob_garbage_collection = false;
    options
}

/// A database and the content that it must have.
struct Life {
    store: Store,
    held: Option<Held>,
    round: u64,
}

impl Life {
    fn new() -> Self {
        let vfs = SimVfs::new();
        Life {
            store: Store::with_options(&vfs, settings(), options(&vfs)).unwrap(),
            held: None,
            round: 0,
        }
    }

    fn model(&self) -> &Model {
        self.store.ledger.present()
    }

    fn apply(&mut self, text: &str) {
        for op in Ops::parse(text).unwrap().0 {
            self.store.apply(&op).unwrap();
        }
    }

    /// Takes a step; false if it makes no sense now.
    fn take(&mut self, step: Step) -> bool {
        self.round += 1;
        let round = self.round;
        let exists = self.model().family(NAME).is_some();
        match step {
            Step::Create if exists => return false,
            Step::Create => self.apply(&format!("create-cf {NAME}\n")),
            Step::FlushDefault => self.apply("flush default\n"),
            Step::NewManifest => self.replace_manifest(),
            Step::Checkpoint => self.apply("checkpoint\n"),
            Step::Reopen => {
                self.release();
                self.store.close().unwrap();
                self.store.reopen().unwrap();
            }
            Step::PowerCut => self.crash(&Loss::All),
            Step::Kill => self.crash(&Loss::None),
            Step::Hold if self.held.is_some() => self.release(),
            _ if !exists => return false,
            Step::Drop => {
                let family = named(&self.store.db, NAME).unwrap();
                self.apply(&format!("drop-cf {NAME}\n"));
                let error = family.get(b"a").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "a dropped family");
            }
            // Large values are of odd seeds, which do not compress.
            Step::Put => self.apply(&format!(
                "batch [put default a {0}*300; put {NAME} a {0}*300; put {NAME} b {0}*10; \
                 put {NAME} c {0}*300; put {NAME} d{round} {0}*300]\n",
                2 * round + 1,
            )),
            Step::Delete => self.apply(&format!(
                "delete {NAME} a\ndelete-range {NAME} b d\nput {NAME} e {round}*10\n"
            )),
            Step::Flush => self.apply(&format!("flush {NAME}\n")),
            Step::Compact => self.apply(&format!("compact {NAME} - -\n")),
            Step::Collect => self.apply(&format!("collect {NAME}\n")),
            Step::Hold => {
                let pairs = self.model().family(NAME).cloned().unwrap_or_default();
                self.held = Held::of(&self.store, &pairs);
                return self.held.is_some();
            }
        }
        true
    }

    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            held.release(&self.store.db);
        }
    }

    /// Changes families until the MANIFEST has grown so much that a new one is started.
    fn replace_manifest(&mut self) {
        let current = |store: &Store| store.vfs.read_all(file("CURRENT")).unwrap();
        let before = current(&self.store);
        for _ in 0..100 {
            self.apply("create-cf other\ndrop-cf other\n");
            if current(&self.store) != before {
                return;
            }
        }
        panic!("the MANIFEST is never replaced");
    }

    /// Image after a crash now, and the contents that it may have.
    fn image(&self, loss: &Loss) -> (SimVfs, Ledger, End) {
        let journal = self.store.vfs.journal();
        let image = journal.crash_at(journal.len(), loss);
        (image, self.store.ledger.clone(), End::with(loss))
    }

    /// The machine, or the process, stops, and the next one opens the database.
    fn crash(&mut self, loss: &Loss) {
        let (image, ledger, end) = self.image(loss);
        self.release();
        self.store = Store::with_options(&image, settings(), options(&image)).unwrap();
        let found = contents(&self.store.db).unwrap();
        ledger.allows(&found, end, ledger.now()).unwrap();
        self.store.recover(found).unwrap();
        self.no_file_too_many();
    }

    fn no_file_too_many(&self) {
        let wrong = misplaced_files(&self.store.db, &self.store.vfs).unwrap();
        // A WAL file may be needed beside the one that is written.
        let wrong: Vec<_> = wrong.iter().filter(|w| !w.contains("WAL")).collect();
        assert!(wrong.iter().all(|w| w.starts_with('{')), "{wrong:#?}");
    }

    /// Every check, after the last step.
    fn finish(mut self) {
        self.no_file_too_many();
        for loss in [Loss::All, Loss::None] {
            let (image, ledger, end) = self.image(&loss);
            let db = Db::open(DIR, &options(&image)).unwrap();
            let found = contents(&db).unwrap();
            ledger.allows(&found, end, ledger.now()).unwrap();
            let wrong = misplaced_files(&db, &image).unwrap();
            assert!(wrong.is_empty(), "after {loss:?}: {wrong:#?}");
            db.close().unwrap();
        }
        if self.model().family(NAME).is_some() {
            self.apply(&format!("flush {NAME}\n"));
        }
        self.apply("flush default\n");
        self.settled();
        self.store.close().unwrap();
        is_sound(&self.store.vfs, &settings()).unwrap();
        self.store.reopen().unwrap();
        self.store.verify().unwrap();
        self.settled();
        self.store.close().unwrap();
    }

    /// Nothing is in a memtable, so one WAL file is enough.
    fn settled(&self) {
        let wrong = misplaced_files(&self.store.db, &self.store.vfs).unwrap();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Takes the steps, and checks everything after the last; false if one makes no sense.
fn live(before: &[Step], steps: &[Step]) -> bool {
    let mut life = Life::new();
    for &step in before {
        assert!(life.take(step), "{step:?}");
    }
    // A shorter sequence compares after each step before the last.
    if !steps.iter().all(|&step| life.take(step)) {
        return false;
    }
    life.store.verify().unwrap();
    life.release();
    #[cfg(debug_assertions)]
    check_running(&life.store.db);
    // A crash was checked where the step before was the last.
    if !matches!(
        steps.last(),
        Some(Step::Reopen | Step::PowerCut | Step::Kill)
    ) {
        life.finish();
    }
    true
}

/// Every sequence of up to `steps` steps after those `before`, on all cores.
fn every_order(before: &[Step], steps: usize) {
    let of_length = |length: usize| ALL.len().pow(length as u32);
    let total: usize = (0..=steps).map(of_length).sum();
    let (next, whole) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cores = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= total {
                        return;
                    }
                    let sequence = nth_sequence(n);
                    let lived = catch_unwind(AssertUnwindSafe(|| live(before, &sequence)));
                    let Ok(lived) = lived else {
                        next.store(total, Ordering::Relaxed);
                        panic!("after {before:?}, then {sequence:?}");
                    };
                    whole.fetch_add(usize::from(lived), Ordering::Relaxed);
                }
            });
        }
    });
    let whole = whole.into_inner();
    assert!(whole > total / 8, "only {whole} of {total}");
}

/// The sequences of all lengths, the shorter ones first.
fn nth_sequence(mut n: usize) -> Vec<Step> {
    let mut sequence = Vec::new();
    while n > 0 {
        n -= 1;
        sequence.push(ALL[n % ALL.len()]);
        n /= ALL.len();
    }
    sequence
}

fn steps() -> usize {
    let steps = std::env::var("TITAN_LIFE_CYCLE_STEPS");
    steps.map_or(STEPS, |steps| steps.parse().unwrap())
}

#[test]
fn every_order_of_steps_in_the_life_of_a_family_keeps_its_contents_and_its_files() {
    every_order(GROWN, steps());
}

#[test]
fn every_order_of_steps_after_a_drop_keeps_contents_and_files() {
    // Every sequence ends with both kinds of crash, so one step less is enough.
    every_order(DROPPED, steps() - 1);
}
