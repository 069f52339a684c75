//! The pointers into blob files that an entry has.

use super::blob_index::BlobIndex;
use super::internal_key::ValueType;
use crate::error::Result;

/// Calls `see` with each pointer of an entry of this type and value.
///
/// Whatever counts, follows or rewrites pointers goes through here: a pointer that one place overlooks
/// is a value that garbage collection deletes (BLOB-2, BLOB-3).
///
/// # Errors
/// `Corruption` and `Unsupported` for a value that is not understood; those of `see`.
#[inline]
pub(crate) fn each_pointer(
    value_type: ValueType,
    value: &[u8],
    mut see: impl FnMut(BlobIndex) -> Result<()>,
) -> Result<()> {
    match value_type {
        ValueType::BlobIndex => see(BlobIndex::decode(value)?),
        _ => Ok(()),
    }
}
