//! Rows of scans: a key with its value, and the same where the scan has it.

use std::ops::Deref;

use bytes::Bytes;
use titan::{DbIterator, LazyValue};

use crate::error::Result;

/// A key with its value.
#[derive(Clone)]
pub struct Row {
    /// The key.
    pub key: Vec<u8>,
    /// The value. Fetching it may read a blob file, or the engine if a range source returned the
    /// row without the value.
    pub value: LazyValue,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row")
            .field("key", &self.key.escape_ascii().to_string())
            .field("value", &self.value)
            .finish()
    }
}

/// A row where the scan has it, from [`Scan::next_ref`](crate::Scan::next_ref): nothing is copied
/// before it is asked for.
#[derive(Clone, Copy)]
pub struct RowRef<'s> {
    key: &'s [u8],
    value: ValueRef<'s>,
}

/// The place of a row's value.
#[derive(Clone, Copy)]
pub(super) enum ValueRef<'s> {
    /// The iterator is at it.
    AtCursor(&'s DbIterator),
    Lazy(&'s LazyValue),
}

impl<'s> RowRef<'s> {
    pub(super) fn new(key: &'s [u8], value: ValueRef<'s>) -> Self {
        RowRef { key, value }
    }

    /// The key.
    pub fn key(&self) -> &'s [u8] {
        self.key
    }

    /// The value. Cost: nothing if the engine has it beside its key, else that of
    /// [`LazyValue::fetch`].
    ///
    /// # Errors
    /// Those of [`LazyValue::fetch`].
    pub fn value(&self) -> Result<RowValue<'s>> {
        if let ValueRef::AtCursor(cursor) = self.value
            && let Some(value) = cursor.value_in_place()
        {
            return Ok(RowValue::InPlace(value));
        }
        Ok(RowValue::Fetched(self.lazy_value()?.fetch()?))
    }

    /// The value, to be fetched later or not at all. Cost: a copy if the engine has it beside its
    /// key.
    ///
    /// # Errors
    /// `Engine`.
    pub fn lazy_value(&self) -> Result<LazyValue> {
        match self.value {
            ValueRef::AtCursor(cursor) => Ok(cursor.lazy_value()?),
            ValueRef::Lazy(value) => Ok(value.clone()),
        }
    }

    /// The row by itself, which outlives the scan. Cost: copies of the key and of the value as
    /// [`RowRef::lazy_value`] has it.
    ///
    /// # Errors
    /// `Engine`.
    pub fn to_row(&self) -> Result<Row> {
        let (key, value) = (self.key.to_vec(), self.lazy_value()?);
        Ok(Row { key, value })
    }
}

impl std::fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowRef(\"{}\")", self.key.escape_ascii())
    }
}

/// The bytes of a row's value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RowValue<'s> {
    /// Where the scan has them.
    InPlace(&'s [u8]),
    /// Read for the caller.
    Fetched(Bytes),
}

impl Deref for RowValue<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            RowValue::InPlace(value) => value,
            RowValue::Fetched(value) => value,
        }
    }
}
