//! Restricts a tombstone to the keys that a file or a compaction is responsible for.

use bytes::Bytes;

use crate::format::internal_key::InternalKeyComparator;
use crate::format::range_tombstone::RangeTombstone;

/// The part of `tombstone` within `lower..upper` (`upper` exclusive, `None` unbounded); `None` if
/// nothing is left. Keys are copied only where a bound cuts.
pub(crate) fn clip(
    mut tombstone: RangeTombstone,
    lower: Option<&[u8]>,
    upper: Option<&[u8]>,
    comparator: &InternalKeyComparator,
) -> Option<RangeTombstone> {
    if let Some(lower) = lower
        && comparator.compare_user(&tombstone.start, lower).is_lt()
    {
        tombstone.start = Bytes::copy_from_slice(lower);
    }
    if let Some(upper) = upper
        && comparator.compare_user(upper, &tombstone.end).is_lt()
    {
        tombstone.end = Bytes::copy_from_slice(upper);
    }
    comparator
        .compare_user(&tombstone.start, &tombstone.end)
        .is_lt()
        .then_some(tombstone)
}
