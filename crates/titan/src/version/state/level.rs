//! The tables of one level, in pieces that versions share, with sums over them.
//!
//! A sorted level is one piece, because a compaction that changes it rewrites far more than a list.
//! Level 0 grows by a table with every flush, and may have thousands of tables if compactions are
//! disabled. So a flush copies at most the piece with the newest tables.

use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use super::files::TableFile;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{FileNumber, total};

/// The most tables of a piece of level 0.
const PIECE: usize = 64;

/// Tables in the order of a level.
pub(crate) type Tables = Arc<[Arc<TableFile>]>;

/// Sums over the tables of a level, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelSums {
    /// Sizes of the files.
    pub(crate) size: u64,
    /// See [`TableFile::logical_size`].
    pub(crate) logical_size: u64,
    /// See [`TableFile::shadowed_bytes`].
    pub(crate) shadowed: u64,
    /// See [`TableFile::reported_garbage_ever`].
    pub(crate) reported_garbage: u64,
    /// See [`TableFile::compensated_size`].
    pub(crate) compensated: u64,
    /// Sizes of the files whose entries are counted.
    pub(crate) counted_size: u64,
    /// Entries, as far as they are counted.
    pub(crate) entries: u64,
    /// See [`TableFile::num_deletions`].
    pub(crate) deletions: u64,
    /// See [`TableFile::tombstones`]; a number.
    pub(crate) tombstones: u64,
    /// See [`TableFile::droppable`]; a number.
    pub(crate) droppable: u64,
}

impl LevelSums {
    fn of(tables: &[Arc<TableFile>]) -> Self {
        let sum = |of: fn(&TableFile) -> u64| total(tables.iter().map(|f| of(f)));
        LevelSums {
            size: sum(TableFile::size),
            logical_size: sum(TableFile::logical_size),
            shadowed: sum(TableFile::shadowed_bytes),
            reported_garbage: sum(TableFile::reported_garbage_ever),
            compensated: sum(TableFile::compensated_size),
            counted_size: sum(|table| table.facts().map_or(0, |_| table.size())),
            entries: sum(|table| table.facts().map_or(0, |facts| facts.num_entries)),
            deletions: sum(TableFile::num_deletions),
            tombstones: sum(TableFile::tombstones),
            droppable: sum(TableFile::droppable),
        }
    }

    fn plus(self, other: Self) -> Self {
        LevelSums {
            size: self.size.saturating_add(other.size),
            logical_size: self.logical_size.saturating_add(other.logical_size),
            shadowed: self.shadowed.saturating_add(other.shadowed),
            reported_garbage: self.reported_garbage.saturating_add(other.reported_garbage),
            compensated: self.compensated.saturating_add(other.compensated),
            counted_size: self.counted_size.saturating_add(other.counted_size),
            entries: self.entries.saturating_add(other.entries),
            deletions: self.deletions.saturating_add(other.deletions),
            tombstones: self.tombstones.saturating_add(other.tombstones),
            droppable: self.droppable.saturating_add(other.droppable),
        }
    }
}

/// Neighbouring tables of a level.
pub(crate) struct Piece {
    pub(crate) tables: Tables,
    /// The index of the table with the smallest user key.
    pub(crate) smallest: usize,
    /// The index of the table that ends last.
    pub(crate) last: usize,
    pub(crate) newest: FileNumber,
    pub(crate) may_have_tombstones: bool,
    pub(crate) sums: LevelSums,
}

impl Piece {
    fn new(tables: Tables, comparator: &InternalKeyComparator) -> Self {
        let (mut smallest, mut last) = (0, 0);
        for (at, table) in tables.iter().enumerate() {
            let is_smaller = |than: &Arc<TableFile>| {
                let (key, than) = (table.smallest_user_key(), than.smallest_user_key());
                comparator.compare_user(key, than).is_lt()
            };
            let ends_behind = |other: &Arc<TableFile>| {
                let (key, other) = (table.largest_user_key(), other.largest_user_key());
                comparator.compare_user(key, other).is_ge()
            };
            if tables.get(smallest).is_some_and(is_smaller) {
                smallest = at;
            }
            if tables.get(last).is_some_and(ends_behind) {
                last = at;
            }
        }
        invariant!(
            smallest < tables.len() && last < tables.len(),
            "a piece of a level has no tables"
        );
        let newest = tables.iter().map(|f| f.number()).max();
        Piece {
            smallest,
            last,
            newest: newest.unwrap_or_default(),
            may_have_tombstones: tables.iter().any(|f| f.may_have_tombstones()),
            sums: LevelSums::of(&tables),
            tables,
        }
    }

