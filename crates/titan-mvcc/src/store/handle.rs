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

/// A transactional store of versions. Clones are the same store.
///
/// A child that a process makes by `fork` can read the store, as
/// [`Db::check_not_inherited`] says of its database. Commits, and whatever else would change the store or wait
/// for its threads, fail there with `Engine`.
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
    /// Ends before the core is dropped: when the last handle is.
    sweeper: Arc<Sweeper>,
    core: Arc<Core>,
}

impl Store {
    pub(super) fn new(core: Arc<Core>, sweeper: Sweeper) -> Self {
        let sweeper = Arc::new(sweeper);
        Store { sweeper, core }
    }

    /// Begins an optimistic transaction. It reads the present, and its commit fails if a key that it wrote or
    /// locked was written or locked meanwhile. Waits for nothing.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.present("transaction"))
    }

    /// Begins a pessimistic transaction. It locks what it writes when it writes it, so its commit finds no
    /// conflicts. Waits for nothing but the oracle.
    ///
    /// # Errors
    /// `Oracle`.
    pub fn begin_pessimistic(&self) -> Result<PessimisticTransaction> {
        self.core.check_not_inherited()?;
        PessimisticTransaction::new(self.begin())
    }

    /// The store as of now: every commit that was acknowledged before this call is seen. Waits for nothing.
    pub fn snapshot(&self) -> Snapshot {
        self.present("snapshot")
    }

    /// The store as of `at`. Waits for nothing if `at` is not after [`Store::now`]; otherwise until commits
    /// before it that are being written have been.
    ///
    /// # Errors
    /// `BeforeSafePoint`; `InFuture` if the oracle has not handed out `at` yet; `Oracle`.
    pub fn snapshot_at(&self, at: Timestamp) -> Result<Snapshot> {
        if at > self.core.order.visible() {
            // Commits before it are ended by threads of the parent.
            self.core.check_not_inherited()?;
        }
        self.core.order.wait_for_commits(at)?;
        let hold = self.core.safe_point.hold("snapshot".into(), at)?;
        Ok(Snapshot::new(Arc::clone(&self.core), hold))
    }

    /// The timestamp at which reads of the present are made. Never goes back, and is not before that of any
    /// acknowledged commit.
    pub fn now(&self) -> Timestamp {
        self.core.order.visible()
    }

    /// The calls of transactions whose clients are elsewhere.
    pub fn percolator(&self) -> Percolator {
        Percolator(Arc::clone(&self.core))
    }

    /// Tells how far the clock was after the last timestamps of the store when it was opened, if
    /// that was further than [`StoreOptions::max_clock_jump`](crate::StoreOptions::max_clock_jump). The program should tell somebody.
    pub fn clock_jump(&self) -> Option<Duration> {
        self.core.timestamps.clock_jump
    }

    /// Where the store's timestamps come from.
    pub fn oracle(&self) -> &Arc<dyn TimestampOracle> {
        &self.core.timestamps.oracle
    }

    /// The oldest timestamp that can be read.
    pub fn safe_point(&self) -> Timestamp {
        self.core.safe_point.get()
    }

    /// Moves the safe point forward to `to`, or to the oldest hold before that. Returns where it is then.
    /// From then on compactions drop the versions that no read can find any more. Cost: a synced write.
    ///
    /// # Errors
    /// `SafePointBackwards`; `InFuture` if `to` is after [`Store::now`]; `Engine`. After an error of the engine
    /// reads before `to` may be refused, and nothing is dropped by it until a call succeeds.
    pub fn advance_safe_point(&self, to: Timestamp) -> Result<Timestamp> {
        if self.core.config.is_read_only {
            let what = "the store was opened for reading only";
            return Err(titan::Error::new(ErrorKind::ReadOnly, what).into());
        }
        self.core.check_not_inherited()?;
        // Locks keep the safe point back.
        end_expired_locks(&self.core, to)?;
        let safe_point = self.core.safe_point.advance(to, &self.core.order)?;
        self.core.versions.advance_garbage_moment(safe_point.0);
        self.core.order.wake().raise();
        Ok(safe_point)
    }

    /// Keeps the safe point from passing `at` until the returned value is dropped. Holds do not survive the
    /// process.
    ///
    /// # Errors
    /// `BeforeSafePoint` if the safe point has passed it already.
    pub fn hold(&self, name: impl Into<Cow<'static, str>>, at: Timestamp) -> Result<Hold> {
        self.core.safe_point.hold(name.into(), at)
    }

    /// What keeps the safe point back: named holds, snapshots and transactions, the oldest timestamp first.
    pub fn holds(&self) -> Vec<HoldInfo> {
        self.core.safe_point.holds()
    }

    /// Drops everything now that the safe point allows to drop. Without it, that happens as compactions come
    /// by. Cost: rewrites the tables that have something to drop, or have keys in common with others from
    /// which that is not known; those with deletions twice, because a deletion goes one compaction after what
    /// it hid.
    ///
    /// # Errors
    /// `Engine`.
    pub fn drop_old_versions(&self) -> Result<()> {
        self.core.check_not_inherited()?;
        self.sweeper.sweeps().drop_all()
    }

    /// Does now what the store's thread does every [`StoreOptions::sweep_interval`](crate::StoreOptions::sweep_interval): moves the safe point to
    /// where the retention and the holds let it go, and compacts ranges that are rich in versions that may be
    /// dropped. Waits for a sweep that is under way.
    ///
    /// # Errors
    /// `Oracle`, `Engine`; the next sweep does what was not done.
    pub fn sweep(&self) -> Result<Swept> {
        self.core.check_not_inherited()?;
        self.sweeper.sweeps().sweep()
    }

    /// What sweeps have done since the store was opened.
    pub fn sweep_stats(&self) -> SweepStats {
        self.sweeper.sweeps().stats()
    }

    /// All stored versions of `key`, the newest first: also those that only reads before the safe point would
    /// find. Cost: an iterator within the key.
    ///
    /// # Errors
    /// `Engine`; the versions give `Corruption`.
    pub fn versions(&self, key: &[u8]) -> Result<KeyVersions> {
        KeyVersions::new(&self.core.versions, key)
    }

    /// Checks that every entry is one that the store writes: keys that end, known kinds, one version a
    /// commit, commits after their start and within the lease, and nothing else in the database. `progress`
    /// is called with the number of versions so far. Cost: reads all keys, and no value from a blob file.
    ///
    /// # Errors
    /// `Engine`. What is wrong with entries is in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        check::check(&self.core, progress)
    }

    /// What all reads have cost since the store was opened. Scans count when they have ended, and reads of
    /// transactions with those of their snapshots; the checks of commits for conflicts do not count.
    pub fn read_stats(&self) -> ReadStats {
        self.core.reads.totals.sum()
    }

    /// What the store takes on disk, how many versions it has and may drop, and what keeps them: holds, with
    /// their names, ages and bytes, beside what pins files of the engine. Cost: that of
    /// [`Db::space_report`], and what is recorded about each table.
    ///
    /// # Errors
    /// `Engine`.
    pub fn space_report(&self) -> Result<StoreSpaceReport> {
        self.core.check_not_inherited()?;
        space::report(&self.core, self.sweeper.sweeps())
    }

    /// The database that has the store, for statistics and reports. What it has may be read, and must not be
    /// written.
    pub fn db(&self) -> &Db {
        &self.core.db
    }

    /// Closes the store; later calls fail, and so do those that wait for a lock. Without it, the store closes when
    /// the last handle is dropped, which waits for the range that a sweep compacts.
    ///
    /// # Errors
    /// Those of [`Db::close`].
    pub fn close(&self) -> Result<()> {
        self.core.check_not_inherited()?;
        self.core.filter_family.clear();
        self.core.locks.waits.close();
        self.sweeper.stop();
        // Ends the compactions of the sweeper, too.
        let closed = self.core.db.close();
        self.sweeper.join();
        Ok(closed?)
    }

    /// The clock by which transactions wait before they are run again.
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
