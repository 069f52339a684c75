//! Optimistic transactions, whose commits find conflicts.

use std::sync::Arc;

use bytes::Bytes;
use titan::LazyValue;

use super::one_batch;
use super::scan::TransactionScan;
use super::two_phase::{self, PrewrittenTransaction};
use super::writes::{Writes, value_of};
use crate::error::Result;
use crate::lookup::Direction;
use crate::read::Snapshot;
use crate::timestamp::Timestamp;

/// An optimistic transaction. Dropping it rolls it back. Its writes take memory until the commit
/// gives them to the engine.
#[must_use = "a transaction that is dropped writes nothing"]
pub struct Transaction {
    pub(super) snapshot: Snapshot,
    pub(super) writes: Writes,
}

impl Transaction {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Transaction {
            snapshot,
            writes: Writes::default(),
        }
    }

    /// The timestamp of the transaction's snapshot. It sees the commits up to here. Transactions
    /// that begin while nothing commits share it.
    pub fn start(&self) -> Timestamp {
        self.snapshot.timestamp()
    }

    /// Returns the value of `key`: the transaction's own, copied, or that of its snapshot. Cost: as
    /// [`Snapshot::get`].
    ///
    /// # Errors
    /// Those of [`Snapshot::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.get_lazy(key)?;
        Ok(value.map(|value| value.fetch()).transpose()?)
    }

    /// Finds `key` without reading a blob file.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`].
    pub fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        match self.writes.get(key).as_ref().and_then(value_of) {
            Some(None) if mutant!(own_deletion_unseen) => self.snapshot.get_lazy(key),
            Some(own) => Ok(own),
            None => self.snapshot.get_lazy(key),
        }
    }

    /// Returns the values of `keys` in their order.
    ///
    /// # Errors
    /// Those of [`Snapshot::batch_get`].
    pub fn batch_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(key.as_ref())).collect()
    }

    /// Scans the rows from the key `from` to before the key `to`, with the transaction's own
    /// writes.
    ///
    /// # Errors
    /// Those of [`Snapshot::scan`].
    pub fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<TransactionScan<'_>> {
        TransactionScan::new(&self.snapshot, &self.writes, from, to, direction)
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.writes.put(key, value);
    }

    /// Removes the value of `key`. Counts as a write even if there is none.
    pub fn delete(&mut self, key: &[u8]) {
        self.writes.delete(key);
    }

    /// Makes the commit conflict with others that write or lock `key`, but keeps its value. Lock a
    /// key that the transaction only reads and that must not change: this prevents write skew.
    pub fn lock(&mut self, key: &[u8]) {
        self.writes.lock(key);
    }

    /// Commits. Returns the commit timestamp, or the start of a transaction that wrote and locked
    /// nothing. From then on, reads of the present see the writes.
    ///
    /// A transaction of up to [`one_batch_bytes`](crate::TransactionOptions::one_batch_bytes) is
    /// one batch of the engine. A larger one commits in two phases, as by
    /// [`Transaction::prewrite`].
    ///
    /// Cost: one batch of the engine, a point read for each key that is only locked, and for each
    /// key whose hash another transaction wrote since this one began. In two phases: a point read
    /// for each key, and each value goes to the WAL twice. The commit waits for other commits of
    /// its keys, then for commits with older timestamps, and up to
    /// [`lock_wait`](crate::TransactionOptions::lock_wait) for a lock of another transaction.
    ///
    /// # Errors
    /// `Conflict` with the key; `KeyIsLocked`; `Oracle`; `Deadlock` in two phases: nothing was
    /// committed. `RolledBack`: its locks expired, and another transaction rolled it back.
    /// `Engine`: as for [`Db::write`](titan::Db::write), this opening sees nothing of it, but after
    /// a failed sync a later one may find the whole commit.
    pub fn commit(self) -> Result<Timestamp> {
        if self.writes.is_empty() {
            return Ok(self.start());
        }
        self.snapshot.core().check_not_inherited()?;
        let one_batch = self.snapshot.core().config.transactions.one_batch_bytes;
        match one_batch == 0 || self.writes.size() > one_batch {
            true => self.prewrite()?.commit(),
            false => one_batch::commit(self.snapshot.core(), &self.writes, self.start()),
        }
    }

    /// Runs the first phase of a commit in two: locks all keys, with their values, in batches of
    /// about [`one_batch_bytes`](crate::TransactionOptions::one_batch_bytes).
    ///
    /// # Errors
    /// Those of [`Transaction::commit`]. The locks have been released then.
    pub fn prewrite(self) -> Result<PrewrittenTransaction> {
        let core = Arc::clone(self.snapshot.core());
        core.check_not_inherited()?;
        // Another transaction may share the snapshot. Locks need a start timestamp of their own.
        let start = core.order.next_timestamp()?;
        let timestamps = two_phase::TransactionTimestamps {
            start,
            read_at: self.start(),
            for_update: None,
        };
        two_phase::prewrite(core, &self.writes, timestamps, None)
    }

    /// Rolls back. Nothing was written.
    pub fn rollback(self) {}
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("start", &self.start())
            .field("writes", &self.writes.len())
            .finish_non_exhaustive()
    }
}
