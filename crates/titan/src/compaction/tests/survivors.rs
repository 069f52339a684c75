//! Every history of one key, cut by snapshots in every way, its operations compacted in every
//! order: the result of every reader stays the same, and at the end nothing is left that no reader
//! needs.
//!
//! At first each operation is in a sorted run of its own. A step compacts two neighbouring runs as
//! a job does, given the content of the runs below.

use std::sync::Arc;

use bytes::Bytes;

use super::{order, stride};
use crate::compaction::building::filter::JobFilter;
use crate::compaction::building::merge::{SurvivorIterator, surviving_tombstones};
use crate::compaction::building::older_versions::OlderVersions;
use crate::compaction::building::references::ReferenceCounts;
use crate::error::{Error, Result};
use crate::filter::KeysBelow;
use crate::format::blob_index::BlobIndex;
use crate::format::internal_key::{ParsedInternalKey, ValueType, internal_key};
use crate::format::range_tombstone::RangeTombstone;
use crate::format::{BlobFileNumber, CompressionType, SequenceNumber};
use crate::iterator::InternalIterator;
use crate::range_del::{FragmentedTombstones, TombstoneCursor};

const KEY: &[u8] = b"k";

/// The value that filters write.
pub(super) const CHANGED: &[u8] = b"changed";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Put,
    /// A value that a filter has changed.
    Changed,
    /// A value in a blob file.
    Pointer,
    Delete,
    Single,
    /// A range deletion over the key.
    Range,
}

impl Op {
    pub(super) fn is_value(self) -> bool {
        matches!(self, Op::Put | Op::Changed | Op::Pointer)
    }

    fn value_type(self) -> ValueType {
        match self {
            Op::Put | Op::Changed => ValueType::Value,
            Op::Pointer => ValueType::BlobIndex,
            Op::Delete => ValueType::Deletion,
            Op::Single => ValueType::SingleDeletion,
            Op::Range => ValueType::RangeDeletion,
        }
    }

    fn of(value_type: ValueType, value: &[u8]) -> Op {
        if value_type == ValueType::Value && value == CHANGED {
            return Op::Changed;
        }
        let all = [Op::Put, Op::Pointer, Op::Delete, Op::Single, Op::Range];
        let op = all.into_iter().find(|op| op.value_type() == value_type);
        op.unwrap()
    }
}

/// The operations in one sorted run, newest first, with their sequence numbers.
pub(super) type Run = Vec<Entry>;

pub(super) type Entry = (u64, Op);

/// The value found by a reader that takes the newest of all entries, as scans do.
pub(super) fn by_age(runs: &[Run], reader: u64) -> Option<u64> {
    let all = runs.iter().flatten().filter(|(at, _)| *at <= reader);
    let newest = all.max_by_key(|(at, _)| *at)?;
    newest.1.is_value().then_some(newest.0)
}

/// The value found by a reader that takes the first entry from the top, as lookups do.
pub(super) fn by_level(runs: &[Run], reader: u64) -> Option<u64> {
    for run in runs {
        let mut seen = run.iter().filter(|(at, _)| *at <= reader);
        let covered = seen.clone().find(|(_, op)| *op == Op::Range);
        let covered = covered.map_or(0, |(at, _)| *at);
        match seen.find(|(_, op)| *op != Op::Range) {
            Some((at, op)) => return (*at > covered && op.is_value()).then_some(*at),
            None if covered > 0 => return None,
            None => {}
        }
    }
    None
}

/// Whether nothing is below.
pub(super) struct Nothing(pub(super) bool);

impl KeysBelow for Nothing {
    fn nothing_in(&self, _: &[u8], _: &[u8]) -> bool {
        self.0
    }
}

impl OlderVersions for Nothing {
    fn nothing_at(&mut self, _: &[u8]) -> bool {
        self.0
    }
}

/// A list of entries that is read forward.
pub(super) struct Entries {
    pub(super) list: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) at: usize,
}

impl InternalIterator for Entries {
    fn valid(&self) -> bool {
        self.at < self.list.len()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.list.get(self.at).map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.list.get(self.at).map_or(&[], |(_, value)| value)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        Err(Error::internal("not used"))
    }

    fn seek(&mut self, _: &[u8]) -> Result<()> {
        Err(Error::internal("not used"))
    }

