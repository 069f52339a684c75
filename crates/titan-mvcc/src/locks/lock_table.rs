//! Locks of transactions in two phases, in memory and in the family `locks`.
//!
//! Promises:
//!
//! 1. A lock is in memory from before it is written until its end is published. So a reader that
//!    finds no lock finds the versions of every transaction that committed up to its timestamp.
//! 2. A read costs one atomic load when there are no locks.
//! 3. The safe point stays before the start of each transaction that has a lock. So the outcome of
//!    the transaction is known while a lock depends on it, and late calls of a transaction that
//!    left no trace are refused.
//! 4. A transaction of the store itself ends with the store. If such a transaction left locks, the
//!    next opening for writes finds them *orphaned*: they have expired, with any time to
//!    live.
//!
//! Assumes that the locks of a key are inserted, changed and removed under its latch. Only two
//! changes need no latch, so that readers take none: pushing the minimal commit timestamp, and
//! setting `committing`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{RwLock, RwLockUpgradableReadGuard};
use titan::{ColumnFamily, LazyValue, ReadOptions, SystemClock, WriteBatch, invariant};

use super::active_lock::{ActiveLock, Push};
use super::waits::Waits;
use crate::error::{Error, Result};
use crate::format::LOCKS;
use crate::format::lock::{Lock, Owner, key_of_record, record_key, value_key};
use crate::lock_info::LockKind;
use crate::order::{Hold, SafePoint};
use crate::timestamp::Timestamp;

/// The locks of a store.
pub(crate) struct LockTable {
    family: ColumnFamily,
    clock: Arc<dyn SystemClock>,
    safe_point: Arc<SafePoint>,
    table: RwLock<Index>,
    /// The number of locks.
    count: AtomicUsize,
    /// The waits for locks.
    pub(crate) waits: Waits,
}

#[derive(Default)]
struct Index {
    by_key: BTreeMap<Bytes, ActiveLock>,
    by_start: BTreeMap<Timestamp, LocksOfTransaction>,
}

/// The locks of one transaction.
struct LocksOfTransaction {
    keys: BTreeSet<Bytes>,
    /// Keeps the safe point before the transaction.
    hold: Hold,
}

impl LockTable {
    /// Loads the locks of the last opening. Its reads have ended, but their results must stay
    /// valid: so no transaction commits up to `visible` whose primary key is locked, except an
    /// async commit, which guarantees that itself. Unless the store `is_read_only`, no other
    /// process has transactions of the store.
    ///
    /// # Errors
    /// `Corruption`; those of the engine.
    pub(crate) fn open(
        family: ColumnFamily,
        clock: Arc<dyn SystemClock>,
        safe_point: Arc<SafePoint>,
        visible: Timestamp,
        is_read_only: bool,
    ) -> Result<Self> {
        let locks = LockTable {
            family,
            clock,
            safe_point,
            table: RwLock::default(),
            count: AtomicUsize::new(0),
            waits: Waits::default(),
        };
        let after = visible.next().unwrap_or(visible);
        let mut entries = locks.family.iter(&ReadOptions::default())?;
        entries.seek_to_first()?;
        while entries.valid() {
            if let Some(key) = key_of_record(entries.key())? {
                let Some(mut lock) = Lock::decode(&entries.value()?) else {
                    let damaged = "its record is damaged";
                    return Err(Error::corrupt_entry(LOCKS, entries.key(), damaged));
                };
                // The transaction of a secondary key may have committed earlier.
                let is_pushed =
                    !lock.is_async() && lock.primary == key && !mutant!(restart_forgets_pushes);
                if is_pushed {
                    lock.min_commit = lock.min_commit.max(after);
                }
                let is_orphaned = lock.owner == Owner::Store && !is_read_only;
                let active = locks.active(lock, is_orphaned);
                locks.put(Bytes::from(key), active).map_err(|_| {
                    let damaged = "its transaction began at the safe point or before";
                    Error::corrupt_entry(LOCKS, entries.key(), damaged)
                })?;
            }
            entries.next()?;
        }
        if !mutant!(fall_back_forgotten) {
            locks.find_fallen_back(after);
        }
        Ok(locks)
    }

    /// Finds async commits that have fallen back to two phases before the opening. Their primary
    /// keys decide on them, so they are pushed as others are.
    fn find_fallen_back(&self, after: Timestamp) {
        let mut table = self.table.write();
        let has_fallen_back = |lock: &Lock| {
            let mut keys = lock.secondaries.iter().flat_map(|keys| keys.iter());
            keys.any(|key| {
                let other = table.by_key.get(key).map(|active| &active.lock);
                other.is_some_and(|other| {
                    other.start == lock.start && other.is_prewritten() && !other.is_async()
                })
            })
        };
        let all = table.by_key.iter();
        let fallen = all.filter(|(_, active)| has_fallen_back(&active.lock));
        let fallen: Vec<Bytes> = fallen.map(|(key, _)| key.clone()).collect();
        for key in fallen {
            if let Some(active) = table.by_key.get_mut(&key) {
                active.lock.secondaries = None;
                active.lock.min_commit = active.lock.min_commit.max(after);
            }
        }
    }

