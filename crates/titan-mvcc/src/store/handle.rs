//! The handle of an open store.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use titan::{Db, ErrorKind, SystemClock};

use super::check::{self, CheckReport};
use super::space::{self, StoreSpaceReport};
use crate::core::Core;
use crate::error::Result;
use crate::lookup::ReadStats;
use crate::oracle::TimestampOracle;
use crate::order::{Hold, HoldInfo};
use crate::percolator::{Percolator, end_expired_locks};
use crate::read::{KeyVersions, Snapshot};
use crate::sweep::{SweepStats, Sweeper, Swept};
use crate::timestamp::Timestamp;
use crate::transaction::{PessimisticTransaction, Transaction};

/// A transactional store of versions. Clones share it.
///
/// A forked child can read the store of its parent, as [`Db::check_not_inherited`] describes.
/// Commits, and all other calls that change the store or wait for its threads, fail there with
/// `Engine`.
///
/// ```
/// # fn main() -> titan_mvcc::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use titan_mvcc::{Direction, Store, StoreOptions};
///
/// let store = Store::open(dir.path(), &StoreOptions::default())?;
/// let mut transaction = store.begin();
/// transaction.put(b"a", b"1");
/// let first = transaction.commit()?;
///
/// let mut transaction = store.begin();
/// transaction.put(b"a", b"2");
/// transaction.commit()?;
///
/// assert_eq!(store.snapshot().get(b"a")?.as_deref(), Some(&b"2"[..]));
/// assert_eq!(store.snapshot_at(first)?.get(b"a")?.as_deref(), Some(&b"1"[..]));
/// store.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    /// Declared before the core, so that the last handle stops the sweeper first.
    sweeper: Arc<Sweeper>,
    core: Arc<Core>,
}

