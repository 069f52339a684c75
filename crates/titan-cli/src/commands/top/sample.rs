//! The figures of one moment, and the rates between two.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use titan::{Db, DiskUsage, FamilyMetrics, Moment, Result};

use crate::usage;

/// The figures of a moment.
pub(super) struct Sample {
    taken: Instant,
    moment: Option<Moment>,
    disk: DiskUsage,
    families: Vec<FamilyMetrics>,
}

/// A page: the figures of a moment, and the rates since the one before.
#[derive(Serialize)]
pub(super) struct Page<'a> {
    pub(super) moment: Option<Moment>,
    pub(super) disk: &'a DiskUsage,
    /// Entries that only the log has count as if they were flushed.
    pub(super) families: &'a [FamilyMetrics],
    pub(super) rates: Option<Rates>,
}

/// Changes by the second. Sizes of files may shrink.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Rates {
    /// The time between the two moments.
    pub(super) seconds: f64,
    /// Operations written.
    pub(super) operations: f64,
    pub(super) sst_bytes: f64,
    pub(super) blob_bytes: f64,
    pub(super) wal_bytes: f64,
    /// Bytes of garbage in blob files.
    pub(super) garbage_bytes: f64,
}

impl Sample {
    pub(super) fn take(db: &Db, path: &Path) -> Result<Sample> {
        Ok(Sample {
            taken: Instant::now(),
            moment: db.moment(),
            disk: usage::disk_usage(path)?,
            families: db.metrics().families,
        })
    }

    /// The page of this sample, with the rates since an earlier one.
    pub(super) fn since(&self, before: Option<&Sample>) -> Page<'_> {
        let rates = before.map(|before| {
            let passed = self.taken.saturating_duration_since(before.taken);
            self.rates(before, passed)
        });
        Page {
            moment: self.moment,
            disk: &self.disk,
            families: &self.families,
            rates,
        }
    }

    fn rates(&self, before: &Sample, passed: Duration) -> Rates {
        let seconds = passed.as_secs_f64().max(1e-3);
        let rate = |of: fn(&Sample) -> u64| (of(self) as f64 - of(before) as f64) / seconds;
        Rates {
            seconds,
            operations: rate(|s| s.moment.map_or(0, |moment| moment.sequence)),
            sst_bytes: rate(|s| s.disk.sst_bytes),
            blob_bytes: rate(|s| s.disk.blob_bytes),
            wal_bytes: rate(|s| s.disk.wal_bytes),
            garbage_bytes: rate(|s| s.families.iter().map(|f| f.garbage_blob_bytes).sum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use titan::{Options, Secondary};

    use super::*;

    #[test]
    fn rates_are_differences_by_the_second() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let db = Db::open(&path, &Options::default()).unwrap();
        db.put(b"a", b"1").unwrap();
        let secondary = Secondary::open(&path, &Options::default()).unwrap();
        let before = Sample::take(&secondary.db(), &path).unwrap();
        for n in 0..100_u8 {
            db.put([n], [7; 100]).unwrap();
        }
        secondary.try_catch_up().unwrap();
        let after = Sample::take(&secondary.db(), &path).unwrap();
        let rates = after.rates(&before, Duration::from_secs(4));
        assert_eq!((rates.seconds, rates.operations), (4.0, 25.0));
        assert!(
            rates.sst_bytes == 0.0 && rates.wal_bytes >= 0.0,
            "{rates:?}"
        );
        assert!(after.since(None).rates.is_none());
    }
}
