//! A store with its model, and the operations on both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use titan::{
    CollectGarbageOptions, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, DbOptions,
};
use titan_ime::{Load, RangeCache};
use titan_mvcc::{Error, Hold, Snapshot, Store, StoreOptions, Timestamp};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::sim::SimVfs;
use titan_testkit::versions::{At, Kind, Op, Range, Verb, Versions, Whole};

use super::cached;
use super::clock::HistoryClock;
use super::configurations::{Configuration, Phases};
use super::reads::{Iter, Wanted};
use super::seen::Seen;
use super::transactions::{Handle, State, Txn};
use super::waits::{LOCK_WAIT, Waiter};

/// The directory of the store.
const DIR: &str = "/store";
/// After this time without a sign of life, the locks of a transaction may be ended by others.
pub(super) const LOCK_TTL: Duration = Duration::from_secs(5);
/// Transactions that are known, ended ones too.
const KNOWN: usize = 40;

/// See the module.
pub(super) struct World {
    pub(super) configuration: &'static Configuration,
    pub(super) vfs: SimVfs,
    pub(super) clock: HistoryClock,
    /// Loads of the range cache that are under way.
    pub(super) loads: BTreeMap<u32, Load>,
    pub(super) cache: Option<RangeCache>,
    pub(super) store: Store,
    pub(super) model: Versions<Timestamp>,
    pub(super) txns: BTreeMap<u32, Txn>,
    pub(super) waiters: BTreeMap<u32, Waiter>,
    pub(super) snapshots: BTreeMap<u32, Snapshot>,
    pub(super) holds: BTreeMap<u32, Hold>,
    pub(super) iters: BTreeMap<u32, Iter>,
    /// Timestamps by their numbers.
    pub(super) names: BTreeMap<u32, Timestamp>,
    /// The ranges that were read last, and their timestamps.
    pub(super) reads: VecDeque<(Range, Timestamp)>,
    /// Commits in the order in which they were written, with their keys.
    pub(super) commits: Vec<(Timestamp, Vec<Vec<u8>>)>,
    /// Number of them that a crash must leave.
    pub(super) durable: usize,
    /// Promises after operations, by the marks of the journal: the number of durable
    /// commits, that of commits, and the safe point.
    pub(super) promised: Vec<(usize, usize, Timestamp)>,
    /// The same of the last opening.
    pub(super) opened: (usize, usize, Timestamp),
    /// The last acknowledged commit.
    pub(super) acknowledged: Timestamp,
    pub(super) safe_point: Timestamp,
    /// The most keys that may have a record of a rollback.
    pub(super) rolled_back: usize,
    /// The starts of all transactions of clients.
    pub(super) clients: BTreeSet<Timestamp>,
    /// The starts of those that have committed, with their kinds and commits.
    pub(super) starts: BTreeMap<Timestamp, (Kind, Timestamp)>,
    pub(super) seen: Seen,
}

impl World {
    pub(super) fn new(configuration: &'static Configuration) -> Checked<World> {
        let (vfs, clock) = (SimVfs::new(), HistoryClock::new());
        let (store, cache) = open(configuration, &vfs, &clock)?;
        Ok(World {
            store,
            cache,
            loads: BTreeMap::new(),
            configuration,
            vfs,
            clock,
            model: Versions::default(),
            txns: BTreeMap::new(),
            waiters: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            holds: BTreeMap::new(),
            iters: BTreeMap::new(),
            names: BTreeMap::new(),
            reads: VecDeque::new(),
            commits: Vec::new(),
            durable: 0,
            promised: Vec::new(),
            opened: (0, 0, Timestamp::ZERO),
            acknowledged: Timestamp::ZERO,
            safe_point: Timestamp::ZERO,
            rolled_back: 0,
            clients: BTreeSet::new(),
            starts: BTreeMap::new(),
            seen: Seen::default(),
        })
    }

    /// One operation.
    pub(super) fn step(&mut self, op: &Op) -> Checked<()> {
        self.perform(op)?;
        self.settle_waiters()?;
        if self.configuration.retention.is_some() {
            self.note_safe_point()?;
        }
        self.forget_ended();
        if self.configuration.crashes {
            self.promise();
        }
        Ok(())
    }

