//! Reads and writes of raw keys.
//!
//! Each call is atomic, and so is each batch. A compare-and-swap is atomic with every other write.

use std::sync::Arc;

use bytes::Bytes;
use titan::{
    ColumnFamily, Db, DbIterator, ReadOptions, Result, SystemClock, WriteBatch, WriteOptions,
};
use titan_mvcc::Direction;

use super::entry::Entry;
use crate::options::StorageOptions;

/// The raw keys of a node.
pub(crate) struct RawStore {
    db: Db,
    family: ColumnFamily,
    write: WriteOptions,
    clock: Arc<dyn SystemClock>,
}

/// A put of a raw key.
pub(crate) struct Put<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Seconds; zero for ever.
    pub(crate) ttl: u64,
}

/// The result of a compare-and-swap.
pub(crate) struct Swapped {
    pub(crate) is_done: bool,
    /// The value before the call.
    pub(crate) before: Option<Bytes>,
}

impl RawStore {
    pub(crate) fn new(db: Db, family: ColumnFamily, options: &StorageOptions) -> Self {
        let write = WriteOptions {
            sync: options.sync,
            ..WriteOptions::default()
        };
        RawStore {
            db,
            family,
            write,
            clock: Arc::clone(&options.db.clock),
        }
    }

    /// Seconds since 1970.
    fn now(&self) -> u64 {
        self.clock.unix_time().as_secs()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let stored = self.family.get(key)?;
        let entry = stored.and_then(|stored| Entry::decode(stored, self.now()));
        Ok(entry.map(|entry| entry.value))
    }

    /// The seconds for which a key still has its value, zero for ever; `None` without a value.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn ttl(&self, key: &[u8]) -> Result<Option<u64>> {
        let now = self.now();
        let stored = self.family.get(key)?;
        let entry = stored.and_then(|stored| Entry::decode(stored, now));
        Ok(entry.map(|entry| entry.ttl(now)))
    }

    /// Puts all keys or none.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn put<'a>(&self, puts: impl IntoIterator<Item = Put<'a>>) -> Result<()> {
        let now = self.now();
        let mut batch = WriteBatch::new();
        for Put { key, value, ttl } in puts {
            batch.put(&self.family, key, Entry::encode(value, ttl, now))?;
        }
        self.db.write(batch, &self.write)
    }

    /// Deletes all keys or none.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn delete(&self, keys: &[Bytes]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.delete(&self.family, key)?;
        }
        self.db.write(batch, &self.write)
    }

    /// Deletes the keys from `from` to before `to`; `None` is the end of all keys.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn delete_range(&self, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        match to {
            Some(to) if from >= to => return Ok(()),
            Some(to) => batch.delete_range(&self.family, from, to)?,
            None => {
                let mut last = self.family.iter(&ReadOptions::default())?;
                last.seek_to_last()?;
                if !last.valid() || last.key() < from {
                    return Ok(());
                }
                // No key is between the last one and this one.
                let end = [last.key(), &[0]].concat();
                batch.delete_range(&self.family, from, end)?;
            }
        }
        self.db.write(batch, &self.write)
    }

    /// Puts `new`, or deletes the key if that is `None`, if the present value is `expected`, where
    /// `None` stands for no value.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        ttl: u64,
    ) -> Result<Swapped> {
        loop {
            let now = self.now();
            let stored = self.family.get(key)?;
            let entry = stored.clone().and_then(|stored| Entry::decode(stored, now));
            let before = entry.map(|entry| entry.value);
            if before.as_deref() != expected {
                let is_done = false;
                return Ok(Swapped { is_done, before });
            }
            let entry = new.map(|value| Entry::encode(value, ttl, now));
            // The stored bytes differ from the value: an expired one counts as none.
            if self.family.compare_and_set_with(
                key,
                stored.as_deref(),
                entry.as_deref(),
                &self.write,
            )? {
                let is_done = true;
                return Ok(Swapped { is_done, before });
            }
        }
    }

    /// Scans the keys from `from` to before `to`; `None` is the end of all keys.
    ///
    /// # Errors
    /// Those of the engine, here and of the scan.
    pub(crate) fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
        keys_only: bool,
    ) -> Result<RawScan> {
        let mut options = ReadOptions {
            lower_bound: from.map(<[u8]>::to_vec),
            upper_bound: to.map(<[u8]>::to_vec),
            ..ReadOptions::default()
        };
        if keys_only {
            options.prefetch_values = 0;
        }
        let mut stored = self.family.iter(&options)?;
        match direction {
            Direction::Forward => stored.seek_to_first()?,
            Direction::Backward => stored.seek_to_last()?,
        }
        Ok(RawScan {
            stored,
            direction,
            now: self.now(),
        })
    }
}

/// The raw keys of a range with their values.
pub(crate) struct RawScan {
    stored: DbIterator,
    direction: Direction,
    now: u64,
}

impl RawScan {
    /// The next value, with its key as `copied`.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn next(
        &mut self,
        mut copied: impl FnMut(&[u8]) -> Bytes,
    ) -> Result<Option<(Bytes, Bytes)>> {
        while self.stored.valid() {
            let entry = Entry::decode(self.stored.value()?, self.now);
            let found = entry.map(|entry| (copied(self.stored.key()), entry.value));
            self.step()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The next key and the length of its value, which is not read. Expired values count.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn next_len(&mut self) -> Result<Option<(Bytes, u64)>> {
        if !self.stored.valid() {
            return Ok(None);
        }
        let key = Bytes::copy_from_slice(self.stored.key());
        let value = self.stored.lazy_value()?;
        let len = value.len().unwrap_or_else(|| value.stored_len());
        self.step()?;
        Ok(Some((key, len)))
    }

    fn step(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.stored.next(),
            Direction::Backward => self.stored.prev(),
        }
    }
}
