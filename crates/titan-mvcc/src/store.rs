//! A store of versions: opening and closing it, and what it hands out.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use titan::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, ErrorKind, SystemClock, WriteOptions,
};

use crate::check::{self, CheckReport};
use crate::commit_order::CommitOrder;
use crate::database::{Database, family_options};
use crate::ends_commits::EndsCommits;
use crate::error::Result;
use crate::filter::{FilterFactory, Versions};
use crate::latches::Latches;
use crate::locks::Locks;
use crate::meta::Meta;
use crate::oracle::{ClockJump, GivenOracle, LocalOracle, TimestampOracle};
use crate::percolator::Percolator;
use crate::read::{KeyVersions, RangeSource, ReadStats, ReadTotals, Snapshot};
use crate::resolver;
use crate::safe_point::{Hold, HoldInfo, SafePoint};
use crate::space::{self, StoreSpaceReport};
use crate::sweep::{SweepStats, Sweeper, Sweeps, Swept};
use crate::timestamp::Timestamp;
use crate::transaction::{PessimisticTransaction, Transaction};

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Options of the database: file system, clock, caches, threads. Without a `max_total_wal_size` it is that of two
    /// memtables of versions. The store has a commit hook of its own, which shows yours all changes. Yours is not
    /// told tickets, because these are the store's.
    pub db: DbOptions,
    /// Options of the family of versions. Its prefix extractor and its compaction filter are the store's own:
    /// others are refused. Replaced versions become garbage by the safe point, and wait for a compaction first. So with
    /// the usual `max_space_amp` of 1.5 a store that is overwritten without pause takes up to 1.7 times what must be kept;
    /// with 1.25 it takes 1.5 times as much, for some hundredths more writes.
    pub versions: ColumnFamilyOptions,
    /// Where timestamps come from. By default from the clock of `db` and a lease on disk, which is right for
    /// a store that one process at a time uses. The timestamps of another oracle are leased, too, which costs a
    /// synced write once in three seconds of its time: so each opening goes on after the timestamps of the last one,
    /// whichever oracle it has.
    pub oracle: Option<Arc<dyn TimestampOracle>>,
    /// How commits are written. Synced ones survive power failures. Those without a WAL are refused: a flush of
    /// one family would part locks from the versions that replace them.
    pub write: WriteOptions,
    /// What answers reads in place of the engine where it can. It changes no answer.
    pub range_source: Option<Arc<dyn RangeSource>>,
    /// The most that the clock may be after the last timestamps of the store when it is opened. One
    /// that is further ahead is more likely wrong. Timestamps never go back, so after it was put
    /// right they stay where they are until it has caught up: reads by the time of day then find
    /// the past. Default: 366 days.
    pub max_clock_jump: Duration,
    /// Whether an opening is refused whose clock is further ahead. Otherwise [`Store::clock_jump`] says so, and the
    /// retention of what earlier openings wrote begins with this one. Default: false.
    pub refuse_clock_jump: bool,
    /// For how long versions can be read after newer ones have replaced them: the safe point follows at this
    /// distance, as far as holds let it. It is real time, whatever is done to the clock: for what was committed since the
    /// opening, and as far as the clock can be trusted, for what was committed before. `None`: it moves only when
    /// [`Store::advance_safe_point`] is called, and nothing is dropped otherwise. Default: ten minutes, which
    /// is TiDB's default too. Long transactions and snapshots end in that time, or hold the safe point back
    /// anyway; and a store of which nobody asked to keep history takes little more space than its live rows.
    pub retention: Option<Duration>,
    /// The time between two sweeps, in which the safe point is moved and ranges that are rich in old versions
    /// are compacted. A sweep that moves the safe point costs a synced write. The option
    /// `disable_auto_compactions` of `versions` does not keep sweeps from compacting. Default: ten seconds.
    pub sweep_interval: Duration,
    /// How transactions are committed, and how they wait for each other.
    pub transactions: TransactionOptions,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            db: DbOptions::default(),
            versions: ColumnFamilyOptions::default(),
            oracle: None,
            write: WriteOptions::default(),
            range_source: None,
            max_clock_jump: Duration::from_secs(366 * 24 * 3600),
            refuse_clock_jump: false,
            retention: Some(Duration::from_secs(600)),
            sweep_interval: Duration::from_secs(10),
            transactions: TransactionOptions::default(),
        }
    }
}

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

/// What all handles of a store share.
pub(crate) struct Core {
    pub(crate) db: Db,
    pub(crate) versions: ColumnFamily,
    pub(crate) oracle: Arc<dyn TimestampOracle>,
    /// Whether it is the program's, and has a clock of its own.
    pub(crate) is_oracle_given: bool,
    /// The time by which the clock was ahead when the store was opened, if that was far.
    pub(crate) clock_jump: Option<Duration>,
    pub(crate) order: CommitOrder,
    pub(crate) latches: Latches,
    pub(crate) safe_point: Arc<SafePoint>,
    pub(crate) write: WriteOptions,
    pub(crate) range_source: Option<Arc<dyn RangeSource>>,
    /// For what can be found out again after a power failure. It waits while writes are stalled: most of it ends locks,
    /// which must not stay.
    pub(crate) unsynced: WriteOptions,
    pub(crate) clock: Arc<dyn SystemClock>,
    pub(crate) is_read_only: bool,
    pub(crate) locks: Locks,
    pub(crate) transactions: TransactionOptions,
    pub(crate) reads: ReadTotals,
    /// What the compaction filter has of this.
    pub(crate) for_filter: Arc<Versions>,
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
        self.for_filter.clear();
    }
}

