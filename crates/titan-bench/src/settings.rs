//! What is the same for every engine.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What a write promises when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// It survives the end of the process, not a loss of power.
    Buffered,
    /// It survives a loss of power: each write waits for the device.
    Synced,
}

/// How what is stored is compressed.
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
    /// Memory of the whole process, page cache included, in bytes; none: as much as there is.
    pub(crate) memory_limit: Option<u64>,
    /// Of the engine's own cache of blocks, in bytes.
    pub(crate) block_cache: u64,
    /// What an engine gathers in memory before it writes tables, in bytes.
    pub(crate) write_buffer: u64,
    /// Threads that flush and compact.
    pub(crate) background_jobs: u32,
    /// Values of at least so many bytes live in blob files, where an engine has those.
    pub(crate) blob_threshold: u64,
    /// Bytes on disk per live byte that engines with such an option are asked to keep to.
    pub(crate) space_amplification: Option<f64>,
    /// Whether engines that write tables through the page cache unless told otherwise are told so.
    pub(crate) direct_io: bool,
    /// Whether workloads load more than fits in memory.
    pub(crate) data_exceeds_memory: bool,
    /// Caches of the kernel are dropped before each step.
    pub(crate) drop_caches: bool,
    /// Of keys and values.
    pub(crate) seed: u64,
}

impl Settings {
    /// The share of garbage at which a file is to be rewritten for space to keep to what was asked
    /// for.
    pub(crate) fn garbage_share(&self) -> Option<f64> {
        self.space_amplification.map(|space| 1.0 - 1.0 / space)
    }

    /// Bytes for the block cache and for a write buffer, of so much memory: a sixth, and a sixteenth
    /// for each buffer, of which an engine may have several.
    pub(crate) fn sized_for(memory: u64) -> (u64, u64) {
        (memory / 6, (memory / 16).clamp(4 << 20, 64 << 20))
    }

    /// What fits the small databases of tests.
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
