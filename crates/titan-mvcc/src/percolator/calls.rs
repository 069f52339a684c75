//! The calls of Percolator transactions on a store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::commit::commit_at;
use super::demands::Demands;
use super::destroy_range;
use super::end_locks::end_locks;
use super::pessimistic::{self, LockDemands, LockedKey, PessimisticLock};
use super::prewrite::{self, Prewrite, Prewritten};
use super::rollback;
use super::secondaries::{self, SecondariesStatus};
use super::status::{self, CheckedStatus, StatusCheck, TransactionStatus};
use crate::core::Core;
use crate::error::Result;
use crate::format::lock::{Lock, Owner};
use crate::lock_info::LockInfo;
use crate::timestamp::Timestamp;

/// The calls of Percolator transactions on a store, with TiKV's meaning. From
/// [`Store::percolator`](crate::Store::percolator).
///
/// A client identifies its transaction by a start timestamp of
/// [`Store::oracle`](crate::Store::oracle). It prewrites all keys, takes a commit timestamp after
/// all prewrites have returned, and commits the primary key, which commits the transaction. Then it
/// commits the other keys. Each start timestamp identifies one transaction. Each call may be
/// repeated, and is atomic, except [`Percolator::resolve_lock`] and
/// [`Percolator::pessimistic_rollback_range`], which end locks in batches.
///
/// Every call but [`Percolator::scan_locks`] fails with `Engine` if the engine does, and with
/// `Corruption` for entries that no version of the crate can have written. Those calls, except
/// [`Percolator::heartbeat`] and rollbacks of pessimistic locks, fail with `InFuture` for a start,
/// commit or reader that the oracle has not handed out.
#[derive(Clone)]
pub struct Percolator(pub(crate) Arc<Core>);

impl Percolator {
    /// The core, unless this process inherited the store.
    fn core(&self) -> Result<&Core> {
        self.0.check_not_inherited()?;
        Ok(&self.0)
    }

    /// Locks all keys of the request or none, with their values. Repeating a prewrite changes
    /// nothing, also after the commit. Cost: a point read for each key, and one batch with the
    /// values.
    ///
    /// # Errors
    /// `KeyIsLocked` by another transaction; `Conflict` if a key was written after the start;
    /// `RolledBack`; `PessimisticLockNotFound`; `BeforeSafePoint` if a version that would conflict,
    /// or the outcome of the transaction, may have been dropped; `Engine` with `InvalidArgument`
    /// for two mutations of a key, and for an optimistic prewrite over an own pessimistic lock.
    pub fn prewrite(&self, request: &Prewrite<'_>) -> Result<Prewritten> {
        self.prewrite_with(request, &Demands::default())
    }

    /// Prewrites as [`Percolator::prewrite`] does, with more demands, or commits in one phase.
    ///
    /// # Errors
    /// Those of [`Percolator::prewrite`]; `AlreadyExists`, `AssertionFailed`.
    pub fn prewrite_with(
        &self,
        request: &Prewrite<'_>,
        demands: &Demands<'_>,
    ) -> Result<Prewritten> {
        prewrite::refuse_repeated_keys(request.mutations)?;
        prewrite::prewrite(self.core()?, request, demands, Owner::Client)
    }

