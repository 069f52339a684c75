//! Jobs: units of background work that are claimed, run, released and reported in one way.
//!
//! A job is claimed under the state lock, where it is [counted](crate::db::core::running_jobs) as
//! running. [`Shared::run_job`] runs it on the thread that claimed it, decides the effect of a
//! failure, and releases the claim. A job counts as running until listeners have been notified of
//! its result, so that a caller that waits for the database to be idle waits for that too.

use std::sync::Arc;

use crate::db::core::family::Family;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::State;
use crate::env::Threads;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::stats::{HistogramKind, Listeners, notify, span};

/// A kind of background work.
pub(crate) trait Job: Sized {
    /// Name of its work, in the context of an error: "flushing".
    const DOING: &'static str;
    /// The histogram of its times, if there is one.
    const HISTOGRAM: Option<HistogramKind> = None;
    /// Result of a run.
    type Done;
    /// Claims that must be released under the state lock.
    type Claim;

    /// Kind under which the state counts it.
    fn kind(&self) -> RunningJob;

    /// The family it works on.
    fn family(&self) -> &Arc<Family>;

    /// Notifies listeners of the work that is about to begin. A silent job does not.
    fn announce(&self, listeners: &Listeners) {
        let _ = listeners;
    }

    /// Does the work and installs the result.
    fn run(self, shared: &Shared) -> (Result<Self::Done>, Self::Claim);

    /// Releases the claim, and notes the findings of the job in the state.
    fn release(claim: Self::Claim, outcome: &Result<Self::Done>, state: &mut State);

    /// Notifies listeners of the work done. A silent job does not.
    fn report(done: &Self::Done, listeners: &Listeners) {
        let _ = (done, listeners);
    }
}

/// A job for a background thread, which the state counts as running.
pub(crate) type Claimed = Box<dyn FnOnce(&Shared) + Send>;

/// A kind of jobs, as background threads find them.
pub(in crate::db) struct JobSource {
    /// The threads that do them.
    pub(in crate::db) threads: Threads,
    /// Of several threads one is always left for others.
    pub(in crate::db) takes_long: bool,
    /// Whether one is due for which a caller waits that waits for the database to be idle. The job
    /// may lack a thread. None is due that only the end of a pause lets begin, or room.
    pub(in crate::db) is_due: fn(&Shared, &mut State) -> bool,
    /// Claims one that is due and may begin, and counts it as running.
    pub(in crate::db) claim: fn(&Shared, &mut State) -> Option<Claimed>,
}

/// Runs a job, and leaves its result to the listeners.
pub(super) fn claimed<J: Job + Send + 'static>(job: J) -> Claimed {
    Box::new(move |shared| drop(shared.run_job(job)))
}

impl Shared {
    /// Runs a job that the caller has counted as running.
    ///
    /// # Errors
    /// Those of the job. See [`Shared::job_failed`] for those that have stopped writes.
    pub(crate) fn run_job<J: Job>(&self, job: J) -> Result<J::Done> {
        let running = Running::counted(self, job.family().id, job.kind());
        let outcome = self.run_counted(job);
        running.end();
        outcome
    }

    /// Does a step of a job on the thread of a user, unless the database has been closed, writes
    /// have stopped, or the family has been dropped. Closing waits for it.
    pub(super) fn step_of<T>(
        &self,
        kind: RunningJob,
        family: &Family,
        step: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        family.check_exists()?;
        let running = {
            let mut state = self.state.lock();
            // Under the lock: closing waits for the steps that it finds counted.
            self.check_open()?;
            self.check_not_stopped()?;
            state.begin(kind, family.id);
            Running::counted(self, family.id, kind)
        };
        let done = step();
        running.end();
        done
    }

    fn run_counted<J: Job>(&self, job: J) -> Result<J::Done> {
        let (family, kind) = (Arc::clone(job.family()), job.kind());
        job.announce(&self.opening.listeners);
        let detailed = self.opening.statistics.detailed();
        let timed = detailed.zip(J::HISTOGRAM);
        span!("job", doing = J::DOING, family = family.name);
        let watch = timed.map(|(detailed, kind)| detailed.time(kind));
        let (outcome, claim) = job.run(self);
        drop(watch);
        // Before the job counts as done, so that no job starts on the work that failed.
        let outcome = outcome.map_err(|e| self.job_failed(&family, J::DOING, e));
        // A warm-up succeeds even if it could not open files.
        let tells = kind != RunningJob::WarmUp || mutant!(warm_up_finds_descriptors);
        if outcome.is_ok() && tells {
            self.failure.postponed.end();
        }
        let mut state = self.state.lock();
        J::release(claim, &outcome, &mut state);
        self.update_stalls(state);
        self.signals.work.raise();
        let done = outcome?;
        J::report(&done, &self.opening.listeners);
        Ok(done)
    }

    /// Handles the failure of a job: nothing to the database if the job was abandoned, since the
    /// database closes, collections are paused, the family was dropped or its compaction filter
    /// failed, and nothing if the device is full and no edit has failed: the job
    /// [waits](crate::db::resources::lack_of_room). If the process had no file descriptor left,
    /// nothing of the job took effect: it is retried after a while. Any other failure stops writes.
    /// Returns the error, with the work of the job as context.
    pub(super) fn job_failed(&self, family: &Family, doing: &str, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Closed | ErrorKind::Busy | ErrorKind::CompactionFilter => error,
            _ if family.is_dropped() => error,
            ErrorKind::NoSpace
                if self.is_manifest_intact() && !mutant!(full_device_stops_writes) =>
            {
                let error = error.context(format!("{doing} column family {}", family.name));
                notify!(self.opening.listeners, job_lacks_room(&error));
                error
            }
            kind => {
                let doing = format!("{doing} column family {}", family.name);
                let error = error.context(doing);
                let stops = mutant!(no_descriptor_stops_writes);
                if kind == ErrorKind::TooManyOpenFiles && !stops {
                    self.postpone_jobs(&error);
                    return error;
                }
                self.failure.set(error)
            }
        }
    }
}

/// A job that the state counts as running, until this is dropped: closing the database, resuming it
/// and waiting for it to be idle wait for it. A job ceases to count however its thread leaves it,
/// also by a panic in code of the user (a comparator, a file system), which stops writes.
pub(crate) struct Running<'a> {
    shared: &'a Shared,
    family: ColumnFamilyId,
    job: RunningJob,
    /// It has ended without a panic. `thread::panicking` does not tell: a destructor may run a job
    /// while its thread unwinds from something else.
    over: bool,
}

impl<'a> Running<'a> {
    /// The job that the caller, or the thread that handed it over, has counted as running.
    pub(crate) fn counted(shared: &'a Shared, family: ColumnFamilyId, job: RunningJob) -> Self {
        Running {
            shared,
            family,
            job,
            over: false,
        }
    }

    /// The job has ended, well or with an error.
    pub(crate) fn end(mut self) {
        self.over = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Before the job counts as done, so that no job starts on the work that it left half way.
        if !self.over {
            let message = "a thread panicked in a background job";
            self.shared.failure.set_after_panic(message);
        }
        self.shared.state.lock().end(self.job, self.family);
        let signals = &self.shared.signals;
        signals.progress.raise();
        signals.work.raise();
        // A collecting thread that waits without a timeout found nothing to do in the state before.
        if self.job.is_collection() || signals.is_write_awaited() {
            signals.collector.raise();
        }
    }
}
