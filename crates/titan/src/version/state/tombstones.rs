//! The range tombstones of tables, clipped to the tables' bounds.

use std::ops::Bound;
use std::sync::Arc;

use super::files::TableFile;
use super::level::Level;
use super::version::Version;
use crate::error::Result;
use crate::format::internal_key::{InternalKeyComparator, user_key};
use crate::format::range_tombstone::RangeTombstone;
use crate::open_files::OpenFiles;
use crate::range_del::{FragmentedTombstones, clip};
use crate::version::edit::NewFile;

/// The tombstones of `file`, clipped to its key range. RocksDB writes the whole tombstone to every
/// table over which it was split and relies on the range. Beyond that range, a tombstone could
/// delete a newer key whose sequence number a compaction has reset to zero.
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

/// The tombstones of all tables of `version` together.
///
/// Cost: as [`table_tombstones`] for each table the first time, nothing after that.
pub(crate) fn version_tombstones(
    open_files: &OpenFiles,
    version: &Version,
) -> Result<Arc<FragmentedTombstones>> {
    if !version.may_have_tombstones() {
        return Ok(FragmentedTombstones::empty());
    }
    if let Some(known) = version.tombstones.get() {
        return Ok(Arc::clone(known));
    }
    let mut all = Vec::new();
    for level in version.levels() {
        all.extend(tombstones_of_tables(
            open_files,
            level,
            &version.comparator,
        )?);
    }
    let built = Arc::new(FragmentedTombstones::build(all, &version.comparator));
    Ok(Arc::clone(version.tombstones.get_or_init(|| built)))
}

/// Every tombstone of every table of `level`, table by table.
pub(crate) fn tombstones_of_tables(
    open_files: &OpenFiles,
    level: &Level,
    comparator: &InternalKeyComparator,
) -> Result<Vec<RangeTombstone>> {
    let mut all = Vec::new();
    let tables = level.may_have_tombstones().then(|| level.iter());
    for file in tables.into_iter().flatten() {
        all.extend(table_tombstones(open_files, file, comparator)?.iter_tombstones());
    }
    Ok(all)
}

fn read_tombstones(
    open_files: &OpenFiles,
    file: &TableFile,
    comparator: &InternalKeyComparator,
) -> Result<Arc<FragmentedTombstones>> {
    let meta = &file.meta;
    let table = open_files.table(meta.identity(), comparator)?;
    let tombstones = table.range_tombstones();
    if tombstones.is_empty() {
        return Ok(FragmentedTombstones::empty());
    }
    let clipped = within(meta, tombstones, comparator);
    Ok(Arc::new(FragmentedTombstones::build(clipped, comparator)))
}

/// The parts of a table's tombstones that are within its bounds.
pub fn within(
    meta: &NewFile,
    tombstones: &[RangeTombstone],
    comparator: &InternalKeyComparator,
) -> Vec<RangeTombstone> {
    let upper = match meta.end() {
        Bound::Excluded(end) => Some(end.to_vec()),
        Bound::Included(last) => comparator.user().immediate_successor(last),
        Bound::Unbounded => None,
    };
    let lower = Some(user_key(&meta.smallest));
    let clipped = tombstones.iter().cloned();
    clipped
        .filter_map(|t| clip(t, lower, upper.as_deref(), comparator))
        .collect()
}
