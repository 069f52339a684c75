//! Sums up the bytes that range deletions cover in older tables.

use std::ops::Bound;

use super::older_tables::OlderTables;
use crate::error::Result;
use crate::range_del::{Fragment, FragmentedTombstones};
use crate::version::TableFile;

/// The most data blocks that are read from tables that ranges cover in part, and the lowest limit
/// for one table.
const MAX_BLOCKS: usize = 1024;
const MIN_BLOCKS: usize = 4;

/// Bytes of the blob records that the ranges shadow in tables from `first_level` on. The ranges
/// must be newer than all of these. The result is the number of bytes to which the tables point
/// there, without those that entries or the `known` range deletions of those tables shadow there
/// already. Cost: none for a table that is covered as a whole, else a few of its blocks.
pub(super) fn shadowed_by(
    older: OlderTables<'_>,
    ranges: &[Fragment],
    known: &FragmentedTombstones,
    first_level: usize,
) -> u64 {
    // If there are very many ranges, a part counts for all.
    let step = ranges.len().div_ceil(MAX_BLOCKS / MIN_BLOCKS).max(1);
    let max_blocks = (MAX_BLOCKS / ranges.len().max(1)).max(MIN_BLOCKS);
    let (mut referenced, mut shadowed) = (0u64, 0u64);
    for range in ranges.iter().skip(step / 2).step_by(step) {
        let range = Range {
            start: &range.start,
            end: &range.end,
        };
        for level in first_level..older.version.num_levels() {
            for file in overlapping(older, level, range) {
                let covered = covered(older, file, range, known, max_blocks);
                let Covered { bytes, hides } = covered.unwrap_or_default();
                referenced = referenced.saturating_add(bytes);
                shadowed = shadowed.saturating_add(hides);
            }
        }
    }
    referenced
        .saturating_sub(shadowed)
        .saturating_mul(step as u64)
}

/// Part of a table that ranges cover.
#[derive(Default)]
struct Covered {
    /// Bytes of the records to which it points.
    bytes: u64,
    /// Bytes of the records that its entries shadow, mostly those of other tables.
    hides: u64,
}

/// From `start` to before `end`.
#[derive(Clone, Copy)]
struct Range<'a> {
    start: &'a [u8],
    end: &'a [u8],
}

fn overlapping<'a>(older: OlderTables<'a>, level: usize, range: Range<'_>) -> Vec<&'a TableFile> {
    let version = older.version;
    let (start, end) = (Some(range.start), Bound::Excluded(range.end));
    if level > 0 {
        let files = version.overlapping(level, start, end).iter();
        return files.map(|file| &**file).collect();
    }
    let files = version.level(0).iter().map(|file| &**file);
    files
        .filter(|file| version.overlaps(file, start, end))
        .collect()
}

/// Part of one table that a range covers, without the bytes that older range deletions cover.
fn covered(
    older: OlderTables<'_>,
    file: &TableFile,
    range: Range<'_>,
    known: &FragmentedTombstones,
    max_blocks: usize,
) -> Result<Covered> {
    let comparator = &older.version.comparator;
    let before = |a: &[u8], b: &[u8]| comparator.compare_user(a, b).is_lt();
    let mut covered = Covered::default();
    // Nothing of the table is outside of its bounds: gaps between fragments there cost nothing.
    let unbounded = mutant!(ranges_look_beyond_the_table);
    let mut start = match before(range.start, file.smallest_user_key()) && !unbounded {
        true => file.smallest_user_key(),
        false => range.start,
    };
    // A fragment shadows all of an older table, and nothing of a newer one. If a table has both
    // older and newer entries, the fragment is its own: the entries that it covers are no longer in
    // the table.
    let again = mutant!(ranges_hide_covered_values_again);
    let hides = |f: &&Fragment| !again && f.sequences.first() > Some(&file.meta.largest_seq);
    let fragments = known.fragments();
    let first = fragments.partition_point(|f| !before(start, &f.end));
    for fragment in fragments.iter().skip(first).filter(hides) {
        let beyond = older.version.ends_before(file, &fragment.start);
        if (beyond && !unbounded) || !before(&fragment.start, range.end) {
            break;
        }
        if before(start, &fragment.start) {
            let end = &fragment.start;
            covered.add(older, file, Range { start, end }, max_blocks)?;
        }
        start = &fragment.end;
    }
    if before(start, range.end) {
        let end = range.end;
        covered.add(older, file, Range { start, end }, max_blocks)?;
    }
    Ok(covered)
}

impl Covered {
    /// Adds the bytes that a part of a range covers.
    fn add(
        &mut self,
        older: OlderTables<'_>,
        file: &TableFile,
        part: Range<'_>,
        max_blocks: usize,
    ) -> Result<()> {
        let bytes = file.referenced_blob_bytes();
        // The bytes that its own range deletions shadow are elsewhere, or in tables that count as
        // covered.
        let hides = match file.may_have_tombstones() {
            true => 0,
            false => file.shadowed_bytes(),
        };
        if bytes == 0 && hides == 0 {
            return Ok(());
        }
        if older.version.lies_within(file, part.start, part.end) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.hides = self.hides.saturating_add(hides);
            return Ok(());
        }
        let comparator = &older.version.comparator;
        let table = older.open_files.table(file.meta.identity(), comparator)?;
        let sum = table.sum_between(part.start, part.end, max_blocks)?;
        self.bytes = self.bytes.saturating_add(sum.blob_bytes.min(bytes));
        let entries = file.entry_counts().map_or(0, |counts| counts.entries);
        let share = sum.entries as f64 / entries.max(1) as f64;
        let hides = hides as f64 * share.min(1.0);
        self.hides = self.hides.saturating_add(hides as u64);
        Ok(())
    }
}
