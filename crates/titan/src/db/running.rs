//! Which jobs run.

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
    pub(super) fn is_collection(self) -> bool {
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
