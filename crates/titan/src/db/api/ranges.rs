//! Ranges of a family's keys, as iterators.

use bytes::Bytes;

use super::column_family::ColumnFamily;
use crate::error::{Error, Result};
use crate::read::{
    FamilySource, IteratorSource, KeyRange, Keys, ListedIterator, Range, ReadOptions,
};

impl ColumnFamily {
    /// The keys and values of a range, as of now, in order and from both ends.
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// for (fruit, price) in [("apple", "3"), ("banana", "1"), ("cherry", "9")] {
    ///     db.put(fruit, price)?;
    /// }
    /// for entry in db.range("b"..) {
    ///     let (fruit, price) = entry?;
    ///     println!("{fruit:?} costs {price:?}");
    /// }
    /// let (last, _) = db.range(..).next_back().unwrap()?;
    /// assert_eq!(last, "cherry");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cost: that of [`ColumnFamily::iter`] for each end that is used, when it is first used, and
    /// an item a copy of its key and value.
    ///
    /// # Errors
    /// Those of reads are an item, the last one.
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_with(range, &ReadOptions::default())
    }

    /// The same, read with `options`; within their bounds and their prefix, where these are
    /// narrower.
    ///
    /// # Errors
    /// As [`ColumnFamily::range`]; `Unsupported` with [`ReadOptions::prefix_same_as_start`].
    pub fn range_with(&self, range: impl KeyRange, options: &ReadOptions) -> Range {
        let (options, edges) = options.within(&range, &**self.comparator());
        Range::new(self.cursor_source(options), edges, self.comparator())
    }

    /// The keys that begin with `prefix` and their values, as of now: see [`ColumnFamily::range`].
    /// With a [prefix extractor](crate::prefix::PrefixExtractor) whose prefixes `prefix`
    /// determines, filters rule out tables.
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// db.put("user/7/name", "Ada")?;
    /// db.put("user/7/town", "London")?;
    /// db.put("user/8/name", "Grace")?;
    /// assert_eq!(db.prefix("user/7/").count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ColumnFamily::range`]; `InvalidArgument` if the family's order of keys is not bytewise.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(prefix, &ReadOptions::default())
    }

    /// The same, read with `options`, within their bounds; `prefix` takes the place of theirs.
    pub fn prefix_with(&self, prefix: impl AsRef<[u8]>, options: &ReadOptions) -> Range {
        let options = ReadOptions {
            prefix: Some(prefix.as_ref().to_vec()),
            ..options.clone()
        };
        self.range_with(.., &options)
    }

    /// The keys of a range: see [`ColumnFamily::range`]. Reads no values.
    pub fn keys(&self, range: impl KeyRange) -> Keys {
        self.range(range).into_keys()
    }

    /// The same, read with `options`: see [`ColumnFamily::range_with`].
    pub fn keys_with(&self, range: impl KeyRange, options: &ReadOptions) -> Keys {
        self.range_with(range, options).into_keys()
    }

    /// The first key and its value. Cost: that of [`ColumnFamily::iter`] and of a seek.
    pub fn first_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.range(..).next().transpose()
    }

    /// The last key and its value. Cost: as [`ColumnFamily::first_key_value`].
    pub fn last_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.range(..).next_back().transpose()
    }

    /// The source of cursors that see one moment.
    ///
    /// # Errors
    /// Those of iterators; `Unsupported` with `prefix_same_as_start`: a range has no seek whose
    /// prefix could bound it.
    pub(crate) fn cursor_source(&self, options: ReadOptions) -> Result<FamilySource> {
        if options.prefix_same_as_start {
            let why = "prefix_same_as_start is not supported by ranges: give ReadOptions::prefix";
            return Err(Error::unsupported(why));
        }
        let source = self.iterator_source(&options)?;
        Ok(FamilySource {
            _listed: self.list_iterator(&source),
            source,
            options,
        })
    }

    /// Counts an iterator, or those of a range as one, until the guard is dropped.
    pub(super) fn list_iterator(&self, source: &IteratorSource) -> ListedIterator {
        let shared = &self.core.shared;
        let now = shared.opening.clock.monotonic();
        shared.pins.iterators.enter(&source.super_version, now)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Db, Options};

    #[test]
    fn a_range_counts_as_one_iterator() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        for key in ["a", "b", "c"] {
            db.put(key, "v").unwrap();
        }
        let listed = || db.core.shared.pins.iterators.alive().len();
        let mut range = db.range(..);
        assert_eq!(listed(), 1);
        assert!(range.next().is_some() && range.next_back().is_some());
        assert_eq!(listed(), 1);
        let other = db.keys(..);
        assert_eq!(listed(), 2);
        drop((range, other));
        assert_eq!(listed(), 0);
    }
}
