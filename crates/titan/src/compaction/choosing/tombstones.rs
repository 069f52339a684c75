//! Compactions of an idle database that drop tombstones, and versions kept for snapshots.
//!
//! Tombstones make iterators step over them and over the entries that they delete, until a
//! compaction drops both. While users write, compactions come for the size of levels, in which
//! tombstones count ([`TableFile::compensated_size`]). Once a database is idle, nothing would
//! become larger any more, so tables are compacted for their tombstones alone:
//!
//! * if their tombstones are cheap to drop, as few entries must be rewritten for each, and all
//!   cheap ones together are many, by number or by the bytes that they free; or
//! * if iterators have met a long [dead range](crate::dead_ranges) there, at any cost of the
//!   rewriting.
//!
//! Old versions of keys, which jobs keep for snapshots, count as tombstones do: iterators step over
//! them, too.
//!
//! Tables with entries that a snapshot needs are left alone until it is released. So each
//! compaction moves tombstones to a lower level or drops them, and there is an end to it.

use std::ops::Bound;
use std::sync::Arc;

use super::levels::{Circumstances, IDLE_SHADOWED_SHARE};
use super::picker::{clean_cut, complete, key_range, pick_level0};
use crate::compaction::building::inputs::Compaction;
use crate::dead_ranges::DeadRanges;
use crate::format::total;
use crate::memtable::MANY_TOMBSTONES;
use crate::options::ColumnFamilyOptions;
use crate::version::{TableFile, Version};

/// Bytes from which on fewer tombstones are many, if they free so much.
const MUCH: u64 = 256 << 10;

/// At most so many entries are rewritten for each tombstone, unless iterators have met a dead
/// range.
const MOST_REWRITTEN: u64 = 16;

/// The part of many tombstones, as a divisor, down to which compactions go on once they have begun.
const REST: u64 = 8;

/// Whether so many tombstones are many, by their number or by the bytes that they free. Cost:
/// O(levels).
pub(crate) fn are_many(version: &Version, tombstones: u64) -> bool {
    tombstones >= that_free(version, MUCH).min(MANY_TOMBSTONES)
}

/// The number of tombstones in a memtable that free so much of a version that an idle database
/// flushes it: compactions are due for them then. Cost: O(levels).
pub(crate) fn that_free_much(version: &Version) -> u64 {
    let all = total([version.blob_files.live_bytes(), version.table_bytes()]);
    let part = (all as f64 * IDLE_SHADOWED_SHARE) as u64;
    that_free(version, part.max(MUCH))
}

/// The number of tombstones that free so many bytes of tables: an entry of average size each.
fn that_free(version: &Version, bytes: u64) -> u64 {
    match version.average_entry() {
        0 => u64::MAX,
        _ if mutant!(few_tombstones_stay) => u64::MAX,
        average => bytes.div_ceil(average),
    }
}

