//! The parts of an open store that all its handles share.
//!
//! The parts have modules of their own below. Modules above take the whole.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use titan::{ColumnFamily, Db, SystemClock, WriteOptions};

use crate::error::Result;
use crate::locks::{Latches, LockTable};
use crate::lookup::{RangeSource, ReadTotals};
use crate::old_versions::FilterFamily;
use crate::oracle::TimestampOracle;
use crate::order::{CommitOrder, Hold, SafePoint};

/// Options of commits and of waits for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The most bytes of keys and values that a transaction commits in one batch of the engine. A
    /// larger transaction commits in two phases, in batches of about this size. 0 commits every
    /// transaction in two phases, one key at a time. Default: 16 MiB.
    pub one_batch_bytes: usize,
    /// Acknowledges a commit in two phases of up to 256 keys after its first phase. Default: true.
    pub async_commit: bool,
    /// Time to live of locks. Other transactions may roll back one that has sent no heartbeat for
    /// so long. Each call that takes a lock sends one, and so do commits. Default: 20 s.
    pub lock_ttl: Duration,
    /// The longest wait for the lock of a running transaction. Default: 1 s.
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
    /// The hold of the opening, until the program takes it.
    pub(crate) opening_hold: Mutex<Option<Hold>>,
    pub(crate) latches: Latches,
    pub(crate) locks: LockTable,
    pub(crate) config: Config,
    pub(crate) reads: Reads,
    /// The compaction filter's handle of the family, cleared when the store closes.
    pub(crate) filter_family: Arc<FilterFamily>,
}

/// The source of timestamps.
pub(crate) struct Timestamps {
    pub(crate) oracle: Arc<dyn TimestampOracle>,
    /// True if the program brought the oracle, which then has its own clock.
    pub(crate) is_given: bool,
    /// The time by which the clock was ahead at the opening, if that exceeded the limit.
    pub(crate) clock_jump: Option<Duration>,
    /// The same of a clock that was behind.
    pub(crate) clock_lag: Option<Duration>,
}

/// The options that calls read.
pub(crate) struct Config {
    pub(crate) write: WriteOptions,
    /// For writes that a later call can repeat after a power failure. They wait out write stalls,
    /// because most of them end locks, and locks must not stay.
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
    /// Fails in a child that inherited the store by `fork`. A commit there could wait for threads
    /// of the parent. Every call that writes or waits makes this check before it takes a mutex.
    pub(crate) fn check_not_inherited(&self) -> Result<()> {
        Ok(self.db.check_not_inherited()?)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.filter_family.clear();
    }
}
