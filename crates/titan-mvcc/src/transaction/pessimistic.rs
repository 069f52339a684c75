//! Transactions that lock keys before they write them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use titan::LazyValue;

use super::optimistic::Transaction;
use super::scan::TransactionScan;
use super::{one_batch, two_phase};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::Owner;
use crate::lookup::Direction;
use crate::percolator::{
    Mutation, PessimisticLock, Wait, heartbeat, pessimistic_lock, release_locks,
};
use crate::timestamp::Timestamp;

/// A transaction that locks each key when it writes it, so others wait and its commit finds no conflicts. Dropping
/// it rolls it back and releases the locks.
///
/// Reads see its snapshot and its own writes, as those of a [`Transaction`]. A write of a key that others committed
/// since the snapshot is a conflict at once. [`PessimisticTransaction::get_for_update`] is the exception: it locks
/// the key and reads its present value, which the transaction sees from then on and may write.
///
/// The locks live for two thirds of [`lock_ttl`](crate::TransactionOptions::lock_ttl) at least after the last call that
/// took one, also if that waited; [`PessimisticTransaction::heartbeat`] makes them live on.
#[must_use = "a transaction that is dropped writes nothing"]
pub struct PessimisticTransaction {
    /// All locked keys are among its writes.
    inner: Transaction,
    /// Identifies the transaction.
    start: Timestamp,
    /// The first key that was locked.
    primary: Option<Bytes>,
    /// What was read for update.
    current: BTreeMap<Vec<u8>, Option<Bytes>>,
    /// When the last lock was taken.
    for_update: Timestamp,
    /// When the last sign of life was given: monotonic time.
    last_heartbeat: Duration,
}

impl PessimisticTransaction {
    /// Begins above the snapshot of a new transaction.
    ///
    /// # Errors
    /// `Oracle`.
    pub(crate) fn new(inner: Transaction) -> Result<Self> {
        let core = inner.snapshot.core();
        let start = core.order.next_timestamp()?;
        let last_heartbeat = core.clock.monotonic();
        Ok(PessimisticTransaction {
            inner,
            start,
            primary: None,
            current: BTreeMap::new(),
            for_update: start,
            last_heartbeat,
        })
    }

    fn core(&self) -> &Core {
        self.inner.snapshot.core()
    }

    /// Identifies the transaction in its locks. Reads see the commits up to an earlier timestamp, that of the snapshot.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// Reads see the commits up to this timestamp, but for those for update.
    pub fn snapshot(&self) -> Timestamp {
        self.inner.start()
    }

