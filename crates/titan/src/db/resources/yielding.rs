//! Background jobs that yield to reads: while users read any database of the `Env` and no writer is
//! near a stall, compactions work a third of the time and collections a fifth, on threads with a
//! higher niceness. They catch up with the writes, and nobody waits for that until level 0 or space
//! demands it. Compactions pause less, because seeks become slower with every sorted run. Those of
//! level 0 do not yield while it has more tables than made them due: every read visits each of its
//! tables.
//!
//! The device is left to others in pauses, not by a low I/O priority: with the class `idle` the
//! scheduler `mq-deadline` starves a thread for as long as others read without a break.
//!
//! Flushes never yield, nor do jobs on threads of users, nor the installation of an edit, for which
//! flushes wait.

use std::cell::Cell;
use std::time::Duration;

use super::niceness::NICENESS;
use crate::db::core::shared::Shared;

/// Time that a job works before it pauses.
const SLICE: Duration = Duration::from_millis(5);
/// The longest single pause. One write to a busy device may take longer than that.
const LONGEST_PAUSE: Duration = Duration::from_millis(80);
/// A compaction pauses so many times as long as it worked.
const COMPACTION_PAUSES: u32 = 2;
/// The same for a collection.
const COLLECTION_PAUSES: u32 = 4;

/// Yielding to reads by the job of one thread. The thread has its niceness back when this is
/// dropped.
pub(crate) struct YieldsToReads<'a> {
    /// `None` if the job never yields.
    shared: Option<&'a Shared>,
    kind: Kind,
    /// The niceness of the thread before it yielded, while it yields.
    usual: Cell<Option<i32>>,
    /// Since when the job has worked without a pause.
    slice: Cell<Option<Slice>>,
}

/// The kind of a job that yields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Compaction,
    Collection,
}

impl Kind {
    /// The job pauses so many times as long as it worked.
    fn pauses(self) -> u32 {
        match self {
            Kind::Compaction => COMPACTION_PAUSES,
            Kind::Collection => COLLECTION_PAUSES,
        }
    }
}

#[derive(Clone, Copy)]
struct Slice {
    began: Duration,
    /// [`Activity::reads`](crate::env::Activity::reads) then.
    reads: u64,
}

impl<'a> YieldsToReads<'a> {
    /// For a compaction that is due and that no caller waits for.
    pub(crate) fn of_compaction(shared: &'a Shared) -> Self {
        YieldsToReads::new(Some(shared), Kind::Compaction)
    }

    /// For a collection that is due and that no caller waits for.
    pub(crate) fn of_collection(shared: &'a Shared) -> Self {
        YieldsToReads::new(Some(shared), Kind::Collection)
    }

    /// For a job that a caller waits for.
    pub(crate) fn never() -> Self {
        YieldsToReads::new(None, Kind::Compaction)
    }

    fn new(shared: Option<&'a Shared>, kind: Kind) -> Self {
        YieldsToReads {
            shared,
            kind,
            usual: Cell::new(None),
            slice: Cell::new(None),
        }
    }

    /// To be called often by the job, without locks. Cost: reads the clock; it may sleep, for
    /// [`LONGEST_PAUSE`] at most.
    pub(crate) fn yield_to_reads(&self) {
        let Some(shared) = self.shared else {
            return;
        };
        if shared.jobs_must_hurry() {
            return self.hurry();
        }
        self.be_nice();
        let now = shared.opening.clock.monotonic();
        let slice = self.slice.get().unwrap_or_else(|| Slice::now(shared));
        let worked = now.saturating_sub(slice.began);
        if worked < SLICE {
            return self.slice.set(Some(slice));
        }
        if shared.opening.env.parts().activity.reads() != slice.reads {
            let pause = worked.saturating_mul(self.kind.pauses());
            let paused = shared.pause(pause.min(LONGEST_PAUSE), || shared.jobs_must_hurry());
            if self.kind == Kind::Collection {
                // Or it would seem to free space more slowly than it can.
                shared.state.lock().collections.waited_for_rate += paused;
            }
        }
        self.slice.set(Some(Slice::now(shared)));
    }

    /// Restores the usual niceness until the job yields again.
    pub(crate) fn hurry(&self) {
        self.slice.set(None);
        if let Some(usual) = self.usual.take() {
            NICENESS.restore(usual);
        }
    }

    fn be_nice(&self) {
        // In models niceness is left alone.
        if self.usual.get().is_none() && !cfg!(any(loom, shuttle)) {
            self.usual.set(NICENESS.raise());
        }
    }
}

