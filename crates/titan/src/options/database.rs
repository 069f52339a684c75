//! Options of a whole database.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::declare::{OptionInfo, OptionTraits, options};
use super::setting::{Setting, SettingTexts, named_setting};
use crate::clock::{StdClock, SystemClock};
use crate::commit_hook::CommitHook;
use crate::env::{Env, EnvOptions};
use crate::error::{Error, Result, require};
use crate::format::KeyOrder;
use crate::stats::{EventListener, StatsLevel};
use crate::vfs::{StdVfs, Vfs};

/// The default size of the block cache, in bytes.
const BLOCK_CACHE: u64 = 64 << 20;

options! {
    /// Options of a whole database, given when it is opened.
    ///
    /// They concern the process that opens it: its memory, threads, descriptors and rates. So those
    /// that differ from their default are kept with the database, for
    /// [`Options::load`](crate::Options::load) to return, but an opening does not take them over by
    /// itself.
    #[derive(Clone, Debug)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default, deny_unknown_fields))]
    pub struct DbOptions;

    /// Some of the options of a database: those that do not concern a single opening only.
    settings DbSettings;

    kept {
        /// Number of SST and blob files that are kept open between uses. Iterators keep the tables
        /// that they are in open beyond that, up to three quarters of the process's limit; files
        /// that nothing uses are closed earlier if the process has no file descriptor left. At
        /// least 16; 0 means three quarters of the process's limit when the database is opened. It
        /// applies to each database: a process that opens several should share an `Env`.
        max_open_files: usize = 0, is int;
        /// Bytes of memory that open SST and blob files may take: indexes and filters of SSTs, the
        /// indexes of relocation maps. Files are closed if it is exceeded. At least 1 MiB; 0 means
        /// a quarter of the process's memory. It applies to each database: a process that opens
        /// several should share an `Env`.
        max_open_files_memory: u64 = 0, is bytes private;
        /// Threads for flushes and compactions together; with 2 or more, one is always reserved for
        /// flushes.
        max_background_jobs: usize = 2, [1, 256, "1 to 256"], is int;
        /// Bytes of uncompressed SST blocks in the block cache. More than the default and than the
        /// process's memory is refused.
        block_cache_size: u64 = BLOCK_CACHE, is bytes private;
        /// Bytes of the memtables of all column families, near which the largest one is flushed: at
        /// seven eighths, or at all of it with those that are being flushed, if half of it is not.
        /// It may be exceeded while flushes run. At least 64 KiB; 0 means that only the write
        /// buffer of each family counts.
        db_write_buffer_size: u64 = 0, is bytes;
        /// Bytes of WAL after which the column families in its oldest file are flushed, so that
        /// idle families cannot keep all WAL files alive; 0 means four times the largest write
        /// buffer of any family.
        max_total_wal_size: u64 = 0, is bytes;
        /// Whether the database is assumed to fit in memory. If it does, all of it is read into the
        /// kernel's cache when it is opened, and compactions and collections write through that
        /// cache; if it does not, their writes bypass it. One of `auto`, `always` and `never`.
        data_in_memory: DataInMemory = DataInMemory::Auto, is private;
        /// Write all SST and blob files with direct I/O, where the file system supports it, even if
        /// the database fits in memory: less copying, and no dirty pages for the next sync to wait
        /// for; but new files must be read from the device.
        use_direct_io_for_flush_and_compaction: bool = false;
        /// Bytes per second to which writes are delayed while compaction does not keep up.
        delayed_write_rate: u64 = 16 << 20, [1024, u64::MAX, "at least 1024"], is bytes;
        /// Bytes per second that collections may read and write together while the database is in
        /// use and space is within bounds. They are as fast as possible while nobody uses the
        /// database, and when space is short.
        blob_garbage_collection_rate: u64 =
            64 << 20, [1 << 20, u64::MAX, "at least 1 MiB"], is bytes private;
        /// Bytes after which a new MANIFEST is started, unless it began with more than half of
        /// them. A small database starts one after 256 KiB, and from 32 MiB on after 1/128 of its
        /// data.
        max_manifest_file_size: u64 = 64 << 20, [4096, u64::MAX, "at least 4096"], is bytes;
        /// The counters and times of operations that are kept. One of `off`; `sampled`, which times
        /// all jobs, syncs and stalls but one in 32 reads and writes, at a cost of about 2 % of
        /// the instructions of a call; and `all`.
        stats_level: StatsLevel = StatsLevel::Off, is private;
        /// Microseconds from which on an operation counts as slow: listeners are notified of it, at
        /// any `stats_level`. 0: none does. Cost of any other value: two readings of the clock for
        /// each call.
        slow_operation_micros: u64 = 0, is private;
    }

    of_an_opening {
        /// Create the database if the directory holds none.
        create_if_missing: bool = true;
        /// Fail if the directory already holds a database.
        error_if_exists: bool = false;
        /// Keep the family options that this opening states, so that later openings take them over.
        /// If it is off, they apply until the database is closed.
        keep_options: bool = true;
        /// The action of an opening on damage in the WAL. One of `point_in_time_recovery`,
        /// `tolerate_corrupted_tail_records`, `absolute_consistency` and
        /// `skip_any_corrupted_records`.
        wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::PointInTimeRecovery;
        /// Extend WAL files by zeros ahead of small appends, which makes these faster. Turn it off
        /// where a secondary instance of RocksDB follows the database: it takes zeros for a gap,
        /// and misses records that are written there later.
        extend_wal_files: bool = true;
        /// The directory of the WAL files, if it is not the database's: they are looked for in
        /// both, and written there. Each opening for writing must state it again; one that only
        /// reads takes it from OPTIONS. It is locked and goes on to be used where it is moved, as
        /// the database's is: two databases cannot share one.
        wal_dir: Option<PathBuf> = None, example "\"/fast/photos.wal\"";
        /// Names under which other programs recorded a built-in order of keys, such as MyRocks's
        /// `RocksDB_SE_v3.10`: a family whose order has one of these names is opened with the
        /// built-in order and keeps the name, unless its options have a comparator of their own.
        comparator_aliases: BTreeMap<String, KeyOrder> = BTreeMap::new();
    }

    of_a_program {
        /// The file system. Default: the operating system's.
        #[cfg_attr(feature = "serde", serde(skip, default = "std_vfs"))]
        vfs: Arc<dyn Vfs> = std_vfs();
        /// Time and random names. Default: the operating system's.
        #[cfg_attr(feature = "serde", serde(skip, default = "std_clock"))]
        clock: Arc<dyn SystemClock> = std_clock();
        /// Notified of flushes, compactions, stalls and errors. Default: none.
        #[cfg_attr(feature = "serde", serde(skip))]
        listeners: Vec<Arc<dyn EventListener>> = Vec::new();
        /// Sees every commit before readers do. Default: none.
        #[cfg_attr(feature = "serde", serde(skip))]
        commit_hook: Option<Arc<dyn CommitHook>> = None;
        /// Threads, caches and memory that it shares with other databases of the process. Their
        /// sizes and rates are stated there then, and refused here; `max_background_jobs` is the
        /// part of the threads that this database may have. Default: none, everything is its own.
        #[cfg_attr(feature = "serde", serde(skip))]
        env: Option<Env> = None;
    }
}

