//! The choice of events that are counted and timed.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// The counters and times that [`Statistics`](crate::Statistics) have, in
/// [`DbOptions::stats_level`](crate::DbOptions::stats_level).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(rename_all = "lowercase")
)]
#[non_exhaustive]
pub enum StatsLevel {
    /// The counters that are always kept. No histogram. The parts that are switched off cost a
    /// branch in each call.
    #[default]
    Off,
    /// All counters. Every job, sync and stall is timed, and of the calls that may take less than a
    /// microsecond (reads, seeks, writes) about one in 32, at random gaps. Their histograms have
    /// that part of the calls, and [say so](crate::HistogramData::sampled): means and percentiles
    /// are right, counts are not. Cost: about 2 % of the instructions of a call.
    Sampled,
    /// All counters, and every call is timed. Cost: two readings of the clock for each call.
    All,
}
