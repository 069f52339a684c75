//! Sizes and counts, for people and for monitoring.

use std::collections::BTreeMap;

#[cfg(feature = "serde")]
use serde::Serialize;

use super::space::shadowed_and_kept;
use crate::compaction::choosing::levels::Circumstances;
use crate::compaction::choosing::levels::{LevelTargets, ShadowedData};
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::env::EnvId;
use crate::format::{SequenceNumber, total};
use crate::stats::{HistogramData, StallEvent};

/// One level of a family.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct LevelMetrics {
    /// Tables.
    pub files: usize,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Bytes of blob records to which the tables' keys point, as far as known.
    pub referenced_blob_bytes: u64,
    /// Deletions of keys and ranges, as far as known.
    pub tombstones: u64,
    /// Bytes, with those of blob records, above which a compaction is due; 0 for level 0, where the
    /// number of files counts, and for unused levels.
    pub target_bytes: u64,
    /// Urgency of a compaction of the level; due from 1.0.
    pub score: f64,
}

/// A column family.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct FamilyMetrics {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// By level, from 0.
    pub levels: Vec<LevelMetrics>,
    /// The level that compactions of level 0 write to.
    pub base_level: usize,
    /// Blob files.
    pub blob_files: usize,
    /// Bytes of blob records written and not deleted with their file.
    pub blob_bytes: u64,
    /// Those to which tables point.
    pub live_blob_bytes: u64,
    /// Of the live bytes: an estimate of the shadowed ones, which compactions have yet to find.
    pub shadowed_blob_bytes: u64,
    /// Those to which no table points any more.
    pub garbage_blob_bytes: u64,
    /// Bytes of memtables, full ones included.
    pub memtable_bytes: u64,
    /// Full memtables that wait for their flush.
    pub immutable_memtables: usize,
    /// Keys, estimated from entries and deletions.
    pub estimated_keys: u64,
    /// Deletions of keys in memtables, and of keys and ranges in tables, as far as known.
    pub tombstones: u64,
    /// Stretches of deleted keys that iterators have met, and that later ones pass with a seek.
    /// None in a family with a compaction filter.
    pub dead_ranges: usize,
    /// Deleted keys in them, about.
    pub dead_range_keys: u64,
    /// Entries that iterators, and searches for the first key of a prefix, have stepped over
    /// without showing them, since the family was opened: deleted, shadowed, or too new.
    pub skipped_entries: u64,
    /// Bytes that compactions have yet to rewrite.
    pub pending_compaction_bytes: u64,
    /// Whether a flush of the family runs.
    pub flushing: bool,
    /// Compactions of the family that run.
    pub running_compactions: usize,
    /// Whether writes are delayed or stopped, and why.
    pub stall: StallEvent,
}

impl FamilyMetrics {
    /// Bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.levels.iter().map(|l| l.bytes).sum()
    }
}

/// A database.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Metrics {
    /// By id.
    pub families: Vec<FamilyMetrics>,
    /// Bytes of WAL files that may still be needed.
    pub wal_bytes: u64,
    /// SST and blob files that are open.
    pub open_files: usize,
    /// The most that may be open; of all databases, if they share an [`Env`](crate::Env).
    pub max_open_files: u64,
    /// Bytes of memory that the open files take: indexes and filters above all.
    pub open_files_memory: u64,
    /// The most that they may take, of all databases as well.
    pub max_open_files_memory: u64,
    /// Bytes of SST and blob files.
    pub data_bytes: u64,
    /// Bytes that they may take for the database to count as fitting in memory, half of the
    /// available memory; `None` if that is not known.
    pub data_memory: Option<u64>,
    /// Whether the database counts as fitting: by the options, or by these sizes.
    pub data_in_memory: bool,
    /// Bytes of blocks in the cache, also of other databases that share it.
    pub block_cache_bytes: u64,
    /// Lookups of blocks that the cache answered, since the database was opened.
    pub block_cache_hits: u64,
    /// Lookups of blocks that the cache did not answer.
    pub block_cache_misses: u64,
    /// The most that the blocks in the cache may take, in bytes.
    pub block_cache_capacity: u64,
    /// Blocks put into the cache, since the database was opened.
    pub block_cache_adds: u64,
    /// Bytes of these blocks.
    pub block_cache_added_bytes: u64,
    /// Snapshots alive.
    pub snapshots: usize,
    /// Pauses of garbage collection in force.
    pub garbage_collection_pauses: usize,
    /// The newest sequence number.
    pub last_sequence: u64,
    /// The counters of [`Statistics`](crate::Statistics), by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// Its histograms, by name.
    pub histograms: BTreeMap<&'static str, HistogramData>,
    /// Databases that are open for writing in the [`Env`](crate::Env), this one included.
    pub env_databases: usize,
    /// Background threads of the `Env`.
    pub env_threads: usize,
    /// Bytes of memtables of all its databases; 0 if no bound makes them be counted.
    pub write_buffer_bytes: u64,
    /// The bound on them, [`db_write_buffer_size`](crate::DbOptions::db_write_buffer_size).
    pub write_buffer_limit: Option<u64>,
    /// The `Env`, if databases may share it.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) shared_env: Option<EnvId>,
}

