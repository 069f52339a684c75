//! The pointers into blob files that an entry has.

use super::blob_index::BlobIndex;
use super::entity::{ColumnValue, each_column, may_have_pointers};
use super::internal_key::ValueType;
use crate::error::Result;

/// Calls `see` with each pointer of an entry of this type and value.
///
/// All code that counts, follows or rewrites pointers goes through here: a pointer that one place
/// overlooks is a value that garbage collection deletes (BLOB-2, BLOB-3).
///
/// # Errors
/// `Corruption` and `Unsupported` for a value that is not understood; those of `see`.
#[inline]
pub fn each_pointer(
    value_type: ValueType,
    value: &[u8],
    mut see: impl FnMut(BlobIndex) -> Result<()>,
) -> Result<()> {
    match value_type {
        ValueType::BlobIndex => see(BlobIndex::decode(value)?),
        ValueType::WideColumnEntity if !mutant!(entity_pointers_overlooked) => {
            // Damage to an entity that has no pointers is its readers' concern.
            if !may_have_pointers(value) {
                return Ok(());
            }
            each_column(value, &mut |column| match column.value {
                ColumnValue::Inline(_) => Ok(()),
                ColumnValue::Pointer(index) => see(index),
            })
        }
        _ => Ok(()),
    }
}

/// Whether an entry of this type can have pointers: for others, [`each_pointer`] calls nothing.
#[inline]
pub(crate) fn may_point(value_type: ValueType) -> bool {
    matches!(
        value_type,
        ValueType::BlobIndex | ValueType::WideColumnEntity
    )
}

/// The bytes of the blob records to which an entry points.
///
/// # Errors
/// Those of [`each_pointer`].
pub(crate) fn referenced_bytes(
    user_key: &[u8],
    value_type: ValueType,
    value: &[u8],
) -> Result<u64> {
    let mut bytes = 0_u64;
    each_pointer(value_type, value, |index| {
        bytes = bytes.saturating_add(index.record_len(user_key.len()));
        Ok(())
    })?;
    Ok(bytes)
}
