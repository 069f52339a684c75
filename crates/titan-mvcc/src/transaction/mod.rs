//! Optimistic transactions that are committed in one batch of the engine.
//!
//! A transaction reads a [`Snapshot`] and its own writes above it. Its writes are in memory until the commit.
//! It promises snapshot isolation: of two transactions that overlap in time and write or lock the same key, only
//! one commits.
//!
//! # Why conflicts are found exactly
//!
//! A commit takes the latches of the keys that it writes, looks for a version of each that was committed after
//! its start, takes its timestamp, writes its batch and releases the latches. Another commit of one of these
//! keys is either before that in the order of latches: then its versions are published, and found if they are
//! after the start. Or it is after: then it finds the versions of this one. Usually the latches tell that there
//! is nothing to find, and the engine is not asked: see `latches`. A version that the commit of this
//! transaction must find is not dropped before, because the transaction's hold keeps the safe point at its
//! start, and only versions up to the safe point are dropped.

mod scan;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use titan::{LazyValue, WriteBatch};

use crate::error::{Error, Result};
use crate::format::{Kind, Version, encode_key_to};
use crate::latches::Taken;
use crate::read::point::newest_commit;
use crate::read::{Direction, Snapshot};
use crate::timestamp::Timestamp;

pub use scan::TransactionScan;

/// Bytes of a batch for an entry, beside its key and value; a little more than most entries need.
const MOST_BESIDE: usize = 48;

/// What a transaction does to a key.
#[derive(Clone, Debug)]
enum Write {
    Put(Bytes),
    Delete,
    Lock,
}

impl Write {
    /// What a read of the key finds; none if that is what the snapshot has.
    fn value(&self) -> Option<Option<LazyValue>> {
        match self {
            Write::Put(value) => Some(Some(value.clone().into())),
            Write::Delete => Some(None),
            Write::Lock => None,
        }
    }

    /// The value of its version.
    fn stored(&self) -> &[u8] {
        match self {
            Write::Put(value) => value,
            Write::Delete | Write::Lock => b"",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Write::Put(_) => Kind::Put,
            Write::Delete => Kind::Delete,
            Write::Lock => Kind::Lock,
        }
    }
}

/// A transaction. Dropping it rolls it back. Its writes take memory until it ends, and are written as one
/// batch of the engine.
#[must_use = "a transaction that is dropped writes nothing"]
pub struct Transaction {
    snapshot: Snapshot,
    writes: BTreeMap<Vec<u8>, Write>,
}

impl Transaction {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Transaction {
            snapshot,
            writes: BTreeMap::new(),
        }
    }

    /// When the transaction began: it sees the commits up to this timestamp. Transactions that begin while
    /// nothing commits have the same one.
    pub fn start(&self) -> Timestamp {
        self.snapshot.timestamp()
    }

    /// The value of `key`: the transaction's own, or that of its snapshot. Cost: as [`Snapshot::get`].
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
        match self.writes.get(key).and_then(Write::value) {
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
        TransactionScan::new(self, from, to, direction)
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let value = Bytes::copy_from_slice(value);
        self.writes.insert(key.to_vec(), Write::Put(value));
    }

    /// Removes the value of `key`. This is a write, also if the key has none.
    pub fn delete(&mut self, key: &[u8]) {
        self.writes.insert(key.to_vec(), Write::Delete);
    }

    /// Makes the commit conflict with every other one that writes or locks `key`, as if the transaction wrote
    /// it, but leaves its value. A key that the transaction only read and that must not change is to be locked;
    /// this prevents write skew.
    pub fn lock(&mut self, key: &[u8]) {
        self.writes.entry(key.to_vec()).or_insert(Write::Lock);
    }

    /// Commits. Returns the timestamp at which the writes are seen; for a transaction that wrote and locked
    /// nothing, that of its start. From then on every read of the present sees them.
    ///
    /// Cost: a point read for each key that a transaction with an equal hash wrote since this one began, and
    /// one batch of the engine. It waits for commits of the same keys that
    /// are being written, and then for commits with older timestamps.
    ///
    /// # Errors
    /// `Conflict` with the key, nothing was written; `Oracle`, nothing was written; `Engine`: as for
    /// [`Db::write`](titan::Db::write), nothing is seen by this opening, but after a failed sync a later
    /// opening may find the whole commit.
    pub fn commit(self) -> Result<Timestamp> {
        if self.writes.is_empty() {
            return Ok(self.start());
        }
        let core = Arc::clone(self.snapshot.core());
        let mut latches = core.latches.take(self.writes.keys().map(Vec::as_slice));
        self.check_conflicts(&latches)?;
        // ORDER: with the latches, so versions of a key are written in the order of their timestamps; after the
        // check, so that a commit that conflicts takes none.
        let in_flight = core.order.begin()?;
        let batch = self.batch(in_flight.timestamp())?;
        // ORDER: before the versions can be read, and also if they may have been written.
        // MUTANT: latches forget what was written, so a conflict is not found.
        if !mutant!(
            "latches-forget-writes",
            "-p titan-campaigns --test it mvcc::"
        ) {
            latches.note(in_flight.timestamp());
        }
        core.db.write(batch, &core.write)?;
        // ORDER: after the engine has published the versions, for the next commit to find them.
        drop(latches);
        Ok(in_flight.published())
    }

    /// Rolls back: nothing was written.
    pub fn rollback(self) {}

    fn check_conflicts(&self, latches: &Taken<'_>) -> Result<()> {
        let start = self.start();
        for key in self.writes.keys() {
            if latches.newest(key) <= start {
                continue;
            }
            match newest_commit(self.snapshot.versions(), key)? {
                Some(committed) if committed > start => {
                    let key = Bytes::copy_from_slice(key);
                    return Err(Error::Conflict {
                        key,
                        start,
                        committed,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn batch(&self, commit: Timestamp) -> Result<WriteBatch> {
        let start = self.start();
        let family = self.snapshot.versions();
        let sizes = self.writes.iter();
        let sizes = sizes.map(|(key, write)| 2 * key.len() + write.stored().len());
        let room = sizes.sum::<usize>() + self.writes.len() * MOST_BESIDE;
        let mut batch = WriteBatch::with_capacity(room);
        let mut engine_key = Vec::new();
        for (key, write) in &self.writes {
            let kind = write.kind();
            let version = Version {
                commit,
                start,
                kind,
            };
            engine_key.clear();
            encode_key_to(&mut engine_key, key);
            version.put_after(&mut engine_key);
            batch.put(family, &engine_key, write.stored())?;
        }
        Ok(batch)
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("start", &self.start())
            .field("writes", &self.writes.len())
            .finish_non_exhaustive()
    }
}
