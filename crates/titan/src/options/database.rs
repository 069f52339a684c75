//! Options of a whole database.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::require;
use crate::clock::{StdClock, SystemClock};
use crate::error::Result;
use crate::format::KeyOrder;
use crate::stats::EventListener;
use crate::vfs::{StdVfs, Vfs};

/// Options of a whole database, given when it is opened.
///
/// They concern the process that opens it: its memory, threads, descriptors and rates. So those that
/// differ from their default are kept with the database, for [`Options::load`](crate::Options::load)
/// to return, but an opening does not take them over by itself.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DbOptions {
    /// Create the database if the directory holds none. Default: true.
    pub create_if_missing: bool,
    /// Fail if the directory already holds a database. Default: false.
    pub error_if_exists: bool,
    /// Keep the family options that this opening states, so that later openings take them over.
    /// If it is off, they apply until the database is closed. Default: true.
    pub keep_options: bool,
    /// How many SST and blob files are kept open between uses. Iterators and lazy values in use
    /// may keep more open. At least 16; 0 means three quarters of the process's limit when the
    /// database is opened. It applies to each database: a process that opens several should set it.
    /// Default: 0.
    pub max_open_files: usize,
    /// Bytes of memory that open SST and blob files may take: indexes and filters of SSTs, the
    /// indexes of relocation maps. Files are closed if it is exceeded. At least 1 MiB; 0 means a
    /// quarter of the process's memory. It applies to each database: a process that opens several
    /// should set it. Default: 0.
    pub max_open_files_memory: u64,
    /// Threads for flushes and compactions together, at least 1; with 2 or more, one is always
    /// reserved for flushes. Default: 2.
    pub max_background_jobs: usize,
    /// Bytes of uncompressed SST blocks in the block cache. Default: 64 MiB.
    pub block_cache_size: u64,
    /// Bytes of WAL after which the oldest column family in it is flushed, so that one idle
    /// family cannot keep all WAL files alive; 0 means four times the write buffers of all
    /// families. Default: 0.
    pub max_total_wal_size: u64,
    /// Whether the database is assumed to fit in memory. If it does, all of it is read into the
    /// kernel's cache when it is opened, and compactions and collections write through that cache; if
    /// it does not, their writes bypass it. Default: decided automatically.
    pub data_in_memory: DataInMemory,
    /// Write all SST and blob files with direct I/O, where the file system supports it, whatever fits
    /// in memory: less copying, and no dirty pages for the next sync to wait for; but new files must
    /// be read from the device. Default: false.
    pub use_direct_io_for_flush_and_compaction: bool,
    /// Bytes per second to which writes are delayed while compaction does not keep up.
    /// Default: 16 MiB.
    pub delayed_write_rate: u64,
    /// Bytes per second that collections may read and write together while the database is in use and
    /// space is within bounds. They are as fast as possible while nobody uses the database, and when
    /// space is short. At least 1 MiB. Default: 64 MiB.
    pub blob_garbage_collection_rate: u64,
    /// Bytes after which a new MANIFEST is started. Default: 64 MiB.
    pub max_manifest_file_size: u64,
    /// The directory of the WAL files, if it is not the database's: they are looked for in both, and
    /// written there. Each opening for writing must state it again; one that only reads takes it from
    /// OPTIONS. Two databases must not share one. Default: none.
    pub wal_dir: Option<PathBuf>,
    /// Names under which other programs recorded a built-in order of keys, such as MyRocks's
    /// `RocksDB_SE_v3.10`: a family whose order has one of these names is opened with the built-in
    /// order and keeps the name, unless its options have a comparator of their own. Default: none.
    pub comparator_aliases: BTreeMap<String, KeyOrder>,
    /// The file system. Default: the operating system's.
    #[serde(skip, default = "std_vfs")]
    pub vfs: Arc<dyn Vfs>,
    /// Time and random names. Default: the operating system's.
    #[serde(skip, default = "std_clock")]
    pub clock: Arc<dyn SystemClock>,
    /// Notified of flushes, compactions, stalls and errors. Default: none.
    #[serde(skip)]
    pub listeners: Vec<Arc<dyn EventListener>>,
}

/// Whether a database is assumed to fit in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DataInMemory {
    /// Decided when it is opened and for each job: it fits if all its files take no more than half
    /// of the memory left.
    #[default]
    Auto,
    /// It fits, whatever its size.
    Always,
    /// It does not fit, whatever its size.
    Never,
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
            keep_options: true,
            max_open_files: 0,
            max_open_files_memory: 0,
            max_background_jobs: 2,
            block_cache_size: 64 << 20,
            max_total_wal_size: 0,
            data_in_memory: DataInMemory::Auto,
            use_direct_io_for_flush_and_compaction: false,
            delayed_write_rate: 16 << 20,
            blob_garbage_collection_rate: 64 << 20,
            max_manifest_file_size: 64 << 20,
            wal_dir: None,
            comparator_aliases: BTreeMap::new(),
            vfs: std_vfs(),
            clock: std_clock(),
            listeners: Vec::new(),
        }
    }
}

impl DbOptions {
    /// Whether a tool, which rewrites a database and reads none of it again, writes SST and blob files
    /// with direct I/O.
    pub(crate) fn tools_write_direct(&self) -> bool {
        self.use_direct_io_for_flush_and_compaction || self.data_in_memory != DataInMemory::Always
    }

    /// Checks every range.
    ///
    /// # Errors
    /// `InvalidOption` naming the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        self.validate_ranges()?;
        require(
            self.max_open_files == 0 || self.max_open_files >= 16,
            "max_open_files",
            "0 or at least 16",
            self.max_open_files,
        )?;
        let memory = self.max_open_files_memory;
        require(
            memory == 0 || memory >= 1 << 20,
            "max_open_files_memory",
            "0 or at least 1 MiB",
            memory,
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
            .field("keep_options", &self.keep_options)
            .field("max_open_files", &self.max_open_files)
            .field("max_open_files_memory", &self.max_open_files_memory)
            .field("max_background_jobs", &self.max_background_jobs)
            .field("block_cache_size", &self.block_cache_size)
            .field("max_total_wal_size", &self.max_total_wal_size)
            .field("data_in_memory", &self.data_in_memory)
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
            .field("wal_dir", &self.wal_dir)
            .field("comparator_aliases", &self.comparator_aliases)
            .finish_non_exhaustive()
    }
}
