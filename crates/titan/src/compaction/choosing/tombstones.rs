//! Compactions of an idle database that drop tombstones, and versions kept for snapshots.
//!
//! Tombstones make iterators step over them and over the entries that they delete, until a
//! compaction drops both. While users write, compactions come for the size of levels, in which
//! tombstones count ([`TableFile::compensated_size`]). Once a database is idle, nothing would
//! become larger any more, so tables are compacted for their tombstones alone:
//!
//! * if they have many, by number or by the bytes that they free, and that is many compared with
//!   the entries that must be rewritten to drop them; or
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
use super::picker::{clean_cut, complete, pick_level0};
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
    circumstances: Circumstances,
    /// The number from which on tombstones of the version are many.
    many: u64,
    /// The first and the last key of each long dead range.
    met: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Droppable<'a> {
    /// Cost: O(levels), unless there are tombstones that may be worth a compaction.
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
        Droppable {
            version,
            base_level,
            circumstances,
            many: many(version),
            met,
        }
    }

    /// Whether a compaction is due.
    pub(crate) fn is_any(&self) -> bool {
        let mut levels = 0..self.version.num_levels();
        levels.any(|level| self.worth_it(level).next().is_some())
    }

    /// A compaction that drops tombstones, or moves them down. The uppermost level comes first, so
    /// that tombstones that meet on the way are merged once.
    pub(crate) fn pick(&self, options: &ColumnFamilyOptions) -> Option<Compaction> {
        let version = self.version;
        let last = version.num_levels().saturating_sub(1);
        let mut levels = 0..version.num_levels();
        levels.find_map(|level| {
            let mut tables = self.worth_it(level).filter(|table| !table.is_compacting());
            let mut picked = tables.find_map(|table| match level {
                0 => pick_level0(version, self.base_level, options),
                _ => {
                    let inputs = clean_cut(version, level, vec![Arc::clone(table)]);
                    complete(version, level, (level + 1).min(last), inputs)
                }
            })?;
            // A table that is only moved keeps its tombstones.
            picked.force_rewrite = picked.is_bottommost();
            Some(picked)
        })
    }

    /// The tables of a level that are worth a compaction for their tombstones.
    fn worth_it(&self, level: usize) -> impl Iterator<Item = &'a Arc<TableFile>> {
        let in_level0 = match level {
            0 => self.version.sums(0).droppable,
            _ => 0,
        };
        let droppable = self.version.sums(level).droppable;
        let is_some = droppable >= self.many || !self.met.is_empty();
        let tables = self.version.level(level).iter().filter(move |_| is_some);
        tables.filter(move |table| {
            let droppable = match mutant!(shadowed_versions_stay) {
                true => table.tombstones(),
                false => table.droppable(),
            };
            droppable > 0
                && self.can_be_dropped(level, table)
                && (self.is_met(table) || self.are_worth_it(level, table, droppable.max(in_level0)))
        })
    }

    /// Whether no snapshot needs the tombstones. The tables of level 0 are compacted together.
    fn can_be_dropped(&self, level: usize, table: &TableFile) -> bool {
        let is_seen = |table: &TableFile| {
            let oldest = self.circumstances.oldest_snapshot;
            oldest.is_none_or(|oldest| oldest >= table.meta.largest_seq)
        };
        match level {
            0 => self.version.level(0).iter().all(|table| is_seen(table)),
            _ => is_seen(table),
        }
    }

    /// Whether the table has tombstones, and iterators have met a long dead range in it.
    fn is_met(&self, table: &TableFile) -> bool {
        let overlaps = |(first, last): &(Vec<u8>, Vec<u8>)| {
            let end = Bound::Included(last.as_slice());
            self.version.overlaps(table, Some(first), end)
        };
        table.tombstones() > 0 && self.met.iter().any(overlaps)
    }

    /// Whether so many tombstones and old versions of a table are many, also compared with the
    /// entries rewritten to drop them.
    fn are_worth_it(&self, level: usize, table: &TableFile, droppable: u64) -> bool {
        let output_level = match level {
            0 => self.base_level,
            _ => level + 1,
        };
        let below = output_level..self.version.num_levels();
        let overlapping = |level| {
            let first = Some(table.smallest_user_key());
            self.version.overlapping(level, first, table.end())
        };
        // In the last level, the table itself. Tables that it meets further down are rewritten,
        // too.
        let entries = |tables: &[Arc<TableFile>]| total(tables.iter().map(|t| t.entries()));
        let rewritten = match below.is_empty() || level == output_level {
            true => table.entries(),
            false => total(below.map(|level| entries(overlapping(level)))),
        };
        droppable >= self.many && rewritten <= droppable.saturating_mul(MOST_REWRITTEN)
    }
}
