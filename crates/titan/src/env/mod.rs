//! Threads, caches and memory that the databases of one process share.
//!
//! | file | owns |
//! |---|---|
//! | [`pool`], [`line`], [`order`] | background threads, and the databases that they serve next |
//! | [`member`] | a database as the threads see it |
//! | [`kept_files`] | open files |
//! | [`write_buffers`] | the memory of memtables |
//! | [`rate_limiter`] | the rate of garbage collection |
//! | [`activity`] | the operations of users on any of the databases |
//! | [`data_sizes`] | whether all fit in memory |
//! | [`membership`] | a database's part in all of this |
//! | [`options`] | the options |
//!
//! A database that is given no [`Env`] has one of its own. Promises: a bound holds for all
//! databases together; no database waits for ever for another's jobs. Assumes nothing of databases:
//! each has a file system, a clock and code of users of its own, and may fail or panic by itself.

mod activity;
mod data_sizes;
mod kept_files;
mod line;
mod member;
mod membership;
mod options;
mod order;
mod pool;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod pool_tests;
mod rate_limiter;
mod write_buffers;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block_cache::Blocks;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::vfs::{StdVfs, Vfs};

pub(crate) use activity::Activity;
use data_sizes::DataSizes;
pub use kept_files::OpenFilesLimits;
pub(crate) use kept_files::{KeptFile, KeptFiles, Key};
pub(crate) use member::{Found, Member, Threads};
pub(crate) use membership::Membership;
pub use options::EnvOptions;
pub(crate) use order::{Class, Priority};
pub(crate) use pool::Desk;
use pool::Pool;
#[cfg(test)]
pub(crate) use pool::refusal;
pub(crate) use rate_limiter::RateLimiter;
use write_buffers::WriteBuffers;
pub(crate) use write_buffers::{Account, Charge, Sealer};

/// Resources that several databases of a process share: the block cache, background threads, the
/// memory of memtables, the rate of garbage collection, open files. Given in
/// [`DbOptions::env`](crate::DbOptions::env); clones share it. Threads run while a database is open
/// with it. Databases keep their shared resources for as long as they are open.
///
/// The threads serve the most urgent database first, by the most urgent thing that it needs: one
/// near its bound on space or without room, one with memtables to flush, one with a long level 0,
/// then the one that was served least recently, which is never passed over for long. So no database
/// starves others. Jobs yield to reads of all databases. Each is idle, and cleans up, once users
/// have written to none of them for some seconds, or to itself for a minute. A child that a process
/// makes by `fork` must make an `Env` of its own.
///
/// The databases may have different file systems and clocks. But one thread collects the garbage of
/// all: a device that hangs holds up the collections of the others, whose writes are then delayed
/// at their bounds on space. To choose the next database costs a visit to each that waits.
///
/// Code of the application that is called in a job (listeners, filters) must not wait for another
/// database of the same `Env`: that one may need the thread. It may drop the last handle of any:
/// that one is closed soon after, by a thread of its own.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// use titan::{Db, Env, EnvOptions, Options};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let mut options = Options::default();
/// options.db.env = Some(Env::new(EnvOptions::default())?);
/// let users = Db::open(path.join("users"), &options)?;
/// let orders = Db::open(path.join("orders"), &options)?;
/// users.put("1", "Ada")?;
/// orders.put("7", "a book")?;
/// users.close()?;
/// orders.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Env {
    parts: Arc<Parts>,
    /// The process that made it, and has its threads.
    made_by: Process,
}

/// The parts that the databases of an [`Env`] share.
pub(crate) struct Parts {
    pool: Arc<Pool>,
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) files: Arc<KeptFiles>,
    write_buffers: Arc<WriteBuffers>,
    /// The rate of garbage collection.
    pub(crate) collection_rate: RateLimiter,
    pub(crate) activity: Activity,
    data_sizes: DataSizes,
    id: EnvId,
    /// Whether several databases may have it.
    is_shared: bool,
}

/// An [`Env`] of this process. No other has the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnvId(u64);

impl EnvId {
    fn new() -> Self {
        // Not one of the modelled atomics: nothing relies on an order in it.
        static ENVS: AtomicU64 = AtomicU64::new(0);
        EnvId(ENVS.fetch_add(1, Ordering::Relaxed))
    }
}

/// Use of an [`Env`] at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvUsage {
    /// Databases that are open for writing.
    pub databases: usize,
    /// Background threads.
    pub threads: usize,
    /// Bytes of blocks in the cache.
    pub block_cache_bytes: u64,
    /// SST and blob files that are open.
    pub open_files: usize,
    /// Bytes of memory that these take.
    pub open_files_memory: u64,
    /// Bytes of memtables, counted if
    /// [`db_write_buffer_size`](EnvOptions::db_write_buffer_size) bounds them.
    pub write_buffer_bytes: u64,
}

impl Env {
    /// For databases to be opened with it. No thread is started yet.
    ///
    /// # Errors
    /// `InvalidOption`, which names the option, the rule and the value.
    pub fn new(options: EnvOptions) -> Result<Env> {
        options.validate()?;
        let limits = OpenFilesLimits::new(&options, &StdVfs.resources());
        Ok(Env::with(&options, limits, true))
    }

    /// For one database alone, with options that have been checked.
    pub(crate) fn of_one(options: &EnvOptions, limits: OpenFilesLimits) -> Env {
        Env::with(options, limits, false)
    }

    fn with(options: &EnvOptions, limits: OpenFilesLimits, is_shared: bool) -> Env {
        Env {
            made_by: Process::current(),
            parts: Arc::new(Parts {
                pool: Pool::new(options.max_background_jobs),
                blocks: Arc::new(Blocks::new(options.block_cache_size as usize)),
                files: Arc::new(KeptFiles::new(limits)),
                write_buffers: WriteBuffers::new(options.db_write_buffer_size),
                collection_rate: RateLimiter::new(options.blob_garbage_collection_rate),
                activity: Activity::default(),
                data_sizes: DataSizes::default(),
                id: EnvId::new(),
                is_shared,
            }),
        }
    }

    /// Fails with `InvalidOption` in a child of the process that made it: the threads are not
    /// there.
    pub(crate) fn check_not_inherited(&self) -> Result<()> {
        match self.made_by.is_current() {
            true => Ok(()),
            false => Err(Error::invalid_option(
                "env was made by a parent of this process, before a fork: make another one",
            )),
        }
    }

    /// Its use now. Cost: visits every open file.
    pub fn usage(&self) -> EnvUsage {
        let Parts {
            pool,
            blocks,
            files,
            write_buffers,
            ..
        } = &*self.parts;
        let (databases, threads) = pool.counts();
        EnvUsage {
            databases,
            threads,
            block_cache_bytes: blocks.usage(),
            open_files: files.len(),
            open_files_memory: files.memory(),
            write_buffer_bytes: write_buffers.usage(),
        }
    }
}

impl Parts {
    /// Changes the options that can change while a database is open, except for the number of
    /// threads.
    pub(crate) fn change(&self, options: &EnvOptions, max_open_files: u64) {
        self.blocks.set_capacity(options.block_cache_size);
        self.collection_rate
            .set(options.blob_garbage_collection_rate);
        if max_open_files != self.files.limits().files {
            self.files.set_max_files(max_open_files);
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (databases, threads) = self.parts.pool.counts();
        write!(f, "Env({databases} databases, {threads} threads)")
    }
}