    /// The value of `key`: the transaction's own, or the one that was read for update, or that of its snapshot.
    ///
    /// # Errors
    /// Those of [`Snapshot::get`](crate::Snapshot::get).
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match (self.inner.writes.get(key), self.current.get(key)) {
            (Some(Mutation::Lock { .. }), Some(current)) => Ok(current.clone()),
            _ => self.inner.get(key),
        }
    }

    /// The same, without reading a value from a blob file.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`](crate::Snapshot::get_lazy).
    pub fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        match (self.inner.writes.get(key), self.current.get(key)) {
            (Some(Mutation::Lock { .. }), Some(current)) => {
                Ok(current.clone().map(LazyValue::from))
            }
            _ => self.inner.get_lazy(key),
        }
    }

    /// The values of many keys, in the order of the keys.
    ///
    /// # Errors
    /// Those of [`Snapshot::get`](crate::Snapshot::get).
    pub fn batch_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(key.as_ref())).collect()
    }

    /// The rows from the key `from` to before the key `to`: those of the snapshot, with the transaction's own
    /// writes above. What was only read for update is as in the snapshot.
    ///
    /// # Errors
    /// Those of [`Transaction::scan`].
    pub fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<TransactionScan<'_>> {
        self.inner.scan(from, to, direction)
    }

    /// Locks `key` and returns the value that it has now, whatever the snapshot has. Waits as
    /// [`PessimisticTransaction::put`].
    ///
    /// # Errors
    /// Those of [`PessimisticTransaction::lock`], but for `Conflict`.
    pub fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(Mutation::Put { .. } | Mutation::Delete { .. }) = self.inner.writes.get(key) {
            return self.inner.get(key);
        }
        if let Some(current) = self.current.get(key) {
            return Ok(current.clone());
        }
        self.core().check_not_inherited()?;
        loop {
            let now = self.core().order.next_timestamp()?;
            match self.acquire(key, now, now) {
                // It was committed between the timestamp and the lock.
                Err(Error::Conflict { .. }) => {}
                Err(e) => return Err(e),
                Ok(value) => {
                    self.current.insert(key.to_vec(), value.clone());
                    self.inner.lock(key);
                    return Ok(value);
                }
            }
        }
    }

    /// Locks `key` and sets it to `value`. Waits up to [`lock_wait`](crate::TransactionOptions::lock_wait) if
    /// another transaction has locked it.
    ///
    /// # Errors
    /// Those of [`PessimisticTransaction::lock`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.lock(key)?;
        self.inner.put(key, value);
        Ok(())
    }

    /// Locks `key` and removes its value.
    ///
    /// # Errors
    /// Those of [`PessimisticTransaction::lock`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.lock(key)?;
        self.inner.delete(key);
        Ok(())
    }

    /// Locks `key`, which nobody else then writes or locks until this transaction has ended.
    ///
    /// # Errors
    /// `Conflict` if it was committed since the snapshot; `KeyIsLocked` if the wait was too long; `Deadlock`: roll
    /// back; `RolledBack`: the locks had expired.
    pub fn lock(&mut self, key: &[u8]) -> Result<()> {
        if self.inner.writes.contains(key) {
            return self.heartbeat_if_due();
        }
        self.acquire(key, self.start.max(self.for_update), self.inner.start())?;
        self.inner.lock(key);
        Ok(())
    }

    /// Makes the locks live on for [`lock_ttl`](crate::TransactionOptions::lock_ttl) from now.
    ///
    /// # Errors
    /// `RolledBack`: they had expired, and others rolled the transaction back.
    pub fn heartbeat(&mut self) -> Result<()> {
        let Some(primary) = &self.primary else {
            return Ok(());
        };
        let core = self.core();
        core.check_not_inherited()?;
        self.last_heartbeat =
            match heartbeat(core, primary, self.start, core.config.transactions.lock_ttl) {
                Ok(_) => core.clock.monotonic(),
                Err(Error::LockNotFound { key, start }) => {
                    return Err(Error::RolledBack { key, start });
                }
                Err(e) => return Err(e),
            };
        Ok(())
    }

    /// Commits, as [`Transaction::commit`] does.
    ///
    /// # Errors
    /// `RolledBack` or `PessimisticLockNotFound` if the locks had expired; `Oracle`; `Engine`, as for
    /// [`Transaction::commit`].
    pub fn commit(mut self) -> Result<Timestamp> {
        let writes = std::mem::take(&mut self.inner.writes);
        let Some(primary) = self.primary.take() else {
            return Ok(self.inner.start());
        };
        let core = Arc::clone(self.inner.snapshot.core());
        core.check_not_inherited()?;
        let one_batch = core.config.transactions.one_batch_bytes;
        if one_batch == 0 || writes.size() > one_batch {
            let timestamps = two_phase::TransactionTimestamps {
                start: self.start,
                read_at: self.inner.start(),
                for_update: Some(self.for_update),
            };
            return two_phase::prewrite(core, &writes, timestamps, Some(&primary))?.commit();
        }
        let committed = one_batch::commit_locked(&core, &writes, self.start);
        if committed.is_err() {
            // The locks are to be released.
            self.inner.writes = writes;
            self.primary = Some(primary);
        }
        committed
    }

    /// Rolls back: nothing was written, and the locks are released.
    pub fn rollback(self) {}

    /// Ends as if the process had been killed: the locks stay until their time to live is over.
    pub fn abandon(mut self) {
        self.primary = None;
    }

    /// Takes a lock. Returns the present value.
    fn acquire(
        &mut self,
        key: &[u8],
        for_update: Timestamp,
        since: Timestamp,
    ) -> Result<Option<Bytes>> {
        self.core().check_not_inherited()?;
        self.heartbeat_if_due()?;
        let core = self.core();
        let primary = self.primary.clone();
        let primary = primary.unwrap_or_else(|| Bytes::copy_from_slice(key));
        let request = PessimisticLock {
            primary: &primary,
            start: self.start,
            for_update,
            since,
            ttl: core.config.transactions.lock_ttl,
            wait: Wait::For(core.config.transactions.lock_wait),
            return_values: true,
        };
        let values = pessimistic_lock(core, &[key], &request, Owner::Store)?;
        self.for_update = self.for_update.max(for_update);
        self.primary = Some(primary);
        Ok(values.into_iter().next().flatten())
    }

    /// Gives a sign of life if the last one was long ago.
    fn heartbeat_if_due(&mut self) -> Result<()> {
        let core = self.core();
        let since = core.clock.monotonic().saturating_sub(self.last_heartbeat);
        match since > core.config.transactions.lock_ttl / 3 {
            true => self.heartbeat(),
            false => Ok(()),
        }
    }
}

impl Drop for PessimisticTransaction {
    fn drop(&mut self) {
        // The locks are the parent's in a forked child.
        if self.primary.is_some() && self.core().check_not_inherited().is_ok() {
            let keys: Vec<&[u8]> = self.inner.writes.keys().collect();
            // What cannot be removed expires.
            let _ = release_locks(self.core(), &keys, self.start);
        }
    }
}

impl std::fmt::Debug for PessimisticTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PessimisticTransaction")
            .field("start", &self.start)
            .field("writes", &self.inner.writes.len())
            .finish_non_exhaustive()
    }
}
