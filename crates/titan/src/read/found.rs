//! Value as a reader finds it before it reads a blob file or asks the merge operator.

use bytes::Bytes;

use super::resolve::Stored;
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::entity::{ColumnValue, default_value};
use crate::merge::Operands;

/// Value of a key before a blob file is touched.
#[derive(Clone, Debug)]
pub(crate) enum FoundValue {
    Inline(Bytes),
    Blob(BlobIndex),
    /// An encoded [entity](crate::format::entity).
    Entity(Bytes),
    /// The merge operator makes it of parts.
    Merged(Box<Merged>),
}

/// The parts of a value, as a reader finds them before it asks the merge operator.
#[derive(Clone, Debug)]
pub(crate) struct Merged {
    /// Value that the operands change, if the key had one.
    pub(crate) base: Option<Box<FoundValue>>,
    /// Oldest first, at least one.
    pub(crate) operands: Operands,
}

impl Merged {
    /// Of operands that were found newest first.
    pub(super) fn of_newest_first(base: Option<FoundValue>, mut operands: Operands) -> Self {
        operands.reverse();
        Merged {
            base: base.map(Box::new),
            operands,
        }
    }
}

impl FoundValue {
    /// A value that is stored with its key.
    pub(super) fn of_stored(stored: Stored, value: Bytes) -> Result<Self> {
        Ok(match stored {
            Stored::Inline => FoundValue::Inline(value),
            Stored::Pointer => FoundValue::Blob(BlobIndex::decode(&value)?),
            Stored::Entity => FoundValue::Entity(value),
        })
    }

    /// The value for readers that do not know of columns: of an entity, its default column.
    pub(super) fn of_default_column(entity: &Bytes) -> Result<Self> {
        Ok(match default_value(entity)? {
            ColumnValue::Inline(value) => FoundValue::Inline(entity.slice_ref(value)),
            ColumnValue::Pointer(index) => FoundValue::Blob(index),
        })
    }
}