/// The tombstones of an idle family, as far as compactions can drop them.
///
/// Tables that are compacted together are a *group*: all of level 0, or one table of another level.
pub(crate) struct Droppable<'a> {
    version: &'a Arc<Version>,
    /// The level that compactions of level 0 write to.
    base_level: usize,
    circumstances: Circumstances,
    /// The number of tombstones that are cheap to drop, if they are more than a rest.
    cheap: u64,
    /// The first and the last key of each long dead range.
    met: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Droppable<'a> {
    /// Cost: O(levels); O(tables) if there are more tombstones than a rest.
    pub(crate) fn of(
        version: &'a Arc<Version>,
        base_level: usize,
        circumstances: Circumstances,
        dead: &DeadRanges,
    ) -> Self {
        let met = match circumstances.long_dead_ranges {
            0 => Vec::new(),
            _ => dead.long(),
        };
        let mut droppable = Droppable {
            version,
            base_level,
            circumstances,
            cheap: 0,
            met,
        };
        if are_many(version, version.droppable().saturating_mul(REST)) {
            let levels = 0..version.num_levels();
            let cheap = levels.flat_map(|level| droppable.worth_it(level, true, false));
            droppable.cheap = total(cheap.map(tombstones_of));
        }
        droppable
    }

    /// Whether a compaction is due.
    pub(crate) fn is_any(&self) -> bool {
        let cheap = are_many(self.version, self.cheap);
        let mut levels = 0..self.version.num_levels();
        levels.any(|level| self.worth_it(level, cheap, true).next().is_some())
    }

    /// A compaction that drops tombstones, or moves them down, once one was due. The uppermost
    /// level comes first, so that tombstones that meet on the way are merged once.
    pub(crate) fn pick(&self, options: &ColumnFamilyOptions) -> Option<Compaction> {
        let version = self.version;
        let last = version.num_levels().saturating_sub(1);
        let cheap = are_many(version, self.cheap.saturating_mul(REST));
        let mut levels = 0..version.num_levels();
        levels.find_map(|level| {
            let mut groups = self.worth_it(level, cheap, true);
            let mut picked = groups.find_map(|group| match level {
                _ if group.iter().any(|table| table.is_compacting()) => None,
                0 => pick_level0(version, self.base_level, options),
                _ => {
                    let inputs = clean_cut(version, level, group.to_vec());
                    complete(version, level, (level + 1).min(last), inputs)
                }
            })?;
            // A table that is only moved keeps its tombstones.
            picked.force_rewrite = picked.is_bottommost();
            Some(picked)
        })
    }

    /// The groups of a level that are worth a compaction for their tombstones: because these are
    /// cheap to drop, or because iterators have met them, as far as each counts.
    fn worth_it(
        &self,
        level: usize,
        cheap: bool,
        met: bool,
    ) -> impl Iterator<Item = &'a [Arc<TableFile>]> {
        let tables: &'a [Arc<TableFile>] = self.version.level(level).tables();
        let together = match level {
            0 => tables.len().max(1),
            _ => 1,
        };
        let met = met && !self.met.is_empty();
        let groups = tables.chunks(together).filter(move |_| cheap || met);
        groups.filter(move |group| {
            tombstones_of(group) > 0
                && self.can_be_dropped(group)
                && (met && self.are_met(group) || cheap && self.are_cheap(level, group))
        })
    }

    /// Whether no snapshot needs the tombstones.
    fn can_be_dropped(&self, group: &[Arc<TableFile>]) -> bool {
        let oldest = self.circumstances.oldest_snapshot;
        let mut tables = group.iter();
        tables.all(|table| oldest.is_none_or(|oldest| oldest >= table.meta.largest_seq))
    }

    /// Whether a table has tombstones, and iterators have met a long dead range in it.
    fn are_met(&self, group: &[Arc<TableFile>]) -> bool {
        let overlaps = |table: &TableFile, (first, last): &(Vec<u8>, Vec<u8>)| {
            let end = Bound::Included(last.as_slice());
            self.version.overlaps(table, Some(first), end)
        };
        let mut tables = group.iter().filter(|table| table.tombstones() > 0);
        tables.any(|table| self.met.iter().any(|range| overlaps(table, range)))
    }

    /// Whether few entries are rewritten for each tombstone and old version of a group. Tables
    /// below count. The group's own entries count in the last level, and unless its tombstones are
    /// many by themselves.
    fn are_cheap(&self, level: usize, group: &[Arc<TableFile>]) -> bool {
        let version = self.version;
        let entries = |tables: &[Arc<TableFile>]| total(tables.iter().map(|t| t.entries()));
        let droppable = tombstones_of(group);
        let is_little = |entries: u64| entries <= droppable.saturating_mul(MOST_REWRITTEN);
        let output_level = match level {
            0 => self.base_level,
            _ => level + 1,
        };
        let below = output_level..version.num_levels();
        let own_count = below.is_empty() || !are_many(version, droppable);
        if own_count && !is_little(entries(group)) {
            return false;
        }
        let range = key_range(group, &version.comparator);
        range.is_some_and(|(first, end)| {
            let overlapping = |level| entries(version.overlapping(level, Some(first), end));
            is_little(total(below.map(overlapping)))
        })
    }
}

/// The tombstones of tables, and the old versions that were kept for snapshots.
fn tombstones_of(tables: &[Arc<TableFile>]) -> u64 {
    total(
        tables
            .iter()
            .map(|table| match mutant!(shadowed_versions_stay) {
                true => table.tombstones(),
                false => table.droppable(),
            }),
    )
}
