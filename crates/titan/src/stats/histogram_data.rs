//! A histogram as readers see it.

use histogram::Histogram;
#[cfg(feature = "serde")]
use serde::Serialize;

/// The distribution of the times or sizes of one kind of operation, since the database was opened.
/// Values are in the unit of the histogram's name, which is microseconds for times. Sum, average
/// and largest value are exact; the others are right within 6 %.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct HistogramData {
    /// Values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The largest one.
    pub max: f64,
    /// Their mean; 0 if there are none.
    pub average: f64,
    /// Half of the values are not above it.
    pub median: f64,
    /// 95 % of the values are not above it.
    pub percentile95: f64,
    /// 99 % of the values are not above it.
    pub percentile99: f64,
    /// Whether calls were left out: at the [level](crate::StatsLevel) `sampled`, about one of 32 is
    /// timed. Count and sum are those of the calls that were timed.
    pub sampled: bool,
    /// The buckets that have values, the lowest first.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub buckets: Vec<HistogramBucket>,
}

/// Values that a histogram does not tell apart.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HistogramBucket {
    /// The largest value that belongs to it.
    pub up_to: f64,
    /// Values in it.
    pub count: u64,
}

impl HistogramData {
    /// `unit` is the number of recorded units in one unit of the data.
    pub(super) fn of(recorded: &Histogram, sum: u64, max: u64, unit: f64) -> Self {
        let filled = recorded.iter().filter(|bucket| bucket.count() > 0);
        let buckets: Vec<HistogramBucket> = filled
            .map(|bucket| HistogramBucket {
                up_to: bucket.end() as f64 / unit,
                count: bucket.count(),
            })
            .collect();
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        let (sum, max) = (sum as f64 / unit, max as f64 / unit);
        let mut data = HistogramData {
            count,
            sum,
            max,
            average: if count == 0 { 0.0 } else { sum / count as f64 },
            buckets,
            ..HistogramData::default()
        };
        data.median = data.percentile(50.0);
        data.percentile95 = data.percentile(95.0);
        data.percentile99 = data.percentile(99.0);
        data
    }

    /// A value that `percent` of 100 of all values do not exceed; 0 if there are none.
    pub fn percentile(&self, percent: f64) -> f64 {
        let wanted = self.count as f64 * percent / 100.0;
        let mut below = 0;
        for bucket in &self.buckets {
            below += bucket.count;
            if below as f64 >= wanted {
                return bucket.up_to.min(self.max);
            }
        }
        self.max
    }

    /// The values that are not above `bound`, as far as the buckets tell.
    pub(crate) fn count_up_to(&self, bound: f64) -> u64 {
        let within = self
            .buckets
            .iter()
            .take_while(|bucket| bucket.up_to <= bound);
        within.map(|bucket| bucket.count).sum()
    }
}
