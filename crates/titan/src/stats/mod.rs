//! Counters and events: what the engine did, for people and for tests.
//!
//! Counters are plain atomics, added to where the work happens. They decide nothing but how gently
//! garbage is collected.

mod events;
mod listeners;

use std::sync::atomic::{AtomicU64, Ordering};

pub use events::{
    CompactionBeginEvent, CompactionEvent, EventListener, FlushBeginEvent, FlushEvent,
    GarbageCollectionBeginEvent, GarbageCollectionEvent, HolePunchEvent, MemtableSealedEvent,
    StallCause, StallEvent, WalDamageEvent,
};
pub(crate) use listeners::{Listeners, notify};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Running totals since the database was opened. Bytes are bytes of file content.
        #[derive(Debug, Default)]
        pub struct Statistics {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)*
        }

        impl Statistics {
            /// Every counter with its name, in a stable order.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*]
            }

            $($(#[$doc])*
            pub fn $name(&self) -> u64 {
                self.$name.load(Ordering::Relaxed)
            })*
        }
    };
}

counters! {
    /// Operations in committed batches.
    keys_written,
    /// Bytes of keys and values in committed batches.
    user_bytes_written,
    /// Groups of batches committed together.
    write_groups,
    /// Bytes appended to WAL files.
    wal_bytes,
    /// Syncs of WAL files.
    wal_syncs,
    /// Flushes finished.
    flushes,
    /// SST bytes that flushes wrote.
    flush_sst_bytes,
    /// Blob bytes that flushes wrote.
    flush_blob_bytes,
    /// Compactions that merged files.
    compactions,
    /// Compactions that only moved files to another level.
    trivial_moves,
    /// SST bytes that compactions read.
    compaction_read_bytes,
    /// SST bytes that compactions wrote.
    compaction_sst_bytes,
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
    /// Bytes of files read into the kernel's cache after opening, before any read asked for them.
    prefetched_bytes,
    /// Bytes appended to MANIFEST files.
    manifest_bytes,
    /// Filters that were asked whether their table has keys of a prefix.
    prefix_filter_probes,
    /// Those that said no, so that the table was not read.
    prefix_filter_negatives,
    /// Point lookups.
    gets,
    /// Point lookups that found a value.
    get_hits,
    /// Values read from blob files.
    blob_reads,
    /// Bytes of values read from blob files.
    blob_read_bytes,
    /// Iterators created.
    iterators,
    /// Microseconds that writes were stalled because background jobs did not keep up.
    stall_micros,
    /// SST files deleted.
    sst_files_deleted,
    /// Blob files deleted.
    blob_files_deleted,
}

impl Statistics {
    /// Grows with everything that users read.
    pub(crate) fn reads(&self) -> u64 {
        let counters = [&self.gets, &self.iterators, &self.blob_reads];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        counters.into_iter().map(read).fold(0, u64::wrapping_add)
    }

    /// Grows with everything that users do.
    pub(crate) fn activity(&self) -> u64 {
        let written = self.keys_written.load(Ordering::Relaxed);
        self.reads().wrapping_add(written)
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