    /// Returns true if no key is locked. Cost: one atomic load.
    pub(crate) fn is_empty(&self) -> bool {
        // ORDER: acquires the publication before the last lock was removed. A lock that this load
        // misses is inserted after the reader got its timestamp.
        self.count.load(Ordering::Acquire) == 0
    }

    /// The lock of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<ActiveLock> {
        match self.is_empty() {
            true => None,
            false => self.table.read().by_key.get(key).cloned(),
        }
    }

    /// The lock of `key`, if the transaction `start` owns it.
    pub(crate) fn owned_by(&self, key: &[u8], start: Timestamp) -> Option<ActiveLock> {
        self.get(key).filter(|active| active.lock.start == start)
    }

    /// The keys from `from` to before `to` whose locks may [affect](ActiveLock::affects_read_at) a
    /// read at `at`.
    pub(crate) fn affecting_reads(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        at: Timestamp,
    ) -> Vec<Bytes> {
        if self.is_empty() || matches!((from, to), (Some(from), Some(to)) if from >= to) {
            return Vec::new();
        }
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        let table = self.table.read();
        let locks = table.by_key.range::<[u8], _>((from, to));
        locks
            .filter(|(_, active)| active.affects_read_at(at))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// The keys from `from` to before `to` that have locks.
    pub(crate) fn keys_between(&self, from: &[u8], to: Option<&[u8]>) -> Vec<Bytes> {
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        let table = self.table.read();
        let locks = table.by_key.range::<[u8], _>((Bound::Included(from), to));
        locks.map(|(key, _)| key.clone()).collect()
    }

    /// The family of locks.
    pub(crate) fn family(&self) -> &ColumnFamily {
        &self.family
    }

    /// The first `limit` locks from the key `from` on that are `wanted`.
    pub(crate) fn list(
        &self,
        from: &[u8],
        limit: usize,
        wanted: impl Fn(&Lock) -> bool,
    ) -> Vec<(Bytes, Lock)> {
        let table = self.table.read();
        let range = (Bound::Included(from), Bound::Unbounded);
        let locks = table.by_key.range::<[u8], _>(range);
        locks
            .filter(|(_, active)| wanted(&active.lock))
            .take(limit)
            .map(|(key, active)| (key.clone(), active.lock.clone()))
            .collect()
    }

    /// The keys of those locks of a transaction that are `wanted`, in order. Cost: visits all its
    /// locks.
    pub(crate) fn keys_of(&self, start: Timestamp, wanted: impl Fn(&Lock) -> bool) -> Vec<Bytes> {
        let table = self.table.read();
        let Some(of) = table.by_start.get(&start) else {
            return Vec::new();
        };
        let lock = |key: &Bytes| Some(&table.by_key.get(key)?.lock);
        let keys = of.keys.iter();
        keys.filter(|key| lock(key).is_some_and(&wanted))
            .cloned()
            .collect()
    }

    /// The first lock of each transaction that began at `until` or before. If a pessimistic one has
    /// changed its primary key, the first lock for each of them. Cost: visits all locks of these
    /// transactions.
    pub(crate) fn transactions(&self, until: Timestamp) -> Vec<(Bytes, ActiveLock)> {
        let table = self.table.read();
        let mut found = Vec::new();
        for of in table.by_start.range(..=until).map(|(_, of)| of) {
            let mut primaries = BTreeSet::new();
            for key in &of.keys {
                if let Some(active) = table.by_key.get(key)
                    && primaries.insert(&active.lock.primary)
                {
                    found.push((key.clone(), active.clone()));
                }
            }
        }
        found
    }

    /// Returns true if the owner's last heartbeat is longer ago than the time to live, or the owner
    /// is gone.
    pub(crate) fn is_expired(&self, active: &ActiveLock) -> bool {
        active.is_orphaned
            || self.clock.monotonic().saturating_sub(active.last_heartbeat) > active.lock.ttl
    }

    /// The time until the lock expires.
    pub(crate) fn time_left(&self, active: &ActiveLock) -> Duration {
        if active.is_orphaned {
            return Duration::ZERO;
        }
        let end = active.last_heartbeat.saturating_add(active.lock.ttl);
        end.saturating_sub(self.clock.monotonic())
    }

    /// The value of a prewritten put, or `None` if the key has no lock of a put.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn prewritten_value(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        let value = self.family.get_lazy(&value_key(key));
        Ok(value?)
    }

    /// Makes the primary lock of an async commit one of a commit in two phases. The caller has
    /// taken the latches of all its keys, and found a lock of a commit in two phases among them.
    /// An opening finds that lock again: it stays as long as the transaction is undecided.
    pub(crate) fn fall_back(&self, primary: &[u8], start: Timestamp) {
        let mut table = self.table.write();
        if let Some(active) = table.by_key.get_mut(primary)
            && active.lock.start == start
        {
            active.lock.secondaries = None;
        }
    }

    /// Raises the minimal commit timestamp of the transaction that owns the lock of `primary` to
    /// after `at`.
    pub(crate) fn push(&self, primary: &[u8], start: Timestamp, at: Timestamp) -> Push {
        let mut table = self.table.write();
        let Some(active) = table.by_key.get_mut(primary) else {
            return Push::None;
        };
        if active.lock.start != start {
            return Push::None;
        }
        if active.lock.is_async() {
            return Push::Async;
        }
        if let Some(commit) = active.committing {
            return match commit > at {
                true => Push::Done,
                false => Push::Committing,
            };
        }
        if !mutant!(lock_not_pushed) {
            let after = at.next().unwrap_or(at);
            active.lock.min_commit = active.lock.min_commit.max(after);
        }
        let min_commit = active.lock.min_commit;
        invariant!(
            min_commit > at || at == Timestamp::MAX,
            "a reader at {at} pushes a commit from {min_commit} on"
        );
        Push::Done
    }

    /// Records a heartbeat of the owner.
    pub(crate) fn renew(&self, key: &[u8], start: Timestamp, ttl: Duration) {
        let mut table = self.table.write();
        if let Some(active) = table.by_key.get_mut(key)
            && active.lock.start == start
        {
            active.lock.ttl = ttl;
            active.last_heartbeat = self.clock.monotonic();
        }
    }

    /// Adds the write of a lock to a batch, and the value of its put.
    ///
    /// # Errors
    /// Those of [`WriteBatch::put`].
    pub(crate) fn batch_put(
        &self,
        batch: &mut WriteBatch,
        key: &[u8],
        lock: &Lock,
        value: Option<&[u8]>,
    ) -> Result<()> {
        batch.put(&self.family, record_key(key), lock.encode())?;
        if let Some(value) = value {
            batch.put(&self.family, value_key(key), value)?;
        }
        Ok(())
    }

    /// Adds the removal of a lock to a batch.
    ///
    /// # Errors
    /// Those of [`WriteBatch::delete`].
    pub(crate) fn batch_delete(
        &self,
        batch: &mut WriteBatch,
        key: &[u8],
        lock: &Lock,
    ) -> Result<()> {
        batch.delete(&self.family, record_key(key))?;
        if lock.kind == LockKind::Put {
            batch.delete(&self.family, value_key(key))?;
        }
        Ok(())
    }

    /// Inserts locks into memory before their batch is written. Dropping the result without
    /// [`PendingInsert::keep`] removes them again.
    ///
    /// # Errors
    /// `BeforeSafePoint` if the transaction began at the safe point or before.
    pub(crate) fn insert_all(&self, locks: Vec<(Bytes, Lock)>) -> Result<PendingInsert<'_>> {
        let mut inserted = PendingInsert {
            locks: self,
            before: Vec::with_capacity(locks.len()),
        };
        for (key, lock) in locks {
            let before = self.put(key.clone(), self.active(lock, false))?;
            inserted.before.push((key, before));
        }
        Ok(inserted)
    }

    fn active(&self, lock: Lock, is_orphaned: bool) -> ActiveLock {
        ActiveLock {
            last_heartbeat: self.clock.monotonic(),
            committing: None,
            is_orphaned,
            lock,
        }
    }

    /// Inserts or replaces a lock of the same transaction. Returns the replaced one.
    ///
    /// # Errors
    /// `BeforeSafePoint` if the transaction began at the safe point or before.
    fn put(&self, key: Bytes, active: ActiveLock) -> Result<Option<ActiveLock>> {
        let mut table = self.table.write();
        let Index { by_key, by_start } = &mut *table;
        if let Some(before) = by_key.get_mut(&key) {
            let (old, new) = (before.lock.start, active.lock.start);
            invariant!(old == new, "the lock of {new} replaces that of {old}");
            return Ok(Some(std::mem::replace(before, active)));
        }
        let of = match by_start.entry(active.lock.start) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let name = "locks of a transaction".into();
                let hold = self.safe_point.hold_before(name, active.lock.start)?;
                let keys = BTreeSet::new();
                entry.insert(LocksOfTransaction { keys, hold })
            }
        };
        of.keys.insert(key.clone());
        by_key.insert(key, active);
        self.count.fetch_add(1, Ordering::Release);
        self.check_count(&table);
        Ok(None)
    }

    /// Marks the locks of a transaction that is about to commit. Fails with the minimal commit
    /// timestamp of a lock that is later than `commit`.
    pub(crate) fn begin_commit<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        commit: Timestamp,
    ) -> Result<(), (Vec<u8>, Timestamp)> {
        let table = self.table.upgradable_read();
        for key in keys.clone() {
            if let Some(active) = table.by_key.get(key)
                && active.lock.min_commit > commit
                && !mutant!(committed_before_pushed)
            {
                return Err((key.to_vec(), active.lock.min_commit));
            }
        }
        let mut table = RwLockUpgradableReadGuard::upgrade(table);
        for key in keys {
            if let Some(active) = table.by_key.get_mut(key) {
                let start = active.lock.start;
                invariant!(active.committing.is_none(), "{start} commits twice at once");
                invariant!(start < commit, "{start} commits at {commit}");
                active.committing = Some(commit);
            }
        }
        Ok(())
    }

    /// States that the number that readers load is that of the locks.
    fn check_count(&self, table: &Index) {
        let locks = table.by_key.len();
        invariant!(
            self.count.load(Ordering::Relaxed) == locks,
            "{:?} locks are counted, and {locks} are there",
            self.count
        );
    }

    /// Unmarks the locks of a commit that failed.
    pub(crate) fn abort_commit<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let mut table = self.table.write();
        for key in keys {
            if let Some(active) = table.by_key.get_mut(key) {
                let start = active.lock.start;
                invariant!(active.committing.is_some(), "{start} was not committing");
                active.committing = None;
            }
        }
    }

    /// Removes locks whose end has been published, and wakes waiting transactions.
    pub(crate) fn remove<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let mut ended = Vec::new();
        let mut table = self.table.write();
        for key in keys {
            let Index { by_key, by_start } = &mut *table;
            let Some(active) = by_key.remove(key) else {
                continue;
            };
            // ORDER: releases the publication of the lock's end.
            self.count.fetch_sub(1, Ordering::Release);
            if let Entry::Occupied(mut entry) = by_start.entry(active.lock.start) {
                entry.get_mut().keys.remove(key);
                if entry.get().keys.is_empty() {
                    ended.push(entry.remove().hold);
                }
            }
        }
        self.check_count(&table);
        drop(table);
        if !mutant!(waits_are_not_woken) {
            self.waits.wake();
        }
    }
}

