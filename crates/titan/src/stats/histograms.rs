//! Histograms of times and sizes, added to by many threads.
//!
//! The buckets are those of the crate `histogram`: log-linear, 16 for each power of two. Adding to
//! one is a shift, a mask and a relaxed addition, so it needs neither a lock nor a histogram for
//! each thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use histogram::AtomicHistogram;

use super::HistogramData;
use crate::error::{Error, Result};

/// Buckets for each power of two, as a power of two: values are right within 1/16.
const GROUPING_POWER: u8 = 4;

/// Values below this power of two are told apart: three days in nanoseconds.
const MAX_VALUE_POWER: u8 = 48;

macro_rules! histograms {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal, $unit:ident;)*) => {
        /// A histogram of the engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum HistogramKind {
            $($(#[doc = $doc])+ $kind,)*
        }

        impl HistogramKind {
            /// All of them, in the order of their numbers.
            pub(crate) const ALL: &[HistogramKind] = &[$(HistogramKind::$kind,)*];

            /// Its name. RocksDB's, unless it begins with `titan.`.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(HistogramKind::$kind => $name,)*
                }
            }

            /// Its values, in lines of text.
            pub(crate) fn meaning(self) -> &'static [&'static str] {
                match self {
                    $(HistogramKind::$kind => &[$($doc),+],)*
                }
            }

            /// Whether only some calls are timed at the level `sampled`.
            pub(super) fn is_frequent(self) -> bool {
                matches!(
                    self,
                    HistogramKind::Get
                        | HistogramKind::MultiGet
                        | HistogramKind::Seek
                        | HistogramKind::Write
                        | HistogramKind::Merge
                        | HistogramKind::Delete
                        | HistogramKind::BlobRead
                )
            }

            pub(crate) fn unit(self) -> Unit {
                match self {
                    $(HistogramKind::$kind => Unit::$unit,)*
                }
            }
        }
    };
}

/// The unit in which readers see the values of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Times, recorded in nanoseconds.
    Micros,
    /// Plain numbers.
    Bytes,
}

histograms! {
    /// Lookups of one key, with the reads of values from blob files.
    Get = "rocksdb.db.get.micros", Micros;
    /// Calls that read many keys.
    MultiGet = "rocksdb.db.multiget.micros", Micros;
    /// Seeks of iterators.
    Seek = "rocksdb.db.seek.micros", Micros;
    /// Writes of any kind, with the time in line for the WAL.
    Write = "rocksdb.db.write.micros", Micros;
    /// Writes by calls that add one merge operand.
    Merge = "titan.db.merge.micros", Micros;
    /// Writes by calls that delete one key or range.
    Delete = "titan.db.delete.micros", Micros;
    /// Calls that put a value from a reader, with the reader's own time.
    PutReader = "titan.db.put_reader.micros", Micros;
    /// Openings of the database, with the replay of its WAL files.
    Open = "titan.db.open.micros", Micros;
    /// Checkpoints.
    Checkpoint = "titan.db.checkpoint.micros", Micros;
    /// Waits of writes while they were stalled.
    WriteStall = "rocksdb.db.write.stall", Micros;
    /// Flushes.
    Flush = "rocksdb.db.flush.micros", Micros;
    /// Compactions, those that only move files included.
    Compaction = "rocksdb.compaction.times.micros", Micros;
    /// Collections of the garbage of blob files.
    Collection = "titan.gc.micros", Micros;
    /// Syncs of WAL files.
    WalSync = "rocksdb.wal.file.sync.micros", Micros;
    /// Appends to the MANIFEST, with their syncs.
    ManifestSync = "rocksdb.manifest.file.sync.micros", Micros;
    /// Reads of values from blob files.
    BlobRead = "rocksdb.blobdb.blob.file.read.micros", Micros;
    /// Bytes of keys and values in groups of batches that were committed together.
    BytesPerWrite = "rocksdb.bytes.per.write", Bytes;
}

impl Unit {
    /// Recorded units in one unit that readers see.
    fn scale(self) -> f64 {
        match self {
            Unit::Micros => 1000.0,
            Unit::Bytes => 1.0,
        }
    }
}

/// One histogram. Added to without a lock.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Recorder {
    buckets: AtomicHistogram,
    sum: AtomicU64,
    max: AtomicU64,
    /// Whether values were left out.
    is_sample: AtomicBool,
}

impl Recorder {
    /// An empty one for each kind, in the order of their numbers.
    pub(super) fn of_all_kinds() -> Result<Vec<Recorder>> {
        let recorder = |_| {
            let buckets = AtomicHistogram::new(GROUPING_POWER, MAX_VALUE_POWER)
                .map_err(|e| Error::internal(format!("a histogram cannot be made: {e}")))?;
            Ok(Recorder {
                buckets,
                sum: AtomicU64::new(0),
                max: AtomicU64::new(0),
                is_sample: AtomicBool::new(false),
            })
        };
        HistogramKind::ALL.iter().map(recorder).collect()
    }

    /// Adds a value. One beyond the last bucket is counted there.
    #[inline]
    pub(super) fn add(&self, value: u64) {
        let last = (1 << MAX_VALUE_POWER) - 1;
        // The value is within the bounds.
        let _ = self.buckets.increment(value.min(last));
        self.sum.fetch_add(value, Ordering::Relaxed);
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// Notes that values are left out from now on.
    pub(super) fn mark_sample(&self) {
        self.is_sample.store(true, Ordering::Relaxed);
    }

    /// The values so far. Those that are added meanwhile may be there in part.
    pub(super) fn data(&self, unit: Unit) -> HistogramData {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let (sum, max) = (load(&self.sum), load(&self.max));
        let mut data = HistogramData::of(&self.buckets.load(), sum, max, unit.scale());
        data.sampled = self.is_sample.load(Ordering::Relaxed);
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_numbers_and_names_of_their_own() {
        for (number, kind) in HistogramKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
            let same = |other: &&HistogramKind| other.name() == kind.name();
            assert_eq!(
                HistogramKind::ALL.iter().filter(same).count(),
                1,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn percentiles_are_right_within_a_sixteenth_and_sums_exactly() {
        let recorders = Recorder::of_all_kinds().unwrap();
        let recorder = &recorders[0];
        for micros in 1..=1000 {
            recorder.add(micros * 1000);
        }
        let data = recorder.data(Unit::Micros);
        assert_eq!((data.count, data.sum, data.max), (1000, 500_500.0, 1000.0));
        assert_eq!(data.average, 500.5);
        for (found, right) in [
            (data.median, 500.0),
            (data.percentile95, 950.0),
            (data.percentile99, 990.0),
            (data.percentile(100.0), 1000.0),
        ] {
            assert!(
                found >= right && found <= right * 1.0625,
                "{found} for {right}"
            );
        }
        assert_eq!(data.count_up_to(f64::INFINITY), 1000);
        assert!(data.count_up_to(500.0) <= 500 && data.count_up_to(500.0) > 450);
    }

    #[test]
    fn the_largest_values_are_counted() {
        let recorders = Recorder::of_all_kinds().unwrap();
        recorders[0].add(u64::MAX);
        let data = recorders[0].data(Unit::Bytes);
        assert_eq!((data.count, data.max), (1, u64::MAX as f64));
        assert_eq!(recorders[1].data(Unit::Micros), HistogramData::default());
    }
}
