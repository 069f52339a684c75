//! Pessimistic transactions, which lock keys before they write them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use titan::{LazyValue, invariant};

use super::optimistic::Transaction;
use super::scan::TransactionScan;
use super::{one_batch, two_phase};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::Owner;
use crate::lookup::Direction;
use crate::percolator::{
    LockDemands, Mutation, PessimisticLock, Wait, heartbeat, pessimistic_lock, release_locks,
};
use crate::timestamp::Timestamp;

/// A pessimistic transaction. It locks each key when it writes it, so other transactions wait, and
/// its commit finds no conflicts. Dropping it rolls it back and releases the locks.
///
/// Reads see its snapshot and its own writes, as those of a [`Transaction`]. A write of a key that
/// another transaction committed since the snapshot is a conflict at once.
/// [`PessimisticTransaction::get_for_update`] instead locks the key and reads its present value,
/// which the transaction sees from then on and may write.
///
/// After each call that takes a lock, even after a wait, the locks live for at least two thirds of
/// [`lock_ttl`](crate::TransactionOptions::lock_ttl). [`PessimisticTransaction::heartbeat`] extends
/// that.
#[must_use = "a transaction that is dropped writes nothing"]
pub struct PessimisticTransaction {
    /// The snapshot and the writes. Every locked key is one of the writes.
    inner: Transaction,
    /// The start timestamp, which identifies the transaction.
    start: Timestamp,
    /// The first locked key.
    primary: Option<Bytes>,
    /// The values that were read for update.
    current: BTreeMap<Vec<u8>, Option<Bytes>>,
    /// The timestamp for update of the last lock.
    for_update: Timestamp,
    /// Monotonic time of the last heartbeat.
    last_heartbeat: Duration,
}

impl PessimisticTransaction {
    /// Begins a transaction above the snapshot of `inner`.
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

    /// The start timestamp, which identifies the transaction in its locks. The snapshot is older.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// The timestamp of the snapshot. Reads see the commits up to it, except those for update.
    pub fn snapshot(&self) -> Timestamp {
        self.inner.start()
    }

    /// Returns the value of `key`: the transaction's own, or as read for update, or that of its
    /// snapshot.
    ///
    /// # Errors
    /// Those of [`Snapshot::get`](crate::Snapshot::get).
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match (self.inner.writes.get(key), self.current.get(key)) {
            (Some(Mutation::Lock { .. }), Some(current)) if !mutant!(read_for_update_forgotten) => {
                Ok(current.clone())
            }
            _ => self.inner.get(key),
        }
    }

    /// Finds `key` without reading a blob file.
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

    /// Returns the values of `keys` in their order.
    ///
    /// # Errors
    /// Those of [`Snapshot::get`](crate::Snapshot::get).
    pub fn batch_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(key.as_ref())).collect()
    }

    /// Scans the rows from the key `from` to before the key `to`: those of the snapshot with the
    /// transaction's own writes. Values that were only read for update are not among them.
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

    /// Locks `key` and returns its present value. Waits as [`PessimisticTransaction::put`].
    ///
    /// # Errors
    /// Those of [`PessimisticTransaction::lock`], except `Conflict`.
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
                // Another transaction committed between the timestamp and the lock.
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

    /// Locks `key` and sets it to `value`. Waits up to
    /// [`lock_wait`](crate::TransactionOptions::lock_wait) for a lock of another transaction.
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

    /// Locks `key`. No other transaction can write or lock it until this one has ended.
    ///
    /// # Errors
    /// `Conflict` if another transaction committed it since the snapshot; `KeyIsLocked` after the
    /// wait; `Deadlock`: roll back; `RolledBack`: the locks had expired.
    pub fn lock(&mut self, key: &[u8]) -> Result<()> {
        if self.inner.writes.contains(key) {
            return self.heartbeat_if_due();
        }
        self.acquire(key, self.start.max(self.for_update), self.inner.start())?;
        self.inner.lock(key);
        Ok(())
    }

    /// Extends the life of the locks to [`lock_ttl`](crate::TransactionOptions::lock_ttl) from now.
    ///
    /// # Errors
    /// `RolledBack`: they had expired, and another transaction rolled this one back.
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
    /// `RolledBack` or `PessimisticLockNotFound` if the locks had expired; `Oracle`; `Engine`, as
    /// for [`Transaction::commit`].
    pub fn commit(mut self) -> Result<Timestamp> {
        let writes = std::mem::take(&mut self.inner.writes);
        let Some(primary) = self.primary.take() else {
            return Ok(self.inner.start());
        };
        invariant!(writes.contains(&primary), "the primary key has no write");
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
            // Dropping the transaction releases the locks.
            self.inner.writes = writes;
            self.primary = Some(primary);
        }
        committed
    }

    /// Rolls back. Nothing was written; the locks are released.
    pub fn rollback(self) {}

    /// Ends as after a crash: the locks stay until they expire.
    pub fn abandon(mut self) {
        self.primary = None;
    }

    /// Takes a lock. Returns the present value of the key.
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
        let demands = LockDemands::default();
        let locked = pessimistic_lock(core, &[key], &request, &demands, Owner::Store)?;
        self.for_update = self.for_update.max(for_update);
        self.primary = Some(primary);
        Ok(locked.into_iter().next().and_then(|key| key.value))
    }

    /// Sends a heartbeat if the last one was long ago.
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
        // In a forked child the locks are the parent's.
        if self.primary.is_some() && self.core().check_not_inherited().is_ok() {
            let keys: Vec<&[u8]> = self.inner.writes.keys().collect();
            // A lock that cannot be released expires.
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
