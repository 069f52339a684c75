//! The choice of background jobs as text: the files of `golden/scheduler`, in the form of
//! [`titan_testkit::golden`].
//!
//! `families a b` makes a database without threads. The input lines of `do` change its state, and
//! `find workers|collector` claims a job as a thread does: it runs until `end KIND FAMILY`. `due`
//! shows the kinds of jobs for which a caller waits that waits for the database to be idle.

use std::sync::Arc;

use titan_testkit::golden::Machine;

use crate::compaction::choosing::budget::Budget;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, Immutable, State};
use crate::db::jobs::background::SOURCES;
use crate::db::jobs::job::Claimed;
use crate::env::Threads;
use crate::error::{Error, ErrorKind};
use crate::format::internal_key::{ValueType, internal_key};
use crate::format::{FileNumber, SequenceNumber};
use crate::gc::selection::{GarbageEvaluation, Urgency};
use crate::memtable::Memtable;
use crate::stats::StallEvent;
use crate::version::edit::{NewFile, TableFacts};
use crate::version::state::blob_set::BlobSet;
use crate::version::state::level::Level;
use crate::version::{TableFile, Version};
use crate::{Db, Options};

titan_testkit::golden_tests!(
    Scheduler,
    "src/db/tests/golden/scheduler",
    barriers,
    collections,
    compactions,
    flushes_first,
    room,
    stalls,
);

/// The kinds of jobs in the order of the sources.
const KINDS: [&str; 7] = [
    "flush",
    "estimate",
    "switch",
    "compaction",
    "count",
    "collection",
    "warm-up",
];

const RUNNING: [(&str, RunningJob); 6] = [
    ("flush", RunningJob::Flush),
    ("estimate", RunningJob::Estimate),
    ("switch", RunningJob::Switch),
    ("compaction", RunningJob::Compaction),
    ("selection", RunningJob::Selection),
    ("count", RunningJob::Collection),
];

#[derive(Default)]
struct Scheduler {
    db: Option<Db>,
    _dir: Option<tempfile::TempDir>,
    claimed: Vec<(RunningJob, String, Claimed)>,
    tables: u64,
}

impl Machine for Scheduler {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        let words: Vec<&str> = command.split(' ').collect();
        match words[0] {
            "families" => self.open(&words[1..]),
            "do" => {
                input.iter().for_each(|step| self.step(step));
                self.state_shown()
            }
            "find" => self.find(words[1]),
            "end" => self.end(words[1], words[2]),
            "due" => self.due(),
            _ => panic!("unknown command: {command}"),
        }
    }
}

/// Closing a database waits for jobs that run.
impl Drop for Scheduler {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A job may be counted that is not noted here.
            std::mem::forget(self.db.take());
            return;
        }
        self.end_all();
    }
}

impl Scheduler {
    fn end_all(&mut self) {
        for (job, name, claimed) in std::mem::take(&mut self.claimed) {
            drop(claimed);
            let mut state = self.shared().state.lock();
            let families = state.families.values();
            let id = families
                .filter(|f| f.family.name == name)
                .map(|f| f.family.id)
                .next();
            state.end(job, id.unwrap());
        }
    }

    fn open(&mut self, names: &[&str]) -> Vec<String> {
        self.end_all();
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.default.level0_file_num_compaction_trigger = 2;
        options.default.level0_slowdown_writes_trigger = 4;
        options.default.level0_stop_writes_trigger = 6;
        options.default.max_write_buffer_number = 2;
        options.db.max_background_jobs = 3;
        for name in names {
            let own = options.default.clone();
            options.families.insert((*name).to_owned(), own);
        }
        Db::open(dir.path(), &options).unwrap().close().unwrap();
        self.db = Some(Db::open_read_only(dir.path(), &options).unwrap());
        self._dir = Some(dir);
        vec![format!("{} families", names.len() + 1)]
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.db.as_ref().unwrap().core.shared
    }

    fn change<T>(&self, name: &str, change: impl FnOnce(&mut FamilyState) -> T) -> T {
        let mut state = self.shared().state.lock();
        let mut families = state.families.values_mut();
        change(families.find(|f| f.family.name == name).unwrap())
    }

