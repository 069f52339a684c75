//! The common part of all values: the number of their format comes first.

use bytes::{Buf, Bytes};

use super::InodeNumber;
use crate::error::{Error, Result};

/// The format of all values that this version writes.
pub const FORMAT: u8 = 1;

/// A value that consists of bytes of the user: file content, a target, an extended attribute.
pub fn with_format(content: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(1 + content.len());
    value.push(FORMAT);
    value.extend_from_slice(content);
    value
}

/// The bytes of the user in a value that [`with_format`] made.
pub fn content_of(value: &Bytes) -> Result<Bytes> {
    let mut content = value.clone();
    take_format(&mut content, "a value")?;
    Ok(content)
}

/// The inode number in a value that consists of one.
pub fn inode_number_of(value: &Bytes) -> Result<InodeNumber> {
    let mut value = value.clone();
    take_format(&mut value, "an inode number")?;
    let number = take(&mut value, "an inode number", Buf::try_get_u64)?;
    Ok(InodeNumber(number))
}

/// Reads the format of a value, and refuses one of a later version.
pub(super) fn take_format(value: &mut Bytes, what: &str) -> Result<()> {
    match take(value, what, Buf::try_get_u8)? {
        FORMAT => Ok(()),
        format => Err(Error::corrupt(format!(
            "{what} has format {format}; this version knows format {FORMAT}"
        ))),
    }
}

/// Reads a field of a value.
pub(super) fn take<T>(
    value: &mut Bytes,
    what: &str,
    get: impl FnOnce(&mut Bytes) -> Result<T, bytes::TryGetError>,
) -> Result<T> {
    get(value).map_err(|_| Error::corrupt(format!("{what} is cut short")))
}
