//! Assigns the bytes that the inputs of a compaction shadowed and it did not drop to the tables
//! that it wrote. They are at lower levels, or snapshots see them.

use bytes::Bytes;

use super::older_tables::OlderTables;
use super::ranges;
use crate::compaction::building::inputs::Compaction;
use crate::compaction::building::job_output::OutputTable;
use crate::format::internal_key::{InternalKeyComparator, user_key};
use crate::format::total;
use crate::range_del::{Fragment, FragmentedTombstones};
use crate::version::TableFile;

/// Sets the bytes that each table written shadows: those that its range deletions cover at lower
/// levels, and for its entries a part of the remaining `still_shadowed` bytes, according to how
/// much of the inputs that shadowed them is in the table. Cost: opens the inputs that shadow
/// something, and that of [`ranges::shadowed_by`].
pub(in crate::compaction) fn hand_on(
    still_shadowed: u64,
    compaction: &Compaction,
    older: OlderTables<'_>,
    tombstones: &FragmentedTombstones,
    tables: &mut [OutputTable],
) {
    let none = FragmentedTombstones::empty();
    for table in tables.iter_mut() {
        let within = clipped(tombstones, table, &older.version.comparator);
        let first_level = compaction.output_level + 1;
        table.shadowed_bytes = ranges::shadowed_by(older, &within, &none, first_level);
    }
    let by_ranges = total(tables.iter().map(|table| table.shadowed_bytes));
    let by_entries = still_shadowed.saturating_sub(by_ranges);
    if by_entries == 0 {
        return;
    }
    let inputs = compaction.all_inputs().map(|(_, file)| &**file);
    let hiding: Vec<&TableFile> = inputs.filter(|file| file.shadowed_bytes() > 0).collect();
    let mut weights: Vec<f64> = tables
        .iter()
        .map(|table| {
            hiding
                .iter()
                .map(|file| shadowed_at(file, table, older))
                .sum()
        })
        .collect();
    if weights.iter().all(|weight| *weight == 0.0) {
        weights = tables.iter().map(|table| data_size(table) as f64).collect();
    }
    let all: f64 = weights.iter().sum();
    for (table, weight) in tables.iter_mut().zip(weights) {
        let part = by_entries as f64 * (weight / all.max(1.0));
        table.shadowed_bytes = table.shadowed_bytes.saturating_add(part as u64);
    }
}

/// The parts of range deletions that are within a table written.
fn clipped(
    tombstones: &FragmentedTombstones,
    table: &OutputTable,
    comparator: &InternalKeyComparator,
) -> Vec<Fragment> {
    let smallest = Bytes::copy_from_slice(user_key(&table.summary.smallest));
    let largest = Bytes::copy_from_slice(user_key(&table.summary.largest));
    let before = |a: &Bytes, b: &Bytes| comparator.compare_user(a, b).is_lt();
    let parts = tombstones.fragments().iter().map(|fragment| {
        let mut part = fragment.clone();
        if before(&part.start, &smallest) {
            part.start = smallest.clone();
        }
        if before(&largest, &part.end) {
            part.end = largest.clone();
        }
        part
    });
    parts
        .filter(|part| before(&part.start, &part.end))
        .collect()
}

/// Bytes that an input shadowed in the key range of the table written.
fn shadowed_at(file: &TableFile, table: &OutputTable, older: OlderTables<'_>) -> f64 {
    let comparator = &older.version.comparator;
    let opened = older.open_files.table(file.meta.identity(), comparator);
    let (smallest, largest) = (&table.summary.smallest, &table.summary.largest);
    let share = opened.map_or(0.0, |t| {
        t.share_between(user_key(smallest), user_key(largest))
    });
    file.shadowed_bytes() as f64 * share
}

fn data_size(table: &OutputTable) -> u64 {
    let values = table.summary.blob_refs.iter().map(|refs| refs.bytes);
    table.summary.file_size.saturating_add(total(values))
}
