//! Optimistic transactions: their commit finds conflicts.

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

/// A transaction. Dropping it rolls it back. Its writes take memory until it ends: the engine is given them by the
/// commit.
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

    /// When the transaction began: it sees the commits up to this timestamp. Transactions that begin while
    /// nothing commits have the same one.
    pub fn start(&self) -> Timestamp {
        self.snapshot.timestamp()
    }

    /// The value of `key`: the transaction's own, which is copied, or that of its snapshot. Cost: as [`Snapshot::get`].
    ///
    /// # Errors
    /// Those of [`Snapshot::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.get_lazy(key)?;
        Ok(value.map(|value| value.fetch()).transpose()?)
    }

    /// The same, without reading a value from a blob file.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`].
    pub fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        match self.writes.get(key).as_ref().and_then(value_of) {
            // MUTANT: a transaction does not see that it deleted a key.
            Some(None) if mutant!("own-deletion-unseen", "-p titan-campaigns --test it mvcc::") => {
                self.snapshot.get_lazy(key)
            }
            Some(own) => Ok(own),
            None => self.snapshot.get_lazy(key),
        }
    }

    /// The values of many keys, in the order of the keys.
    ///
    /// # Errors
    /// Those of [`Snapshot::batch_get`].
    pub fn batch_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(key.as_ref())).collect()
    }

    /// The rows from the key `from` to before the key `to`, the transaction's own writes among them.
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

    /// Removes the value of `key`. This is a write, also if the key has none.
    pub fn delete(&mut self, key: &[u8]) {
        self.writes.delete(key);
    }

    /// Makes the commit conflict with every other one that writes or locks `key`, as if the transaction wrote
    /// it, but leaves its value. A key that the transaction only read and that must not change is to be locked;
    /// this prevents write skew.
    pub fn lock(&mut self, key: &[u8]) {
        self.writes.lock(key);
    }

    /// Commits. Returns the timestamp at which the writes are seen; for a transaction that wrote and locked
    /// nothing, that of its start. From then on every read of the present sees them.
    ///
    /// What has up to [`one_batch_bytes`](crate::TransactionOptions::one_batch_bytes) is committed in one batch of
    /// the engine; anything larger in two phases, as [`Transaction::prewrite`] says.
    ///
    /// Cost: a point read for each key that a transaction with an equal hash wrote since this one began, one for each key
    /// that is only locked, and one batch of the engine; in two phases a point read for each key, and each value is written to the WAL
    /// twice. It waits for commits of the same keys that are being written, then for commits with older timestamps,
    /// and up to [`lock_wait`](crate::TransactionOptions::lock_wait) for a key that another transaction has
    /// locked.
    ///
    /// # Errors
    /// `Conflict` with the key; `KeyIsLocked`; `Oracle`; `Deadlock` in two phases: nothing was committed.
    /// `RolledBack`: it took so long that others gave it up. `Engine`: as for [`Db::write`](titan::Db::write),
    /// nothing is seen by this opening, but after a failed sync a later opening may find the whole commit.
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

    /// The first phase of a commit in two: locks all keys, with the values. They are written in batches of about
    /// [`one_batch_bytes`](crate::TransactionOptions::one_batch_bytes).
    ///
    /// # Errors
    /// Those of [`Transaction::commit`]; the locks have been released then.
    pub fn prewrite(self) -> Result<PrewrittenTransaction> {
        let core = Arc::clone(self.snapshot.core());
        core.check_not_inherited()?;
        // Others may have the same start. The locks need a name that is theirs alone.
        let start = core.order.next_timestamp()?;
        let timestamps = two_phase::TransactionTimestamps {
            start,
            read_at: self.start(),
            for_update: None,
        };
        two_phase::prewrite(core, &self.writes, timestamps, None)
    }

    /// Rolls back: nothing was written.
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
