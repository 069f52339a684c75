//! A store as of one timestamp.

use std::sync::Arc;

use bytes::Bytes;
use titan::{ColumnFamily, LazyValue};

use crate::core::Core;
use crate::error::Result;
use crate::format::encode_key;
use crate::lookup::{Found, ReadStats, value_at, value_at_encoded};
use crate::order::Hold;
use crate::percolator::{KnownLocks, ReadFrom, report_for_read, resolve_for_read};
use crate::timestamp::Timestamp;

/// A store as of one timestamp. Clones share it. The safe point does not pass it while a clone or
/// one of its scans exists.
#[derive(Clone)]
pub struct Snapshot {
    core: Arc<Core>,
    hold: Arc<Hold>,
    /// For a client that resolves locks itself: those that it knows.
    known_locks: Option<Arc<KnownLocks>>,
}

impl Snapshot {
    pub(crate) fn new(core: Arc<Core>, hold: Hold) -> Self {
        let hold = Arc::new(hold);
        Snapshot {
            core,
            hold,
            known_locks: None,
        }
    }

    /// The same snapshot for a client that resolves locks itself. Its reads end no lock and push
    /// none. They fail with `KeyIsLocked` at a lock that may matter, unless the client knows its
    /// transaction; a scan goes on after it.
    pub fn reporting_locks(&self, known: KnownLocks) -> Snapshot {
        Snapshot {
            known_locks: Some(Arc::new(known)),
            ..self.clone()
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn versions(&self) -> &ColumnFamily {
        &self.core.versions
    }

    /// The timestamp. The snapshot sees every commit up to it, and no later one.
    pub fn timestamp(&self) -> Timestamp {
        self.hold.timestamp()
    }

    /// Returns the value of `key`. Cost: that of [`Snapshot::get_lazy`], and one read if the value
    /// is in a blob file.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.get_lazy(key)?;
        Ok(value.map(|value| value.fetch()).transpose()?)
    }

    /// Finds `key` without reading a blob file. Cost: a point read of the engine, however many
    /// versions the key has, and a second one if the newest of them is a lock. If another
    /// transaction has prewritten the key, a check of its primary key, and a write if that
    /// transaction has ended.
    ///
    /// # Errors
    /// `Corruption` for an entry that no version of the crate can have written; `Engine`.
    pub fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        self.get_lazy_counted(key, &mut ReadStats::default())
    }

    /// Finds `key` as [`Snapshot::get_lazy`] does, and adds the cost to `stats`, in the units of
    /// [`Scan::stats`](crate::Scan::stats).
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`].
    pub fn get_lazy_counted(&self, key: &[u8], stats: &mut ReadStats) -> Result<Option<LazyValue>> {
        let mut read = ReadStats::default();
        let found = self.read(key, &mut read);
        self.core.reads.totals.add(read);
        *stats += read;
        found
    }

    /// Finds `key` for a caller that adds the cost to the store's totals.
    pub(super) fn read(&self, key: &[u8], read: &mut ReadStats) -> Result<Option<LazyValue>> {
        // ORDER: first the lock, because a lock that is gone has left its version.
        let (core, at) = (&self.core, self.timestamp());
        let from = match &self.known_locks {
            None => resolve_for_read(core, key, at),
            Some(known) => report_for_read(core, key, at, known),
        };
        match from? {
            ReadFrom::Versions => self.read_versions(key, read),
            ReadFrom::Lock(value) => {
                read.processed += u64::from(value.is_some());
                Ok(value)
            }
        }
    }

    /// The value of a key without a relevant lock, from the range source or from the engine.
    fn read_versions(&self, key: &[u8], read: &mut ReadStats) -> Result<Option<LazyValue>> {
        let at = self.timestamp();
        let Some(source) = &self.core.reads.range_source else {
            return value_at(self.versions(), key, at, read);
        };
        let encoded = encode_key(key);
        match source.get(&encoded, at) {
            Some(Found::Nothing) => Ok(None),
            Some(Found::Value(value)) => {
                read.processed += 1;
                Ok(Some(value.into()))
            }
            Some(Found::Stored) | None => value_at_encoded(self.versions(), &encoded, at, read),
        }
    }

    /// Returns the values of `keys` in their order. Cost: that of [`Snapshot::get`] for each.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`], at the first failure.
    pub fn batch_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(key.as_ref())).collect()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.timestamp())
    }
}
