//! The columns of a value, read when they are asked for.
//!
//! Owns [`WideColumns`], which readers return.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::entity::{ColumnValue, DEFAULT_COLUMN, each_column};
use crate::lazy_value::{LazyValue, ValueSource};

/// The columns of a key, in the order of their names. A key that was set by
/// [`put_entity`](crate::ColumnFamily::put_entity) has the columns that were given; any other key
/// has one, the *default column*, whose name is empty.
///
/// Columns in blob files are read one by one, when they are asked for. They stay readable for as
/// long as this is alive. Writes, compactions and deletions do not change them.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
/// db.put_entity(b"ann", [("", "a person"), ("age", "41")])?;
/// let ann = db.get_entity(b"ann")?.unwrap();
/// assert_eq!(ann.get("age").unwrap().fetch()?, "41");
/// // Readers that do not know of columns see the default column.
/// assert_eq!(db.get(b"ann")?.unwrap(), "a person");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct WideColumns(Vec<(Bytes, LazyValue)>);

impl WideColumns {
    /// The value of a column; `None` if there is no column of this name. Reads nothing.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&LazyValue> {
        let at = self
            .0
            .binary_search_by(|(other, _)| (**other).cmp(name.as_ref()));
        self.0.get(at.ok()?).map(|(_, value)| value)
    }

    /// The names and values, in the order of the names. Reads nothing.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &LazyValue)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none: an entity may have no columns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of a value without columns.
    pub(crate) fn of_value(value: LazyValue) -> Self {
        WideColumns(vec![(Bytes::from_static(DEFAULT_COLUMN), value)])
    }

    /// Those of an encoded entity of `key`. `source` reads the columns in blob files.
    ///
    /// # Errors
    /// Those of decoding.
    pub(crate) fn of_entity(
        key: &[u8],
        entity: &Bytes,
        source: impl FnOnce() -> Arc<dyn ValueSource>,
    ) -> Result<Self> {
        let mut made = None;
        let mut source = Some(source);
        WideColumns::of_columns(entity, |index| {
            if let Some(source) = source.take() {
                made = Some((Bytes::copy_from_slice(key), source()));
            }
            match &made {
                Some((key, source)) => Ok(LazyValue::blob(key.clone(), index, Arc::clone(source))),
                None => Err(Error::internal("an entity without a source of values")),
            }
        })
    }

    fn of_columns(
        entity: &Bytes,
        mut pointed_to: impl FnMut(BlobIndex) -> Result<LazyValue>,
    ) -> Result<Self> {
        let mut columns = Vec::new();
        each_column(entity, &mut |column| {
            let value = match column.value {
                ColumnValue::Inline(value) => LazyValue::inline(entity.slice_ref(value)),
                ColumnValue::Pointer(index) => pointed_to(index)?,
            };
            columns.push((entity.slice_ref(column.name), value));
            Ok(())
        })?;
        Ok(WideColumns(columns))
    }

    /// Those of an encoded entity without anything in blob files.
    ///
    /// # Errors
    /// Those of decoding; `Internal` for a column in a blob file.
    pub(crate) fn of_inline_entity(entity: &Bytes) -> Result<Self> {
        WideColumns::of_columns(entity, |_| {
            Err(Error::internal(
                "a column in a blob file that cannot be read",
            ))
        })
    }

    /// The same with another default column, which there need not have been.
    pub(crate) fn with_default(mut self, value: LazyValue) -> Self {
        match self.0.first_mut() {
            Some((name, first)) if **name == *DEFAULT_COLUMN => *first = value,
            _ => {
                let name = Bytes::from_static(DEFAULT_COLUMN);
                self.0.insert(0, (name, value));
            }
        }
        self
    }

    /// Whether there is any column but the default one. Reads nothing.
    pub fn has_others(&self) -> bool {
        self.0.iter().any(|(name, _)| **name != *DEFAULT_COLUMN)
    }

    /// The value for readers that do not know of columns: that of the default column, or nothing.
    pub(crate) fn default_value(&self) -> LazyValue {
        let value = self.get(DEFAULT_COLUMN).cloned();
        value.unwrap_or_else(|| LazyValue::inline(Bytes::new()))
    }
}
