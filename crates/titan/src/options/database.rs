//! Options of a whole database.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::require;
use crate::clock::{StdClock, SystemClock};
use crate::error::Result;
use crate::stats::EventListener;
use crate::vfs::{StdVfs, Vfs};

/// Options of a whole database, given when it is opened.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DbOptions {
    /// Create the database if the directory holds none. Default: true.
    pub create_if_missing: bool,
    /// Fail if the directory already holds a database. Default: false.
    pub error_if_exists: bool,
    /// How many SST and blob files are kept open between uses. Iterators and lazy values in use
    /// may hold more. At least 16. Default: 1000.
    pub max_open_files: usize,
    /// Threads for flushes and compactions together, at least 1; with 2 or more, one is always
    /// left for flushes. Default: 2.
    pub max_background_jobs: usize,
    /// Bytes of uncompressed SST blocks kept in memory. Default: 64 MiB.
    pub block_cache_size: u64,
    /// Bytes of WAL after which the oldest column family in it is flushed, so that one idle
    /// family cannot keep all WAL files alive; 0 means four times the write buffers of all
    /// families. Default: 0.
    pub max_total_wal_size: u64,
    /// Write SST and blob files around the kernel's cache, where the file system can: less copying,
    /// and no dirty pages for the next sync to wait for; what was just written must be read from
    /// the device. Default: true.
    pub use_direct_io_for_flush_and_compaction: bool,
    /// Bytes per second that writes are slowed down to while compaction is behind.
    /// Default: 16 MiB.
    pub delayed_write_rate: u64,
    /// Bytes per second that collecting garbage may read and write together while the database is
    /// in use and space is within bounds. It is as fast as it can be where nobody does anything,
    /// and where space is short. At least 1 MiB. Default: 64 MiB.
    pub blob_garbage_collection_rate: u64,
    /// Bytes after which a new MANIFEST is started. Default: 64 MiB.
    pub max_manifest_file_size: u64,
    /// The file system. Default: the operating system's.
    #[serde(skip, default = "std_vfs")]
    pub vfs: Arc<dyn Vfs>,
    /// Time and random names. Default: the operating system's.
    #[serde(skip, default = "std_clock")]
    pub clock: Arc<dyn SystemClock>,
    /// Told about flushes, compactions, stalls and errors. Default: none.
    #[serde(skip)]
    pub listeners: Vec<Arc<dyn EventListener>>,
}

fn std_vfs() -> Arc<dyn Vfs> {
    Arc::new(StdVfs)
}

fn std_clock() -> Arc<dyn SystemClock> {
    Arc::new(StdClock)
}

impl Default for DbOptions {
    fn default() -> Self {
        DbOptions {
            create_if_missing: true,
            error_if_exists: false,
            max_open_files: 1000,
            max_background_jobs: 2,
            block_cache_size: 64 << 20,
            max_total_wal_size: 0,
            use_direct_io_for_flush_and_compaction: true,
            delayed_write_rate: 16 << 20,
            blob_garbage_collection_rate: 64 << 20,
            max_manifest_file_size: 64 << 20,
            vfs: std_vfs(),
            clock: std_clock(),
            listeners: Vec::new(),
        }
    }
}

impl DbOptions {
    /// Checks every range.
    ///
    /// # Errors
    /// `InvalidOption` naming the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        require(
            self.max_open_files >= 16,
            "max_open_files",
            "at least 16",
            self.max_open_files,
        )?;
        let jobs = self.max_background_jobs;
        require(
            (1..=256).contains(&jobs),
            "max_background_jobs",
            "1 to 256",
            jobs,
        )?;
        let rate = self.delayed_write_rate;
        require(rate >= 1024, "delayed_write_rate", "at least 1024", rate)?;
        validate_collection_rate(self.blob_garbage_collection_rate)?;
        let manifest = self.max_manifest_file_size;
        require(
            manifest >= 4096,
            "max_manifest_file_size",
            "at least 4096",
            manifest,
        )
    }
}

/// Checks [`DbOptions::blob_garbage_collection_rate`], which can be changed later, too.
pub(crate) fn validate_collection_rate(rate: u64) -> Result<()> {
    require(
        rate >= 1 << 20,
        "blob_garbage_collection_rate",
        "at least 1 MiB",
        rate,
    )
}

impl fmt::Debug for DbOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DbOptions")
            .field("create_if_missing", &self.create_if_missing)
            .field("error_if_exists", &self.error_if_exists)
            .field("max_open_files", &self.max_open_files)
            .field("max_background_jobs", &self.max_background_jobs)
            .field("block_cache_size", &self.block_cache_size)
            .field("max_total_wal_size", &self.max_total_wal_size)
            .field(
                "use_direct_io_for_flush_and_compaction",
                &self.use_direct_io_for_flush_and_compaction,
            )
            .field("delayed_write_rate", &self.delayed_write_rate)
            .field(
                "blob_garbage_collection_rate",
                &self.blob_garbage_collection_rate,
            )
            .field("max_manifest_file_size", &self.max_manifest_file_size)
            .finish_non_exhaustive()
    }
}