/// The action of an opening on damage in the WAL. The names and their promises are RocksDB's. In
/// each mode but the last, damage of a part that is known to have been synced is an error
/// (`Corruption`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum WalRecoveryMode {
    /// A record that is cut short at the end of a WAL file is left out. Any other damage is an
    /// error, and so is a WAL file that does not continue the one before it.
    TolerateCorruptedTailRecords,
    /// Each WAL file must end in a whole record: for databases that were closed.
    AbsoluteConsistency,
    /// The WAL ends at the first damage: the recovered writes are a prefix of all writes. The files
    /// with whole records after it are kept in `lost/`.
    #[default]
    PointInTimeRecovery,
    /// Damage is skipped, and everything else is replayed: later writes may be there without
    /// earlier ones, and a batch that spans families in some of them only. Damaged files are kept
    /// in `lost/`.
    SkipAnyCorruptedRecords,
}

/// Whether a database is assumed to fit in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(rename_all = "lowercase")
)]
#[non_exhaustive]
pub enum DataInMemory {
    /// Decided when it is opened and for each job: it fits if all files, with those of other
    /// databases of its `Env`, take no more than half of the memory left.
    #[default]
    Auto,
    /// It fits, at any size.
    Always,
    /// It does not fit, at any size.
    Never,
}

