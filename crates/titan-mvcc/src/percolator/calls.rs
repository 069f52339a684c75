//! The calls of Percolator transactions on a store, as its clients make them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::commit::commit_at;
use super::end_locks::end_locks;
use super::pessimistic::{self, PessimisticLock};
use super::prewrite::{self, Prewrite, Prewritten};
use super::rollback;
use super::secondaries::{self, SecondariesStatus};
use super::status::{self, TransactionStatus};
use crate::core::Core;
use crate::error::Result;
use crate::format::lock::{Lock, Owner};
use crate::lock_info::LockInfo;
use crate::timestamp::Timestamp;

/// The calls of Percolator transactions on a store, from [`Store::percolator`](crate::Store::percolator), with the
/// meaning that TiKV gives them.
///
/// A client names its transaction by its start, a timestamp of [`Store::oracle`](crate::Store::oracle). It prewrites
/// all keys, takes a commit timestamp when all prewrites have returned, and commits the primary key first: with that
/// the transaction has committed. Then it commits the other keys. Each start names one transaction. Each call is
/// atomic, and may be repeated.
///
/// All calls fail with `Engine` if the engine does, with `Corruption` for entries that no version of the
/// crate can have written, and with `InFuture` for timestamps that the oracle has not handed out.
#[derive(Clone)]
pub struct Percolator(pub(crate) Arc<Core>);

impl Percolator {
    /// The store, unless this process inherited it.
    fn core(&self) -> Result<&Core> {
        self.0.check_not_inherited()?;
        Ok(&self.0)
    }

    /// Locks keys for what a transaction will do to them. All of them, or none. Prewriting again what is
    /// prewritten or committed changes nothing. Cost: a point read a key, and one batch that has the values.
    ///
    /// # Errors
    /// `KeyIsLocked` by another transaction; `Conflict` if a key was written after the start; `RolledBack`;
    /// `PessimisticLockNotFound`; `BeforeSafePoint` for a start that is so old that nothing is known of it, or a
    /// read after which conflicts may have been dropped; `Engine` with `InvalidArgument` for two mutations of a key.
    pub fn prewrite(&self, request: &Prewrite<'_>) -> Result<Prewritten> {
        prewrite::refuse_repeated_keys(request.mutations)?;
        prewrite::prewrite(self.core()?, request, Owner::Client)
    }

    /// Commits prewritten keys at a timestamp that was taken after the last prewrite. The primary key must be
    /// committed first or in the same call. Committing again changes nothing. From then on reads see it.
    /// Cost: a read and a write of the values.
    ///
    /// # Errors
    /// `LockNotFound` if the transaction was rolled back, or the key was never prewritten; `CommitTsExpired` with the
    /// first timestamp that is possible.
    pub fn commit<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        start: Timestamp,
        commit: Timestamp,
    ) -> Result<()> {
        let (core, keys) = (self.core()?, slices(keys));
        core.order.check_handed_out(commit)?;
        commit_at(core, &keys, start, commit, &core.config.write)?;
        core.order.include(commit);
        Ok(())
    }

    /// Takes pessimistic locks. All of them, or none. Returns the values that the keys have, if the request asks
    /// for them, and none for each otherwise.
    ///
    /// # Errors
    /// `KeyIsLocked` if a lock was not released in time; `Deadlock`; `Conflict` if a key was written after the
    /// timestamp for update: take a new one and repeat; `RolledBack`; `PrewrittenAlready`; `BeforeSafePoint`;
    /// `Engine` with `InvalidArgument` if `since` is after the timestamp for update.
    pub fn pessimistic_lock<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        request: &PessimisticLock<'_>,
    ) -> Result<Vec<Option<Bytes>>> {
        pessimistic::pessimistic_lock(self.core()?, &slices(keys), request, Owner::Client)
    }

    /// Releases pessimistic locks that were taken at `for_update` or before. The transaction goes on.
    ///
    /// # Errors
    /// Those of all calls.
    pub fn pessimistic_rollback<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        start: Timestamp,
        for_update: Timestamp,
    ) -> Result<()> {
        pessimistic::pessimistic_rollback(self.core()?, &slices(keys), start, for_update)
    }

    /// Rolls a transaction back on these keys, whether it has locks there or not: later prewrites of them
    /// fail.
    ///
    /// # Errors
    /// `AlreadyCommitted`, with the timestamp.
    pub fn batch_rollback<K: AsRef<[u8]>>(&self, keys: &[K], start: Timestamp) -> Result<()> {
        rollback::roll_back(self.core()?, &slices(keys), start, false)
    }

    /// Rolls a transaction back on one key if its lock there has expired at `now`, or has been lost.
    /// [`Timestamp::MAX`] as `now` rolls it back in any case.
    ///
    /// # Errors
    /// `KeyIsLocked` if it has not expired; `AlreadyCommitted`.
    pub fn cleanup(&self, key: &[u8], start: Timestamp, now: Timestamp) -> Result<()> {
        rollback::cleanup(self.core()?, key, start, now)
    }

    /// How a transaction stands, as its primary key says. Rolls it back if its lock has expired at `now`. If it
    /// is alive, it will commit after `reader`, which then may read as if there were no locks. If nothing is
    /// known, `roll_back_if_missing` says whether it is rolled back, so that it stays so.
    ///
    /// # Errors
    /// `TransactionNotFound` if nothing is known and nothing is to be rolled back; `PrimaryMismatch`.
    pub fn check_transaction_status(
        &self,
        primary: &[u8],
        start: Timestamp,
        reader: Timestamp,
        now: Timestamp,
        roll_back_if_missing: bool,
    ) -> Result<TransactionStatus> {
        status::check(
            self.core()?,
            primary,
            start,
            reader,
            now,
            roll_back_if_missing,
        )
    }

    /// How an async commit stands, as these of its keys say. Where the transaction has neither a lock nor a
    /// version, it is rolled back, so that it stays so.
    ///
    /// # Errors
    /// Those of all calls.
    pub fn check_secondary_locks<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        start: Timestamp,
    ) -> Result<SecondariesStatus> {
        secondaries::check_secondaries(self.core()?, &slices(keys), start)
    }

    /// Gives the primary lock at least this time to live, from now on. Returns what it has then.
    ///
    /// # Errors
    /// `LockNotFound`: the transaction has ended.
    pub fn heartbeat(&self, primary: &[u8], start: Timestamp, ttl: Duration) -> Result<Duration> {
        status::heartbeat(self.core()?, primary, start, ttl)
    }

    /// Ends the locks of a transaction, as its primary key was found to say: commits them at the timestamp, or rolls
    /// them back if there is none. All its locks, or those of `keys`. Returns how many keys it went through.
    ///
    /// # Errors
    /// `CommitTsExpired` and `LockNotFound` if the primary key says something else.
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
        let resolved = end_locks(core, &slices(&found), start, commit)?;
        if let Some(commit) = commit {
            core.order.include(commit);
        }
        Ok(resolved)
    }

    /// The first `limit` locks from the key `from` on of transactions that began at `until` or before.
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