impl Shared {
    pub(crate) fn metrics(&self, families: Vec<FamilyMetrics>) -> Metrics {
        let SequenceNumber(last_sequence) = self.counters.last_sequence();
        let state = self.state.lock();
        let closed: u64 = state.wals.iter().map(|w| w.size).sum();
        let garbage_collection_pauses = state.collections.pauses;
        drop(state);
        let fit = self.memory_fit();
        let env = &self.opening.env;
        let ((env_databases, env_threads), write_buffers) = (env.counts(), env.write_buffer_use());
        let (cache, statistics) = (self.files.open.block_cache(), &self.opening.statistics);
        Metrics {
            families,
            wal_bytes: closed + self.pipeline.current_wal_size(),
            open_files: self.files.open.len(),
            max_open_files: self.files.open.limits().files,
            open_files_memory: self.files.open.memory(),
            max_open_files_memory: self.files.open.limits().memory,
            data_bytes: fit.data,
            data_memory: fit.room,
            data_in_memory: fit.fits,
            block_cache_bytes: cache.usage(),
            block_cache_hits: cache.hits(),
            block_cache_misses: cache.misses(),
            block_cache_capacity: cache.capacity(),
            block_cache_adds: cache.adds(),
            block_cache_added_bytes: cache.added_bytes(),
            snapshots: self.pins.snapshots.len(),
            garbage_collection_pauses,
            last_sequence,
            counters: statistics.counters().into_iter().collect(),
            histograms: statistics.histograms().into_iter().collect(),
            env_databases,
            env_threads,
            write_buffer_bytes: write_buffers.map_or(0, |(bytes, _)| bytes),
            write_buffer_limit: write_buffers.map(|(_, bound)| bound),
            shared_env: self.opening.env.shared(),
        }
    }

    pub(crate) fn family_metrics(&self, family: &Family) -> FamilyMetrics {
        let super_version = family.super_version.load();
        let version = &super_version.version;
        let targets = LevelTargets::of(version, &family.options());
        let circumstances = Circumstances {
            idle_cleanup: false,
            oldest_snapshot: self.pins.snapshots.oldest(),
            garbage_moment: family.garbage_moment(),
            long_dead_ranges: family.dead.long_found(),
        };
        let shadowed = ShadowedData::of(version, &family.options(), circumstances);
        let scores = targets.scores(version, &family.options(), &shadowed);
        let levels = (0..version.num_levels()).map(|level| {
            let files = version.level(level);
            LevelMetrics {
                files: files.len(),
                bytes: version.sums(level).size,
                referenced_blob_bytes: files.iter().map(|f| f.referenced_blob_bytes()).sum(),
                tombstones: version.sums(level).tombstones,
                target_bytes: match targets.target(level) {
                    u64::MAX => 0,
                    target => target,
                },
                score: scores
                    .iter()
                    .find(|(l, _)| *l == level)
                    .map_or(0.0, |(_, s)| *s),
            }
        });
        let (mut entries, mut deletions) = (0, 0);
        for (_, file) in version.tables() {
            if let Some(counts) = file.entry_counts() {
                entries += counts.entries;
                deletions += counts.deletions;
            }
        }
        for memtable in super_version.memtables() {
            entries += memtable.num_entries();
            deletions += memtable.num_deletes();
        }
        let physical = version.physical_blob_files();
        let blob_bytes = total(
            physical
                .values()
                .map(|(physical, _)| physical.bytes_on_disk()),
        );
        let live_blob_bytes = version.blob_files.live_bytes();
        let (found, _) = shadowed_and_kept(version, circumstances.oldest_snapshot);
        let (dead_ranges, dead_range_keys) = family.dead.known();
        let state = self.state.lock();
        let running = state.families.get(&family.id);
        let in_memtables = running.map_or(0, |f| f.shadowed_by_memtables());
        let shadowed_blob_bytes = found.saturating_add(in_memtables);
        FamilyMetrics {
            name: family.name.clone(),
            id: family.id.0,
            levels: levels.collect(),
            base_level: targets.base_level,
            blob_files: physical.len(),
            blob_bytes,
            live_blob_bytes,
            shadowed_blob_bytes: shadowed_blob_bytes.min(live_blob_bytes),
            garbage_blob_bytes: blob_bytes.saturating_sub(live_blob_bytes),
            memtable_bytes: super_version
                .memtables()
                .map(|m| m.approximate_memory_usage())
                .sum(),
            immutable_memtables: super_version.immutables.len(),
            estimated_keys: u64::saturating_sub(entries, 2 * deletions),
            tombstones: running.map_or(0, |f| f.tombstones()),
            dead_ranges,
            dead_range_keys,
            skipped_entries: family.dead.skipped(),
            pending_compaction_bytes: targets.pending_bytes(version, &family.options()),
            flushing: running.is_some_and(|f| f.jobs.flushing),
            running_compactions: running.map_or(0, |f| f.jobs.compactions),
            stall: running.map_or(StallEvent::Normal, |f| f.stall),
        }
    }
}
