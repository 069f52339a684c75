//! The threads that flush, compact and collect garbage.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::aged_memtables::SWITCHES;
use super::collect::CollectionJob;
use super::compact::COMPACTIONS;
use super::core::{Core, Shared};
use super::estimate::ESTIMATES;
use super::family::Family;
use super::flush::FLUSHES;
use super::idle_cleanup::Idle;
use super::job::{Claimed, JobSource, Running};
use super::running::RunningJob;
use super::state::{FamilyState, State};
use crate::error::{Error, Result};
use crate::filter::check_may_wait_for_jobs;
use crate::gates;
use crate::gc::selection::{Collection, Exclusions, select};
use crate::sync::thread::{self, JoinHandle};
use crate::version::Version;

/// The kinds of jobs that any background thread does, the most urgent one first.
const SOURCES: [JobSource; 4] = [FLUSHES, ESTIMATES, SWITCHES, COMPACTIONS];

/// Starts the threads of a database. If one cannot be started, dropping the core ends those that
/// were.
pub(super) fn start(core: &Core) -> Result<()> {
    core.shared.update_stalls(core.shared.state.lock());
    for i in 0..core.shared.context.options.load().max_background_jobs {
        spawn(core, format!("titan-{i}"), Shared::run_jobs)?;
    }
    if core.shared.wants_warm_up() {
        spawn(core, "titan-warm-up".to_owned(), Shared::warm_up)?;
    }
    let uncounted = core.shared.claim_counting();
    let collect = move |shared: &Shared| {
        if let Some(first) = uncounted {
            shared.count_claimed(first);
        }
        shared.run_collections();
    };
    let spawned = spawn(core, "titan-gc".to_owned(), collect);
    // MUTANT: what a thread that was not started had to count goes on counting as running.
    let forgotten = mutant!("unstarted-thread-counts", "-p titan --lib db::background::");
    if let (Err(_), Some(claimed), false) = (&spawned, uncounted, forgotten) {
        // No thread has taken over what was counted as running, and closing would wait for it.
        Running::counted(&core.shared, claimed, RunningJob::Collection).end();
    }
    spawned
}

fn spawn(core: &Core, name: String, run: impl FnOnce(&Shared) + Send + 'static) -> Result<()> {
    let shared = Arc::clone(&core.shared);
    let thread = start_thread(name, move || run(&shared))
        .map_err(|e| Error::new(crate::ErrorKind::Io, format!("cannot start a thread: {e}")))?;
    core.threads.lock().push(thread);
    Ok(())
}

fn start_thread(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    #[cfg(test)]
    tests::refuse(&name)?;
    thread::Builder::new().name(name).spawn(gates::inherit(run))
}

impl Shared {
    fn run_jobs(&self) {
        while let Some(job) = self.find_or_fail(|| self.next_job()) {
            // Failures have been recorded and listeners notified, also of panics. The thread has
            // nothing to add, and is needed when the database resumes.
            let _ = catch_unwind(AssertUnwindSafe(|| job(self)));
            // A file system of the application may panic, too; that concerns no data.
            let _ = catch_unwind(AssertUnwindSafe(|| self.purge()));
        }
    }

