//! Counters of reads by their source, and of dropped segments by reason.
//!
//! Reads count in shards, so that readers on several processors write no shared memory.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The source of a read's answer, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// From memory.
    Hit,
    /// From memory: there is no value.
    HitNothing,
    /// By the engine: no segment has the key.
    NotHeld,
    /// By the engine: the segment is being loaded, or was dropped at this moment.
    NotReady,
    /// By the engine: writes of which the range may have some are not in memory yet.
    NotApplied,
    /// By the engine: the timestamp is before what is served.
    TooOld,
    /// By the engine: the cache is off.
    Off,
    /// By the engine, though the range is held: to measure what that costs.
    Measured,
    /// By the engine, though the range is held: the values are large. Of scans, parts of those that
    /// fetch most of such values where look-ups cost more than the engine's iterator.
    Stored,
}

const KINDS: usize = 9;
const SHARDS: usize = 16;

#[derive(Default)]
#[repr(align(64))]
struct Shard([AtomicU64; KINDS]);

/// Counters of one kind of reads.
#[derive(Default)]
pub(crate) struct ReadCounters([Shard; SHARDS]);

impl ReadCounters {
    pub(crate) fn count(&self, read: Read) {
        thread_local! {
            static SHARD: usize = {
                static NEXT: AtomicUsize = AtomicUsize::new(0);
                NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
            };
        }
        let shard = SHARD.with(|shard| *shard);
        self.0[shard].0[read as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sums(&self) -> ReadSums {
        let sum = |read: Read| {
            let of_kind = self.0.iter().map(|shard| &shard.0[read as usize]);
            of_kind.map(|n| n.load(Ordering::Relaxed)).sum()
        };
        ReadSums {
            hits: sum(Read::Hit),
            hits_nothing: sum(Read::HitNothing),
            not_held: sum(Read::NotHeld),
            not_ready: sum(Read::NotReady),
            not_applied: sum(Read::NotApplied),
            too_old: sum(Read::TooOld),
            off: sum(Read::Off),
            measured: sum(Read::Measured),
            stored: sum(Read::Stored),
        }
    }
}

/// The numbers of reads by source. For scans each part is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadSums {
    /// From memory, with a value or a part of a scan.
    pub hits: u64,
    /// From memory: there is no value.
    pub hits_nothing: u64,
    /// By the engine: the range is not held.
    pub not_held: u64,
    /// By the engine: the segment was being loaded or dropped.
    pub not_ready: u64,
    /// By the engine: another thread was applying writes, or many were pending.
    pub not_applied: u64,
    /// By the engine: the timestamp is before what the segment serves.
    pub too_old: u64,
    /// By the engine: the cache is off.
    pub off: u64,
    /// By the engine, though the range is held: to measure what that costs.
    pub measured: u64,
    /// By the engine, though the range is held: it has the values, which are large. Of scans, parts
    /// of those that fetch most of such values where that costs more than the engine's iterator
    /// does.
    pub stored: u64,
}

/// The reason why a segment was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dropped {
    /// Memory was over its limit.
    MemoryLimit,
    /// The data changed in a way that the commit hook does not show.
    Bypassed,
    /// Its load was abandoned or failed.
    LoadEnded,
    /// The caller asked for it.
    Asked,
    /// The cache was turned off.
    Off,
    /// Its writes had cost more than its reads saved.
    NotWorth,
    /// A range that saves more needed its memory.
    LessWorth,
    /// Maintenance panicked, and may have left it without content.
    Panicked,
    /// Others replaced it: it was split or joined, or its load is done. Not counted.
    Replaced,
    /// The program loads its range, which the cache was loading. Not counted.
    TakenOver,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dropped::MemoryLimit => "memory was over its limit",
            Dropped::Bypassed => "data changed without the commit hook",
            Dropped::LoadEnded => "its load ended",
            Dropped::Asked => "the program dropped it",
            Dropped::Off => "the range cache was turned off",
            Dropped::NotWorth => "its writes cost more than its reads saved",
            Dropped::LessWorth => "a range that saves more needed its memory",
            Dropped::Panicked => "the maintenance of the range cache panicked",
            Dropped::Replaced => "other segments replaced it",
            Dropped::TakenOver => "the program loads its range",
        })
    }
}

/// All counters of a cache.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) points: ReadCounters,
    pub(crate) parts: ReadCounters,
    pub(crate) dropped: [AtomicU64; 8],
    pub(crate) loads: AtomicU64,
    pub(crate) gaps: AtomicU64,
    pub(crate) splits: AtomicU64,
    pub(crate) joins: AtomicU64,
    pub(crate) chosen: AtomicU64,
    pub(crate) remembered: AtomicU64,
    pub(crate) saved: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) audited: AtomicU64,
}

impl Counters {
    pub(crate) fn dropped(&self, why: Dropped) {
        if let Some(counter) = self.dropped.get(why as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The state and the counters of a cache, from [`RangeCache::stats`](crate::RangeCache::stats).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Point reads.
    pub points: ReadSums,
    /// Parts of scans. A stitched scan has parts in memory and in the engine.
    pub parts: ReadSums,
    /// Segments that are held.
    pub segments: u64,
    /// Segments that are being loaded.
    pub loading: u64,
    /// Bytes charged.
    pub memory_used: u64,
    /// The limit of memory in bytes.
    pub memory_limit: u64,
    /// Finished loads.
    pub loads: u64,
    /// Finished loads of gaps of dead rows.
    pub gaps: u64,
    /// Segments that were split, because they grew.
    pub splits: u64,
    /// Segments that were joined, because they shrank.
    pub joins: u64,
    /// Segments dropped because memory was over its limit.
    pub dropped_memory_limit: u64,
    /// Segments dropped because data changed in a way that the commit hook does not show.
    pub dropped_bypassed: u64,
    /// Loads that were abandoned or failed.
    pub dropped_load_ended: u64,
    /// Segments dropped because the caller asked for it.
    pub dropped_asked: u64,
    /// Segments dropped because the cache was turned off.
    pub dropped_off: u64,
    /// Segments dropped because their writes had cost more than their reads saved.
    pub dropped_not_worth: u64,
    /// Segments dropped for a range that saves more.
    pub dropped_less_worth: u64,
    /// Segments and loads dropped because maintenance panicked and may have left them without
    /// content.
    pub dropped_panicked: u64,
    /// Loads begun because reads of the engine wasted many steps.
    pub chosen: u64,
    /// Loads begun because the range was held when the cache was last closed.
    pub remembered: u64,
    /// Steps of the engine's iterator that memory saved, about; as of the last pass, if the cache
    /// chooses ranges.
    pub saved_steps: u64,
    /// Versions written to held segments, as of the last pass, if the cache chooses ranges.
    pub writes: u64,
    /// Segments that maintenance audited.
    pub audited: u64,
    /// Passes of maintenance that panicked. [`RangeCache::faults`](crate::RangeCache::faults)
    /// says more.
    pub maintenance_panics: u64,
}
