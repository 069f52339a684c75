//! Which jobs run.

use std::collections::BTreeMap;

/// The kind of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunningJob {
    Flush,
    /// An estimate of the data that a memtable shadows.
    Estimate,
    /// The switch of a memtable whose entries a compaction filter is to see.
    Switch,
    /// A compaction that is due.
    Compaction,
    /// A compaction that a user asked for.
    ManualCompaction,
    /// The search for blob files to collect.
    Selection,
    /// Reading files into the kernel's cache. Nobody waits for it.
    WarmUp,
    /// A look, in a warm-up, at versions and the files that they name.
    WarmUpLook,
    /// A step of writing a value that comes from a reader, on the thread of a user.
    ValueFromReader,
    /// A step of an ingestion, on the thread of a user.
    Ingestion,
    /// A change of options, on the thread of a user.
    OptionsChange,
    /// A collection that is due.
    Collection,
    /// A collection that a user asked for.
    ManualCollection,
}

impl RunningJob {
    pub(super) fn is_compaction(self) -> bool {
        matches!(self, RunningJob::Compaction | RunningJob::ManualCompaction)
    }

    pub(crate) fn is_collection(self) -> bool {
        matches!(self, RunningJob::Collection | RunningJob::ManualCollection)
    }
}

/// Number of running jobs, over all families, including those dropped meanwhile.
#[derive(Clone, Default)]
pub(crate) struct RunningCounts(BTreeMap<RunningJob, usize>);

impl RunningCounts {
    pub(crate) fn begin(&mut self, job: RunningJob) {
        // The device is the bottleneck of a collection, and one relocates the records that another
        // would.
        invariant!(
            !job.is_collection() || !self.is_collecting(),
            "a collection begins beside another"
        );
        // One thread does the first two, and of the last one is enough.
        let is_single = matches!(
            job,
            RunningJob::WarmUp | RunningJob::Selection | RunningJob::Estimate
        );
        invariant!(
            !is_single || self.of(job) == 0,
            "a job begins beside another of its kind"
        );
        *self.0.entry(job).or_default() += 1;
    }

    pub(crate) fn end(&mut self, job: RunningJob) {
        let count = self.0.entry(job).or_default();
        invariant!(*count > 0, "a job ends that is not running");
        *count -= 1;
    }

    /// Number of running jobs of a kind.
    pub(crate) fn of(&self, job: RunningJob) -> usize {
        self.0.get(&job).copied().unwrap_or_default()
    }

    /// Whether no job runs whose end is waited for.
    pub(crate) fn is_idle(&self) -> bool {
        let forgotten = mutant!(closing_forgets_a_users_collection);
        let is_forgotten = |job| forgotten && job == RunningJob::ManualCollection;
        let counts = |job| job != RunningJob::WarmUp && !is_forgotten(job);
        self.0
            .iter()
            .all(|(job, count)| *count == 0 || !counts(*job))
    }

    /// Whether a job runs whose output takes room only until the files that it replaces are
    /// deleted.
    pub(crate) fn is_replacing(&self) -> bool {
        let mut running = self.0.iter().filter(|(_, count)| **count > 0);
        running.any(|(job, _)| job.is_compaction() || job.is_collection())
    }

    /// Whether garbage is being collected, for any reason.
    pub(crate) fn is_collecting(&self) -> bool {
        self.of(RunningJob::Collection) > 0 || self.of(RunningJob::ManualCollection) > 0
    }
}
