//! The counts and latencies of threads.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use titan::Error;

/// Longer operations count as this long, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// The counts of a thread, or of several.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Operations; a call may perform several.
    pub operations: u64,
    /// Keys that were looked up, and entries that scans passed.
    pub looked_up: u64,
    /// Number of them that existed.
    pub found: u64,
    /// Bytes of keys and values that were read.
    pub bytes_read: u64,
    /// Bytes of keys and values that were written. Deletions write none.
    pub bytes_written: u64,
    /// Keys that single deletions named.
    pub deleted: u64,
}

impl Tally {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.looked_up += other.looked_up;
        self.found += other.found;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.deleted += other.deleted;
    }
}

/// The distributions of latencies, by the name of their operation.
pub type Latencies = BTreeMap<&'static str, Histogram<u64>>;

/// A histogram of latencies, in nanoseconds, precise to a thousandth. It never grows.
pub fn histogram() -> titan::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST, 3).map_err(|e| Error::internal(e.to_string()))
}

/// Records a latency.
pub(crate) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    histogram.saturating_record(nanoseconds.max(1));
}

/// Adds a distribution to those of this name.
pub(crate) fn add_to(all: &mut Latencies, name: &'static str, histogram: &Histogram<u64>) {
    match all.get_mut(name) {
        // Both have the same bounds, so that nothing is too large for the sum.
        Some(sum) => *sum += histogram,
        None if histogram.is_empty() => {}
        None => {
            all.insert(name, histogram.clone());
        }
    }
}

/// Records latencies of operations of this name.
pub(crate) fn record_all(
    all: &mut Latencies,
    name: &'static str,
    latencies: impl Iterator<Item = Duration>,
) -> titan::Result<u64> {
    let mut more = histogram()?;
    latencies.for_each(|latency| record(&mut more, latency));
    add_to(all, name, &more);
    Ok(more.len())
}
