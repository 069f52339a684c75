//! Reads of a family as of a snapshot.

use bytes::Bytes;

use super::column_family::ColumnFamily;
use crate::error::Result;
use crate::lazy_value::LazyValue;
use crate::read::{KeyRange, Keys, Range, ReadOptions, Snapshot};
use crate::wide_columns::WideColumns;

/// Reads of a family, named by its handle, as of the snapshot; a [`Db`](crate::Db) acts as the
/// handle of its family `default`. For reads with further options there is
/// [`ReadOptions::snapshot`].
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
/// db.put("a", "1")?;
/// let before = db.snapshot();
/// db.put("a", "2")?;
/// db.put("b", "2")?;
/// assert_eq!(before.get(&db, "a")?.unwrap(), "1");
/// assert_eq!(before.keys(&db, ..).count(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`ColumnFamily`]; `InvalidArgument` if the family is of another database, or of another
/// opening of this one.
impl Snapshot {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            snapshot: Some(self.clone()),
            ..ReadOptions::default()
        }
    }

    /// The value of `key`: see [`ColumnFamily::get`].
    pub fn get(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        family.get_with(key, &self.options())
    }

    /// The value of `key`, not read yet if it is in a blob file: see [`ColumnFamily::get_lazy`].
    pub fn get_lazy(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<LazyValue>> {
        family.get_lazy_with(key, &self.options())
    }

    /// The columns of `key`: see [`ColumnFamily::get_entity`].
    pub fn get_entity(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        family.get_entity_with(key, &self.options())
    }

    /// The values of many keys, each with its own result: see [`ColumnFamily::multi_get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Vec<Result<Option<Bytes>>> {
        family.multi_get_with(keys, &self.options())
    }

    /// Many keys, each with its own result; no value in a blob file is read: see
    /// [`ColumnFamily::multi_get_lazy`].
    pub fn multi_get_lazy<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Vec<Result<Option<LazyValue>>> {
        family.multi_get_lazy_with(keys, &self.options())
    }

    /// Whether `key` has a value: see [`ColumnFamily::contains_key`].
    pub fn contains_key(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        family.contains_key_with(key, &self.options())
    }

    /// The keys and values of a range: see [`ColumnFamily::range`].
    pub fn range(&self, family: &ColumnFamily, range: impl KeyRange) -> Range {
        family.range_with(range, &self.options())
    }

    /// The keys that begin with `prefix`, and their values: see [`ColumnFamily::prefix`].
    pub fn prefix(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Range {
        family.prefix_with(prefix, &self.options())
    }

    /// The keys of a range: see [`ColumnFamily::keys`].
    pub fn keys(&self, family: &ColumnFamily, range: impl KeyRange) -> Keys {
        family.keys_with(range, &self.options())
    }

    /// The first key and its value: see [`ColumnFamily::first_key_value`].
    pub fn first_key_value(&self, family: &ColumnFamily) -> Result<Option<(Bytes, Bytes)>> {
        self.range(family, ..).next().transpose()
    }

    /// The last key and its value: see [`ColumnFamily::last_key_value`].
    pub fn last_key_value(&self, family: &ColumnFamily) -> Result<Option<(Bytes, Bytes)>> {
        self.range(family, ..).next_back().transpose()
    }
}
