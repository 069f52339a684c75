//! Compactions of small worlds: every arrangement of a few tables over a few keys, compared with
//! brute force.
//!
//! | file | enumerates |
//! |---|---|
//! | `picks` | the bounds of tables: which of them must be compacted together, which may be moved |
//! | `below` | the bounds of tables: whether a key can be below a compaction |
//! | `survivors` | the history of one key: which entries survive, in every order of compactions |
//! | `filtered` | the same with compaction filters |
//! | `worlds`, with `shapes` and `readers` | histories in real tables: reads after compactions |
//!
//! A run takes a part of the larger enumerations, the same part each time. With
//! `TITAN_ALL_WORLDS=1` in the environment it takes all of them, except for those of two runs of
//! two operations each, which are too many.

mod below;
mod filtered;
#[cfg(workspace)]
mod golden;
mod merges;
mod picks;
mod readers;
mod shapes;
pub(super) mod survivors;
mod worlds;

use std::sync::Arc;

use super::building::inputs::Compaction;
use super::choosing::budget::{Budget, Fitting};
use super::choosing::levels::Circumstances;
use super::choosing::picker;
use crate::format::internal_key::{InternalKeyComparator, ValueType, internal_key};
use crate::format::{BytewiseComparator, ColumnFamilyId, FileNumber, SequenceNumber};
use crate::options::ColumnFamilyOptions;
use crate::version::edit::{NewFile, TableFacts};
use crate::version::state::blob_set::BlobSet;
use crate::version::state::level::Level;
use crate::version::{TableFile, Version};

/// The distance between two indexes that a run takes of an enumeration: `usual`, or `long` in a
/// long run.
pub(super) fn stride(usual: usize, long: usize) -> usize {
    match std::env::var_os("TITAN_ALL_WORLDS") {
        Some(_) => long,
        None => usual,
    }
}

const NO_SNAPSHOTS: Circumstances = Circumstances {
    idle_cleanup: false,
    oldest_snapshot: None,
    garbage_moment: 0,
    long_dead_ranges: 0,
};

/// The compaction that is picked where room is no matter.
fn pick_any(version: &Arc<Version>, options: &ColumnFamilyOptions) -> Option<Compaction> {
    let mut fitting = Fitting::new(Budget::UNLIMITED, options, NO_SNAPSHOTS);
    picker::pick(version, options, NO_SNAPSHOTS, &mut fitting)
}

fn order() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(BytewiseComparator))
}

/// The user key at a point of the key space. Tables begin and end at even points; keys at odd
/// points lie between those.
fn key(point: usize) -> String {
    let letter = char::from(b"abcdefgh"[point / 2]);
    match point.is_multiple_of(2) {
        true => letter.to_string(),
        false => format!("{letter}5"),
    }
}

/// The points from the first to the last one that a table may have. The first is even. If the last
/// is odd, the table ends with a range tombstone, before the next even point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: usize,
    last: usize,
}

impl Span {
    /// Every span over so many keys.
    fn all(keys: usize) -> Vec<Span> {
        let firsts = (0..2 * keys).step_by(2);
        let spans =
            firsts.flat_map(|first| (first..2 * keys).map(move |last| Span { first, last }));
        spans.collect()
    }

    fn has(self, point: usize) -> bool {
        (self.first..=self.last).contains(&point)
    }

    fn meets(self, other: Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The smallest span with both.
    fn with(self, other: Span) -> Span {
        Span {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }
}

/// Every sorted level of at most `tables` tables over so many keys. Neighbours may share a user
/// key, as RocksDB writes them.
fn sorted_levels(keys: usize, tables: usize) -> Vec<Vec<Span>> {
    let mut found = vec![Vec::new()];
    let mut begin = 0;
    for _ in 0..tables {
        let end = found.len();
        for at in begin..end {
            let level: Vec<Span> = found[at].clone();
            for next in Span::all(keys) {
                if level.last().is_none_or(|last| next.first >= last.last) {
                    found.push([&level[..], &[next]].concat());
                }
            }
        }
        begin = end;
    }
    found
}

/// A table of 100 bytes without deletions. Of tables that share a user key, the one with the larger
/// number has the older versions.
fn table(number: usize, span: Span) -> Arc<TableFile> {
    let newest = SequenceNumber(1000 - 2 * number as u64);
    let oldest = SequenceNumber(newest.0 - 1);
    let value = ValueType::Value as u8;
    let largest = match span.last.is_multiple_of(2) {
        true => internal_key(key(span.last).as_bytes(), oldest, value),
        false => {
            let end = key(span.last + 1);
            let sentinel = ValueType::RangeDeletion as u8;
            internal_key(end.as_bytes(), SequenceNumber::MAX, sentinel)
        }
    };
    let meta = NewFile {
        number: FileNumber(number as u64),
        size: 100,
        smallest: internal_key(key(span.first).as_bytes(), newest, value),
        largest,
        smallest_seq: oldest,
        largest_seq: newest,
        ..NewFile::default()
    };
    let facts = TableFacts {
        table: meta.number,
        num_entries: 2,
        ..TableFacts::default()
    };
    Arc::new(TableFile::new(meta, Some(facts), &Arc::default()))
}

/// Tables of these spans, numbered from `first` on.
fn tables(first: usize, spans: &[Span]) -> Vec<Arc<TableFile>> {
    let numbered = spans.iter().enumerate();
    numbered.map(|(n, span)| table(first + n, *span)).collect()
}

/// A version with these levels. Level 0 comes newest first.
fn version(levels: &[Vec<Arc<TableFile>>]) -> Arc<Version> {
    let order = order();
    let made = levels
        .iter()
        .enumerate()
        .map(|(level, tables)| match level {
            0 => Level::newest_first(tables, &order),
            _ => Level::sorted(tables.clone(), &order),
        });
    let made = made.collect();
    let empty = Version::empty(ColumnFamilyId::DEFAULT, order.clone(), levels.len());
    Arc::new(empty.with_files(made, BlobSet::default()))
}
