//! The settings that are the same for every engine.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Guarantee of a write that has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// The write survives the end of the process, but not a power failure.
    Buffered,
    /// The write survives a power failure: each write waits for the device.
    Synced,
}

/// Compression of stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compression {
    None,
    Lz4,
    Zstd,
}

/// The conditions of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) durability: Durability,
    pub(crate) compression: Compression,
    /// Memory of the whole process, page cache included, in bytes; `None` for no limit.
    pub(crate) memory_limit: Option<u64>,
    /// Size of the engine's own block cache, in bytes.
    pub(crate) block_cache: u64,
    /// Bytes that an engine collects in memory before it writes tables.
    pub(crate) write_buffer: u64,
    /// Threads that flush and compact.
    pub(crate) background_jobs: u32,
    /// Values of at least this many bytes go to blob files, in engines that have them.
    pub(crate) blob_threshold: u64,
    /// Bytes on disk per live byte, set in engines that have such an option.
    pub(crate) space_amplification: Option<f64>,
    /// Whether engines that write tables through the page cache by default are set to direct I/O.
    pub(crate) direct_io: bool,
    /// Whether workloads load more data than fits in memory.
    pub(crate) data_exceeds_memory: bool,
    /// Whether the kernel's caches are dropped before each step.
    pub(crate) drop_caches: bool,
    /// Seed of keys and values.
    pub(crate) seed: u64,
}

impl Settings {
    /// The share of garbage at which a file must be rewritten to keep the requested space
    /// amplification.
    #[cfg(any(feature = "fjall", feature = "rocksdb"))]
    pub(crate) fn garbage_share(&self) -> Option<f64> {
        self.space_amplification.map(|space| 1.0 - 1.0 / space)
    }

    /// Bytes for the block cache and for a write buffer, given this much memory: a sixth, and a
    /// sixteenth for each buffer, of which an engine may have several.
    pub(crate) fn sized_for(memory: u64) -> (u64, u64) {
        (memory / 6, (memory / 16).clamp(4 << 20, 64 << 20))
    }

    /// Suitable for the small databases of tests.
    #[cfg(test)]
    pub(crate) fn of_tests() -> Self {
        Settings {
            durability: Durability::Buffered,
            compression: Compression::None,
            memory_limit: None,
            block_cache: 8 << 20,
            write_buffer: 4 << 20,
            background_jobs: 2,
            blob_threshold: 100,
            space_amplification: None,
            direct_io: false,
            data_exceeds_memory: false,
            drop_caches: false,
            seed: 1,
        }
    }
}