    fn step(&mut self, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        match words[..] {
            ["seal", name] => self.change(name, |family| {
                let memtable = Memtable::new(family.family.comparator.clone(), 1 << 16);
                let number = SequenceNumber(1);
                memtable.add(number, ValueType::Value, b"k", b"v").unwrap();
                family.immutables.push_back(Immutable {
                    memtable,
                    log_number: family.memtable_log,
                });
                family.has_changed();
            }),
            ["level0", name, count] => {
                let count: u64 = count.parse().unwrap();
                let first = self.tables + 1;
                self.tables += count;
                self.change(name, |family| {
                    let version = level0(&family.version, first, count);
                    family.version = Arc::new(version);
                    family.has_changed();
                });
            }
            ["garbage", name, urgency] => {
                let urgency = match urgency {
                    "none" => None,
                    "low" => Some(Urgency::Low),
                    "high" => Some(Urgency::High),
                    _ => panic!("unknown urgency: {urgency}"),
                };
                self.shared()
                    .state
                    .lock()
                    .evaluate(&self.shared().admission.notifier);
                self.change(name, |family| {
                    let options = family.family.options();
                    let found = GarbageEvaluation::of(&family.version, &options, &family.excluded);
                    family.evaluation.garbage = Some(GarbageEvaluation { urgency, ..found });
                });
            }
            ["uncounted", name] => self.change(name, |family| family.jobs.count_due = true),
            ["pause"] => self.shared().state.lock().collections.pauses += 1,
            ["end-pause"] => self.shared().state.lock().collections.pauses -= 1,
            ["manual", name] => self.change(name, |family| family.jobs.manual_compaction = true),
            ["end-manual", name] => {
                self.change(name, |family| family.jobs.manual_compaction = false);
            }
            ["barrier", name] => {
                let (id, newest) = self.change(name, |family| {
                    let newest = Arc::clone(&family.immutables.back().unwrap().memtable);
                    (family.family.id, newest)
                });
                let barrier = [(id, newest)].into();
                self.shared().state.lock().flush_barrier = Some(barrier);
            }
            ["end-barrier"] => self.shared().state.lock().flush_barrier = None,
            ["room", kib] => {
                let bytes = kib.parse::<u64>().unwrap() << 10;
                let now = self.shared().opening.clock.monotonic();
                let mut state = self.shared().state.lock();
                state.room.now = now;
                state.room.budget = Budget {
                    available: bytes,
                    any: bytes,
                    freeing: bytes,
                    is_short: false,
                };
            }
            ["no-room-for-flush", name, kib] => {
                let need = kib.parse::<u64>().unwrap() << 10;
                let memtables = self.change(name, |family| family.immutables.len());
                let error = Error::new(ErrorKind::NoSpace, "flushing needs room");
                let wait = self.shared().flush_wait(memtables, &error, Some(need));
                self.change(name, |family| family.jobs.flush_wait = Some(wait));
            }
            ["jobs", count] => {
                let mut options = (*self.shared().opening.options.load()).clone();
                options.max_background_jobs = count.parse().unwrap();
                self.shared().opening.options.store(Arc::new(options));
            }
            ["no-descriptors"] => {
                let error = Error::new(ErrorKind::TooManyOpenFiles, "open file");
                self.shared().postpone_jobs(&error);
            }
            ["descriptors"] => self.shared().failure.postponed.end(),
            _ => panic!("unknown step: {step}"),
        }
    }

    /// The state of writes and of running jobs.
    fn state_shown(&self) -> Vec<String> {
        let shared = self.shared();
        let mut state = shared.state.lock();
        state.evaluate(&shared.admission.notifier);
        let stall = match state.stalls.strongest {
            StallEvent::Normal => "writes go on".to_owned(),
            StallEvent::Delayed(cause) => format!("writes are delayed: {cause:?}"),
            StallEvent::Stopped(cause) => format!("writes are stopped: {cause:?}"),
        };
        let mut out = vec![stall];
        let running: Vec<String> = self
            .claimed
            .iter()
            .map(|(job, name, _)| format!("{} of {name}", kind(*job)))
            .collect();
        if !running.is_empty() {
            out.push(format!("running: {}", running.join(", ")));
        }
        out
    }