    /// Commits prewritten keys at a timestamp that was taken after the last prewrite. Commit the
    /// primary key first or in the same call. Reads of the present see the commit when this
    /// returns. Repeating a commit changes nothing. Cost: a read and a write of the values.
    ///
    /// # Errors
    /// `LockNotFound` if the transaction was rolled back, or never prewrote a key;
    /// `CommitTsExpired` with the first possible timestamp.
    pub fn commit<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        start: Timestamp,
        commit: Timestamp,
    ) -> Result<()> {
        let (core, keys) = (self.core()?, distinct_slices(keys));
        core.order.check_handed_out(commit)?;
        commit_at(core, &keys, start, commit, &core.config.write)?;
        core.order.include(commit);
        Ok(())
    }

    /// Takes all pessimistic locks of the request or none. Returns the value of each key if the
    /// request asks for values, otherwise `None` for each.
    ///
    /// # Errors
    /// `KeyIsLocked` if the wait for a lock ended; `Deadlock`; `Conflict` if a key was written
    /// after `since`: repeat with a new timestamp for update; `RolledBack`; `PrewrittenAlready`;
    /// `BeforeSafePoint`; `Engine` with `InvalidArgument` if `since` is after the timestamp for
    /// update.
    pub fn pessimistic_lock<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        request: &PessimisticLock<'_>,
    ) -> Result<Vec<Option<Bytes>>> {
        let demands = LockDemands::default();
        let locked = self.pessimistic_lock_with(keys, request, &demands)?;
        Ok(locked.into_iter().map(|key| key.value).collect())
    }

    /// Takes locks as [`Percolator::pessimistic_lock`] does, with more demands. Returns the state
    /// of each key.
    ///
    /// # Errors
    /// Those of [`Percolator::pessimistic_lock`]; `AlreadyExists`, `NotAdmitted`.
    pub fn pessimistic_lock_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        request: &PessimisticLock<'_>,
        demands: &LockDemands<'_>,
    ) -> Result<Vec<LockedKey>> {
        let (core, keys) = (self.core()?, slices(keys));
        pessimistic::pessimistic_lock(core, &keys, request, demands, Owner::Client)
    }

    /// Releases pessimistic locks that were taken at `for_update` or before. The transaction goes
    /// on.
    ///
    /// # Errors
    /// Those of every call.
    pub fn pessimistic_rollback<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        start: Timestamp,
        for_update: Timestamp,
    ) -> Result<()> {
        pessimistic::pessimistic_rollback(self.core()?, &slices(keys), start, for_update)
    }

    /// Releases all pessimistic locks of a transaction that were taken at `for_update` or before,
    /// from the key `from` to before `to`, or to the end. Writes a batch for each 256 keys; after
    /// an error, earlier batches stay written. The call can be repeated.
    ///
    /// # Errors
    /// Those of every call.
    pub fn pessimistic_rollback_range(
        &self,
        start: Timestamp,
        for_update: Timestamp,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<()> {
        pessimistic::pessimistic_rollback_range(self.core()?, start, for_update, from, to)
    }

    /// Rolls a transaction back on these keys, locked or not: later prewrites of them fail.
    ///
    /// # Errors
    /// `AlreadyCommitted`, with the commit timestamp.
    pub fn batch_rollback<K: AsRef<[u8]>>(&self, keys: &[K], start: Timestamp) -> Result<()> {
        rollback::roll_back(self.core()?, &slices(keys), start, false)
    }

    /// Rolls a transaction back on one key if its lock there has expired at `now`, or is gone.
    /// [`Timestamp::MAX`] as `now` expires every lock.
    ///
    /// # Errors
    /// `KeyIsLocked` if the lock has not expired; `AlreadyCommitted`.
    pub fn cleanup(&self, key: &[u8], start: Timestamp, now: Timestamp) -> Result<()> {
        rollback::cleanup(self.core()?, key, start, now)
    }

    /// The status of a transaction, by its primary key. Rolls the transaction back if the lock of
    /// that key has expired at `now`. Makes a running transaction commit after `reader`, so that a
    /// read at that timestamp may ignore its locks. If the key has no trace of the transaction,
    /// `roll_back_if_missing` leaves a rollback record, which makes the status final.
    ///
    /// # Errors
    /// `TransactionNotFound` if there is no trace and `roll_back_if_missing` is false;
    /// `PrimaryMismatch`.
    pub fn check_transaction_status(
        &self,
        primary: &[u8],
        start: Timestamp,
        reader: Timestamp,
        now: Timestamp,
        roll_back_if_missing: bool,
    ) -> Result<TransactionStatus> {
        let check = StatusCheck {
            reader,
            now,
            roll_back_if_missing,
            ..StatusCheck::of(primary, start)
        };
        let checked = status::check(self.core()?, &check)?;
        // Only checks for a pessimistic lock leave it open.
        Ok(checked.status.unwrap_or(TransactionStatus::RolledBack))
    }

    /// The status of a transaction as [`Percolator::check_transaction_status`] finds it, and what
    /// the check has changed.
    ///
    /// # Errors
    /// Those of [`Percolator::check_transaction_status`].
    pub fn check_status(&self, check: &StatusCheck<'_>) -> Result<CheckedStatus> {
        status::check(self.core()?, check)
    }

    /// The status of an async commit, by some of its keys. Rolls the transaction back on a key that
    /// has no prewritten lock and no version of it, which makes the status final.
    ///
    /// # Errors
    /// Those of every call.
    pub fn check_secondary_locks<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        start: Timestamp,
    ) -> Result<SecondariesStatus> {
        secondaries::check_secondaries(self.core()?, &slices(keys), start)
    }

    /// Extends the time to live of the primary lock to at least `ttl`, from now on. Returns the
    /// result.
    ///
    /// # Errors
    /// `LockNotFound` if the transaction has ended.
    pub fn heartbeat(&self, primary: &[u8], start: Timestamp, ttl: Duration) -> Result<Duration> {
        status::heartbeat(self.core()?, primary, start, ttl)
    }

    /// Ends the locks of a transaction by the status of its primary key: commits them at `commit`,
    /// or rolls them back if it is `None`. All locks of the transaction, or those on `keys`.
    /// Returns the number of locks. Writes a batch for each 256 keys, or for each
    /// [`one_batch_bytes`](crate::TransactionOptions::one_batch_bytes); after an error, earlier
    /// batches stay written. The call can be repeated.
    ///
    /// # Errors
    /// `CommitTsExpired`, if `commit` is not after the start or a lock has a later bound;
    /// `LockNotFound` or `AlreadyCommitted` if another call ended a lock otherwise.
    pub fn resolve_lock(
        &self,
        start: Timestamp,
        commit: Option<Timestamp>,
        keys: Option<&[Bytes]>,
    ) -> Result<usize> {
        let core = self.core()?;
        if let Some(commit) = commit {
            core.order.check_handed_out(commit)?;
        }
        let found = match keys {
            Some(keys) => keys.to_vec(),
            None => core.locks.keys_of(start, |_| true),
        };
        let resolved = end_locks(core, &distinct_slices(&found), start, commit)?;
        if let Some(commit) = commit {
            core.order.include(commit);
        }
        Ok(resolved)
    }

    /// Destroys the range from the key `from` to before `to`, or to the end: all versions and all
    /// locks, at once and for all snapshots. It is no transaction: nothing conflicts with it, and
    /// transactions that had locks there have lost them. A commit hook sees a deletion of the
    /// range. Cost: a write, which waits for all commits and keeps others waiting.
    ///
    /// # Errors
    /// Those of every call.
    pub fn destroy_range(&self, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        destroy_range::destroy_range(self.core()?, from, to)
    }

    /// Lists the locks that other transactions than `start` have on keys. After a `KeyIsLocked`
    /// they are all that a caller must resolve. Reads memory only.
    pub fn locks_of_others<K: AsRef<[u8]>>(&self, keys: &[K], start: Timestamp) -> Vec<LockInfo> {
        let lock = |key: &K| {
            let key = key.as_ref();
            let active = self.0.locks.get(key)?;
            (active.lock.start != start).then(|| active.lock.info(key))
        };
        keys.iter().filter_map(lock).collect()
    }

    /// Lists the first `limit` locks from the key `from` on, of transactions that began at `until`
    /// or before. Reads memory only.
    pub fn scan_locks(&self, until: Timestamp, from: &[u8], limit: usize) -> Vec<LockInfo> {
        let locks = self.0.locks.list(from, limit, |lock| lock.start <= until);
        let info = |(key, lock): (Bytes, Lock)| lock.info(&key);
        locks.into_iter().map(info).collect()
    }
}

impl std::fmt::Debug for Percolator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Percolator")
    }
}

fn slices<K: AsRef<[u8]>>(keys: &[K]) -> Vec<&[u8]> {
    keys.iter().map(AsRef::as_ref).collect()
}

/// The keys without those that have come before, which a client may repeat.
fn distinct_slices<K: AsRef<[u8]>>(keys: &[K]) -> Vec<&[u8]> {
    let mut slices = slices(keys);
    // The order in which most clients send them.
    if !slices.is_sorted_by(|a, b| a < b) {
        let mut seen = BTreeSet::new();
        slices.retain(|key| seen.insert(*key));
    }
    slices
}
