//! The keys that clients of etcd's service save, with their revisions.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use titan::{Db, ReadOptions, WriteBatch, WriteOptions};

use super::numbers;
use crate::error::Result;

/// The beginning of the keys among the records.
const PREFIX: &[u8] = b"etcd/";
/// The key of the last revision.
const REVISION: &[u8] = b"etcd revision";
/// The bytes before a value: the revisions and the version.
const HEADER: usize = 24;

/// A saved key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedKey {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    /// The revision of the first put since a deletion.
    pub(crate) created: u64,
    /// The revision of the last put.
    pub(crate) modified: u64,
    /// The number of puts since a deletion.
    pub(crate) version: u64,
}

impl SavedKey {
    fn decode(key: Bytes, mut stored: Bytes) -> Result<Self> {
        if stored.len() < HEADER {
            let what = "a saved key has no revision";
            return Err(titan::Error::new(titan::ErrorKind::Corruption, what).into());
        }
        Ok(SavedKey {
            key,
            created: stored.get_u64(),
            modified: stored.get_u64(),
            version: stored.get_u64(),
            value: stored,
        })
    }

    fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEADER + self.value.len());
        out.put_u64(self.created);
        out.put_u64(self.modified);
        out.put_u64(self.version);
        out.put_slice(&self.value);
        out.freeze()
    }
}

/// The saved keys of a node.
pub(crate) struct SavedKeys {
    db: Db,
    /// The last revision; held by the one write that runs.
    revision: Mutex<u64>,
}

impl SavedKeys {
    /// # Errors
    /// Those of the engine; `Corruption`.
    pub(crate) fn open(db: Db) -> Result<Self> {
        // The first revision of an empty store is 1.
        let revision = numbers::get(&db, REVISION)?.unwrap_or(1);
        let revision = Mutex::new(revision);
        Ok(SavedKeys { db, revision })
    }

    /// The last revision.
    pub(crate) fn revision(&self) -> u64 {
        *self.revision.lock()
    }

    /// The keys from `from` to before `to`, at most `limit` of them, and the number of all.
    ///
    /// # Errors
    /// Those of the engine; `Corruption`.
    pub(crate) fn range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<(Vec<SavedKey>, usize)> {
        let mut stored = self.db.iter(&ReadOptions::default())?;
        stored.seek(&placed(from))?;
        let (mut found, mut all) = (Vec::new(), 0);
        while stored.valid() {
            let Some(key) = stored.key().strip_prefix(PREFIX) else {
                break;
            };
            if to.is_some_and(|to| key >= to) {
                break;
            }
            if found.len() < limit {
                let key = Bytes::copy_from_slice(key);
                found.push(SavedKey::decode(key, stored.value()?)?);
            }
            all += 1;
            stored.next()?;
        }
        Ok((found, all))
    }

    fn get(&self, key: &Bytes) -> Result<Option<SavedKey>> {
        let stored = self.db.get(&placed(key))?;
        stored
            .map(|stored| SavedKey::decode(key.clone(), stored))
            .transpose()
    }

    /// Saves a key durably. Returns its value before, and the revision.
    ///
    /// # Errors
    /// Those of the engine; `Corruption`.
    pub(crate) fn put(&self, key: Bytes, value: Bytes) -> Result<(Option<SavedKey>, u64)> {
        let mut last = self.revision.lock();
        let revision = *last + 1;
        let before = self.get(&key)?;
        let saved = SavedKey {
            created: before.as_ref().map_or(revision, |before| before.created),
            version: before.as_ref().map_or(0, |before| before.version) + 1,
            modified: revision,
            key,
            value,
        };
        let mut batch = WriteBatch::new();
        batch.put(&*self.db, placed(&saved.key), saved.encode())?;
        self.write(batch, revision)?;
        *last = revision;
        Ok((before, revision))
    }

    /// Deletes the keys from `from` to before `to` durably. Returns them and the revision.
    ///
    /// # Errors
    /// Those of the engine; `Corruption`.
    pub(crate) fn delete(&self, from: &[u8], to: Option<&[u8]>) -> Result<(Vec<SavedKey>, u64)> {
        let mut last = self.revision.lock();
        let (found, _) = self.range(from, to, usize::MAX)?;
        if found.is_empty() {
            return Ok((found, *last));
        }
        let revision = *last + 1;
        let mut batch = WriteBatch::new();
        for saved in &found {
            batch.delete(&*self.db, placed(&saved.key))?;
        }
        self.write(batch, revision)?;
        *last = revision;
        Ok((found, revision))
    }

    fn write(&self, mut batch: WriteBatch, revision: u64) -> Result<()> {
        batch.put(&*self.db, REVISION, revision.to_be_bytes())?;
        Ok(self.db.write(batch, &WriteOptions::synced())?)
    }
}

fn placed(key: &[u8]) -> Vec<u8> {
    [PREFIX, key].concat()
}
