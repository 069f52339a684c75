//! Jobs that background threads find in a database, and waiting for them.

use std::sync::Arc;
use std::time::Duration;

use super::compact::COMPACTIONS;
use super::count_rocksdb_tables::{COUNTS, is_count_due};
use super::due_collections::COLLECTIONS;
use super::estimate::ESTIMATES;
use super::flush::FLUSHES;
use super::job::{Claimed, JobSource};
use super::switches::SWITCHES;
use super::warm_up::WARM_UPS;
use crate::db::core::room::LOOK_EACH;
use crate::db::core::shared::{Core, Shared};
use crate::db::core::state::State;
use crate::env::{Found, Member, Threads};
use crate::error::Result;
use crate::filter::check_may_wait_for_jobs;
use crate::panics::contain;

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

/// Begins the service of background threads, and starts those that are missing. If one cannot be
/// started, dropping the core ends those that were.
pub(crate) fn start(core: &Core) -> Result<()> {
    let shared = &core.shared;
    let mut state = shared.state.lock();
    let write_buffers = &shared.opening.env.write_buffers;
    for family in state.families.values_mut() {
        family.jobs.count_due = is_count_due(&family.version);
        if write_buffers.is_bounded() {
            // Replayed entries count before anything is written.
            family.memtable.charge(write_buffers);
        }
    }
    state.warm_up_due = shared.wants_warm_up();
    state.idle = shared.idle();
    let warms_up = state.warm_up_due;
    drop(state);
    let max_jobs = shared.opening.options.load().max_background_jobs;
    let member = Arc::clone(shared) as Arc<dyn Member>;
    shared.opening.env.join(member, max_jobs, warms_up)?;
    // Before any thread can wait for the database to be idle.
    shared.update_stalls(shared.state.lock());
    Ok(())
}

impl Member for Shared {
    fn find(self: Arc<Self>, threads: Threads, may_be_long: bool) -> Found {
        let found = self.find_or_fail(|| match threads {
            Threads::Workers => self.find_work(may_be_long),
            Threads::Collector => self.find_collection(),
            Threads::WarmUp => self.find_warm_up(),
        });
        match found {
            Err(look_after) => Found::Nothing { look_after },
            Ok((job, is_long)) => Found::Job {
                is_long,
                run: Box::new(move || {
                    // Failures have been recorded and listeners notified, also of panics. The
                    // thread has nothing to add, and is needed when the database resumes.
                    let _ = contain(|| job(&self));
                    // A file system of the application may panic, too; that concerns no data.
                    let _ = contain(|| self.purge());
                }),
            },
        }
    }
}

/// A job that was claimed and whether it takes long, or for how long there is none, in real time.
type Search = Result<(Claimed, bool), Option<Duration>>;

/// The time after a panic at which the database is asked again: a file system of the application
/// may panic each time, and the threads have others to serve.
const AFTER_PANIC: Duration = Duration::from_secs(1);

impl Shared {
    /// Result of `find`. A comparator may panic there, too; that stops writes, and nothing is found
    /// until the database resumes.
    fn find_or_fail(&self, find: impl FnOnce() -> Search) -> Search {
        contain(find).unwrap_or_else(|_| {
            let message = "a thread panicked while it looked for a background job";
            self.failure.set_after_panic(message);
            Err(Some(AFTER_PANIC))
        })
    }

    /// Claims a flush, a compaction or the like.
    fn find_work(&self, may_be_long: bool) -> Search {
        if self.lifecycle.is_closed() {
            return Err(None);
        }
        let mut state = self.state_with_room();
        // Before the search: a wait without an end must follow a search that could find a job.
        let postponed = self.jobs_postponed_for();
        let job = self.find_job(Threads::Workers, may_be_long, &mut state);
        job.ok_or_else(|| match postponed {
            // Not by the database's clock: a wait for room must not advance it.
            None => self.time_to_next_look(&state),
            Some(postponed) => Some(self.opening.clock.begin_wait(postponed)),
        })
    }

    /// Claims the warm-up, once it may begin.
    pub(crate) fn find_warm_up(&self) -> Search {
        if self.lifecycle.is_closed() {
            return Err(None);
        }
        let postponed = self.jobs_postponed_for();
        let mut state = self.state.lock();
        if let Some(job) = self.find_job(Threads::WarmUp, true, &mut state) {
            return Ok(job);
        }
        if mutant!(warm_up_dropped_for_want_of_descriptors) {
            state.warm_up_due = false;
        }
        if !state.warm_up_due {
            return Err(None);
        }
        // While a failure is in force, too: the thread ends when no database waits for it.
        let waits = postponed.unwrap_or(LOOK_EACH);
        Err(Some(self.opening.clock.begin_wait(waits)))
    }

    /// Claims the most urgent job that is due and that `threads` do, and says whether it takes
    /// long.
    pub(in crate::db) fn find_job(
        &self,
        threads: Threads,
        may_be_long: bool,
        state: &mut State,
    ) -> Option<(Claimed, bool)> {
        if self.failure.get().is_some() {
            // It may have failed since it was evaluated.
            self.state_priority(state, false);
            return None;
        }
        if self.jobs_postponed_for().is_some() {
            return None;
        }
        let may_begin =
            |source: &&JobSource| source.threads == threads && (may_be_long || !source.takes_long);
        let mut sources = SOURCES.iter().filter(may_begin);
        sources.find_map(|source| Some(((source.claim)(self, state)?, source.takes_long)))
    }

    /// Claims a job of the collecting thread, or makes due the jobs that clean up an idle database.
    fn find_collection(&self) -> Search {
        self.heed_ended_versions();
        if self.lifecycle.is_closed() || self.failure.get().is_some() {
            return Err(None);
        }
        if let Some(postponed) = self.jobs_postponed_for() {
            return Err(Some(self.opening.clock.begin_wait(postponed)));
        }
        let mut state = self.state_with_room();
        let job = self.find_job(Threads::Collector, true, &mut state);
        job.ok_or_else(|| self.clean_up_if_idle(state))
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
    use std::sync::mpsc;

    use super::*;
    use crate::db::jobs::count_rocksdb_tables::forget_counts;
    use crate::env::refusal::REFUSED;
    use crate::{ColumnFamilyOptions, Db, ErrorKind, Options};

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
        let workers = || db.core.shared.opening.env.workers();
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
        let workers = db.core.shared.opening.env.workers();
        assert!(workers.into_iter().eq(0..4));
        db.close().unwrap();
    }
}