    fn seek_for_prev(&mut self, _: &[u8]) -> Result<()> {
        Err(Error::internal("not used"))
    }

    fn prev(&mut self) -> Result<()> {
        Err(Error::internal("not used"))
    }
}

fn entry(at: u64, op: Op) -> (Vec<u8>, Vec<u8>) {
    let key = internal_key(KEY, SequenceNumber(at), op.value_type() as u8);
    let mut value = Vec::new();
    if op == Op::Changed {
        value.extend_from_slice(CHANGED);
    }
    if op == Op::Pointer {
        let index = BlobIndex {
            file: BlobFileNumber(1),
            offset: 1000 * at,
            size: 100,
            compression: CompressionType::None,
        };
        index.encode(&mut value);
    }
    (key, value)
}

/// Output of a compaction of these operations, newest first.
pub(super) fn compact(
    input: &[Entry],
    nothing_below: bool,
    snapshots: &[SequenceNumber],
    filter: Option<JobFilter<'_>>,
) -> Result<Run> {
    let order = order();
    let points = input.iter().filter(|(_, op)| *op != Op::Range);
    let input_points = Entries {
        list: points.map(|(at, op)| entry(*at, *op)).collect(),
        at: 0,
    };
    let ranges = input.iter().filter(|(_, op)| *op == Op::Range);
    let ranges = ranges.map(|(at, _)| RangeTombstone {
        start: Bytes::from_static(KEY),
        end: Bytes::from_static(b"l"),
        sequence: SequenceNumber(*at),
    });
    let tombstones = Arc::new(FragmentedTombstones::build(ranges, &order));
    let older = Nothing(nothing_below);
    let kept = surviving_tombstones(&tombstones, snapshots, &older);
    let cursor = TombstoneCursor::new(Arc::clone(&tombstones), order, SequenceNumber::MAX);
    let newest = SequenceNumber::MAX;
    let mut survivors = SurvivorIterator::new(
        input_points,
        older,
        newest,
        snapshots.to_vec(),
        cursor,
        None,
        filter,
    )?;
    let mut written = ReferenceCounts::default();
    let mut output: Run = Vec::new();
    while survivors.valid() {
        let parsed = ParsedInternalKey::parse(survivors.key())?;
        written.add(&parsed, survivors.value())?;
        let op = Op::of(parsed.value_type, survivors.value());
        output.push((parsed.sequence.0, op));
        survivors.next()?;
    }
    assert!(output.is_sorted_by(|a, b| a.0 > b.0), "{output:?}");
    let newest_written = input.iter().map(|(at, _)| *at).max();
    let newest_kept = kept.iter_tombstones().map(|t| t.sequence.0).max();
    let newest_kept = newest_kept.max(output.iter().map(|(at, _)| *at).max());
    // That a key was written after a snapshot is known as long as the snapshot lives.
    if let (Some(oldest), Some(newest)) = (snapshots.first(), newest_written)
        && newest > oldest.0
    {
        assert_eq!(newest_kept, Some(newest), "{input:?} at {snapshots:?}");
    }
    let garbage = survivors.read_references().garbage(&written)?;
    let garbage: u64 = garbage.iter().map(|garbage| garbage.count).sum();
    output.extend(kept.iter_tombstones().map(|t| (t.sequence.0, Op::Range)));
    output.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let pointers = |run: &[Entry]| run.iter().filter(|(_, op)| *op == Op::Pointer).count() as u64;
    assert_eq!(
        garbage,
        pointers(input) - pointers(&output),
        "{input:?} {output:?}"
    );
    Ok(output)
}

/// A history of the key, by sequence number from 1 on, and the live snapshots.
#[derive(Debug)]
pub(super) struct History {
    pub(super) ops: Vec<Op>,
    pub(super) snapshots: Vec<SequenceNumber>,
}

impl History {
    pub(super) fn runs(&self) -> Vec<Run> {
        let numbered = (1..).zip(self.ops.iter().copied());
        let mut runs: Vec<Run> = numbered.map(|op| vec![op]).collect();
        runs.reverse();
        runs
    }

    pub(super) fn readers(&self) -> impl Iterator<Item = u64> {
        self.snapshots.iter().map(|s| s.0).chain([u64::MAX])
    }