impl Store {
    /// For tests that stop threads between two steps.
    #[cfg(test)]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(super) fn new(core: Arc<Core>, sweeper: Sweeper) -> Self {
        let sweeper = Arc::new(sweeper);
        Store { sweeper, core }
    }

    /// Begins an optimistic transaction. It reads the present. Its commit fails if another
    /// transaction committed a write or a lock of its keys since. Waits for nothing.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.present("transaction"))
    }

    /// Begins a pessimistic transaction. It locks each key when it writes it, so its commit finds
    /// no conflicts. Waits only for the oracle.
    ///
    /// # Errors
    /// `Oracle`.
    pub fn begin_pessimistic(&self) -> Result<PessimisticTransaction> {
        self.core.check_not_inherited()?;
        PessimisticTransaction::new(self.begin())
    }

    /// A snapshot of the present, which sees every commit that was acknowledged before this call.
    /// Waits for nothing.
    pub fn snapshot(&self) -> Snapshot {
        self.present("snapshot")
    }

    /// A snapshot of the store as of `at`. Waits for nothing if `at` is not after [`Store::now`];
    /// otherwise for earlier commits that are being written.
    ///
    /// # Errors
    /// `BeforeSafePoint`; `InFuture` if the oracle has not handed out `at` yet; `Oracle`.
    pub fn snapshot_at(&self, at: Timestamp) -> Result<Snapshot> {
        if at > self.core.order.visible() {
            // In a forked child, only threads of the parent end commits.
            self.core.check_not_inherited()?;
        }
        self.core.order.wait_for_commits(at)?;
        let hold = self.core.safe_point.hold("snapshot".into(), at)?;
        Ok(Snapshot::new(Arc::clone(&self.core), hold))
    }

    /// Returns false if [`Store::snapshot_at`] would wait for nothing now, neither for a commit nor
    /// for the oracle. A caller that must not wait asks first.
    pub fn may_wait_for(&self, at: Timestamp) -> bool {
        self.core.order.may_wait(at)
    }

    /// The timestamp at which reads of the present are made. It never goes back, and is not before
    /// any acknowledged commit.
    pub fn now(&self) -> Timestamp {
        self.core.order.visible()
    }

    /// The calls of Percolator transactions, for clients elsewhere.
    pub fn percolator(&self) -> Percolator {
        Percolator(Arc::clone(&self.core))
    }

    /// The time by which the clock was ahead of the store's last timestamps at the opening, if it
    /// exceeded [`StoreOptions::max_clock_jump`](crate::StoreOptions::max_clock_jump). Programs
    /// should report it.
    pub fn clock_jump(&self) -> Option<Duration> {
        self.core.timestamps.clock_jump
    }

    /// The time by which the clock was before the store's last timestamps at the opening, if it
    /// exceeded [`StoreOptions::max_clock_jump`](crate::StoreOptions::max_clock_jump): they were
    /// given under a clock that was ahead, and the next ones go on after them. Programs should
    /// report it.
    pub fn clock_lag(&self) -> Option<Duration> {
        self.core.timestamps.clock_lag
    }

    /// The oracle of the store.
    pub fn oracle(&self) -> &Arc<dyn TimestampOracle> {
        &self.core.timestamps.oracle
    }

    /// The oldest timestamp that can be read.
    pub fn safe_point(&self) -> Timestamp {
        self.core.safe_point.get()
    }

    /// Moves the safe point forward to `to`, or to the oldest hold before it. Returns the new safe
    /// point. From then on, compactions drop versions that no read can find. Cost: a synced write.
    ///
    /// # Errors
    /// `SafePointBackwards`; `InFuture` if `to` is after [`Store::now`]; `Engine`. After an error
    /// of the engine, reads before `to` may be refused, but no version is dropped until a call
    /// succeeds.
    pub fn advance_safe_point(&self, to: Timestamp) -> Result<Timestamp> {
        if self.core.config.is_read_only {
            let what = "the store is open read-only";
            return Err(titan::Error::new(ErrorKind::ReadOnly, what).into());
        }
        self.core.check_not_inherited()?;
        // The safe point does not pass locks.
        end_expired_locks(&self.core, to)?;
        let safe_point = self.core.safe_point.advance(to, &self.core.order)?;
        self.core.versions.advance_garbage_moment(safe_point.0);
        self.core.order.wake().raise();
        Ok(safe_point)
    }

    /// Keeps the safe point from passing `at` until the result is dropped. Holds end with the
    /// process.
    ///
    /// # Errors
    /// `BeforeSafePoint`, with the safe point, if that has passed `at`.
    pub fn hold(&self, name: impl Into<Cow<'static, str>>, at: Timestamp) -> Result<Hold> {
        self.core.safe_point.hold(name.into(), at)
    }

    /// Takes the hold of [`StoreOptions::held_at`](crate::StoreOptions::held_at), if the opening
    /// had one and no call has taken it.
    pub fn take_opening_hold(&self) -> Option<Hold> {
        self.core.opening_hold.lock().take()
    }

    /// Lists the holds: named ones, snapshots and transactions, the oldest timestamp first.
    pub fn holds(&self) -> Vec<HoldInfo> {
        self.core.safe_point.holds()
    }

    /// Drops all versions now that may be dropped at the safe point. Otherwise compactions drop
    /// them later. Cost: rewrites the tables that have such versions, and tables whose keys overlap
    /// and whose records cannot exclude them; tables with deletions twice, because a deletion goes
    /// one compaction after the versions that it hid.
    ///
    /// # Errors
    /// `Engine`.
    pub fn drop_old_versions(&self) -> Result<()> {
        self.core.check_not_inherited()?;
        self.sweeper.sweeps().drop_all()
    }

    /// Sweeps now, as the store's thread does at every
    /// [`StoreOptions::sweep_interval`](crate::StoreOptions::sweep_interval): moves the safe point
    /// as far as the retention and the holds allow, and compacts ranges with many droppable
    /// versions. Waits for a running sweep.
    ///
    /// # Errors
    /// `Oracle`, `Engine`. The next sweep does the rest.
    pub fn sweep(&self) -> Result<Swept> {
        self.core.check_not_inherited()?;
        self.sweeper.sweeps().sweep()
    }

    /// The results of all sweeps since the store was opened.
    pub fn sweep_stats(&self) -> SweepStats {
        self.sweeper.sweeps().stats()
    }

    /// All stored versions of `key`, the newest first, including versions that no read at the safe
    /// point or later finds. Cost: an iterator within the key.
    ///
    /// # Errors
    /// `Engine`. The versions give `Corruption`.
    pub fn versions(&self, key: &[u8]) -> Result<KeyVersions> {
        KeyVersions::new(&self.core.versions, key)
    }

    /// Checks that every entry is one that the store writes: whole keys, known kinds, one version
    /// for each commit, commits after their start and within the lease, and nothing else in the
    /// database. Calls `progress` with the number of versions so far. Cost: reads all keys, and no
    /// blob file.
    ///
    /// # Errors
    /// `Engine`. The report lists wrong entries.
    pub fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        check::check(&self.core, progress)
    }

    /// The cost of all reads since the store was opened. Scans count when they end, reads of
    /// transactions with their snapshots. Searches of commits for conflicts do not count, those of
    /// prewrites and pessimistic locks for values do.
    pub fn read_stats(&self) -> ReadStats {
        self.core.reads.totals.sum()
    }

    /// The space of the store on disk, its versions, droppable ones included, and the reasons why
    /// they stay: holds with names, ages and bytes, and the pins of the engine's files. Cost: that
    /// of [`Db::space_report`], and the records about all tables.
    ///
    /// # Errors
    /// `Engine`.
    pub fn space_report(&self) -> Result<StoreSpaceReport> {
        self.core.check_not_inherited()?;
        space::report(&self.core, self.sweeper.sweeps())
    }

    /// The engine's database, for statistics and reports. It may be read, but must not be written.
    pub fn db(&self) -> &Db {
        &self.core.db
    }

    /// Closes the store. Later calls fail, and so do waits for locks. Dropping the last handle
    /// closes it too, but waits until a running sweep has compacted its range.
    ///
    /// # Errors
    /// Those of [`Db::close`].
    pub fn close(&self) -> Result<()> {
        self.core.check_not_inherited()?;
        self.core.filter_family.clear();
        self.core.locks.waits.close();
        self.sweeper.stop();
        // Ends the sweeper's compactions, too.
        let closed = self.core.db.close();
        self.sweeper.join();
        Ok(closed?)
    }

    /// The clock of pauses between retries.
    pub(super) fn clock(&self) -> Arc<dyn SystemClock> {
        Arc::clone(&self.core.clock)
    }

    fn present(&self, name: &'static str) -> Snapshot {
        let core = Arc::clone(&self.core);
        let hold = core.safe_point.hold_visible(name.into(), &core.order);
        Snapshot::new(core, hold)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("now", &self.now())
            .field("safe_point", &self.safe_point())
            .finish_non_exhaustive()
    }
}
