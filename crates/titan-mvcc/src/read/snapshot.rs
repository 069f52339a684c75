//! A store as of one timestamp.

use std::sync::Arc;

use bytes::Bytes;
use titan::{ColumnFamily, LazyValue};

use crate::core::Core;
use crate::error::Result;
use crate::format::encode_key;
use crate::lookup::{Found, ReadStats, value_at, value_at_encoded};
use crate::order::Hold;
use crate::percolator::{ReadFrom, resolve_for_read};
use crate::timestamp::Timestamp;

/// A store as of one timestamp. Clones are the same one; the safe point does not pass it while one of them,
/// or a scan of it, is alive.
#[derive(Clone)]
pub struct Snapshot {
    core: Arc<Core>,
    hold: Arc<Hold>,
}

impl Snapshot {
    pub(crate) fn new(core: Arc<Core>, hold: Hold) -> Self {
        let hold = Arc::new(hold);
        Snapshot { core, hold }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn versions(&self) -> &ColumnFamily {
        &self.core.versions
    }

    /// Every commit up to it is seen, and no later one.
    pub fn timestamp(&self) -> Timestamp {
        self.hold.timestamp()
    }

    /// The value of `key`. Cost: that of [`Snapshot::get_lazy`], and one read if the value is in a blob file.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.get_lazy(key)?;
        Ok(value.map(|value| value.fetch()).transpose()?)
    }

    /// Finds `key` without reading its value from a blob file. Cost: a point read of the engine, however many
    /// versions the key has, and a second one if the newest of them at the timestamp is a lock. If another
    /// transaction has prewritten the key, a look at its primary key, and if that has ended, a write.
    ///
    /// # Errors
    /// `Corruption` for an entry that this version cannot have written; `Engine`.
    pub fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        self.get_lazy_counted(key, &mut ReadStats::default())
    }

    /// The same, and adds to `stats` what it costs, as [`Scan::stats`](crate::Scan::stats) says it of a scan.
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

    /// The same, for a caller that adds the cost to the sums of the store.
    pub(super) fn read(&self, key: &[u8], read: &mut ReadStats) -> Result<Option<LazyValue>> {
        // ORDER: first the locks: one that is gone by now has left its version.
        match resolve_for_read(&self.core, key, self.timestamp())? {
            ReadFrom::Versions => self.read_versions(key, read),
            ReadFrom::Lock(value) => {
                read.processed += u64::from(value.is_some());
                Ok(value)
            }
        }
    }

    /// What a key has, from the range source or from the engine.
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

    /// The values of many keys, in the order of the keys. Cost: that of [`Snapshot::get`] for each.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`]; the first one ends it.
    pub fn batch_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(key.as_ref())).collect()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.timestamp())
    }
}