    fn find(&mut self, threads: &str) -> Vec<String> {
        let threads = match threads {
            "workers" => Threads::Workers,
            "collector" => Threads::Collector,
            _ => panic!("unknown threads: {threads}"),
        };
        let shared = Arc::clone(self.shared());
        let mut state = shared.state.lock();
        let before = state.running.clone();
        let claims = claims(&state);
        let Some((job, _)) = shared.find_job(threads, true, &mut state) else {
            return vec!["nothing".to_owned()];
        };
        let mut begun = RUNNING.iter().map(|(_, job)| *job);
        let begun = begun.find(|job| state.running.of(*job) > before.of(*job));
        let begun = begun.unwrap();
        let changed = claims_changed(&claims, &state);
        let said = vec![format!("{} of {changed}", kind(begun))];
        drop(state);
        self.claimed.push((begun, changed, job));
        said
    }

    fn end(&mut self, what: &str, name: &str) -> Vec<String> {
        let mut claimed = self.claimed.iter();
        let at = claimed.position(|(job, family, _)| kind(*job) == what && family == name);
        let (job, _, claimed) = self.claimed.remove(at.unwrap());
        // Also the marks on inputs.
        drop(claimed);
        let shared = Arc::clone(self.shared());
        let mut state = shared.state.lock();
        let id = {
            let mut families = state.families.values_mut();
            let family = families.find(|f| f.family.name == name).unwrap();
            match job {
                RunningJob::Flush => {
                    family.immutables.clear();
                    family.has_changed();
                }
                RunningJob::Selection => {
                    if let Some(garbage) = &mut family.evaluation.garbage {
                        garbage.urgency = None;
                    }
                }
                _ => {}
            }
            family.family.id
        };
        state.end(job, id);
        drop(state);
        self.state_shown()
    }

    fn due(&self) -> Vec<String> {
        let shared = self.shared();
        let mut state = shared.state.lock();
        let due = SOURCES.iter().zip(KINDS);
        let due = due.filter(|(source, _)| (source.is_due)(shared, &mut state));
        let due: Vec<&str> = due.map(|(_, kind)| kind).collect();
        match due.is_empty() {
            true => vec!["nothing".to_owned()],
            false => vec![due.join(", ")],
        }
    }
}

fn kind(job: RunningJob) -> &'static str {
    let mut kinds = RUNNING.iter();
    kinds.find(|(_, known)| *known == job).unwrap().0
}

/// The changes of each family by jobs that begin.
fn claims(state: &State) -> Vec<(String, bool, usize, bool)> {
    let families = state.families.values();
    families
        .map(|f| {
            let jobs = &f.jobs;
            let name = f.family.name.clone();
            (name, jobs.flushing, jobs.compactions, jobs.count_due)
        })
        .collect()
}

/// The family of the job that has begun. One that changes none is of the family that is to be
/// collected.
fn claims_changed(before: &[(String, bool, usize, bool)], state: &State) -> String {
    let after = claims(state);
    let mut changed = before.iter().zip(&after).filter(|(a, b)| a != b);
    match (changed.next(), state.to_collect()) {
        (Some((family, _)), _) => family.0.clone(),
        (None, Some(family)) => family.family.name.clone(),
        (None, None) => panic!("a job of no family"),
    }
}

/// A version with tables in level 0 that share their keys.
fn level0(version: &Version, first: u64, count: u64) -> Version {
    let bound = |key: &[u8], n| internal_key(key, SequenceNumber(n), ValueType::Value as u8);
    let tables: Vec<_> = (first..first + count)
        .rev()
        .map(|n| {
            let meta = NewFile {
                number: FileNumber(n),
                size: 64 << 10,
                smallest: bound(b"a", n),
                largest: bound(b"z", n),
                smallest_seq: SequenceNumber(n),
                largest_seq: SequenceNumber(n),
                ..NewFile::default()
            };
            let facts = TableFacts {
                table: meta.number,
                num_entries: 10,
                ..TableFacts::default()
            };
            Arc::new(TableFile::new(meta, Some(facts), &Arc::default()))
        })
        .collect();
    let mut levels = vec![Level::default(); version.num_levels()];
    levels[0] = Level::newest_first(&tables, &version.comparator);
    version.with_files(levels, BlobSet::default())
}
