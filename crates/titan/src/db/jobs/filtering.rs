//! Compaction filters as jobs of the database use them: how a job filters, and its reports.

use crate::compaction::building::filter::{FilterCounts, Filtering};
use crate::compaction::building::job_output::JobOutput;
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::db::core::write_times::rounded_up;
use crate::error::{ErrorKind, Result};
use crate::filter::FilterReason;
use crate::stats::{self, notify};

impl Shared {
    /// Filtering by a job of a family.
    pub(super) fn filtering(&self, family: &Family, reason: FilterReason) -> Filtering {
        let mut recent = Vec::new();
        if reason == FilterReason::Flush && family.revisit.is_some() {
            recent = self.opening.write_times.known();
            // Flushed entries have been written. The number is taken before the time: entries
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

    /// Whether a job has ended because its compaction filter failed; reports that.
    pub(super) fn is_failed_filter<T>(&self, outcome: &Result<T>) -> bool {
        match outcome {
            Err(e) if e.kind() == ErrorKind::CompactionFilter => {
                stats::add(&self.opening.statistics.filter_failures, 1);
                notify!(self.opening.listeners, compaction_filter_failed(e));
                true
            }
            _ => false,
        }
    }

    /// Notifies listeners of the collectors that failed in a job.
    pub(super) fn report_collectors(&self, output: &JobOutput) {
        for e in &output.collector_failures {
            notify!(self.opening.listeners, table_properties_collector_failed(e));
        }
    }

    /// Counts the decisions of a compaction filter.
    pub(super) fn count_filtered(&self, counts: &FilterCounts) {
        let statistics = &self.opening.statistics;
        stats::add(&statistics.filter_entries, counts.asked);
        stats::add(&statistics.filter_removed, counts.removed + counts.skipped);
        stats::add(&statistics.filter_changed, counts.changed);
        stats::add(&statistics.filter_blob_reads, counts.blob_reads);
        stats::add(&statistics.filter_blob_read_bytes, counts.blob_read_bytes);
    }
}
