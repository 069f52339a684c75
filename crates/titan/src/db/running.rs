//! Jobs that count as running: closing the database, resuming it and waiting for it to be idle wait
//! for them. A job ceases to count however its thread leaves it, also by a panic in code of the
//! user (a comparator, a listener).

use super::core::Shared;
use super::state::FamilyState;
use crate::format::ColumnFamilyId;
use crate::sync::atomic::Ordering;

/// A job that the state counts as running, until this is dropped.
pub(super) struct Running<'a> {
    shared: &'a Shared,
    family: ColumnFamilyId,
    job: RunningJob,
}

/// The kind of a job.
#[derive(Clone, Copy)]
pub(super) enum RunningJob {
    Flush,
    /// An estimate of what a memtable shadows.
    Look,
    Compaction,
    /// A collection that is due.
    Collection,
    /// A collection that a user asked for.
    ManualCollection,
}

impl RunningJob {
    /// Counts a job of the family as running. Takes the fields of the state apart, since the
    /// caller has the family borrowed.
    pub(super) fn count(self, family: &mut FamilyState, running: &mut RunningCounts) {
        match self {
            RunningJob::Flush => {
                family.flushing = true;
                running.flushes += 1;
            }
            RunningJob::Look => running.looks += 1,
            RunningJob::Compaction => {
                family.running_compactions += 1;
                running.compactions += 1;
            }
            RunningJob::Collection => running.collections += 1,
            RunningJob::ManualCollection => running.manual_collections += 1,
        }
    }

    fn is_collection(self) -> bool {
        matches!(self, RunningJob::Collection | RunningJob::ManualCollection)
    }
}

/// How many jobs run, over all families, including those dropped meanwhile.
#[derive(Clone, Copy, Default)]
pub(crate) struct RunningCounts {
    pub(super) flushes: usize,
    pub(super) looks: usize,
    pub(super) compactions: usize,
    pub(super) collections: usize,
    pub(super) manual_collections: usize,
}

impl RunningCounts {
    pub(super) fn is_idle(self) -> bool {
        let idle = self.flushes == 0 && self.looks == 0 && self.compactions == 0;
        // MUTANT: closing does not wait for a collection that a user runs.
        let forgotten = mutant!(
            "closing-forgets-a-users-collection",
            "-p titan --test it gc::manual::closing"
        ) && self.collections == 0;
        idle && (!self.is_collecting() || forgotten)
    }

    /// Whether garbage is being collected, for whatever reason.
    pub(super) fn is_collecting(self) -> bool {
        self.collections > 0 || self.manual_collections > 0
    }
}

impl<'a> Running<'a> {
    /// The job that the caller, or the thread that handed it over, has counted as running.
    pub(super) fn counted(shared: &'a Shared, family: ColumnFamilyId, job: RunningJob) -> Self {
        Running {
            shared,
            family,
            job,
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Before the job counts as done, so that no job starts on what it left half way.
        let message = "a thread panicked in a background job";
        self.shared.failure.set_if_panicking(self.shared, message);
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        let family = state.families.get_mut(&self.family);
        match self.job {
            RunningJob::Flush => {
                state.running.flushes -= 1;
                if let Some(family) = family {
                    family.flushing = false;
                }
            }
            RunningJob::Look => state.running.looks -= 1,
            RunningJob::Compaction => {
                state.running.compactions -= 1;
                if let Some(family) = family {
                    family.running_compactions -= 1;
                    // Its inputs may be taken again.
                    family.rests = None;
                }
            }
            RunningJob::Collection => state.running.collections -= 1,
            RunningJob::ManualCollection => state.running.manual_collections -= 1,
        }
        self.shared.progress.notify_all();
        self.shared.work.notify_all();
        // A collecting thread that waits without a timeout found nothing to do in what was there
        // before.
        let sleeps = self.shared.notify_of_write.load(Ordering::Acquire);
        if self.job.is_collection() || sleeps {
            self.shared.collector.notify_all();
        }
    }
}
