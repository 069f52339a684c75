//! A store with its model, and the operations on both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use titan::{ColumnFamilyOptions, CompactRangeOptions, DbOptions};
use titan_ime::{Load, RangeCache};
use titan_mvcc::{Error, Hold, Snapshot, Store, StoreOptions, Timestamp, Transaction};
use titan_testkit::clock::SimClock;
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::sim::SimVfs;
use titan_testkit::versions::{Versions, Write};

use super::cached;
use super::configurations::{Configuration, Phases};

/// The directory of the store.
const DIR: &str = "/store";
/// Every commit counts itself here, so that what a crash left says which one was the last.
pub(super) const COUNTER: &[u8] = b"\xfe commits";
/// After this time without a sign of life, the locks of a transaction may be ended by others.
const LOCK_TTL: Duration = Duration::from_secs(5);
/// Timestamps that may be read.
const KNOWN: usize = 10_000;

/// A transaction with what it should do.
pub(super) struct Open {
    pub(super) transaction: Transaction,
    pub(super) writes: BTreeMap<Vec<u8>, Write>,
    /// The keys in the order in which they were first written, which is that of the checks for
    /// conflicts.
    order: Vec<Vec<u8>>,
}

/// See the module.
pub(super) struct World {
    pub(super) configuration: &'static Configuration,
    pub(super) rng: fastrand::Rng,
    pub(super) vfs: SimVfs,
    clock: SimClock,
    /// Loads of the range cache that are under way.
    pub(super) loads: Vec<Load>,
    pub(super) cache: Option<RangeCache>,
    /// Reads that caches which have ended had answered.
    pub(super) hits: u64,
    pub(super) store: Store,
    pub(super) model: Versions<Timestamp>,
    pub(super) open: Vec<Open>,
    pub(super) snapshots: Vec<Snapshot>,
    holds: Vec<Hold>,
    /// The newest commits, in order.
    pub(super) commits: Vec<Timestamp>,
    /// Number of commits.
    pub(super) count: u64,
    /// Number of them that a crash must leave.
    pub(super) durable: u64,
    pub(super) safe_point: Timestamp,
    /// The number of the next value.
    values: u64,
    /// Keys of transactions that were rolled back after they had locked some: each may have a
    /// record of that.
    rolled_back: usize,
}

