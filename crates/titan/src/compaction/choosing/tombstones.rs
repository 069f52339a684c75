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
    tombstones >= many(version)
}

/// The number from which on tombstones are many. Cost: O(levels).
fn many(version: &Version) -> u64 {
    that_free(version, MUCH).min(MANY_TOMBSTONES)
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
pub(crate) struct Droppable<'a> {
    version: &'a Arc<Version>,
    /// The level that compactions of level 0 write to.
    base_level: usize,
    /// The number from which on tombstones are many.
    many: u64,
    /// Those whose tombstones no snapshot needs, the uppermost level first.
    groups: Vec<Group<'a>>,
}

/// Tables that are compacted together: all of level 0, or one table of another level.
struct Group<'a> {
    level: usize,
    tables: &'a [Arc<TableFile>],
    /// Their tombstones, and the old versions that were kept for snapshots.
    tombstones: u64,
    /// Whether few entries are rewritten for each of these.
    is_cheap: bool,
    /// Whether iterators have met a long dead range in a table with tombstones.
    is_met: bool,
}

impl<'a> Droppable<'a> {
    /// Cost: O(levels); O(tables) if there are more tombstones than a rest, or long dead ranges.
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
            many: many(version),
            groups: Vec::new(),
        };
        let is_rest = version.droppable().saturating_mul(REST) < droppable.many;
        if is_rest && met.is_empty() {
            return droppable;
        }
        let oldest = circumstances.oldest_snapshot;
        let is_seen =
            |table: &Arc<TableFile>| oldest.is_none_or(|oldest| oldest >= table.meta.largest_seq);
        for level in 0..version.num_levels() {
            let tables = version.level(level).tables();
            let together = match level {
                0 => tables.len().max(1),
                _ => 1,
            };
            for tables in tables.chunks(together) {
                let tombstones = tombstones_of(tables);
                if tombstones > 0 && tables.iter().all(is_seen) {
                    droppable.groups.push(Group {
                        level,
                        tables,
                        tombstones,
                        is_cheap: !is_rest && droppable.is_cheap(level, tables, tombstones),
                        is_met: are_met(version, tables, &met),
                    });
                }
            }
        }
        droppable
    }

    /// Whether a compaction is due.
    pub(crate) fn is_any(&self) -> bool {
        self.worth_it(1).next().is_some()
    }

    /// A compaction that drops tombstones, or moves them down, once one was due. The uppermost
    /// level comes first, so that tombstones that meet on the way are merged once.
    pub(crate) fn pick(&self, options: &ColumnFamilyOptions) -> Option<Compaction> {
        let version = self.version;
        let last = version.num_levels().saturating_sub(1);
        let mut picked = self.worth_it(REST).find_map(|group| match group.level {
            0 => pick_level0(version, self.base_level, options),
            level => {
                let inputs = clean_cut(version, level, group.tables.to_vec());
                complete(version, level, (level + 1).min(last), inputs)
            }
        })?;
        // A table that is only moved keeps its tombstones.
        picked.force_rewrite = picked.is_bottommost();
        Some(picked)
    }

    /// The groups that are worth a compaction for their tombstones: because all cheap ones together
    /// are such a part of many, or because iterators have met them.
    fn worth_it(&self, part: u64) -> impl Iterator<Item = &Group<'a>> {
        let cheap = self.groups.iter().filter(|group| group.is_cheap);
        let cheap = total(cheap.map(|group| group.tombstones));
        let are_many = cheap.saturating_mul(part) >= self.many;
        let groups = self.groups.iter();
        groups.filter(move |group| group.is_met || are_many && group.is_cheap)
    }

    /// Whether few entries are rewritten for each of the tombstones of a group. Tables below count.
    /// The group's own entries count in the last level, and unless its tombstones are many by
    /// themselves.
    fn is_cheap(&self, level: usize, group: &[Arc<TableFile>], tombstones: u64) -> bool {
        let version = self.version;
        let entries = |tables: &[Arc<TableFile>]| total(tables.iter().map(|t| t.entries()));
        let is_little = |entries: u64| entries <= tombstones.saturating_mul(MOST_REWRITTEN);
        let output_level = match level {
            0 => self.base_level,
            _ => level + 1,
        };
        let below = output_level..version.num_levels();
        let own_count = below.is_empty() || tombstones < self.many;
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

/// Whether iterators have met one of the long dead ranges in a table with tombstones.
fn are_met(version: &Version, tables: &[Arc<TableFile>], met: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let overlaps = |table: &TableFile, (first, last): &(Vec<u8>, Vec<u8>)| {
        let end = Bound::Included(last.as_slice());
        version.overlaps(table, Some(first), end)
    };
    let mut tables = tables.iter().filter(|table| table.tombstones() > 0);
    tables.any(|table| met.iter().any(|range| overlaps(table, range)))
}

/// The tombstones of tables, and the old versions that were kept for snapshots.
fn tombstones_of(tables: &[Arc<TableFile>]) -> u64 {
    let of_table = |table: &Arc<TableFile>| match mutant!(shadowed_versions_stay) {
        true => table.tombstones(),
        false => table.droppable(),
    };
    total(tables.iter().map(of_table))
}
