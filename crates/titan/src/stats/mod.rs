//! Counters, times and events: the work of the engine, for people and for tests.
//!
//! | file | owns |
//! |---|---|
//! | this | the counters |
//! | [`level`] | the choice of events that are counted and timed |
//! | [`detail`] | counters and times of a level; stop watches |
//! | [`histograms`], [`histogram_data`] | distributions, and their form for readers |
//! | [`perf_context`] | the counts and times of one thread |
//! | [`events`], [`listeners`] | events, and those whom they are told |
//! | [`spans`], `tracing` | spans and events for the crate `tracing`, by the feature of its name |
//!
//! Counters are plain atomics, added to where the work happens. They decide nothing but how gently
//! garbage is collected.

mod detail;
mod events;
mod histogram_data;
mod histograms;
mod level;
mod listeners;
pub(crate) mod perf_context;
mod spans;
#[cfg(feature = "tracing")]
mod tracing;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use detail::{Detail, Detailed, StopWatch};
pub use events::{
    CompactionBeginEvent, CompactionEvent, EventListener, FlushBeginEvent, FlushEvent,
    GarbageCollectionBeginEvent, GarbageCollectionEvent, HolePunchEvent, IngestionEvent,
    MemtableSealedEvent, SlowOperationEvent, StallCause, StallEvent, WalDamageEvent,
};
pub use histogram_data::{HistogramBucket, HistogramData};
pub(crate) use histograms::{HistogramKind, Unit};
pub use level::StatsLevel;
pub(crate) use listeners::{Listeners, notify};
pub use perf_context::{PerfContext, PerfLevel, PerfRecorder};
pub(crate) use spans::span;