/// The error for a lost value of a prewritten put.
pub(crate) fn lost_value(key: &[u8]) -> Error {
    Error::corrupt_entry(LOCKS, &value_key(key), "the value of a lock is lost")
}

/// Locks in memory whose batch is not written yet.
pub(crate) struct PendingInsert<'a> {
    locks: &'a LockTable,
    /// The locks that these replaced.
    before: Vec<(Bytes, Option<ActiveLock>)>,
}

impl PendingInsert<'_> {
    /// Keeps the locks, whose batch has been written.
    pub(crate) fn keep(mut self) {
        self.before.clear();
    }
}

impl Drop for PendingInsert<'_> {
    fn drop(&mut self) {
        // The last first: a client may ask twice for a pessimistic lock of a key in one call.
        for (key, before) in self.before.drain(..).rev() {
            match before {
                None => self.locks.remove(std::iter::once(&*key)),
                Some(active) => {
                    if let Some(now) = self.locks.table.write().by_key.get_mut(&key) {
                        *now = active;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Store, StoreOptions};

    #[test]
    fn locks_that_are_not_kept_leave_the_one_before_them_however_often_a_key_comes() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
        let locks = &store.percolator().0.locks;
        let start = store.oracle().next().unwrap();
        let lock = |for_update: u64| {
            let lock = Lock {
                kind: LockKind::Pessimistic,
                owner: Owner::Client,
                primary: Bytes::from_static(b"k"),
                start,
                for_update: Timestamp(start.0 + for_update),
                min_commit: Timestamp(start.0 + for_update + 1),
                ttl: Duration::from_secs(1000),
                txn_size: 0,
                secondaries: None,
            };
            (Bytes::from_static(b"k"), lock)
        };
        drop(locks.insert_all(vec![lock(1), lock(2)]).unwrap());
        assert!(locks.get(b"k").is_none() && locks.is_empty());
        locks.insert_all(vec![lock(3)]).unwrap().keep();
        drop(locks.insert_all(vec![lock(4), lock(5)]).unwrap());
        assert_eq!(locks.get(b"k").unwrap().lock, lock(3).1);
        locks.remove(std::iter::once(&b"k"[..]));
    }
}
