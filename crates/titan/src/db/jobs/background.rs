//! The threads that flush, compact and collect garbage.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::aged_memtables::SWITCHES;
use super::compact::COMPACTIONS;
use super::count_rocksdb_tables::{COUNTS, is_count_due};
use super::due_collections::COLLECTIONS;
use super::estimate::ESTIMATES;
use super::flush::FLUSHES;
use super::idle_cleanup::Idle;
use super::job::{Claimed, JobSource, Threads};
use super::warm_up::WARM_UPS;
use crate::db::core::shared::{Core, Shared};
use crate::db::core::state::State;
use crate::error::{Error, Result};
use crate::filter::check_may_wait_for_jobs;
use crate::gates;
use crate::sync::thread::{self, JoinHandle};

/// All kinds of background jobs; of those of the same threads, the most urgent one first.
pub(in crate::db) const SOURCES: [JobSource; 7] = [
    FLUSHES,
    ESTIMATES,
    SWITCHES,
    COMPACTIONS,
    COUNTS,
    COLLECTIONS,
    WARM_UPS,
];

/// Starts the threads of a database. If one cannot be started, dropping the core ends those that
/// were.
pub(crate) fn start(core: &Core) -> Result<()> {
    let shared = &core.shared;
    // Before any thread can wait for the database to be idle.
    let mut state = shared.state.lock();
    for family in state.families.values_mut() {
        family.jobs.count_due = is_count_due(&family.version);
    }
    state.warm_up_due = shared.wants_warm_up();
    let warms_up = state.warm_up_due;
    shared.update_stalls(state);
    start_missing(core)?;
    if warms_up {
        spawn(core, "titan-warm-up".to_owned(), |shared| {
            if let Some(job) = shared.find_or_fail(|| shared.next_warm_up()) {
                job(shared);
            }
        })?;
    }
    spawn(core, "titan-gc".to_owned(), |shared| {
        let mut idle = shared.idle();
        shared.run_jobs(|| shared.next_collection(&mut idle));
    })
}

/// Starts the threads for flushes and compactions that the options ask for and that are not there.
/// Does nothing once the database is closed.
pub(crate) fn start_missing(core: &Core) -> Result<()> {
    let shared = &core.shared;
    for number in 0..shared.opening.options.load().max_background_jobs {
        if shared.lifecycle.is_closed() || !shared.state.lock().workers.insert(number) {
            continue;
        }
        let run = move |shared: &Shared| shared.run_jobs(|| shared.next_job(number));
        if let Err(e) = spawn(core, format!("titan-{number}"), run) {
            shared.state.lock().workers.remove(&number);
            return Err(e);
        }
    }
    Ok(())
}

fn spawn(core: &Core, name: String, run: impl FnOnce(&Shared) + Send + 'static) -> Result<()> {
    let shared = Arc::clone(&core.shared);
    let mut threads = core.threads.lock();
    if shared.lifecycle.is_closed() {
        return Ok(());
    }
    let thread = start_thread(name.clone(), move || run(&shared))
        .map_err(|e| Error::new(crate::ErrorKind::Io, format!("cannot start a thread: {e}")))?;
    if let Some(ended) = threads.insert(name, thread) {
        // It was one too many, and has nothing left to do.
        let _ = ended.join();
    }
    Ok(())
}

fn start_thread(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    #[cfg(test)]
    tests::refuse(&name)?;
    thread::Builder::new().name(name).spawn(gates::inherit(run))
}

impl Shared {
    /// Runs the jobs that `next` finds, until it finds none.
    fn run_jobs(&self, mut next: impl FnMut() -> Option<Claimed>) {
        while let Some(job) = self.find_or_fail(&mut next) {
            // Failures have been recorded and listeners notified, also of panics. The thread has
            // nothing to add, and is needed when the database resumes.
            let _ = catch_unwind(AssertUnwindSafe(|| job(self)));
            // A file system of the application may panic, too; that concerns no data.
            let _ = catch_unwind(AssertUnwindSafe(|| self.purge()));
        }
    }

    /// Result of `find`. A comparator may panic there, too; that stops writes, and the thread waits
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

