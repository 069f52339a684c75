//! A range deletion as users write it and files store it.

use bytes::Bytes;

use crate::format::numbers::SequenceNumber;

/// Deletes every version of the keys in `start..end` that is older than `sequence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first user key in the range.
    pub start: Bytes,
    /// The first user key after the range.
    pub end: Bytes,
    /// When the deletion was committed.
    pub sequence: SequenceNumber,
}
