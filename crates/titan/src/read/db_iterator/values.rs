//! The value of the entry that an iterator is on.

use bytes::Bytes;

use super::DbIterator;
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::entity::{ColumnValue, default_value};
use crate::lazy_value::LazyValue;
use crate::merge::Operands;
use crate::read::resolve::Stored;
use crate::read::value_window::Ahead;
use crate::version::StoredValues;
use crate::wide_columns::WideColumns;

impl DbIterator {
    /// The value; read from its blob file, checksum verified, if it is in one.
    ///
    /// # Errors
    /// `InvalidArgument` if the iterator is not valid; `Corruption`, `Io` from the read.
    pub fn value(&self) -> Result<Bytes> {
        if !self.valid() {
            return Err(Error::invalid_argument("the iterator is not on an entry"));
        }
        let base = match self.base()? {
            Some(ColumnValue::Pointer(index)) => Some(self.fetch(&index)?),
            Some(ColumnValue::Inline(value)) => Some(Bytes::copy_from_slice(value)),
            None => None,
        };
        match (base, self.operands()) {
            (Some(value), operands) if operands.is_empty() => Ok(value),
            (base, operands) => {
                let operator = self.merge_operator.as_deref();
                operands.merge(operator, self.key(), base.as_deref())
            }
        }
    }

    /// Reads the value that the entry shown points to.
    fn fetch(&self, index: &BlobIndex) -> Result<Bytes> {
        self.value_taken.set(true);
        self.window.take_value();
        let locations = &*self.super_version.version;
        let ahead = self.window.front().filter(|_| self.in_window);
        match ahead.and_then(|entry| entry.read.as_ref()) {
            Some(read) => self.fetcher.fetch_ahead(locations, read, self.key(), index),
            None => self.fetcher.fetch(locations, self.key(), index),
        }
    }

    /// The value where the iterator has it, without a copy. `None` if it must be read from a blob
    /// file or be merged, or the iterator is not valid: then [`DbIterator::lazy_value`] has it.
    #[inline]
    pub fn value_in_place(&self) -> Option<&[u8]> {
        let is_alone = self.valid() && self.operands().is_empty();
        match self.stored() {
            (Some(Stored::Inline), value) if is_alone => Some(value),
            _ => None,
        }
    }

    /// The value, to be read later or not at all. It stays readable after the iterator is gone.
    ///
    /// # Errors
    /// `InvalidArgument` if the iterator is not valid.
    pub fn lazy_value(&self) -> Result<LazyValue> {
        if !self.valid() {
            return Err(Error::invalid_argument("the iterator is not on an entry"));
        }
        let base = match self.base()? {
            Some(ColumnValue::Pointer(index)) => Some(LazyValue::blob(
                Bytes::copy_from_slice(self.key()),
                index,
                StoredValues::of(&self.super_version.version, &self.fetcher),
            )),
            Some(ColumnValue::Inline(value)) => {
                Some(LazyValue::inline(Bytes::copy_from_slice(value)))
            }
            None => None,
        };
        Ok(match (base, self.operands()) {
            (Some(value), operands) if operands.is_empty() => value,
            (base, operands) => LazyValue::merged(
                Bytes::copy_from_slice(self.key()),
                base,
                operands.clone(),
                self.merge_operator.clone(),
            ),
        })
    }

    /// The columns, to be read later where they are in blob files; of a value without columns, the
    /// default column. Cost: a copy of the columns that are not in blob files.
    ///
    /// # Errors
    /// `InvalidArgument` if the iterator is not valid; `Corruption`, `Unsupported` for an entity
    /// that cannot be read.
    pub fn columns(&self) -> Result<WideColumns> {
        if !self.valid() {
            return Err(Error::invalid_argument("the iterator is not on an entry"));
        }
        let (Some(Stored::Entity), entity) = self.stored() else {
            return self.lazy_value().map(WideColumns::of_value);
        };
        let entity = Bytes::copy_from_slice(entity);
        let columns = WideColumns::of_entity(self.key(), &entity, || {
            StoredValues::of(&self.super_version.version, &self.fetcher)
        })?;
        match self.operands().is_empty() {
            true => Ok(columns),
            false => Ok(columns.with_default(self.lazy_value()?)),
        }
    }

    /// Whether the key was set by [`put_entity`](crate::ColumnFamily::put_entity), so that it may
    /// have other columns than the default one. Free.
    pub fn is_entity(&self) -> bool {
        self.valid() && self.stored().0 == Some(Stored::Entity)
    }

    /// The value below the operands; that of the default column of an entity.
    #[inline]
    fn base(&self) -> Result<Option<ColumnValue<'_>>> {
        let (stored, value) = self.stored();
        Ok(Some(match stored {
            None => return Ok(None),
            Some(Stored::Inline) => ColumnValue::Inline(value),
            Some(Stored::Pointer) => match self.window.front() {
                Some(Ahead {
                    pointer: Some(index),
                    ..
                }) if self.in_window => ColumnValue::Pointer(*index),
                _ => ColumnValue::Pointer(BlobIndex::decode(value)?),
            },
            Some(Stored::Entity) => default_value(value)?,
        }))
    }

    /// The stored value below the operands, and its form, if there is one.
    #[inline]
    fn stored(&self) -> (Option<Stored>, &[u8]) {
        match self.window.front() {
            Some(entry) if self.in_window => (entry.stored, &entry.value),
            _ => (self.visible.stored(), self.visible.value()),
        }
    }

    fn operands(&self) -> &Operands {
        match self.window.front() {
            Some(entry) if self.in_window => &entry.operands,
            _ => self.visible.operands(),
        }
    }
}