named_setting! {
    DataInMemory: "auto, always or never",
    Auto = "auto"
    Always = "always"
    Never = "never"
}
named_setting! {
    StatsLevel: "off, sampled or all",
    Off = "off"
    Sampled = "sampled"
    All = "all"
}

fn std_vfs() -> Arc<dyn Vfs> {
    Arc::new(StdVfs)
}

fn std_clock() -> Arc<dyn SystemClock> {
    Arc::new(StdClock)
}

impl DbOptions {
    /// Whether a tool, which rewrites a database and reads none of it again, writes SST and blob
    /// files with direct I/O.
    pub fn tools_write_direct(&self) -> bool {
        self.use_direct_io_for_flush_and_compaction || self.data_in_memory != DataInMemory::Always
    }

    /// The options of an [`Env`] for this database alone.
    pub(crate) fn of_own_env(&self) -> EnvOptions {
        EnvOptions {
            max_background_jobs: self.max_background_jobs,
            block_cache_size: self.block_cache_size,
            max_open_files: self.max_open_files,
            max_open_files_memory: self.max_open_files_memory,
            db_write_buffer_size: self.db_write_buffer_size,
            blob_garbage_collection_rate: self.blob_garbage_collection_rate,
        }
    }

    /// Fails if the shared [`Env`] is another process's, or options are stated that are its own.
    fn validate_env(&self) -> Result<()> {
        let Some(env) = &self.env else {
            return Ok(());
        };
        env.check_not_inherited()?;
        let (own, default) = (self.of_own_env(), DbOptions::default().of_own_env());
        let stated = [
            (
                "block_cache_size",
                own.block_cache_size != default.block_cache_size,
            ),
            (
                "max_open_files",
                own.max_open_files != default.max_open_files,
            ),
            (
                "max_open_files_memory",
                own.max_open_files_memory != default.max_open_files_memory,
            ),
            (
                "db_write_buffer_size",
                own.db_write_buffer_size != default.db_write_buffer_size,
            ),
            (
                "blob_garbage_collection_rate",
                own.blob_garbage_collection_rate != default.blob_garbage_collection_rate,
            ),
        ];
        match stated.into_iter().find(|(_, is_stated)| *is_stated) {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid_option(format!(
                "{name} is stated beside env, whose databases share it: state \
                 EnvOptions::{name} instead"
            ))),
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// `InvalidOption` naming the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        self.validate_ranges()?;
        self.validate_env()?;
        self.of_own_env().check_sizes("")?;
        // Where it is not known, nothing is refused; nor is the default, which nobody has stated.
        let memory = self.vfs.resources().memory;
        let memory = memory.map_or(u64::MAX, |memory| memory.total.max(BLOCK_CACHE));
        require(
            self.block_cache_size <= memory,
            "block_cache_size",
            &format!("no more than the memory of the process, {memory} bytes"),
            self.block_cache_size,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shared_env_states_is_refused_beside_it() {
        let mut options = DbOptions {
            env: Some(Env::new(EnvOptions::default()).unwrap()),
            max_background_jobs: 1,
            ..DbOptions::default()
        };
        options.validate().unwrap();
        let changes: [fn(&mut DbOptions); 5] = [
            |o| o.block_cache_size = 1,
            |o| o.max_open_files = 16,
            |o| o.max_open_files_memory = 1 << 20,
            |o| o.db_write_buffer_size = 1 << 20,
            |o| o.blob_garbage_collection_rate = 1 << 20,
        ];
        for change in changes {
            let mut changed = options.clone();
            change(&mut changed);
            let error = changed.validate().unwrap_err();
            assert!(error.to_string().contains("beside env"), "{error}");
            changed.env = None;
            changed.validate().unwrap();
        }
        options.db_write_buffer_size = 1;
        options.env = None;
        assert!(options.validate().is_err());
    }

    #[test]
    fn a_cache_that_no_memory_has_room_for_is_refused() {
        let too_large = DbOptions {
            block_cache_size: 1 << 60,
            ..DbOptions::default()
        };
        let said = too_large.validate().unwrap_err().to_string();
        assert!(
            said.contains("block_cache_size must be no more than"),
            "{said}"
        );
        assert!(
            DbOptions::default()
                .changed(&[("block_cache_size", "1152921504606846976")])
                .is_err()
        );
        DbOptions::default().validate().unwrap();
    }
}
