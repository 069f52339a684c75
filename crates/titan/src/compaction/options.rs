//! Options of a manual compaction.

/// Options of [`compact_range`](crate::ColumnFamily::compact_range).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactRangeOptions {
    /// Rewrite files of the last level too, even if nothing above overlaps them: drops entries that
    /// only old snapshots pinned and applies changed separation or compression. Default: false.
    pub force_bottommost: bool,
}