macro_rules! counters {
    (
        always {
            $($(#[doc = $doc:literal])+ $name:ident $(= $ticker:literal)?,)*
        }
        // Only from the level `sampled` on.
        detailed {
            $($(#[doc = $detail_doc:literal])+ $detail:ident $(= $detail_ticker:literal)?,)*
        }
    ) => {
        /// Running totals since the database was opened. Bytes are bytes of file content.
        ///
        /// Most are always kept. Those of steps of reads are zero at the
        /// [level](crate::DbOptions::stats_level) `off`, and so are all histograms.
        #[derive(Debug, Default)]
        pub struct Statistics {
            detail: Detail,
            $($(#[doc = $doc])+ pub(crate) $name: AtomicU64,)*
        }

        /// The counters of steps of reads, as one of several threads adds to them.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Stripe {
            $($(#[doc = $detail_doc])+ pub(crate) $detail: AtomicU64,)*
        }

        impl Statistics {
            /// Descriptions of all counters, in a stable order.
            pub(crate) const COUNTERS: &[CounterInfo] = &[
                $(CounterInfo {
                    name: stringify!($name),
                    ticker: [$(Some($ticker),)? None][0],
                    meaning: &[$($doc),+],
                    read: Statistics::$name,
                },)*
                $(CounterInfo {
                    name: stringify!($detail),
                    ticker: [$(Some($detail_ticker),)? None][0],
                    meaning: &[$($detail_doc),+],
                    read: Statistics::$detail,
                },)*
            ];

            $($(#[doc = $doc])+
            pub fn $name(&self) -> u64 {
                self.$name.load(Ordering::Relaxed)
            })*

            $($(#[doc = $detail_doc])+
            pub fn $detail(&self) -> u64 {
                self.detail.sum(|stripe| &stripe.$detail)
            })*
        }
    };
}

/// The description of a counter.
pub(crate) struct CounterInfo {
    pub(crate) name: &'static str,
    /// RocksDB's name of a ticker that means the same.
    pub(crate) ticker: Option<&'static str>,
    /// Lines of text.
    pub(crate) meaning: &'static [&'static str],
    pub(crate) read: fn(&Statistics) -> u64,
}

counters! {
    always {
        /// Operations in committed batches.
        keys_written = "rocksdb.number.keys.written",
        /// Bytes of keys and values in committed batches.
        user_bytes_written = "rocksdb.bytes.written",
        /// Groups of batches committed together.
        write_groups = "rocksdb.write.self",
        /// Bytes appended to WAL files.
        wal_bytes = "rocksdb.wal.bytes",
        /// Syncs of WAL files.
        wal_syncs = "rocksdb.wal.synced",
        /// Flushes finished.
        flushes,
        /// SST bytes that flushes wrote.
        flush_sst_bytes = "rocksdb.flush.write.bytes",
        /// Blob bytes that flushes wrote.
        flush_blob_bytes,
        /// Compactions that merged files.
        compactions,
        /// Compactions that only moved files to another level.
        trivial_moves,
        /// SST bytes that compactions read.
        compaction_read_bytes = "rocksdb.compact.read.bytes",
        /// SST bytes that compactions wrote.
        compaction_sst_bytes = "rocksdb.compact.write.bytes",
        /// Blob bytes that compactions wrote.
        compaction_blob_bytes,
        /// Entries about which compaction filters were asked.
        filter_entries,
        /// Entries that compaction filters removed, those that they skipped included.
        filter_removed,
        /// Entries whose value compaction filters changed.
        filter_changed,
        /// Values that compaction filters read from blob files. Not in `blob_reads`.
        filter_blob_reads,
        /// Bytes of these values.
        filter_blob_read_bytes,
        /// Jobs in which a compaction filter failed or panicked.
        filter_failures,
        /// Calls of listeners that panicked.
        listener_panics,
        /// Collections finished.
        garbage_collections,
        /// Blob bytes that collections read.
        gc_read_bytes,
        /// Bytes of blob files and relocation maps that collections wrote.
        gc_blob_bytes,
        /// Bytes of blob files that were given back as holes.
        gc_hole_bytes,
        /// Compactions and collections that bypassed the kernel's cache.
        direct_io_jobs,
        /// Bytes of files read into the kernel's cache after opening, before any read asked for
        /// them.
        prefetched_bytes,
        /// Bytes appended to MANIFEST files.
        manifest_bytes,
        /// Filters that were asked whether their table has keys of a prefix.
        prefix_filter_probes = "rocksdb.bloom.filter.prefix.checked",
        /// Filters that said that their table lacks a prefix, so that it was not read.
        prefix_filter_negatives = "rocksdb.bloom.filter.prefix.useful",
        /// Point lookups, those of calls that read many keys included.
        gets,
        /// Point lookups that found a value.
        get_hits,
        /// Values read from blob files.
        blob_reads,
        /// Bytes of values read from blob files.
        blob_read_bytes = "rocksdb.blobdb.blob.file.bytes.read",
        /// Iterators created.
        iterators = "rocksdb.num.iterator.created",
        /// Microseconds that writes were stalled because background jobs did not keep up.
        stall_micros = "rocksdb.stall.micros",
        /// SST files deleted.
        sst_files_deleted,
        /// Blob files deleted.
        blob_files_deleted,
    }

    detailed {
        /// Point lookups that a memtable decided.
        memtable_hits = "rocksdb.memtable.hit",
        /// Point lookups that went on to tables.
        memtable_misses = "rocksdb.memtable.miss",
        /// Point lookups that found a value in a table of level 0.
        l0_hits = "rocksdb.l0.hit",
        /// Point lookups that found a value in a table of level 1.
        l1_hits = "rocksdb.l1.hit",
        /// Point lookups that found a value in a table of a lower level.
        l2_and_up_hits = "rocksdb.l2andup.hit",
        /// Filters that said that their table lacks a key, so that it was not read.
        bloom_filter_useful = "rocksdb.bloom.filter.useful",
        /// Filters that said that their table may have a key.
        bloom_filter_full_positive = "rocksdb.bloom.filter.full.positive",
        /// Filters that said that their table may have a key, and it has.
        bloom_filter_full_true_positive = "rocksdb.bloom.filter.full.true.positive",
        /// Bytes of the values that point lookups found, as they are stored, without merges.
        bytes_read,
        /// Calls that read many keys.
        multi_gets = "rocksdb.number.multiget.get",
        /// Keys of calls that read many keys.
        multi_get_keys = "rocksdb.number.multiget.keys.read",
        /// Seeks of iterators, those to the first and last key included.
        seeks = "rocksdb.number.db.seek",
        /// Seeks of iterators that found a key.
        seeks_found = "rocksdb.number.db.seek.found",
        /// Steps of iterators forward. Counted, as all movements, when the iterator ends.
        nexts = "rocksdb.number.db.next",
        /// Steps of iterators back.
        prevs = "rocksdb.number.db.prev",
    }
}

impl Statistics {
    /// Every counter with its name, in a stable order.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let all = Statistics::COUNTERS.iter();
        all.map(|counter| (counter.name, (counter.read)(self)))
            .collect()
    }

    /// The counters that RocksDB has too, by its names of tickers. The block cache has its own.
    pub(crate) fn tickers(&self) -> Vec<(&'static str, u64)> {
        let all = Statistics::COUNTERS.iter();
        all.filter_map(|counter| Some((counter.ticker?, (counter.read)(self))))
            .collect()
    }

    /// Every histogram with its name, in a stable order. All are empty at the
    /// [level](crate::DbOptions::stats_level) `off`, and keep their counts when the level is turned
    /// off. The names are RocksDB's, but for those that begin with `titan.`. Times are in
    /// microseconds.
    pub fn histograms(&self) -> Vec<(&'static str, HistogramData)> {
        let all = HistogramKind::ALL.iter();
        all.map(|kind| (kind.name(), self.detail.data(*kind)))
            .collect()
    }

    /// The histogram of a name: `rocksdb.db.get.micros`. `None` if there is none of it.
    pub fn histogram(&self, name: &str) -> Option<HistogramData> {
        let kind = HistogramKind::ALL.iter().find(|kind| kind.name() == name)?;
        Some(self.detail.data(*kind))
    }

    /// The counters and histograms of a level; `None` at the level `off`. Cost then: a load and a
    /// branch.
    #[inline]
    pub(crate) fn detailed(&self) -> Option<Detailed<'_>> {
        self.detail.on()
    }

    /// Times a call of a frequent kind until the watch is dropped, if that is wanted and it is a
    /// sample.
    #[inline]
    pub(crate) fn sample(&self, kind: HistogramKind) -> Option<StopWatch<'_>> {
        self.detailed()?.sample(kind)
    }

    /// The level, and its counters.
    pub(crate) fn detail(&self) -> &Detail {
        &self.detail
    }

    /// Grows with everything that users read.
    pub(crate) fn reads(&self) -> u64 {
        let counters = [&self.gets, &self.iterators, &self.blob_reads];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        counters.into_iter().map(read).fold(0, u64::wrapping_add)
    }

    /// Grows with every write of users.
    pub(crate) fn writes(&self) -> u64 {
        self.keys_written.load(Ordering::Relaxed)
    }

    /// Grows with everything that users do.
    pub(crate) fn activity(&self) -> u64 {
        self.reads().wrapping_add(self.writes())
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