    /// Compacts in every order, and returns the number of compactions.
    fn compact_in_every_order(&self) -> usize {
        let runs = self.runs();
        let found = self.readers().map(|reader| by_age(&runs, reader));
        let found: Vec<_> = found.collect();
        self.compact_on(&runs, &found)
    }

    fn compact_on(&self, runs: &[Run], expected: &[Option<u64>]) -> usize {
        let readers = || self.readers();
        let found: Vec<_> = readers().map(|reader| by_level(runs, reader)).collect();
        assert_eq!(found, expected, "by level, in {runs:?} of {self:?}");
        let found: Vec<_> = readers().map(|reader| by_age(runs, reader)).collect();
        assert_eq!(found, expected, "by age, in {runs:?} of {self:?}");
        let mut compactions = 0;
        for upper in 1..runs.len() {
            let (above, below) = (&runs[..upper - 1], &runs[upper + 1..]);
            let mut after = above.to_vec();
            after.push(self.merged(&runs[upper - 1], &runs[upper], below));
            after.extend_from_slice(below);
            compactions += 1 + self.compact_on(&after, expected);
        }
        if let [last] = runs {
            let released = compact(last, true, &[], None).unwrap();
            let newest = expected.last().copied().flatten();
            let left: Vec<u64> = released.iter().map(|(at, _)| *at).collect();
            assert_eq!(left, Vec::from_iter(newest), "left of {last:?} of {self:?}");
        }
        compactions
    }

    fn merged(&self, upper: &[Entry], lower: &[Entry], below: &[Run]) -> Run {
        let input = [upper, lower].concat();
        let is_point = |entry: &Entry| entry.1 != Op::Range;
        let nothing_below = !below.iter().flatten().any(is_point);
        compact(&input, nothing_below, &self.snapshots, None)
            .unwrap_or_else(|e| panic!("{e}: {input:?} over {below:?} of {self:?}"))
    }
}

/// Every set of snapshots between and after so many operations.
pub(in crate::compaction) fn every_snapshots(
    ops: usize,
) -> impl Iterator<Item = Vec<SequenceNumber>> {
    (0_usize..1 << ops).map(move |set| {
        let at = (0..ops).filter(|at| (set >> at) & 1 == 1);
        at.map(|at| SequenceNumber(at as u64 + 1)).collect()
    })
}

/// Every list of `len` operations of `menu`.
pub(in crate::compaction) fn every_list<T: Copy>(
    menu: &[T],
    len: u32,
) -> impl Iterator<Item = Vec<T>> {
    (0..menu.len().pow(len)).map(move |index| {
        let digit = |at| index / menu.len().pow(at) % menu.len();
        (0..len).map(|at| menu[digit(at)]).collect()
    })
}

fn compact_all(lists: impl Iterator<Item = Vec<Op>>, stride: usize) -> usize {
    let histories = lists.flat_map(|ops| {
        let snapshots = every_snapshots(ops.len());
        snapshots.map(move |snapshots| History {
            ops: ops.clone(),
            snapshots,
        })
    });
    let taken = histories.step_by(stride);
    taken.map(|history| history.compact_in_every_order()).sum()
}

#[test]
fn values_and_deletions_survive_as_readers_need_them() {
    let menu = [Op::Put, Op::Pointer, Op::Delete, Op::Range];
    let mut compactions = 0;
    for len in 1..=4 {
        compactions += compact_all(every_list(&menu, len), 1);
    }
    compactions += compact_all(every_list(&menu, 5), stride(13, 1));
    assert!(compactions > 60_000, "{compactions}");
}

#[test]
fn single_deletions_meet_their_values_and_no_others() {
    let values = [Op::Put, Op::Pointer];
    let mut compactions = 0;
    // A value and its single deletion in turn: all else is not allowed for such a key.
    for len in 1..=6_u32 {
        let lists = every_list(&values, len.div_ceil(2)).map(|values| {
            let mut values = values.into_iter();
            let ops = (0..len).map(|at| match at.is_multiple_of(2) {
                true => values.next().unwrap(),
                false => Op::Single,
            });
            ops.collect()
        });
        compactions += compact_all(lists, if len == 6 { stride(3, 1) } else { 1 });
    }
    assert!(compactions > 30_000, "{compactions}");
}