impl Store {
    /// Opens the store in the directory `dir`, or makes one if
    /// [`DbOptions::create_if_missing`] says so.
    ///
    /// # Errors
    /// `NotVersioned` for a database that is no store; `Oracle` if the oracle has no timestamp, or is before the
    /// store's safe point or timestamps that the store has had; `ClockAhead` if it is too far after these and
    /// [`StoreOptions::refuse_clock_jump`] is set; those of [`Db::open`]. A store whose timestamps are at their end can be
    /// [read](Store::open_read_only).
    pub fn open(dir: impl AsRef<Path>, options: &StoreOptions) -> Result<Self> {
        let dir = dir.as_ref();
        if options.write.disable_wal {
            let what = "a store of versions needs a WAL, and disable_wal is set";
            return Err(titan::Error::new(ErrorKind::InvalidOption, what).into());
        }
        let droppable = Arc::default();
        let for_filter = Arc::new(Versions::default());
        let family_options = family_options(
            &options.versions,
            FilterFactory {
                droppable: Arc::clone(&droppable),
                versions: Arc::clone(&for_filter),
            },
        )?;
        let lock_options = options.versions.clone();
        let ends_commits = Arc::new(EndsCommits::new(options.db.commit_hook.clone()));
        let db_options = DbOptions {
            commit_hook: Some(Arc::clone(&ends_commits) as _),
            ..options.db.clone()
        };
        let Database {
            db,
            versions,
            locks,
        } = Database::open(dir, &db_options, family_options, lock_options)?;
        let meta = Meta(db.clone());
        let clock = &options.db.clock;
        let jump = ClockJump::new(options.max_clock_jump, options.refuse_clock_jump);
        let jump = Arc::new(jump);
        let (own, noticed) = (meta.clone(), Arc::clone(&jump));
        let oracle: Arc<dyn TimestampOracle> = match &options.oracle {
            Some(oracle) => Arc::new(GivenOracle::open(own, Arc::clone(oracle), noticed)?),
            None => Arc::new(LocalOracle::open(own, Arc::clone(clock), noticed)?),
        };
        let order = CommitOrder::new(Arc::clone(&oracle))?;
        ends_commits.serve(&order);
        let latches = Latches::new(order.visible());
        let safe_point = Arc::new(SafePoint::open(meta, Arc::clone(clock), &order, droppable)?);
        let locks = Locks::open(
            locks,
            Arc::clone(clock),
            Arc::clone(&safe_point),
            order.visible(),
            false,
        )?;
        for_filter.set(versions.clone());
        let core = Arc::new(Core {
            db,
            versions,
            oracle,
            is_oracle_given: options.oracle.is_some(),
            clock_jump: jump.found(),
            order,
            latches,
            safe_point,
            write: options.write,
            range_source: options.range_source.clone(),
            unsynced: WriteOptions {
                sync: false,
                no_slowdown: false,
                ..options.write
            },
            clock: Arc::clone(clock),
            is_read_only: false,
            locks,
            transactions: options.transactions,
            reads: ReadTotals::default(),
            for_filter,
        });
        resolver::end_orphaned(&core);
        let (retention, interval) = (options.retention, options.sweep_interval);
        let sweeper = Sweeper::start(Sweeps::new(Arc::clone(&core), retention, interval))?;
        let sweeper = Arc::new(sweeper);
        Ok(Store { sweeper, core })
    }

    /// A store that is read alone.
    pub(crate) fn without_sweeper(core: Core) -> Self {
        let core = Arc::new(core);
        let sweeps = Sweeps::new(Arc::clone(&core), None, Duration::MAX);
        let sweeper = Arc::new(Sweeper::without_thread(sweeps));
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
        self.core.order.settle(at)?;
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
    /// that was further than [`StoreOptions::max_clock_jump`]. The program should tell somebody.
    pub fn clock_jump(&self) -> Option<Duration> {
        self.core.clock_jump
    }

    /// Where the store's timestamps come from.
    pub fn oracle(&self) -> &Arc<dyn TimestampOracle> {
        &self.core.oracle
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
        if self.core.is_read_only {
            let what = "the store was opened for reading only";
            return Err(titan::Error::new(ErrorKind::ReadOnly, what).into());
        }
        self.core.check_not_inherited()?;
        // Locks keep the safe point back.
        resolver::end_expired(&self.core, to)?;
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

    /// Does now what the store's thread does every [`StoreOptions::sweep_interval`]: moves the safe point to
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
        KeyVersions::new(&self.core, key)
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
        self.core.reads.sum()
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
        self.core.for_filter.clear();
        self.core.locks.waits.close();
        self.sweeper.end();
        // Ends the compactions of the sweeper, too.
        let closed = self.core.db.close();
        self.sweeper.join();
        Ok(closed?)
    }

    /// The clock by which transactions wait before they are run again.
    pub(crate) fn clock(&self) -> Arc<dyn SystemClock> {
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
