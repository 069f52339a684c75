//! The configurations of histories. To add one, add an entry to [`CONFIGURATIONS`].

use std::time::Duration;

use titan::{ColumnFamilyOptions, CompressionType};
use titan_testkit::versions::Kind;

/// Settings in which histories differ.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// Its name in failures.
    pub name: &'static str,
    /// Number of keys. A list of 30,000 operations has about 7,000 versions.
    pub keys: u32,
    /// Writes and reads prefer keys with small numbers.
    pub skewed: bool,
    /// Values have up to so many bytes.
    pub value_size: usize,
    /// Values of at least this size go to blob files.
    pub min_blob_size: u64,
    /// Whether commits are synced.
    pub sync: bool,
    /// The safe point follows so many commits behind, when it moves; it never does if this is
    /// `None`.
    pub safe_point_lag: Option<usize>,
    /// The safe point also follows time, at this distance, when the store sweeps.
    pub retention: Option<Duration>,
    /// Kinds of transactions.
    pub kinds: &'static [Kind],
    /// Whether calls wait for locks.
    pub waits: bool,
    /// Whether machines stop, instead of stores being closed.
    pub crashes: bool,
    /// Whether the clock jumps.
    pub clock_jumps: bool,
    /// Tables are small, so that the versions of a key lie in many of them.
    pub small_tables: bool,
    /// Number of writes in ten that only lock their key.
    pub locks_of_ten: u32,
    /// Way in which transactions commit.
    pub phases: Phases,
    /// The range cache of the store, if it has one.
    pub cache: Option<Cache>,
    /// More options of the family.
    pub more: fn(&mut ColumnFamilyOptions),
}

impl Configuration {
    /// Whether clients call Percolator.
    pub(crate) fn has_clients(&self) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|kind| kind.is_of_client())
    }
}

/// A range cache.
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// Bytes of memory.
    pub memory_limit: usize,
    /// Whether a history changes the limit.
    pub limit_changes: bool,
    /// Bytes of a segment.
    pub segment_size: usize,
    /// Distance of its safe point from the present.
    pub safe_lag: Duration,
    /// Whether it decides by itself on the ranges to hold.
    pub chooses: bool,
}

/// Way in which transactions commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// In one batch.
    One,
    /// In two phases.
    Two {
        /// Whether a commit is acknowledged after the first one.
        is_async: bool,
    },
    /// The same, and some clients are killed between the phases. Their locks expire, and others end
    /// them.
    TwoAndKilled {
        /// The same.
        is_async: bool,
    },
}

/// Percolator clients, beside transactions of the store.
pub(crate) const CLIENTS: [Kind; 3] = [Kind::Client, Kind::Async, Kind::Optimistic];
/// All kinds of transactions.
pub(crate) const ALL_KINDS: [Kind; 4] = [
    Kind::Optimistic,
    Kind::Pessimistic,
    Kind::Client,
    Kind::Async,
];
/// A few steps of time.
pub(crate) const RETENTION: Option<Duration> = Some(Duration::from_millis(300));

/// Few keys with many versions, inline, safe point running.
pub(crate) const USUAL: Configuration = Configuration {
    name: "usual",
    keys: 300,
    skewed: false,
    value_size: 60,
    min_blob_size: 4096,
    sync: false,
    safe_point_lag: Some(200),
    retention: None,
    kinds: &[Kind::Optimistic],
    waits: false,
    crashes: false,
    clock_jumps: false,
    small_tables: true,
    locks_of_ten: 1,
    phases: Phases::One,
    cache: None,
    more: |_| {},
};

fn compressed(family: &mut ColumnFamilyOptions) {
    family.compression = CompressionType::Lz4;
    family.blob_compression_type = CompressionType::Lz4;
}

pub(crate) fn collected(family: &mut ColumnFamilyOptions) {
    family.enable_blob_garbage_collection = true;
    family.blob_garbage_collection_low_threshold = 0.02;
}

fn without_filters(family: &mut ColumnFamilyOptions) {
    family.bloom_bits_per_key = 0.0;
}

fn two_levels(family: &mut ColumnFamilyOptions) {
    family.num_levels = 2;
}

fn tiny_blocks(family: &mut ColumnFamilyOptions) {
    family.block_size = 256;
}

