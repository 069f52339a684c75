//! Every history of one key, cut by snapshots in every way, its operations compacted in every
//! order: the result of every reader stays the same, and at the end nothing is left that no reader
//! needs.
//!
//! At first each operation is in a sorted run of its own. A step compacts two neighbouring runs as
//! a job does, given the content of the runs below.

use std::sync::Arc;

use bytes::Bytes;

use super::{order, stride};
use crate::compaction::building::combine::Combiner;
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
use crate::histories::every_list;
use crate::iterator::InternalIterator;
use crate::range_del::{FragmentedTombstones, TombstoneCursor};

pub(super) const KEY: &[u8] = b"k";

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
    fn is_value(self) -> bool {
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
type Run = Vec<Entry>;

type Entry = (u64, Op);

/// The value that a reader finds who takes the newest of all entries, as scans do.
fn by_age(runs: &[Run], reader: u64) -> Option<u64> {
    let all = runs.iter().flatten().filter(|(at, _)| *at <= reader);
    let newest = all.max_by_key(|(at, _)| *at)?;
    newest.1.is_value().then_some(newest.0)
}

/// The value that a reader finds who takes the first entry from the top, as lookups do.
fn by_level(runs: &[Run], reader: u64) -> Option<u64> {
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
struct Nothing(bool);

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
struct Entries {
    list: Vec<(Vec<u8>, Vec<u8>)>,
    at: usize,
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

fn written(at: u64, op: Op) -> Written {
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
    (at, op.value_type(), value)
}

/// An entry as it is written: its sequence number, its type, its value.
pub(super) type Written = (u64, ValueType, Vec<u8>);

/// Output of a job over these entries of the key, newest first, and the number of pointers that it
/// has dropped.
pub(super) fn job(
    input: &[Written],
    nothing_below: bool,
    snapshots: &[SequenceNumber],
    combiner: Option<Combiner>,
    filter: Option<JobFilter<'_>>,
) -> Result<(Vec<Written>, u64)> {
    let order = order();
    let is_range = |entry: &&Written| entry.1 == ValueType::RangeDeletion;
    let points = input.iter().filter(|entry| !is_range(entry));
    let points = points.map(|(at, value_type, value)| {
        let key = internal_key(KEY, SequenceNumber(*at), *value_type as u8);
        (key, value.clone())
    });
    let list = points.collect();
    let ranges = input
        .iter()
        .filter(is_range)
        .map(|(at, ..)| RangeTombstone {
            start: Bytes::from_static(KEY),
            end: Bytes::from_static(b"l"),
            sequence: SequenceNumber(*at),
        });
    let tombstones = Arc::new(FragmentedTombstones::build(ranges, &order));
    let older = Nothing(nothing_below);
    let kept = surviving_tombstones(&tombstones, snapshots, &older);
    let cursor = TombstoneCursor::new(Arc::clone(&tombstones), order, SequenceNumber::MAX);
    let mut survivors = SurvivorIterator::new(
        Entries { list, at: 0 },
        older,
        SequenceNumber::MAX,
        snapshots.to_vec(),
        cursor,
        combiner,
        filter,
    )?;
    let mut written = ReferenceCounts::default();
    let mut output: Vec<Written> = Vec::new();
    while survivors.valid() {
        let parsed = ParsedInternalKey::parse(survivors.key())?;
        written.add(&parsed, survivors.value())?;
        let value = survivors.value().to_vec();
        output.push((parsed.sequence.0, parsed.value_type, value));
        survivors.next()?;
    }
    assert!(output.is_sorted_by(|a, b| a.0 > b.0), "{output:?}");
    let garbage = survivors.read_references().garbage(&written)?;
    let ranges = kept.iter_tombstones();
    output.extend(ranges.map(|t| (t.sequence.0, ValueType::RangeDeletion, Vec::new())));
    output.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    // That a key was written after a snapshot is known as long as the snapshot lives.
    let newest_written = input.iter().map(|(at, ..)| *at).max();
    if let (Some(oldest), Some(newest)) = (snapshots.first(), newest_written)
        && newest > oldest.0
    {
        let newest_kept = output.first().map(|(at, ..)| *at);
        assert_eq!(newest_kept, Some(newest), "{input:?} at {snapshots:?}");
    }
    Ok((output, garbage.iter().map(|garbage| garbage.count).sum()))
}

/// Output of a compaction of these operations, newest first.
fn compact(
    input: &[Entry],
    nothing_below: bool,
    snapshots: &[SequenceNumber],
    filter: Option<JobFilter<'_>>,
) -> Result<Run> {
    let written: Vec<_> = input.iter().map(|(at, op)| written(*at, *op)).collect();
    let (output, garbage) = job(&written, nothing_below, snapshots, None, filter)?;
    let output = output.into_iter();
    let output: Run = output
        .map(|(at, value_type, value)| (at, Op::of(value_type, &value)))
        .collect();
    let pointers = |run: &[Entry]| run.iter().filter(|(_, op)| *op == Op::Pointer).count() as u64;
    assert_eq!(
        garbage,
        pointers(input) - pointers(&output),
        "{input:?} {output:?}"
    );
    Ok(output)
}

/// A judge of the runs between compactions.
pub(super) trait Judge {
    type Entry: Clone;
    /// The value that a reader finds.
    type Found;

    /// Checks what every reader finds, given what each found before, and returns it.
    fn look(&self, runs: &[Vec<Self::Entry>], before: &[Self::Found]) -> Vec<Self::Found>;

    /// The output of a compaction over these runs.
    fn compact(&self, input: &[Self::Entry], below: &[Vec<Self::Entry>]) -> Vec<Self::Entry>;

    /// Compacts the last run after the snapshots are released, and checks what is left.
    fn end(&self, last: &[Self::Entry], found: &[Self::Found]);
}

/// Compacts neighbours in every order, and returns the number of compactions.
pub(super) fn in_every_order<J: Judge>(
    judge: &J,
    runs: &[Vec<J::Entry>],
    before: &[J::Found],
) -> usize {
    let found = judge.look(runs, before);
    let mut compactions = 0;
    for upper in 1..runs.len() {
        let (above, below) = (&runs[..upper - 1], &runs[upper + 1..]);
        let input = [&runs[upper - 1][..], &runs[upper]].concat();
        let mut after = above.to_vec();
        after.push(judge.compact(&input, below));
        after.extend_from_slice(below);
        compactions += 1 + in_every_order(judge, &after, &found);
    }
    if let [last] = runs {
        judge.end(last, &found);
    }
    compactions
}

/// A compaction filter in a test: nothing, unless it says otherwise.
pub(super) trait Filter: std::fmt::Debug {
    fn of_job(&self) -> Option<JobFilter<'_>> {
        None
    }

    fn removes(&self, _: u64) -> bool {
        false
    }

    /// Whether it changes all values.
    fn changes(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct NoFilter;

impl Filter for NoFilter {}

/// A history of the key, by sequence number from 1 on, the live snapshots, and the filter of jobs.
#[derive(Debug)]
struct History<'a> {
    ops: Vec<Op>,
    snapshots: Vec<SequenceNumber>,
    filter: &'a dyn Filter,
}

impl History<'_> {
    fn readers(&self) -> impl Iterator<Item = u64> {
        self.snapshots.iter().map(|s| s.0).chain([u64::MAX])
    }

    fn compact_in_every_order(&self) -> usize {
        let numbered = (1..).zip(self.ops.iter().copied());
        let mut runs: Vec<Run> = numbered.map(|op| vec![op]).collect();
        runs.reverse();
        let found = self.readers().map(|reader| by_age(&runs, reader));
        in_every_order(self, &runs, &found.collect::<Vec<_>>())
    }
}

impl Judge for History<'_> {
    type Entry = Entry;
    type Found = Option<u64>;

    fn look(&self, runs: &[Run], before: &[Option<u64>]) -> Vec<Option<u64>> {
        let readers = || self.readers();
        let found: Vec<_> = readers().map(|reader| by_level(runs, reader)).collect();
        let by_age: Vec<_> = readers().map(|reader| by_age(runs, reader)).collect();
        assert_eq!(
            found, by_age,
            "by level and by age, in {runs:?} of {self:?}"
        );
        for (found, before) in found.iter().zip(before) {
            let may_go = before.is_some_and(|at| self.filter.removes(at));
            let is_right = found == before || may_go && found.is_none();
            assert!(
                is_right,
                "{found:?} after {before:?} in {runs:?} of {self:?}"
            );
        }
        found
    }

    fn compact(&self, input: &[Entry], below: &[Run]) -> Run {
        let is_point = |entry: &Entry| entry.1 != Op::Range;
        let nothing_below = !below.iter().flatten().any(is_point);
        compact(input, nothing_below, &self.snapshots, self.filter.of_job())
            .unwrap_or_else(|e| panic!("{e}: {input:?} over {below:?} of {self:?}"))
    }

    fn end(&self, last: &[Entry], found: &[Option<u64>]) {
        let released = compact(last, true, &[], self.filter.of_job()).unwrap();
        let newest = found.last().copied().flatten();
        let newest = newest.filter(|at| !self.filter.removes(*at));
        let left: Vec<u64> = released.iter().map(|(at, _)| *at).collect();
        assert_eq!(left, Vec::from_iter(newest), "left of {last:?} of {self:?}");
        let changed = released.iter().all(|(_, op)| *op == Op::Changed);
        assert!(changed || !self.filter.changes(), "{last:?} of {self:?}");
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

/// Every list of `len` operations that are a value and its single deletion in turn: all else is not
/// allowed for such a key.
pub(super) fn every_list_of_single_deletions(len: u32) -> impl Iterator<Item = Vec<Op>> {
    every_list(&[Op::Put, Op::Pointer], len.div_ceil(2)).map(move |values| {
        let ops = values.into_iter().flat_map(|value| [value, Op::Single]);
        ops.take(len as usize).collect()
    })
}

/// Compacts the histories of these lists with every set of snapshots, or of each `stride` one.
pub(super) fn compact_all(
    filter: &dyn Filter,
    lists: impl Iterator<Item = Vec<Op>>,
    stride: usize,
) -> usize {
    let histories = lists.flat_map(|ops| {
        let snapshots = every_snapshots(ops.len());
        snapshots.map(move |snapshots| History {
            ops: ops.clone(),
            snapshots,
            filter,
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
        compactions += compact_all(&NoFilter, every_list(&menu, len), 1);
    }
    compactions += compact_all(&NoFilter, every_list(&menu, 5), stride(13, 1));
    assert!(compactions > 60_000, "{compactions}");
}

#[test]
fn single_deletions_meet_their_values_and_no_others() {
    let mut compactions = 0;
    for len in 1..=6_u32 {
        let stride = if len == 6 { stride(3, 1) } else { 1 };
        compactions += compact_all(&NoFilter, every_list_of_single_deletions(len), stride);
    }
    assert!(compactions > 30_000, "{compactions}");
}
