//! The range tombstones of a table, as far as the table's bounds let them count.

use std::sync::Arc;

use super::files::TableFile;
use crate::cache::OpenFiles;
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::{InternalKeyComparator, ValueType, pack, trailer};
use crate::range_del::{FragmentedTombstones, clip};

/// The tombstones of `file`, clipped to its key range. RocksDB writes the whole tombstone to every
/// table it was split over and relies on the range; counted beyond it, a tombstone could hide a
/// newer key whose sequence number a compaction has reset to zero.
///
/// Cost: none for tables known to have no tombstones; else the table is opened the first time.
pub(crate) fn table_tombstones(
    open_files: &OpenFiles,
    file: &TableFile,
    comparator: &InternalKeyComparator,
) -> Result<Arc<FragmentedTombstones>> {
    if !file.may_have_tombstones() {
        return Ok(FragmentedTombstones::empty());
    }
    if let Some(known) = file.tombstones.get() {
        return Ok(Arc::clone(known));
    }
    let read = read_tombstones(open_files, file, comparator)?;
    Ok(Arc::clone(file.tombstones.get_or_init(|| read)))
}

fn read_tombstones(
    open_files: &OpenFiles,
    file: &TableFile,
    comparator: &InternalKeyComparator,
) -> Result<Arc<FragmentedTombstones>> {
    let meta = &file.meta;
    let table = open_files.table(meta.number, meta.size, meta.largest_seq, comparator)?;
    let tombstones = table.range_tombstones();
    if tombstones.is_empty() {
        return Ok(FragmentedTombstones::empty());
    }
    // A largest key made by a tombstone is exclusive; one of a point entry is part of the table.
    let sentinel = pack(SequenceNumber::MAX, ValueType::RangeDeletion as u8);
    let upper = if trailer(&meta.largest) == sentinel {
        Some(file.largest_user_key().to_vec())
    } else {
        comparator
            .user()
            .immediate_successor(file.largest_user_key())
    };
    let lower = Some(file.smallest_user_key());
    let clipped = tombstones
        .iter()
        .filter_map(|t| clip(t.clone(), lower, upper.as_deref(), comparator));
    Ok(Arc::new(FragmentedTombstones::build(clipped, comparator)))
}