    fn perform(&mut self, op: &Op) -> Checked<()> {
        match op {
            Op::Begin { id, kind } => self.begin(*id, *kind),
            Op::Change { id, key, change } => self.change(*id, key, *change),
            Op::Prewrite { id, keys } => self.prewrite(*id, keys),
            Op::CheckStatus { id, at, expired } => self.check_status(*id, *at, *expired),
            Op::On { verb, id } => self.on(*verb, *id),
            Op::Get { key, at } => self.get(key, *at),
            Op::Scan {
                range,
                at,
                reverse,
                first,
            } => {
                let wanted = Wanted {
                    range,
                    reverse: *reverse,
                    most: first.map_or(usize::MAX, |first| first as usize),
                };
                self.scan(&wanted, *at)
            }
            Op::Iter {
                id,
                range,
                at,
                reverse,
            } => self.iter(*id, range, *at, *reverse),
            Op::Next { id, n } => self.next(*id, *n),
            Op::Snapshot { id, at } => {
                if let Some(snapshot) = self.snapshot(*at)? {
                    self.names.insert(*id, snapshot.timestamp());
                    self.snapshots.insert(*id, snapshot);
                }
                Ok(())
            }
            Op::Hold { id, at } => self.hold(*id, *at),
            Op::SafePoint { at } => self.advance(*at),
            Op::Compact { key, bottommost } => self.compact(key, *bottommost),
            Op::Tick { ms } => {
                self.clock.advance(Duration::from_millis(*ms));
                Ok(())
            }
            Op::Clock { ms } => {
                self.clock.jump_ms(*ms);
                Ok(())
            }
            Op::Crash { loss, back } => {
                self.crash(*loss, *back)?;
                self.check_opened()
            }
            Op::Load { id, range, pinned } => self.load(*id, range, *pinned),
            Op::LoadStep { id, n } => self.load_step(*id, *n),
            Op::Evict { range } => {
                self.evict(range);
                Ok(())
            }
            Op::Limit { bytes } => {
                self.limit(*bytes);
                Ok(())
            }
            Op::Whole(whole) => self.whole(*whole),
        }
    }

    fn on(&mut self, verb: Verb, id: u32) -> Checked<()> {
        match verb {
            Verb::Commit => self.commit(id),
            Verb::CommitPrimary => self.commit_primary(id),
            Verb::Rollback => self.rollback(id),
            Verb::Abandon => self.abandon(id),
            Verb::Timestamp => {
                let at = self.timestamp()?;
                self.names.insert(id, at);
                Ok(())
            }
            Verb::Release => {
                self.snapshots.remove(&id);
                self.holds.remove(&id);
                self.iters.remove(&id);
                Ok(())
            }
            Verb::DropLoad => {
                self.loads.remove(&id);
                Ok(())
            }
            Verb::CommitTs | Verb::CheckSecondaries | Verb::Heartbeat | Verb::Resolve => {
                self.other_call(id, verb)
            }
        }
    }

    pub(super) fn whole(&mut self, whole: Whole) -> Checked<()> {
        if matches!(
            whole,
            Whole::Gc | Whole::Flush | Whole::Check | Whole::DropOld
        ) {
            self.look()?;
        }
        match whole {
            Whole::Gc => self.store.sweep().map(drop).doing("a sweep"),
            Whole::DropOld => self.store.drop_old_versions().doing("dropping"),
            Whole::Flush => Ok(self.store.db().flush_all()?),
            Whole::Collect => self.collect(),
            Whole::Check => self.check_everything(),
            Whole::Reopen => {
                self.end_cache()?;
                self.end_process()?;
                self.store.close().doing("closing")?;
                self.reopen()?;
                self.check_opened()
            }
            Whole::Maintain => self.maintain(),
            Whole::Audit => self.audit(),
        }
    }

    /// Forgets transactions that have ended long ago.
    fn forget_ended(&mut self) {
        if self.txns.len() > KNOWN {
            let now = self.clock.elapsed();
            let has_ended = |txn: &Txn| match txn.handle {
                Handle::Gone => txn.state != State::Open || txn.alive.1 + 4 * LOCK_TTL < now,
                Handle::Client => txn.state != State::Open,
                _ => false,
            };
            let ended = self.txns.iter().find(|(_, txn)| has_ended(txn));
            if let Some(id) = ended.map(|(id, _)| *id) {
                self.txns.remove(&id);
            }
        }
    }

    /// The safe point, which only moves forward and passes no hold.
    pub(super) fn note_safe_point(&mut self) -> Checked<()> {
        let now = self.store.safe_point();
        let (before, oldest) = (self.safe_point, self.oldest_hold());
        let moves_by_itself = self.configuration.retention.is_some();
        ensure!(
            now == before || (moves_by_itself && now > before && oldest.is_none_or(|it| now <= it)),
            "the safe point moved from {before} to {now}; the oldest hold is {oldest:?}"
        );
        self.safe_point = now;
        Ok(())
    }

    /// The oldest timestamp that is held, by locks too.
    fn oldest_hold(&self) -> Option<Timestamp> {
        let open = self.txns.values().filter(|txn| {
            matches!(
                txn.handle,
                Handle::Optimistic(_) | Handle::Pessimistic(_) | Handle::Waiting
            )
        });
        let starts = open.map(|txn| txn.read_at);
        let snapshots = self.snapshots.values().map(Snapshot::timestamp);
        let iters = self.iters.values();
        let iters = iters.map(|iter| iter.snapshot.timestamp());
        let holds = self.holds.values().map(Hold::timestamp);
        let calls = self.store.percolator();
        let locks = calls.scan_locks(Timestamp::MAX, b"", usize::MAX);
        let locks = locks.into_iter().map(|lock| Timestamp(lock.start.0 - 1));
        let all = starts.chain(snapshots).chain(iters).chain(holds);
        all.chain(locks).min()
    }

