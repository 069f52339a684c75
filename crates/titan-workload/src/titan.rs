//! Titan as the target of a step: what its users would write.

use std::marker::PhantomData;

use titan::{ColumnFamilyId, Db, ReadOptions, WriteBatch, WriteOptions};

use crate::keys::Key;
use crate::target::{Batch, Fill, OnEach, OnValue, Target, Visitor, hand_over, hand_over_each};

/// An open database of Titan. It reports errors as `E`.
pub struct Titan<E = titan::Error> {
    db: Db,
    read: ReadOptions,
    write: WriteOptions,
    error: PhantomData<fn() -> E>,
}

impl<E> Titan<E> {
    /// For this database; writes wait for the device if `sync` is set.
    pub fn new(db: Db, sync: bool) -> Self {
        Titan {
            db,
            read: ReadOptions::default(),
            write: WriteOptions {
                sync,
                ..WriteOptions::default()
            },
            error: PhantomData,
        }
    }

    /// The database itself.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Closes the database.
    pub fn close(self) -> titan::Result<()> {
        self.db.close()
    }

    fn commit(&self, add: impl FnOnce(&mut WriteBatch) -> titan::Result<()>) -> titan::Result<()> {
        let mut batch = WriteBatch::new();
        add(&mut batch)?;
        self.db.write(batch, &self.write)
    }
}

impl<E: From<titan::Error> + Send> Batch<E> for WriteBatch {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), E> {
        Ok(WriteBatch::put(self, ColumnFamilyId::DEFAULT, key, value)?)
    }

    fn delete(&mut self, key: &Key) -> Result<(), E> {
        Ok(WriteBatch::delete(self, ColumnFamilyId::DEFAULT, key)?)
    }
}

impl<E: From<titan::Error> + Send> Target for Titan<E> {
    type Error = E;

    fn put(&self, key: &Key, value: &[u8]) -> Result<(), E> {
        Ok(self.commit(|batch| batch.put(ColumnFamilyId::DEFAULT, key, value))?)
    }

    fn get(&self, key: &Key, value: OnValue<'_, E>) -> Result<bool, E> {
        let found = self.db.get_with(key, &self.read)?;
        hand_over(found.as_deref(), value)
    }

    fn multi_get(&self, keys: &[Key], value: OnEach<'_, E>) -> Result<(), E> {
        hand_over_each(self.db.multi_get_with(keys, &self.read), value)
    }

    fn scan(&self, from: &[u8], entry: Visitor<'_, E>) -> Result<(), E> {
        let mut entries = self.db.iter(&self.read)?;
        entries.seek(from)?;
        while entries.valid() {
            let value = entries.value()?;
            if !entry(entries.key(), &value)? {
                break;
            }
            entries.next()?;
        }
        Ok(())
    }

    fn delete(&self, key: &Key) -> Result<(), E> {
        Ok(self.commit(|batch| batch.delete(ColumnFamilyId::DEFAULT, key))?)
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<(), E> {
        Ok(self.commit(|batch| batch.delete_range(ColumnFamilyId::DEFAULT, from, to))?)
    }

    fn seek(&self, from: &Key, most: u64, entry: Visitor<'_, E>) -> Result<bool, E> {
        let mut entries = self.db.iter(&self.read)?;
        entries.seek(from)?;
        let exists = entries.valid() && entries.key() == from;
        let mut left = most;
        while left > 0 && entries.valid() {
            let value = entries.value()?;
            let wants_more = entry(entries.key(), &value)?;
            entries.next()?;
            left = if wants_more { left - 1 } else { 0 };
        }
        Ok(exists)
    }

    fn write(&self, fill: Fill<'_, E>) -> Result<(), E> {
        let mut batch = WriteBatch::new();
        fill(&mut batch)?;
        Ok(self.db.write(batch, &self.write)?)
    }
}
