//! Ranges of the keys that a transaction sees, as iterators.

use bytes::Bytes;

use super::handle::Transaction;
use super::index::Index;
use super::iterator::TransactionIterator;
use crate::db::ColumnFamily;
use crate::error::Result;
use crate::read::{Bounds, Cursor, CursorSource, FamilySource, KeyRange, Keys, Range, ReadOptions};

/// The source of the cursors of a transaction.
struct TransactionSource {
    database: FamilySource,
    own: Index,
    bounds: Bounds,
}

impl CursorSource for TransactionSource {
    fn open(&self) -> Result<Box<dyn Cursor>> {
        let (own, bounds) = (self.own.clone(), self.bounds.clone());
        let database = self.database.iterator()?;
        Ok(Box::new(TransactionIterator::new(database, own, bounds)))
    }
}

impl Transaction {
    /// The keys and values of a range of the family, in order and from both ends, as the
    /// transaction sees them now: its own writes above the database. Later writes of its own do not
    /// disturb it, and it may outlive the transaction. The keys that it shows are not guarded.
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// db.put("a", "1")?;
    /// let moved = db.transaction(|t| {
    ///     t.delete(&db, "a")?;
    ///     t.put(&db, "b", "1")?;
    ///     t.keys(&db, ..).collect::<titan::Result<Vec<_>>>()
    /// })?;
    /// assert_eq!(moved, ["b"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reads are an item, the last one.
    pub fn range(&self, family: &ColumnFamily, range: impl KeyRange) -> Range {
        self.range_with(family, range, &ReadOptions::default())
    }

    /// The same, read with `options`, within their bounds and their prefix. A snapshot in `options`
    /// is used instead of the transaction's own.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::range_with`].
    pub fn range_with(
        &self,
        family: &ColumnFamily,
        range: impl KeyRange,
        options: &ReadOptions,
    ) -> Range {
        let (options, edges) = options.within(&range, &**family.comparator());
        let parts = self.cursor_parts(family, options);
        let source = parts.and_then(|(options, own, bounds)| {
            Ok(TransactionSource {
                database: family.cursor_source(options)?,
                own,
                bounds,
            })
        });
        Range::new(source, edges, family.comparator())
    }

    /// The keys of the family that begin with `prefix`, and their values: see
    /// [`Transaction::range`].
    ///
    /// # Errors
    /// As [`Transaction::range`]; `InvalidArgument` if the order of keys is not bytewise.
    pub fn prefix(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(family, prefix, &ReadOptions::default())
    }

    /// The same, read with `options`, within their bounds; `prefix` takes the place of theirs.
    pub fn prefix_with(
        &self,
        family: &ColumnFamily,
        prefix: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Range {
        let options = ReadOptions {
            prefix: Some(prefix.as_ref().to_vec()),
            ..options.clone()
        };
        self.range_with(family, .., &options)
    }

    /// The keys of a range of the family: see [`Transaction::range`]. Reads no values.
    pub fn keys(&self, family: &ColumnFamily, range: impl KeyRange) -> Keys {
        self.range(family, range).into_keys()
    }

    /// The same, read with `options`: see [`Transaction::range_with`].
    pub fn keys_with(
        &self,
        family: &ColumnFamily,
        range: impl KeyRange,
        options: &ReadOptions,
    ) -> Keys {
        self.range_with(family, range, options).into_keys()
    }

    /// The first key of the family and its value.
    pub fn first_key_value(&self, family: &ColumnFamily) -> Result<Option<(Bytes, Bytes)>> {
        self.range(family, ..).next().transpose()
    }

    /// The last key of the family and its value.
    pub fn last_key_value(&self, family: &ColumnFamily) -> Result<Option<(Bytes, Bytes)>> {
        self.range(family, ..).next_back().transpose()
    }
}
