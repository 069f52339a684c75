//! One interface for everything that reads: a family as it is now, a snapshot, a transaction.

use std::fmt;

use bytes::Bytes;

use super::handle::Transaction;
use crate::db::ColumnFamily;
use crate::error::{Error, Result, Retryable};
use crate::lazy_value::LazyValue;
use crate::read::{Cursor, End, ReadOptions, Snapshot};

/// Rows in order, as a scan returns them: a key and its value, which is not read yet.
pub struct Rows<'r, E>(Box<dyn Iterator<Item = Result<(Bytes, LazyValue), E>> + 'r>);

impl<'r, E> Rows<'r, E> {
    /// The rows of an iterator.
    pub fn new(rows: impl Iterator<Item = Result<(Bytes, LazyValue), E>> + 'r) -> Self {
        Rows(Box::new(rows))
    }
}

impl<E> Iterator for Rows<'_, E> {
    type Item = Result<(Bytes, LazyValue), E>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<E> fmt::Debug for Rows<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

/// Reads keys and ranges. Code that only reads can take one, and then works on the present, on a
/// snapshot and within a transaction, of this crate and of `titandb-mvcc`.
///
/// In this crate a [`ColumnFamily`] (and a [`Db`](crate::Db), as its family `default`) reads the
/// present; [`Snapshot::of`] and [`Transaction::of`] read a family as those see it.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
/// use titan::Reader;
///
/// fn total<R: Reader>(accounts: &R) -> Result<u64, R::Error> {
///     let mut sum = 0;
///     for row in accounts.scan(Some(b"account/"), Some(b"account0"))? {
///         sum += u64::from(row?.1.fetch()?[0]);
///     }
///     Ok(sum)
/// }
///
/// db.put(b"account/alice", &[10])?;
/// let before = db.snapshot();
/// db.transaction(|t| {
///     t.put(&db, "account/bob", [5])?;
///     assert_eq!(total(&t.of(&db))?, 15);
///     Ok(())
/// })?;
/// assert_eq!(total(&*db)?, 15);
/// assert_eq!(total(&before.of(&db))?, 10);
/// # Ok(())
/// # }
/// ```
pub trait Reader {
    /// Why a read fails.
    type Error: std::error::Error + From<Error> + Retryable;

    /// The value of `key`, without reading it if it is in a blob file.
    ///
    /// # Errors
    /// Those of the implementation, as for all methods.
    fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>, Self::Error>;

    /// The rows from the key `from` to before the key `to`, in order; without bounds where they are
    /// `None`.
    fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Rows<'_, Self::Error>, Self::Error>;

    /// The same rows, the last one first.
    fn scan_backward(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Rows<'_, Self::Error>, Self::Error>;

    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Self::Error> {
        let value = self.get_lazy(key)?;
        Ok(value.map(|value| value.fetch()).transpose()?)
    }

    /// Whether `key` has a value. Reads none from a blob file.
    fn contains(&self, key: &[u8]) -> Result<bool, Self::Error> {
        Ok(self.get_lazy(key)?.is_some())
    }
}

/// A family as a snapshot sees it: see [`Snapshot::of`].
#[derive(Clone, Copy, Debug)]
pub struct FamilyAtSnapshot<'a> {
    snapshot: &'a Snapshot,
    family: &'a ColumnFamily,
}

/// A family as a transaction sees it: see [`Transaction::of`].
#[derive(Clone, Copy, Debug)]
pub struct FamilyInTransaction<'a> {
    transaction: &'a Transaction,
    family: &'a ColumnFamily,
}

impl Snapshot {
    /// A family as this snapshot sees it.
    pub fn of<'a>(&'a self, family: &'a ColumnFamily) -> FamilyAtSnapshot<'a> {
        FamilyAtSnapshot {
            snapshot: self,
            family,
        }
    }
}

impl Transaction {
    /// A family as this transaction sees it: its own writes above its snapshot, or above the
    /// present if it has none. Keys that are read are not guarded.
    pub fn of<'a>(&'a self, family: &'a ColumnFamily) -> FamilyInTransaction<'a> {
        FamilyInTransaction {
            transaction: self,
            family,
        }
    }
}

impl FamilyAtSnapshot<'_> {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            snapshot: Some(self.snapshot.clone()),
            ..ReadOptions::default()
        }
    }
}

impl Reader for ColumnFamily {
    type Error = Error;

    fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        ColumnFamily::get_lazy(self, key)
    }

    fn scan(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Rows<'_, Error>> {
        let options = bounded(ReadOptions::default(), from, to);
        rows(self.iter(&options)?, End::Front)
    }

    fn scan_backward(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Rows<'_, Error>> {
        let options = bounded(ReadOptions::default(), from, to);
        rows(self.iter(&options)?, End::Back)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        ColumnFamily::get(self, key)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.contains_key(key)
    }
}

