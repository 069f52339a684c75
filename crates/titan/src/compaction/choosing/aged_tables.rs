//! Which memtables are to be flushed, and which tables compacted, because of the age of their
//! entries, so that a [compaction filter](crate::filter) sees them.
//!
//! The MANIFEST has the time by which the oldest value of a table had been written, and the time at
//! which the table was written. A table is due when that value is older than
//! [`Revisit::age`], but no sooner than [`Revisit::interval`] after it was written itself: so no
//! table is rewritten again and again, even if a filter keeps everything.

use std::sync::Arc;

use super::picker::{clean_cut, complete, pick_level0};
use crate::compaction::building::filter::spacing;
use crate::compaction::building::inputs::Compaction;
use crate::filter::{FilterReason, Revisit};
use crate::options::ColumnFamilyOptions;
use crate::sorting;
use crate::version::{TableFile, Version};

/// When a table is due, in seconds since 1970. At once if it is not known how old it is: it will be
/// known when the table has been rewritten.
fn due_at(table: &TableFile, revisit: Revisit) -> u64 {
    let made = table.meta.file_creation_time;
    let oldest = match table.meta.oldest_ancester_time {
        0 => made,
        oldest => oldest,
    };
    // Times are rounded down.
    let aged = oldest
        .saturating_add(revisit.age.as_secs())
        .saturating_add(1);
    let interval = match mutant!(aged_tables_rewritten_for_ever) {
        true => 0,
        false => revisit.interval.as_secs().max(1),
    };
    aged.max(made.saturating_add(interval))
}

/// When a memtable is to be flushed whose first entry had been written by `oldest`, in seconds
/// since 1970: when the filter of the flush finds that entry old enough.
pub(crate) fn memtable_due_at(oldest: u64, revisit: Revisit) -> u64 {
    // The flush knows the time of the entry by the distance of two recorded times.
    let aged = oldest
        .saturating_add(revisit.age.as_secs())
        .saturating_add(spacing(revisit))
        .saturating_add(1);
    aged.max(oldest.saturating_add(revisit.interval.as_secs()))
}

/// When the first table is due, in seconds since 1970. Cost: O(tables).
pub(crate) fn first_due(version: &Version, revisit: Revisit) -> Option<u64> {
    let times = version.tables().map(|(_, table)| due_at(table, revisit));
    times.min()
}

/// A compaction of the table that is due longest at the time `now`. It rewrites the table where it
/// is, or merges it into the next level if it may shadow something below.
pub(crate) fn pick(
    version: &Arc<Version>,
    options: &ColumnFamilyOptions,
    base_level: usize,
    revisit: Revisit,
    now: u64,
) -> Option<Compaction> {
    let due = version.tables().filter_map(|(level, table)| {
        let at = due_at(table, revisit);
        (at <= now && !table.is_compacting()).then_some((at, level, table))
    });
    let mut due: Vec<_> = due.collect();
    sorting::sort_by_key(&mut due, |(at, level, _)| (*at, *level));
    let picked = due.into_iter().find_map(|(_, level, table)| match level {
        0 => pick_level0(version, base_level, options),
        _ => {
            let inputs = clean_cut(version, level, vec![Arc::clone(table)]);
            let overlaps = |below| {
                let (first, end) = (table.smallest_user_key(), table.end());
                version.has_overlapping(below, Some(first), end)
            };
            let output_level = match (level + 1..version.num_levels()).any(overlaps) {
                true => level + 1,
                false => level,
            };
            complete(version, level, output_level, inputs)
        }
    });
    picked.map(|compaction| compaction.forced(FilterReason::Age))
}