impl Slice {
    fn now(shared: &Shared) -> Self {
        Slice {
            began: shared.opening.clock.monotonic(),
            reads: shared.opening.env.parts().activity.reads(),
        }
    }
}

impl Drop for YieldsToReads<'_> {
    fn drop(&mut self) {
        self.hurry();
    }
}

impl Shared {
    /// Whether jobs do not yield to reads now. Another database of the `Env` that is urgent may
    /// wait for the thread.
    fn jobs_must_hurry(&self) -> bool {
        self.admission.jobs_must_hurry() || self.opening.env.is_any_urgent()
    }

    /// Leaves the device to others for `pause`, or until `stop` returns true or the database
    /// closes. Returns how long that was.
    pub(crate) fn pause(&self, pause: Duration, stop: impl Fn() -> bool) -> Duration {
        let clock = &*self.opening.clock;
        let began = clock.monotonic();
        loop {
            let seen = self.signals.progress.seen();
            let paused = clock.monotonic().saturating_sub(began);
            let left = pause.saturating_sub(paused);
            if left.is_zero() || self.lifecycle.is_closed() || stop() {
                return paused;
            }
            let step = clock.begin_wait(left);
            self.signals.progress.wait_for(seen, step);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::SystemClock;
    use crate::db::resources::niceness::{NICER, NICEST, Os, Scheduler};
    use crate::db::tests::clock::TestClock;
    use crate::{Db, Env, EnvOptions, Options};

    #[test]
    fn reads_of_a_database_that_is_opened_for_reading_count_while_it_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.db.env = Some(Env::new(EnvOptions::default()).unwrap());
        let path = |name| dir.path().join(name);
        Db::open(path("read"), &options).unwrap().close().unwrap();
        let other = Db::open(path("other"), &options).unwrap();
        let activity = &other.core.shared.opening.env.parts().activity;
        let before = activity.reads();
        let db = Db::open_read_only(path("read"), &options).unwrap();
        db.get("k").unwrap();
        assert_eq!(activity.reads(), before + 1);
        drop(db);
        assert_eq!(activity.reads(), before + 1, "its end is no activity");
    }

    #[test]
    fn a_job_pauses_while_users_read_and_nothing_is_urgent() {
        let clock = Arc::new(TestClock::default());
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.db.clock = clock.clone();
        // No idle cleanup, so that no other thread advances the clock.
        options.default.disable_auto_compactions = true;
        let db = Db::open(dir.path(), &options).unwrap();
        db.wait_idle().unwrap();
        let shared = &db.core.shared;
        let niceness = || Os.get().unwrap();
        let usual = niceness();
        // How long a job pauses after it has worked for so long, with or without reads.
        let pauses = |job: &YieldsToReads<'_>, read: bool, worked: Duration| {
            job.yield_to_reads();
            if read {
                db.get(b"k").unwrap();
            }
            clock.advance(worked);
            let before = clock.monotonic();
            job.yield_to_reads();
            clock.monotonic() - before
        };
        let compaction = YieldsToReads::of_compaction(shared);
        assert_eq!(pauses(&compaction, false, SLICE), Duration::ZERO);
        // Work adds up until it fills a slice.
        assert_eq!(pauses(&compaction, true, SLICE / 2), Duration::ZERO);
        let pause = SLICE * 3 / 2 * COMPACTION_PAUSES;
        assert_eq!(pauses(&compaction, true, SLICE), pause);
        assert_eq!(pauses(&compaction, true, LONGEST_PAUSE), LONGEST_PAUSE);
        let nicer = match NICENESS.comes_back() {
            true => (usual + NICER).min(NICEST),
            false => usual,
        };
        assert_eq!(niceness(), nicer);
        let waits = shared.admission.awaits_jobs(&shared.signals);
        assert_eq!(pauses(&compaction, true, SLICE), Duration::ZERO);
        assert_eq!(niceness(), usual, "a caller waits");
        drop(waits);
        shared.admission.set_urgent(true);
        assert_eq!(pauses(&compaction, true, SLICE), Duration::ZERO);
        assert_eq!(niceness(), usual);
        shared.admission.set_urgent(false);
        assert_eq!(pauses(&compaction, true, SLICE), SLICE * COMPACTION_PAUSES);
        drop(compaction);
        assert_eq!(niceness(), usual);

        let collection = YieldsToReads::of_collection(shared);
        assert_eq!(pauses(&collection, true, SLICE), SLICE * COLLECTION_PAUSES);
        let waited_for = YieldsToReads::never();
        assert_eq!(pauses(&waited_for, true, LONGEST_PAUSE), Duration::ZERO);
    }
}