impl Reader for FamilyAtSnapshot<'_> {
    type Error = Error;

    fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        self.family.get_lazy_with(key, &self.options())
    }

    fn scan(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Rows<'_, Error>> {
        rows(
            self.family.iter(&bounded(self.options(), from, to))?,
            End::Front,
        )
    }

    fn scan_backward(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Rows<'_, Error>> {
        rows(
            self.family.iter(&bounded(self.options(), from, to))?,
            End::Back,
        )
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.family.contains_key_with(key, &self.options())
    }
}

impl Reader for FamilyInTransaction<'_> {
    type Error = Error;

    fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        self.transaction.get_lazy(self.family, key)
    }

    fn scan(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Rows<'_, Error>> {
        let options = bounded(ReadOptions::default(), from, to);
        rows(self.transaction.iter(self.family, &options)?, End::Front)
    }

    fn scan_backward(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Rows<'_, Error>> {
        let options = bounded(ReadOptions::default(), from, to);
        rows(self.transaction.iter(self.family, &options)?, End::Back)
    }
}

fn bounded(options: ReadOptions, from: Option<&[u8]>, to: Option<&[u8]>) -> ReadOptions {
    ReadOptions {
        lower_bound: from.map(<[u8]>::to_vec),
        upper_bound: to.map(<[u8]>::to_vec),
        ..options
    }
}

/// The rows of a cursor that has not begun, from an end. An error ends them.
fn rows<'r>(mut cursor: impl Cursor + 'r, from: End) -> Result<Rows<'r, Error>> {
    fn row(cursor: &impl Cursor) -> Option<Result<(Bytes, LazyValue)>> {
        let key = || Bytes::copy_from_slice(cursor.key());
        let row = |value| (key(), value);
        cursor.valid().then(|| cursor.lazy_value().map(row))
    }
    cursor.begin(from)?;
    let mut left = row(&cursor);
    Ok(Rows::new(std::iter::from_fn(move || {
        let next = left.take()?;
        if next.is_ok() {
            left = match cursor.advance(from) {
                Ok(()) => row(&cursor),
                Err(e) => Some(Err(e)),
            };
        }
        Some(next)
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Options, TransactionOptions};

    /// Everything that a reader shows, by each of its methods.
    fn shown<R: Reader>(reader: &R, from: Option<&[u8]>, to: Option<&[u8]>) -> Vec<String> {
        let text = |row: Result<(Bytes, LazyValue), R::Error>| {
            let (key, value) = row.unwrap();
            let value = value.fetch().unwrap();
            assert_eq!(reader.get(&key).unwrap().unwrap(), value);
            assert!(reader.contains(&key).unwrap());
            assert_eq!(
                reader.get_lazy(&key).unwrap().unwrap().len(),
                Some(value.len() as u64)
            );
            let (key, value) = (key.escape_ascii(), value.escape_ascii());
            format!("{key}={value}")
        };
        let forward: Vec<String> = reader.scan(from, to).unwrap().map(text).collect();
        let backward = reader.scan_backward(from, to).unwrap().map(text);
        let mut backward: Vec<String> = backward.collect();
        backward.reverse();
        assert_eq!(forward, backward);
        assert!(!reader.contains(b"nowhere").unwrap());
        assert_eq!(reader.get(b"nowhere").unwrap(), None);
        forward
    }

    #[test]
    fn readers_show_what_theirs_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.default.min_blob_size = 4;
        let db = Db::open(dir.path(), &options).unwrap();
        db.put(b"a", b"1").unwrap();
        db.put(b"b", b"in a blob file").unwrap();
        db.put(b"c", b"3").unwrap();
        db.flush().unwrap();
        let snapshot = db.snapshot();
        let transaction = db.begin(&TransactionOptions::default()).unwrap();
        transaction.delete(&db, "a").unwrap();
        transaction.put(&db, "d", "own, and longer").unwrap();
        db.put(b"b", b"2").unwrap();
        let b = "b=in a blob file";
        let (at, within) = (snapshot.of(&db), transaction.of(&db));
        assert_eq!(shown(&*db, None, None), ["a=1", "b=2", "c=3"]);
        assert_eq!(shown(&at, None, None), ["a=1", b, "c=3"]);
        assert_eq!(shown(&within, None, None), [b, "c=3", "d=own, and longer"]);
        let (from, to) = (Some(&b"b"[..]), Some(&b"c"[..]));
        assert_eq!(shown(&*db, from, to), ["b=2"]);
        assert_eq!(shown(&at, from, None), [b, "c=3"]);
        assert_eq!(shown(&within, None, to), [b]);
    }
}