impl World {
    pub(super) fn new(configuration: &'static Configuration, seed: u64) -> Checked<World> {
        let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(seed));
        let (store, cache) = open(configuration, &vfs, &clock)?;
        Ok(World {
            store,
            cache,
            hits: 0,
            loads: Vec::new(),
            configuration,
            rng: fastrand::Rng::with_seed(seed ^ u64::from(configuration.keys)),
            vfs,
            clock,
            model: Versions::default(),
            open: Vec::new(),
            snapshots: Vec::new(),
            holds: Vec::new(),
            commits: Vec::new(),
            count: 0,
            durable: 0,
            safe_point: Timestamp::ZERO,
            values: 0,
            rolled_back: 0,
        })
    }

    /// One operation.
    pub(super) fn step(&mut self) -> Checked<()> {
        if self.cache.is_some() && self.rng.u32(..10) == 0 {
            return self.change_cache();
        }
        match self.rng.u32(..10_000) {
            0..1_200 => self.begin()?,
            1_200..4_800 => self.write()?,
            4_800..6_000 => self.get_in_transaction()?,
            6_000..6_600 => self.scan_in_transaction()?,
            6_600..7_800 => self.end()?,
            7_800..9_000 => self.read_at()?,
            9_000..9_400 => self.read_snapshot()?,
            9_400..9_600 => self.tick(),
            9_600..9_700 => self.advance()?,
            9_700..9_800 => self.hold()?,
            9_800..9_950 => self.release(),
            9_950..9_985 => self.store.db().flush_all()?,
            9_985..9_992 => self.compact()?,
            9_992..9_996 => self.check_everything()?,
            9_996 => self.store.drop_old_versions().doing("dropping")?,
            _ => self.restart()?,
        }
        Ok(())
    }

    /// Drops what may be dropped, and compares what is left.
    pub(super) fn finish(&mut self) -> Checked<()> {
        self.check_everything()?;
        self.restart()?;
        self.advance()?;
        self.store.drop_old_versions().doing("dropping")?;
        let (left, needed) = (self.stored()?, self.model.needed(self.safe_point));
        // What was rolled back after the safe point may have left a record.
        let replaced = self.model.replaced(self.safe_point);
        ensure!(
            left + replaced >= needed && left <= needed + self.rolled_back,
            "{left} versions are left instead of {needed}"
        );
        self.check_everything()?;
        self.end_cache()?;
        // What a crash ends is not counted.
        let is_counted = self.configuration.cache.is_some() && !self.configuration.crashes;
        ensure!(
            !is_counted || self.hits > 0 || self.count < 1_000,
            "no read was answered from memory"
        );
        self.store.close().doing("closing")
    }

    /// Some key: its number in three bytes, and a tail, so that some begin others and their lengths
    /// are around a group of eight.
    pub(super) fn key(&mut self) -> Vec<u8> {
        let keys = self.configuration.keys;
        let mut number = self.rng.u32(..keys);
        if self.configuration.skewed {
            number = (u64::from(number).pow(3) / u64::from(keys).pow(2)) as u32;
        }
        let tails: [&[u8]; 7] = [
            b"",
            b"\0",
            b"\xff",
            b"\0\0\0\0\0",
            b"\0\0\0\0\0\0",
            b"aaaaaaaaaaaaa",
            b"\xff\xff\xff\xff\xff",
        ];
        match number {
            0 => Vec::new(),
            _ => {
                let tail = tails[number as usize % tails.len()];
                [&number.to_be_bytes()[1..], tail].concat()
            }
        }
    }

    fn value(&mut self) -> Vec<u8> {
        self.values += 1;
        let len = self.rng.usize(..=self.configuration.value_size);
        let number = self.values.to_be_bytes();
        let mut value = number.repeat(len / 8 + 1);
        value.truncate(len);
        value
    }

    fn begin(&mut self) -> Checked<()> {
        if self.open.len() < 4 {
            let transaction = self.store.begin();
            let last = self.commits.last().copied().unwrap_or_default();
            ensure!(
                transaction.start() >= last,
                "a transaction begins before an acknowledged commit"
            );
            self.open.push(Open {
                transaction,
                writes: BTreeMap::new(),
                order: Vec::new(),
            });
        }
        Ok(())
    }

    fn write(&mut self) -> Checked<()> {
        if self.open.is_empty() {
            self.begin()?;
        }
        let (key, value, what) = (self.key(), self.value(), self.rng.u32(..10));
        let n = self.rng.usize(..self.open.len());
        let open = &mut self.open[n];
        if !open.writes.contains_key(&key) {
            open.order.push(key.clone());
        }
        // What is no lock is a put in seven of nine.
        let changes = 10 - self.configuration.locks_of_ten;
        let is_lock = what >= changes;
        match is_lock {
            false if what < (changes * 7).div_ceil(9) => {
                open.transaction.put(&key, &value);
                open.writes.insert(key, Write::Set(Some(value)));
            }
            false => {
                open.transaction.delete(&key);
                open.writes.insert(key, Write::Set(None));
            }
            true => {
                open.transaction.lock(&key);
                open.writes.entry(key).or_insert(Write::Lock);
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Checked<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let n = self.rng.usize(..self.open.len());
        let mut open = self.open.swap_remove(n);
        if open.writes.is_empty() || self.rng.u32(..10) == 0 {
            open.transaction.rollback();
            return Ok(());
        }
        let start = open.transaction.start();
        let mut keys = open.order.iter();
        let conflicting = keys.find(|key| self.model.is_newer(key, start)).cloned();
        if conflicting.is_none() {
            // The counter is written by all, and so must not be what conflicts.
            let of_others = self.model.is_newer(COUNTER, start);
            if of_others {
                open.transaction.rollback();
                open = self.again(open.writes);
            }
            let number = (self.count + 1).to_be_bytes();
            open.transaction.put(COUNTER, &number);
            let write = Write::Set(Some(number.to_vec()));
            open.writes.insert(COUNTER.to_vec(), write);
        }
        match (
            self.commit(open.transaction, open.writes.len()),
            conflicting,
        ) {
            (Ok(None), _) => Ok(()),
            (Ok(Some(commit)), None) => {
                let last = self.commits.last().copied().unwrap_or_default();
                ensure!(commit > last, "{commit} is committed after {last}");
                for (key, write) in open.writes {
                    self.model.write(key, commit, write);
                }
                self.count += 1;
                if self.configuration.sync {
                    self.durable = self.count;
                }
                self.commits.push(commit);
                if self.commits.len() > 2 * KNOWN {
                    self.commits.drain(..KNOWN);
                }
                Ok(())
            }
            (Err(Error::Conflict { key, .. }), Some(expected)) => {
                // In two phases the primary key is locked first.
                let is_one = match self.configuration.phases {
                    Phases::One => *key == *expected,
                    _ => self.model.is_newer(&key, start),
                };
                ensure!(
                    is_one,
                    "a conflict at {key:?}, where one at {expected:?} was due"
                );
                Ok(())
            }
            (found, expected) => Err(CheckFailure::wrong(format!(
                "{found:?} where a conflict at {expected:?} was due"
            ))),
        }
    }

    /// Commits a transaction, or kills its client between the phases. Returns when it was
    /// committed; nothing if it was not.
    fn commit(
        &mut self,
        transaction: Transaction,
        keys: usize,
    ) -> Result<Option<Timestamp>, Error> {
        let is_killed = matches!(self.configuration.phases, Phases::TwoAndKilled { .. })
            && self.rng.u32(..6) == 0;
        if !is_killed {
            let committed = transaction.commit().map(Some);
            self.rolled_back += if committed.is_err() { keys } else { 0 };
            return committed;
        }
        self.rolled_back += keys;
        let prewritten = transaction.prewrite()?;
        let committed = match (prewritten.committed(), self.rng.bool()) {
            // An async commit has committed then.
            (Some(commit), _) => Some(commit),
            (None, true) => {
                drop(prewritten);
                None
            }
            // The locks of the other keys stay.
            (None, false) => Some(prewritten.commit_primary()?.timestamp()),
        };
        self.expire_locks();
        Ok(committed)
    }

    /// Lets the locks of those who are gone expire.
    fn expire_locks(&self) {
        self.clock.advance(2 * LOCK_TTL);
    }

    /// A new transaction with the writes of one that has ended.
    fn again(&self, writes: BTreeMap<Vec<u8>, Write>) -> Open {
        let mut transaction = self.store.begin();
        for (key, write) in &writes {
            match write {
                Write::Set(Some(value)) => transaction.put(key, value),
                Write::Set(None) => transaction.delete(key),
                Write::Lock => transaction.lock(key),
            }
        }
        Open {
            transaction,
            order: writes.keys().cloned().collect(),
            writes,
        }
    }

    /// A timestamp of a commit, the one before, or the present.
    pub(super) fn some_timestamp(&mut self) -> Timestamp {
        match self.commits.len() {
            0 => self.store.now(),
            n => {
                // Recent ones more often.
                let back = self.rng.usize(..n).min(self.rng.usize(..n));
                let commit = self.commits[n - 1 - back];
                Timestamp(commit.0 - u64::from(self.rng.bool()))
            }
        }
    }

    fn tick(&mut self) {
        let by = match self.configuration.clock_jumps {
            true => [1, 3_600_000][self.rng.usize(..2)],
            false => self.rng.u64(..20),
        };
        self.clock.advance(Duration::from_millis(by));
    }

    fn advance(&mut self) -> Checked<()> {
        let Some(lag) = self.configuration.safe_point_lag else {
            return Ok(());
        };
        let to = match self.commits.len().checked_sub(lag + 1) {
            Some(at) => self.commits[at],
            None => return Ok(()),
        };
        let starts = self.open.iter().map(|open| open.transaction.start());
        let snapshots = self.snapshots.iter().map(Snapshot::timestamp);
        let holds = self.holds.iter().map(Hold::timestamp);
        let held = starts.chain(snapshots).chain(holds);
        let oldest = held.fold(to, Timestamp::min);
        match self.store.advance_safe_point(to) {
            Ok(safe_point) => {
                ensure!(
                    safe_point == oldest,
                    "the safe point moved to {safe_point} instead of {oldest}"
                );
                self.safe_point = safe_point;
            }
            Err(Error::SafePointBackwards { .. }) => {
                ensure!(to < self.safe_point, "{to} is not backwards");
            }
            Err(e) => return Err(CheckFailure::wrong(e)),
        }
        Ok(())
    }

    fn hold(&mut self) -> Checked<()> {
        let at = self.some_timestamp();
        match self.store.hold("campaign", at) {
            Ok(hold) if self.holds.len() < 3 => self.holds.push(hold),
            Ok(_) => {}
            Err(e) => ensure!(at < self.safe_point, "a hold at {at}: {e}"),
        }
        Ok(())
    }

    fn release(&mut self) {
        self.holds.pop();
        self.snapshots.pop();
    }

    /// Compacts the tables around some key, so that versions of one key come apart.
    fn compact(&mut self) -> Checked<()> {
        let key = self.key();
        if let Some(versions) = self.store.db().column_family("versions") {
            let options = CompactRangeOptions {
                force_bottommost: self.rng.bool(),
            };
            versions.compact_range(Some(&key), Some(&key), &options)?;
        }
        Ok(())
    }

    /// Ends the store and what it handed out, and opens it again.
    fn restart(&mut self) -> Checked<()> {
        self.open.clear();
        self.snapshots.clear();
        self.holds.clear();
        match self.configuration.crashes {
            true => self.crash()?,
            false => {
                self.end_cache()?;
                self.store.close().doing("closing")?;
                self.reopen()?;
            }
        }
        let last = self.commits.last().copied().unwrap_or_default();
        ensure!(self.store.now() > last, "time went back");
        ensure!(
            self.store.safe_point() == self.safe_point,
            "the safe point is another one"
        );
        self.check_everything()
    }

    pub(super) fn reopen(&mut self) -> Checked<()> {
        self.loads.clear();
        // What is left of the old cache goes with the old store.
        (self.store, self.cache) = open(self.configuration, &self.vfs, &self.clock)?;
        self.vfs.restart_journal();
        // The opening ended what those had left who were killed.
        let locks = self.store.percolator();
        let locks = locks.scan_locks(Timestamp::MAX, b"", usize::MAX).len();
        ensure!(locks == 0, "{locks} locks are left after an opening");
        Ok(())
    }
}

fn open(
    configuration: &Configuration,
    vfs: &SimVfs,
    clock: &SimClock,
) -> Checked<(Store, Option<RangeCache>)> {
    let (table, base) = match configuration.small_tables {
        true => (4 << 10, 32 << 10),
        false => (1 << 20, 4 << 20),
    };
    let mut versions = ColumnFamilyOptions {
        min_blob_size: configuration.min_blob_size,
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
    // Versions are dropped when a history says so.
    options.retention = None;
    let transactions = &mut options.transactions;
    (transactions.lock_ttl, transactions.lock_wait) = (LOCK_TTL, Duration::ZERO);
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
