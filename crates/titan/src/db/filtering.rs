//! Compaction filters as jobs of the database use them: how a job filters, what it reports, and the
//! times of writes that it needs.

use std::sync::Arc;

use super::core::Shared;
use super::family::Family;
use super::write_times::rounded_up;
use crate::compaction::filter::{FilterCounts, Filtering, spacing};
use crate::compaction::job_output::JobOutput;
use crate::error::{ErrorKind, Result};
use crate::filter::FilterReason;
use crate::stats::{self, notify};
use crate::write::pipeline::Target;

impl Shared {
    /// Notes that what has been published, in the memtables of `targets`, was written by now.
    pub(super) fn note_write_times(&self, targets: &[Target<Arc<Family>>]) {
        let clock = &self.files.env.clock;
        let last = self.counters.last_sequence();
        let Some(now) = self.context.write_times.note(last, || clock.latest()) else {
            return;
        };
        let revisited = targets.iter().filter(|t| t.family.revisit.is_some());
        // Each is noted.
        let new = revisited.filter(|target| target.memtable.note_oldest_time(now));
        if new.count() > 0 {
            // A thread has to wake up when the memtable is old.
            self.signals.work.raise_for_one();
        }
    }

    /// Filtering by a job of a family.
    pub(super) fn filtering(&self, family: &Family, reason: FilterReason) -> Filtering {
        let mut recent = Vec::new();
        if reason == FilterReason::Flush && family.revisit.is_some() {
            recent = self.context.write_times.known();
            // What is flushed has been written. The number is taken before the time: what is
            // published between the two must not count as written by then.
            let last = self.counters.last_sequence();
            let now = rounded_up(self.files.env.clock.latest());
            recent.push((last, now));
        }
        Filtering {
            reason,
            now: self.files.env.clock.earliest(),
            revisit: family.revisit,
            garbage_moment: family.garbage_moment(),
            asks: true,
            recent,
        }
    }

    /// The seconds since 1970 with which tables' ages are compared.
    pub(super) fn aged_at(&self) -> u64 {
        self.files.env.clock.earliest().as_secs()
    }

    /// Records times as often as a family that is opened wants it.
    pub(super) fn record_times_for(&self, family: &Family) {
        if let Some(revisit) = family.revisit {
            self.context.write_times.record_every(spacing(revisit));
        }
    }

    /// Whether a job has ended because its compaction filter failed; reports that.
    pub(super) fn is_failed_filter<T>(&self, outcome: &Result<T>) -> bool {
        match outcome {
            Err(e) if e.kind() == ErrorKind::CompactionFilter => {
                stats::add(&self.context.statistics.filter_failures, 1);
                notify!(self.context.listeners, compaction_filter_failed(e));
                true
            }
            _ => false,
        }
    }

    /// Notifies listeners of the collectors that failed in a job.
    pub(super) fn report_collectors(&self, output: &JobOutput) {
        for e in &output.collector_failures {
            notify!(self.context.listeners, table_properties_collector_failed(e));
        }
    }

    /// Counts what a compaction filter did.
    pub(super) fn count_filtered(&self, counts: &FilterCounts) {
        let statistics = &self.context.statistics;
        stats::add(&statistics.filter_entries, counts.asked);
        stats::add(&statistics.filter_removed, counts.removed + counts.skipped);
        stats::add(&statistics.filter_changed, counts.changed);
        stats::add(&statistics.filter_blob_reads, counts.blob_reads);
        stats::add(&statistics.filter_blob_read_bytes, counts.blob_read_bytes);
    }
}
