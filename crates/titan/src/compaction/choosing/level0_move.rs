//! Decides whether the tables of level 0 can change level as they are. This is for keys that are
//! written in order: merging them would rewrite everything and drop nothing.

use std::sync::Arc;

use crate::compaction::building::inputs::Compaction;
use crate::compaction::building::output::max_overlap;
use crate::options::ColumnFamilyOptions;
use crate::sorting;
use crate::version::{TableFile, Version};

/// If the mean size of the tables is less than this fraction of the target size, they are merged:
/// otherwise many small tables would remain for ever.
const MIN_SHARE_OF_TARGET: u64 = 4;

/// Whether the inputs, all of level 0, can be moved together if the output level has nothing in
/// their range.
pub(super) fn is_possible(compaction: &Compaction, options: &ColumnFamilyOptions) -> bool {
    let (tables, version) = (&compaction.inputs, &compaction.version);
    let bytes: u64 = tables.iter().map(|table| table.size()).sum();
    let target = options.target_file_size_base;
    let least = (tables.len() as u64).saturating_mul(target / MIN_SHARE_OF_TARGET);
    let overlapped = |table: &TableFile| {
        let next_level = compaction.output_level + 1;
        version.overlapped_bytes(next_level, table)
    };
    let may_overlap = mutant!(level_0_moves_what_overlaps);
    bytes >= least
        && !tables.iter().any(|table| may_delete(table))
        && (are_disjoint(tables, version) || may_overlap)
        && (tables.iter()).all(|table| overlapped(table) <= max_overlap(target))
}

/// A merge drops tombstones with nothing below them. Trivial moves would keep them for ever.
fn may_delete(table: &TableFile) -> bool {
    let has_deletions = table.facts().is_none_or(|facts| facts.num_deletions > 0);
    has_deletions || table.may_have_tombstones()
}

/// Whether tables may be neighbours in a sorted level: none has a user key of another's range.
fn are_disjoint(tables: &[Arc<TableFile>], version: &Version) -> bool {
    let mut sorted: Vec<&TableFile> = tables.iter().map(Arc::as_ref).collect();
    let order = &version.comparator;
    sorting::sort_by(&mut sorted, |a, b| {
        order.compare_user(a.smallest_user_key(), b.smallest_user_key())
    });
    sorted.windows(2).all(|pair| match pair {
        [a, b] => !version.overlaps(b, Some(a.smallest_user_key()), a.end()),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::internal_key::{InternalKeyComparator, ValueType, internal_key};
    use crate::format::{BytewiseComparator, ColumnFamilyId, FileNumber, SequenceNumber};
    use crate::version::ObsoleteFiles;
    use crate::version::edit::{NewFile, TableFacts};

    fn table(smallest: &str, largest: Vec<u8>, deletions: u64) -> Arc<TableFile> {
        let meta = NewFile {
            number: FileNumber(1),
            size: 100,
            smallest: internal_key(
                smallest.as_bytes(),
                SequenceNumber(1),
                ValueType::Value as u8,
            ),
            largest,
            ..NewFile::default()
        };
        let facts = TableFacts {
            num_entries: 2,
            num_deletions: deletions,
            ..TableFacts::default()
        };
        Arc::new(TableFile::new(meta, Some(facts), &Arc::default()))
    }

    /// A table from one key to another, that one included.
    fn up_to(smallest: &str, largest: &str) -> Arc<TableFile> {
        let largest = internal_key(
            largest.as_bytes(),
            SequenceNumber(1),
            ValueType::Value as u8,
        );
        table(smallest, largest, 0)
    }

    /// A table that ends with a deletion of keys before `end`.
    fn before(smallest: &str, end: &str) -> Arc<TableFile> {
        let end = internal_key(
            end.as_bytes(),
            SequenceNumber::MAX,
            ValueType::RangeDeletion as u8,
        );
        table(smallest, end, 0)
    }

    #[test]
    fn neighbours_share_no_user_key() {
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let version = Version::empty(ColumnFamilyId::DEFAULT, comparator, 7);
        let disjoint = |tables: &[Arc<TableFile>]| are_disjoint(tables, &version);
        assert!(disjoint(&[
            up_to("e", "f"),
            up_to("a", "b"),
            up_to("c", "d")
        ]));
        assert!(!disjoint(&[up_to("c", "d"), up_to("a", "c")]));
        assert!(!disjoint(&[up_to("a", "z"), up_to("c", "d")]));
        assert!(!disjoint(&[up_to("a", "b"), up_to("a", "a")]));
        assert!(disjoint(&[before("a", "c"), up_to("c", "d")]));
        assert!(!disjoint(&[before("a", "d"), up_to("c", "d")]));
    }

    #[test]
    fn deletions_are_not_moved() {
        let largest = internal_key(b"b", SequenceNumber(1), ValueType::Deletion as u8);
        assert!(may_delete(&table("a", largest, 1)));
        assert!(!may_delete(&up_to("a", "b")));
        let unknown = NewFile::default();
        let queue: Arc<ObsoleteFiles> = Arc::default();
        assert!(may_delete(&TableFile::new(unknown, None, &queue)));
    }
}