    /// What `find` finds. A comparator may panic there, too; that stops writes, and the thread waits
    /// with the others until the database resumes.
    fn find_or_fail<T>(&self, mut find: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            match catch_unwind(AssertUnwindSafe(&mut find)) {
                Ok(found) => return found,
                Err(_) => {
                    let message = "a thread panicked while it looked for a background job";
                    self.failure.set_after_panic(message);
                }
            }
        }
    }

    /// Waits for a job; `None` when the database closes.
    fn next_job(&self) -> Option<Claimed> {
        loop {
            let seen = self.signals.work.seen();
            if self.lifecycle.is_closed() {
                return None;
            }
            let mut state = self.state.lock();
            let job = self.find_job(&mut state);
            let timeout = self.time_to_next_revisit(&state);
            drop(state);
            if job.is_some() {
                // There may be another job, for another thread.
                self.signals.work.raise_for_one();
                return job;
            }
            match timeout {
                None => self.signals.work.wait(seen),
                // In real time: what a thread waits for here must not advance a clock that does not
                // follow it.
                Some(timeout) => self.signals.work.wait_for(seen, timeout),
            }
        }
    }

    fn find_job(&self, state: &mut State) -> Option<Claimed> {
        if self.failure.get().is_some() {
            return None;
        }
        SOURCES
            .iter()
            .find_map(|source| (source.claim)(self, state))
    }

    /// Collects garbage until the database closes. Collections run one at a time, since the device
    /// is the bottleneck.
    fn run_collections(&self) {
        let mut idle = self.idle();
        while let Some(job) = self.find_or_fail(|| self.next_collection(&mut idle)) {
            // Panics have been recorded, as in `run_jobs`.
            let _ = catch_unwind(AssertUnwindSafe(|| self.run_job(job)));
            let _ = catch_unwind(AssertUnwindSafe(|| self.purge()));
        }
    }

    /// Waits for a collection that is due; `None` when the database closes.
    fn next_collection(&self, idle: &mut Idle) -> Option<CollectionJob<'static>> {
        loop {
            let seen = self.signals.collector.seen();
            self.heed_ended_versions();
            if self.lifecycle.is_closed() {
                return None;
            }
            if self.failure.get().is_some() {
                self.signals.collector.wait(seen);
                continue;
            }
            let mut state = self.state.lock();
            let Some(family) = state.to_collect() else {
                self.wait_or_clean_up(state, seen, idle);
                continue;
            };
            let candidate = FamilyToCollect::of(family, state.collections.begun);
            // What it reads from is pinned, so a caller who waits for the database to be idle, and for
            // files to be deleted, must wait for it, too.
            // MUTANT: the search for what to collect does not count as running.
            let id = candidate.family.id;
            let counts = !mutant!(
                "selection-does-not-count",
                "-p titan --lib db::races::collections"
            );
            if counts {
                state.begin(RunningJob::Selection, id);
            }
            drop(state);
            let selecting = counts.then(|| Running::counted(self, id, RunningJob::Selection));
            gate!("collector: candidate chosen");
            let collection = candidate.select();
            let claimed = self.claim_collection(&mut self.state.lock(), &candidate, collection);
            drop(candidate);
            if let Some(selecting) = selecting {
                selecting.end();
            }
            if claimed.is_some() {
                return claimed;
            }
            let _ = catch_unwind(AssertUnwindSafe(|| self.purge()));
        }
    }

    /// Counts a collection as running, unless it is out of date. If there is none, notes that the
    /// family has nothing to collect.
    fn claim_collection(
        &self,
        state: &mut State,
        candidate: &FamilyToCollect,
        collection: Option<Collection>,
    ) -> Option<CollectionJob<'static>> {
        let may_begin = !self.lifecycle.is_closed()
            && self.failure.get().is_none()
            && state.to_collect().is_some()
            && state.collections.begun == candidate.collections_begun;
        let family = state.families.get_mut(&candidate.family.id);
        let family = family.filter(|_| may_begin)?;
        if collection.is_none() && Arc::ptr_eq(&family.version, &candidate.version) {
            if let Some(garbage) = &mut family.evaluation.garbage {
                garbage.urgency = None;
            }
            self.signals.progress.raise();
        }
        let collection = collection?;
        let family = Arc::clone(&family.family);
        state.begin(RunningJob::Collection, family.id);
        Some(CollectionJob {
            family,
            collection,
            manual_rate_limit: None,
        })
    }

    /// See [`Db::wait_idle`](crate::Db::wait_idle).
    pub(super) fn wait_idle(&self) -> Result<()> {
        // Jobs may need the lead.
        self.pipeline.check_may_wait()?;
        check_may_wait_for_jobs()?;
        loop {
            let seen = self.signals.progress.seen();
            self.check_open()?;
            if self.lifecycle.read_only {
                return Ok(());
            }
            self.check_not_stopped()?;
            let mut state = self.state.lock();
            let busy = !state.running.is_idle()
                || state.collections.manual > 0
                || self.signals.has_ended_version()
                || !self.admission.notifier.is_idle()
                || state.families.values().any(|f| f.jobs.manual_compaction)
                || SOURCES
                    .iter()
                    .any(|source| (source.is_due)(self, &mut state))
                || state.to_collect().is_some();
            drop(state);
            if !busy {
                self.purge();
                gate!("idle: reached");
                return Ok(());
            }
            self.signals.work.raise();
            gate!("idle: waited for");
            self.signals.progress.wait(seen);
        }
    }

    /// Waits until no job runs. None starts meanwhile if a failure is in force.
    pub(super) fn wait_for_running_jobs(&self) {
        let _awaits = self.admission.awaits_jobs(&self.signals);
        loop {
            let seen = self.signals.progress.seen();
            if self.state.lock().running.is_idle() {
                return;
            }
            gate!("jobs: waited for");
            self.signals.progress.wait(seen);
        }
    }
}

/// A family that has something to collect, to be evaluated without the state lock.
struct FamilyToCollect {
    family: Arc<Family>,
    version: Arc<Version>,
    excluded: Arc<Exclusions>,
    /// The count at that moment: if no collection has begun since, records are where they were.
    collections_begun: u64,
}

impl FamilyToCollect {
    fn of(family: &FamilyState, collections_begun: u64) -> Self {
        FamilyToCollect {
            family: Arc::clone(&family.family),
            version: Arc::clone(&family.version),
            excluded: Arc::clone(&family.excluded),
            collections_begun,
        }
    }

    fn select(&self) -> Option<Collection> {
        select(&self.version, &self.family.options(), &self.excluded).next()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::db::foreign::forget_counts;
    use crate::{ColumnFamilyOptions, Db, ErrorKind, Options};

    thread_local! {
        /// The name of the thread that the system does not start for this one.
        static REFUSED: Cell<&'static str> = const { Cell::new("") };
    }

    pub(super) fn refuse(name: &str) -> io::Result<()> {
        match name == REFUSED.get() {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        }
    }

    #[test]
    fn an_opening_that_gets_no_thread_fails_and_leaves_the_database_free() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options {
            default: ColumnFamilyOptions {
                min_blob_size: 100,
                ..ColumnFamilyOptions::default()
            },
            ..Options::default()
        };
        options.db.max_background_jobs = 2;
        let db = Db::open(dir.path(), &options).unwrap();
        db.put(b"k", &[7; 500]).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        // So that the thread that collects garbage begins with a job that counts as running.
        forget_counts(dir.path());
        for refused in ["titan-0", "titan-1", "titan-gc"] {
            let (path, options) = (dir.path().to_owned(), options.clone());
            let (done, outcome) = mpsc::channel();
            std::thread::spawn(move || {
                REFUSED.set(refused);
                let _ = done.send(Db::open(path, &options).map(drop));
            });
            // Only an opening that never returns takes that long.
            let opened = outcome.recv_timeout(Duration::from_secs(60));
            let error = opened.expect(refused).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{refused}: {error}");
        }
        let db = Db::open(dir.path(), &options).unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.get(b"k").unwrap().unwrap(), &[7; 500][..]);
        let levels = db.metrics().families.remove(0).levels;
        let counted: u64 = levels.iter().map(|l| l.referenced_blob_bytes).sum();
        assert!(counted > 500, "{counted}");
    }
}