/// All of them.
pub const CONFIGURATIONS: [Configuration; 37] = [
    USUAL,
    Configuration {
        name: "a version a key",
        keys: 200_000,
        ..USUAL
    },
    Configuration {
        name: "a few versions a key, separated",
        keys: 10_000,
        min_blob_size: 0,
        ..USUAL
    },
    Configuration {
        name: "hundreds of versions a key, all kept",
        keys: 200,
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "a thousand versions a key, all kept",
        keys: 50,
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "a thousand versions a key, separated, all kept",
        keys: 50,
        min_blob_size: 20,
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "popular keys",
        keys: 5_000,
        skewed: true,
        safe_point_lag: Some(2_000),
        ..USUAL
    },
    Configuration {
        name: "popular keys, separated, all kept",
        keys: 5_000,
        skewed: true,
        min_blob_size: 20,
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "safe point at the present",
        safe_point_lag: Some(0),
        ..USUAL
    },
    Configuration {
        name: "safe point at the present, separated and collected",
        safe_point_lag: Some(0),
        min_blob_size: 0,
        value_size: 300,
        more: collected,
        ..USUAL
    },
    Configuration {
        name: "separated and collected behind the safe point",
        keys: 1_000,
        min_blob_size: 20,
        value_size: 300,
        more: collected,
        ..USUAL
    },
    Configuration {
        name: "large values",
        value_size: 6_000,
        keys: 500,
        ..USUAL
    },
    Configuration {
        name: "crashes, synced",
        sync: true,
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "crashes, not synced",
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "crashes, separated, clock jumps",
        sync: true,
        crashes: true,
        min_blob_size: 0,
        clock_jumps: true,
        ..USUAL
    },
    Configuration {
        name: "clock jumps",
        clock_jumps: true,
        keys: 30,
        ..USUAL
    },
    Configuration {
        name: "compressed",
        keys: 1_000,
        min_blob_size: 40,
        more: compressed,
        ..USUAL
    },
    Configuration {
        name: "without filters",
        more: without_filters,
        ..USUAL
    },
    Configuration {
        name: "two levels",
        more: two_levels,
        safe_point_lag: Some(50),
        ..USUAL
    },
    Configuration {
        name: "tiny blocks in large tables",
        small_tables: false,
        more: tiny_blocks,
        keys: 100,
        ..USUAL
    },
    Configuration {
        name: "two phases",
        phases: Phases::Two { is_async: false },
        ..USUAL
    },
    Configuration {
        name: "two phases, async, separated",
        phases: Phases::Two { is_async: true },
        min_blob_size: 0,
        keys: 1_000,
        ..USUAL
    },
    Configuration {
        name: "two phases, clients killed",
        phases: Phases::TwoAndKilled { is_async: false },
        ..USUAL
    },
    Configuration {
        name: "two phases, async, clients killed, separated",
        phases: Phases::TwoAndKilled { is_async: true },
        min_blob_size: 20,
        ..USUAL
    },
    Configuration {
        name: "two phases, clients killed, crashes, synced",
        phases: Phases::TwoAndKilled { is_async: false },
        sync: true,
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "two phases, async, clients killed, crashes, not synced",
        phases: Phases::TwoAndKilled { is_async: true },
        crashes: true,
        min_blob_size: 20,
        ..USUAL
    },
    Configuration {
        name: "hot locks",
        keys: 30,
        locks_of_ten: 9,
        ..USUAL
    },
    Configuration {
        name: "hot locks, separated, all kept, crashes",
        keys: 30,
        locks_of_ten: 8,
        min_blob_size: 0,
        safe_point_lag: None,
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "hot locks, two phases, clients killed, crashes",
        keys: 60,
        locks_of_ten: 9,
        phases: Phases::TwoAndKilled { is_async: false },
        sync: true,
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "clients",
        kinds: &CLIENTS,
        keys: 12,
        ..USUAL
    },
    Configuration {
        name: "clients, few keys, safe point at the present",
        kinds: &CLIENTS,
        keys: 5,
        safe_point_lag: Some(0),
        ..USUAL
    },
    Configuration {
        name: "clients, crashes, synced",
        kinds: &CLIENTS,
        keys: 20,
        sync: true,
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "clients, two phases, async, crashes, not synced",
        kinds: &CLIENTS,
        keys: 20,
        crashes: true,
        phases: Phases::TwoAndKilled { is_async: true },
        ..USUAL
    },
    Configuration {
        name: "pessimistic, waits",
        kinds: &[Kind::Pessimistic, Kind::Optimistic],
        keys: 8,
        locks_of_ten: 3,
        waits: true,
        ..USUAL
    },
    Configuration {
        name: "pessimistic, two phases",
        kinds: &[Kind::Pessimistic, Kind::Optimistic],
        keys: 12,
        phases: Phases::TwoAndKilled { is_async: true },
        ..USUAL
    },
    Configuration {
        name: "all kinds, waits, swept by time",
        kinds: &ALL_KINDS,
        keys: 20,
        waits: true,
        retention: RETENTION,
        ..USUAL
    },
    Configuration {
        name: "swept by time beside snapshots",
        keys: 60,
        retention: RETENTION,
        clock_jumps: true,
        ..USUAL
    },
];