    /// Waits for a job; `None` when the database closes, or if there are to be fewer threads.
    fn next_job(&self, number: usize) -> Option<Claimed> {
        loop {
            let seen = self.signals.work.seen();
            if self.lifecycle.is_closed() {
                return None;
            }
            let mut state = self.state_with_room();
            // Under the lock: whoever wants more threads finds this one, or that it has ended.
            if number >= self.opening.options.load().max_background_jobs {
                state.workers.remove(&number);
                return None;
            }
            // Before the search: a wait without an end must follow a search that could find a job.
            let postponed = self.jobs_postponed_for();
            let job = self.find_job(Threads::Workers, &mut state);
            let timeout = match postponed {
                None => self.time_to_next_look(&state),
                Some(postponed) => Some(self.opening.clock.begin_wait(postponed)),
            };
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

    /// Waits until the warm-up may begin; `None` when the database closes.
    pub(crate) fn next_warm_up(&self) -> Option<Claimed> {
        loop {
            // Not the signal for work, which may wake one thread alone.
            let seen = self.signals.progress.seen();
            if self.lifecycle.is_closed() {
                return None;
            }
            let postponed = self.jobs_postponed_for();
            let job = self.find_job(Threads::WarmUp, &mut self.state.lock());
            if job.is_some() {
                return job;
            }
            if mutant!(warm_up_dropped_for_want_of_descriptors) {
                return None;
            }
            gate!("warm-up: waits");
            match postponed {
                None => self.signals.progress.wait(seen),
                Some(postponed) => {
                    let step = self.opening.clock.begin_wait(postponed);
                    self.signals.progress.wait_for(seen, step);
                }
            }
        }
    }

    /// Claims the most urgent job that is due and that `threads` do.
    pub(in crate::db) fn find_job(&self, threads: Threads, state: &mut State) -> Option<Claimed> {
        if self.failure.get().is_some() || self.jobs_postponed_for().is_some() {
            return None;
        }
        let mut sources = SOURCES.iter().filter(|source| source.threads == threads);
        sources.find_map(|source| (source.claim)(self, state))
    }

    /// Waits for a job of the collecting thread, and makes due what cleans up an idle database;
    /// `None` when the database closes.
    fn next_collection(&self, idle: &mut Idle) -> Option<Claimed> {
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
            if let Some(postponed) = self.jobs_postponed_for() {
                let step = self.opening.clock.begin_wait(postponed);
                self.signals.collector.wait_for(seen, step);
                continue;
            }
            let mut state = self.state_with_room();
            match self.find_job(Threads::Collector, &mut state) {
                Some(job) => return Some(job),
                None => self.wait_or_clean_up(state, seen, idle),
            }
        }
    }

    /// See [`Db::wait_idle`](crate::Db::wait_idle).
    pub(crate) fn wait_idle(&self) -> Result<()> {
        // Jobs may need the lead.
        self.pipeline.check_may_wait()?;
        check_may_wait_for_jobs()?;
        self.lifecycle.check_not_inherited()?;
        let postponements = self.retry_postponed_jobs();
        loop {
            let seen = self.signals.progress.seen();
            self.check_open()?;
            if self.lifecycle.read_only {
                return Ok(());
            }
            self.check_not_stopped()?;
            self.failure.postponed.check_none_since(postponements)?;
            let mut state = self.state_with_room();
            let busy = !state.running.is_idle()
                || state.collections.manual > 0
                || self.signals.has_ended_version()
                || !self.admission.notifier.is_idle()
                || state.families.values().any(|f| f.jobs.manual_compaction)
                || SOURCES
                    .iter()
                    .any(|source| (source.is_due)(self, &mut state));
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
    pub(crate) fn wait_for_running_jobs(&self) {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::db::jobs::count_rocksdb_tables::forget_counts;
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

    /// Threads that are too many end, those that are missing are started, and each number has one.
    #[test]
    fn the_number_of_threads_follows_its_option() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let workers = || db.core.shared.state.lock().workers.clone();
        let now = || db.core.shared.opening.clock.monotonic();
        let deadline = now() + Duration::from_secs(60);
        for jobs in [5, 1, 3, 1, 4, 2, 8, 1, 8] {
            db.set_options(&[("max_background_jobs", &jobs.to_string())])
                .unwrap();
            while workers().len() != jobs {
                assert!(now() < deadline, "{:?}", workers());
                std::thread::yield_now();
            }
            assert!(workers().into_iter().eq(0..jobs));
            db.put(b"k", &jobs.to_be_bytes()).unwrap();
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
        // At once, without waiting for those that end.
        for jobs in [1, 8, 2, 9, 1, 7].repeat(20) {
            db.set_options(&[("max_background_jobs", &jobs.to_string())])
                .unwrap();
        }
        assert!((0..7).all(|number| workers().contains(&number)));
        db.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        let threads = db.core.threads.lock().len();
        assert!(threads <= 9 + 2, "{threads}");
        db.close().unwrap();
    }

    #[test]
    fn threads_that_cannot_be_started_are_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        REFUSED.set("titan-2");
        let more = || db.set_options(&[("max_background_jobs", "4")]);
        assert_eq!(more().unwrap_err().kind(), ErrorKind::Io);
        db.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        REFUSED.set("");
        more().unwrap();
        let workers = db.core.shared.state.lock().workers.clone();
        assert!(workers.into_iter().eq(0..4));
        db.close().unwrap();
    }
}
