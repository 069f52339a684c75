//! Single keys that are written depending on their value.

use crate::batch::WriteBatch;
use crate::db::{ColumnFamily, Conditions};
use crate::error::{ErrorKind, Result};
use crate::read::ReadOptions;
use crate::write::WriteOptions;

impl ColumnFamily {
    /// Sets `key` to `new`, or removes it if that is `None`, if its value is `expected`, where
    /// `None` stands for no value. Returns whether it was; if not, nothing is written. No other
    /// write comes between the comparison and the write. Not synced.
    ///
    /// The values are slices, not `AsRef`: the type of a plain `None` could not be inferred.
    ///
    /// Cost: a lookup and a conditional write, repeated if another write of the key came between
    /// them.
    ///
    /// # Errors
    /// Those of reads and writes.
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.compare_and_set_with(key, expected, new, &WriteOptions::default())
    }

    /// As [`ColumnFamily::compare_and_set`], written with `options`.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::compare_and_set`].
    pub fn compare_and_set_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<bool> {
        let key = key.as_ref();
        let db = self.database()?;
        loop {
            let snapshot = db.snapshot();
            let at_snapshot = ReadOptions {
                snapshot: Some(snapshot.clone()),
                ..ReadOptions::default()
            };
            if self.get_with(key, &at_snapshot)?.as_deref() != expected {
                return Ok(false);
            }
            gate!("compare and set: compared");
            let mut batch = WriteBatch::new();
            match new {
                Some(value) => batch.put(self, key, value)?,
                None => batch.delete(self, key)?,
            }
            let mut conditions = Conditions::since(&snapshot);
            conditions.unchanged(self, key)?;
            match db.write_if(batch, &conditions, options) {
                Ok(()) => return Ok(true),
                // The key may have been written, and still or again have the value.
                Err(e) if e.kind() == ErrorKind::Conflict => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Sets `key` to `value` if it has none. Returns whether it had none. Not synced.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::compare_and_set`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.compare_and_set(key, None, Some(value.as_ref()))
    }
}