    fn advance(&mut self, at: At) -> Checked<()> {
        let Some(to) = self.at(at) else {
            return Ok(());
        };
        let now = self.store.now();
        match self.store.advance_safe_point(to) {
            Ok(safe_point) => {
                // Locks that have expired have ended.
                let oldest = self.oldest_hold().map_or(to, |held| held.min(to));
                ensure!(
                    safe_point == oldest,
                    "the safe point moved to {safe_point} instead of {oldest}"
                );
                self.safe_point = safe_point;
            }
            Err(Error::SafePointBackwards { .. }) => {
                self.note_safe_point()?;
                ensure!(to < self.safe_point, "{to} is not backwards");
            }
            Err(Error::InFuture { .. }) => ensure!(to > now, "{to} is not after {now}"),
            Err(e) => return Err(CheckFailure::wrong(e)),
        }
        Ok(())
    }

    fn hold(&mut self, id: u32, at: At) -> Checked<()> {
        let Some(at) = self.at(at) else {
            return Ok(());
        };
        match self.store.hold("history", at) {
            Ok(hold) => {
                self.names.insert(id, at);
                self.holds.insert(id, hold);
            }
            Err(e) => {
                self.note_safe_point()?;
                ensure!(at < self.safe_point, "a hold at {at}: {e}");
            }
        }
        Ok(())
    }

    /// The family of versions.
    pub(super) fn versions(&self) -> Checked<ColumnFamily> {
        let versions = self.store.db().column_family("versions");
        versions.ok_or_else(|| CheckFailure::wrong("the family of versions is missing"))
    }

    /// Counts the events of a database that ends.
    pub(super) fn count_engine(&mut self) -> Checked<()> {
        self.look()?;
        self.seen.depth.count(self.store.db());
        Ok(())
    }

    /// Notes how deep the database is.
    fn look(&mut self) -> Checked<()> {
        let metrics = self.versions()?.metrics();
        self.seen.depth.look(&metrics);
        Ok(())
    }

    /// Compacts the tables around some key, so that versions of one key come apart.
    fn compact(&mut self, key: &[u8], force_bottommost: bool) -> Checked<()> {
        self.look()?;
        let options = CompactRangeOptions { force_bottommost };
        let compacted = self.versions()?;
        compacted.compact_range(Some(key), Some(key), &options)?;
        Ok(())
    }

    /// Collects the garbage of all blob files.
    fn collect(&mut self) -> Checked<()> {
        self.look()?;
        let options = CollectGarbageOptions::default();
        self.versions()?.collect_garbage(None, None, &options)?;
        Ok(())
    }

    pub(super) fn reopen(&mut self) -> Checked<()> {
        // The rest of the old cache goes with the old store.
        (self.store, self.cache) = open(self.configuration, &self.vfs, &self.clock)?;
        self.vfs.restart_journal();
        self.check_locks()
    }

    fn check_opened(&mut self) -> Checked<()> {
        ensure!(self.store.now() > self.acknowledged, "time went back");
        if self.configuration.retention.is_some() {
            // A sweep may have ended with the store, before it had stored where it had come to.
            self.safe_point = self.safe_point.min(self.store.safe_point());
        }
        self.note_safe_point()?;
        self.promised.clear();
        self.durable = self.commits.len();
        self.opened = (self.durable, self.durable, self.safe_point);
        self.check_everything()
    }
}

fn open(
    configuration: &Configuration,
    vfs: &SimVfs,
    clock: &HistoryClock,
) -> Checked<(Store, Option<RangeCache>)> {
    // So small that a short list has tables on several levels, and many blob files.
    let (table, base) = match configuration.small_tables {
        true => (2 << 10, 8 << 10),
        false => (1 << 20, 4 << 20),
    };
    let mut versions = ColumnFamilyOptions {
        min_blob_size: configuration.min_blob_size,
        blob_file_size: 64 << 10,
        write_buffer_size: 64 << 10,
        target_file_size_base: table,
        max_bytes_for_level_base: base,
        max_bytes_for_level_multiplier: 4,
        level0_file_num_compaction_trigger: 2,
        block_size: 512,
        bloom_bits_per_key: 10.0,
        ..ColumnFamilyOptions::default()
    };
    (configuration.more)(&mut versions);
    let mut options = StoreOptions {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            clock: Arc::new(clock.clone()),
            block_cache_size: 1 << 20,
            ..DbOptions::default()
        },
        versions,
        ..StoreOptions::default()
    };
    options.write.sync = configuration.sync;
    // Without it, versions are dropped when a history says so.
    options.retention = configuration.retention;
    options.sweep_interval = Duration::from_secs(365 * 24 * 3600);
    let transactions = &mut options.transactions;
    transactions.lock_ttl = LOCK_TTL;
    transactions.lock_wait = match configuration.waits {
        true => LOCK_WAIT,
        false => Duration::ZERO,
    };
    if let Phases::Two { is_async } | Phases::TwoAndKilled { is_async } = configuration.phases {
        (transactions.one_batch_bytes, transactions.async_commit) = (0, is_async);
    }
    match configuration.cache {
        None => Ok((Store::open(DIR, &options).doing("opening")?, None)),
        Some(cache) => {
            let cache = cached::open(DIR, &options, &cache)?;
            Ok((cache.store().clone(), Some(cache)))
        }
    }
}
