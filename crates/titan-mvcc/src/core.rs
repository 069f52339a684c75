//! The parts of an open store that all its handles share, and the options that they read.
//!
//! Owns none of the work: each part has a file of its own. Everything above takes the whole.

use std::sync::Arc;
use std::time::Duration;

use titan::{ColumnFamily, Db, SystemClock, WriteOptions};

use crate::error::Result;
use crate::locks::{Latches, LockTable};
use crate::lookup::{RangeSource, ReadTotals};
use crate::old_versions::FilterFamily;
use crate::oracle::TimestampOracle;
use crate::order::{CommitOrder, SafePoint};

/// How transactions are committed, and how they wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// A transaction whose keys and values have up to so many bytes is committed in one batch of the engine. A
    /// larger one is committed in two phases, in batches of about that size. With 0 all are, a key at a time.
    /// Default: 16 MiB.
    pub one_batch_bytes: usize,
    /// Whether a commit in two phases of up to 256 keys is acknowledged after the first phase. Default: true.
    pub async_commit: bool,
    /// For how long a transaction that has locks may give no sign of life before others may roll it back. A
    /// transaction gives one with each call that takes a lock, and while it commits. Default: 20 s.
    pub lock_ttl: Duration,
    /// How long a transaction waits for the lock of another one that is alive. Default: 1 s.
    pub lock_wait: Duration,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            one_batch_bytes: 16 << 20,
            async_commit: true,
            lock_ttl: Duration::from_secs(20),
            lock_wait: Duration::from_secs(1),
        }
    }
}

/// The shared parts of an open store.
pub(crate) struct Core {
    pub(crate) db: Db,
    /// The family of versions.
    pub(crate) versions: ColumnFamily,
    pub(crate) clock: Arc<dyn SystemClock>,
    pub(crate) timestamps: Timestamps,
    pub(crate) order: CommitOrder,
    pub(crate) safe_point: Arc<SafePoint>,
    pub(crate) latches: Latches,
    pub(crate) locks: LockTable,
    pub(crate) config: Config,
    pub(crate) reads: Reads,
    /// The compaction filter's handle of the family. Cleared when the store closes.
    pub(crate) filter_family: Arc<FilterFamily>,
}

/// The source of timestamps.
pub(crate) struct Timestamps {
    pub(crate) oracle: Arc<dyn TimestampOracle>,
    /// Whether the program brought the oracle, which then has a clock of its own.
    pub(crate) is_given: bool,
    /// The time by which the clock was ahead when the store was opened, if that was far.
    pub(crate) clock_jump: Option<Duration>,
}

/// Options that calls read.
pub(crate) struct Config {
    pub(crate) write: WriteOptions,
    /// For writes that a later call can repeat after a power failure. They wait while writes are stalled:
    /// most of them end locks, which must not stay.
    pub(crate) unsynced: WriteOptions,
    pub(crate) transactions: TransactionOptions,
    pub(crate) is_read_only: bool,
}

/// The parts that only reads use.
pub(crate) struct Reads {
    /// The cache of the program, if there is one.
    pub(crate) range_source: Option<Arc<dyn RangeSource>>,
    pub(crate) totals: ReadTotals,
}

impl Core {
    /// Fails in a child that a process made by `fork` while it had the store open. A commit there may wait
    /// for threads that only the parent has. Called before the first lock of whatever writes or waits.
    pub(crate) fn check_not_inherited(&self) -> Result<()> {
        Ok(self.db.check_not_inherited()?)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.filter_family.clear();
    }
}