    /// Whether one of its tables may overlap the keys from `begin` to `end`.
    fn may_meet(
        &self,
        comparator: &InternalKeyComparator,
        begin: &[u8],
        end: Bound<&[u8]>,
    ) -> bool {
        let (Some(smallest), Some(last)) =
            (self.tables.get(self.smallest), self.tables.get(self.last))
        else {
            return false;
        };
        let starts_after = comparator.is_beyond(smallest.smallest_user_key(), end);
        // Whether the last key itself belongs to the table is not checked here.
        let last = last.largest_user_key();
        !starts_after && comparator.compare_user(last, begin).is_ge()
    }
}

/// See the [module](self) documentation. Level 0 comes newest first, the others by key.
#[derive(Clone, Default)]
pub struct Level {
    pub(crate) pieces: Vec<Arc<Piece>>,
    pub(crate) len: usize,
    pub(crate) sums: LevelSums,
}

impl Level {
    /// A level without tables.
    pub(crate) fn none() -> &'static Level {
        static NONE: LazyLock<Level> = LazyLock::new(Level::default);
        &NONE
    }

    /// A sorted level of tables that are in order.
    pub(crate) fn sorted(tables: Vec<Arc<TableFile>>, comparator: &InternalKeyComparator) -> Self {
        let is_before = |a: &Arc<TableFile>, b: &Arc<TableFile>| {
            comparator
                .compare(&a.meta.largest, &b.meta.smallest)
                .is_lt()
        };
        invariant!(
            tables.is_sorted_by(is_before),
            "tables of a sorted level overlap or are out of order: {:?}",
            tables
                .iter()
                .map(|table| table.number())
                .collect::<Vec<_>>()
        );
        match tables.is_empty() {
            true => Level::default(),
            false => Level::of([Piece::new(tables.into(), comparator)]),
        }
    }

    /// A level 0 of these tables, which come newest first.
    pub(crate) fn newest_first(
        tables: &[Arc<TableFile>],
        comparator: &InternalKeyComparator,
    ) -> Self {
        let pieces = tables.chunks(PIECE);
        let level = Level::of(pieces.map(|tables| Piece::new(tables.into(), comparator)));
        invariant!(
            level.len == tables.len() && level.iter().zip(tables).all(|(a, b)| Arc::ptr_eq(a, b)),
            "level 0 has other tables than those that it was made of"
        );
        level
    }

    fn of(pieces: impl IntoIterator<Item = Piece>) -> Self {
        let pieces: Vec<_> = pieces.into_iter().map(Arc::new).collect();
        Level {
            len: pieces.iter().map(|piece| piece.tables.len()).sum(),
            sums: pieces
                .iter()
                .fold(LevelSums::default(), |sums, piece| sums.plus(piece.sums)),
            pieces,
        }
    }

    /// This level 0 with a table that is newer than all others.
    pub(crate) fn with_newest(
        &self,
        table: Arc<TableFile>,
        comparator: &InternalKeyComparator,
    ) -> Self {
        invariant!(
            self.newest_number() < Some(table.number()),
            "table {} is added to level 0 as the newest, after {:?}",
            table.number(),
            self.newest_number()
        );
        let mut level = self.clone();
        let mut tables = vec![table];
        level.len += 1;
        level.sums = level.sums.plus(LevelSums::of(&tables));
        match level.pieces.first_mut() {
            Some(first) if first.tables.len() < PIECE => {
                tables.extend(first.tables.iter().cloned());
                *first = Arc::new(Piece::new(tables.into(), comparator));
            }
            _ => {
                let piece = Piece::new(tables.into(), comparator);
                level.pieces.insert(0, Arc::new(piece));
            }
        }
        invariant!(
            level.len == self.len + 1 && level.len == level.iter().count(),
            "level 0 counts {} tables after one was added to {}",
            level.len,
            self.len
        );
        level
    }

    /// The largest number of its tables.
    pub(crate) fn newest_number(&self) -> Option<FileNumber> {
        self.pieces.iter().map(|piece| piece.newest).max()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<TableFile>> + Clone {
        self.pieces.iter().flat_map(|piece| piece.tables.iter())
    }

    pub(crate) fn to_vec(&self) -> Vec<Arc<TableFile>> {
        self.iter().cloned().collect()
    }

    /// The tables of a sorted level.
    pub(crate) fn tables(&self) -> &[Arc<TableFile>] {
        self.pieces.first().map_or(&[], |piece| &piece.tables)
    }

    /// The tables of a sorted level, shared.
    pub(crate) fn shared_tables(&self) -> Tables {
        let first = self.pieces.first();
        first.map_or_else(Tables::default, |piece| Arc::clone(&piece.tables))
    }

    /// The tables of level 0 that are not known to end before `begin` or to start after `end`,
    /// newest first. Skips whole pieces where possible.
    pub(crate) fn near<'a>(
        &'a self,
        comparator: &'a InternalKeyComparator,
        begin: &'a [u8],
        end: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<TableFile>> {
        let pieces = self.pieces.iter();
        let pieces = pieces.filter(move |piece| piece.may_meet(comparator, begin, end));
        pieces.flat_map(|piece| piece.tables.iter())
    }

    /// Sums over the tables.
    pub(crate) fn sums(&self) -> LevelSums {
        self.sums
    }

    /// Whether a table has range tombstones, or may have.
    pub(crate) fn may_have_tombstones(&self) -> bool {
        self.pieces.iter().any(|piece| piece.may_have_tombstones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::internal_key::{ValueType, internal_key};
    use crate::format::{BytewiseComparator, SequenceNumber};
    use crate::version::edit::NewFile;

    fn comparator() -> InternalKeyComparator {
        InternalKeyComparator::new(Arc::new(BytewiseComparator))
    }

    /// A table of two keys.
    fn table(number: u64, from: u64, to: u64) -> Arc<TableFile> {
        let key = |n: u64| {
            let key = format!("{n:04}");
            internal_key(key.as_bytes(), SequenceNumber(1), ValueType::Value as u8)
        };
        let meta = NewFile {
            number: FileNumber(number),
            size: number,
            smallest: key(from),
            largest: key(to),
            ..NewFile::default()
        };
        Arc::new(TableFile::new(meta, None, &Arc::default()))
    }

    #[test]
    fn a_level_that_grows_is_the_one_that_is_made_at_once_and_shares_its_pieces() {
        let tables: Vec<_> = (0..300).map(|n| table(n, n, n + 3)).collect();
        let comparator = comparator();
        let mut grown = Level::default();
        for (n, table) in tables.iter().enumerate() {
            let before = grown.clone();
            grown = grown.with_newest(Arc::clone(table), &comparator);
            let new = |piece: &&Arc<Piece>| !before.pieces.iter().any(|b| Arc::ptr_eq(b, piece));
            assert_eq!(grown.pieces.iter().filter(new).count(), 1);
            assert_eq!((before.len(), grown.len()), (n, n + 1));
        }
        let newest_first: Vec<_> = tables.iter().rev().cloned().collect();
        let made = Level::newest_first(&newest_first, &comparator);
        let numbers = |level: &Level| level.iter().map(|f| f.number()).collect::<Vec<_>>();
        assert_eq!(numbers(&grown), numbers(&made));
        assert_eq!(grown.sums(), made.sums());
        assert_eq!(grown.newest_number(), Some(FileNumber(299)));
        assert_eq!(grown.sums().size, (0..300).sum::<u64>());
    }

    #[test]
    fn no_table_that_meets_a_range_is_passed_over() {
        let mut rng = fastrand::Rng::with_seed(7);
        let tables: Vec<_> = (0..500)
            .map(|n| {
                let from = rng.u64(..1000);
                table(n, from, from + rng.u64(..20))
            })
            .collect();
        let comparator = comparator();
        let level = Level::newest_first(&tables, &comparator);
        for n in 0..1000 {
            let (begin, end) = (format!("{n:04}"), format!("{:04}", n + 2));
            let (begin, end) = (begin.as_bytes(), end.as_bytes());
            let meets =
                |f: &&Arc<TableFile>| f.smallest_user_key() <= end && f.largest_user_key() >= begin;
            let near = level.near(&comparator, begin, Bound::Included(end));
            let near: Vec<_> = near.filter(meets).map(|f| f.number()).collect();
            let all: Vec<_> = level.iter().filter(meets).map(|f| f.number()).collect();
            assert_eq!(near, all, "{n}");
        }
        let none = Level::newest_first(&tables[..64], &comparator);
        assert_eq!(none.near(&comparator, b"2", Bound::Unbounded).count(), 0);
    }
}
