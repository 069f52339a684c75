//! Every history of one key with merge operands, cut by snapshots in every way, its operations
//! compacted in every order: the result of every reader stays the same, and at the end no operand
//! is left.

use std::sync::Arc;

use bytes::Bytes;

use super::order;
use super::survivors::{Entries, Nothing};
use crate::compaction::building::combine::Combiner;
use crate::compaction::building::merge::{SurvivorIterator, surviving_tombstones};
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::{ParsedInternalKey, ValueType, internal_key};
use crate::format::range_tombstone::RangeTombstone;
use crate::merge::{MergeOperator, builtin};
use crate::range_del::{FragmentedTombstones, TombstoneCursor};

const KEY: &[u8] = b"k";

const OPS: [ValueType; 4] = [
    ValueType::Value,
    ValueType::Merge,
    ValueType::Deletion,
    ValueType::RangeDeletion,
];

/// An operation, by the entry that it wrote: sequence number, type and value.
type Entry = (u64, ValueType, Vec<u8>);

/// The operations in one sorted run, newest first.
type Run = Vec<Entry>;

/// The value of a key from its entries, newest first, all of which the reader sees.
fn value<'a>(
    operator: &dyn MergeOperator,
    entries: impl Iterator<Item = &'a Entry>,
) -> Option<Vec<u8>> {
    let (mut operands, mut base) = (Vec::new(), None);
    for (_, value_type, written) in entries {
        match value_type {
            ValueType::Merge => operands.insert(0, &**written),
            ValueType::Value => {
                base = Some(&**written);
                break;
            }
            _ => break,
        }
    }
    match operands.is_empty() {
        true => base.map(<[u8]>::to_vec),
        false => Some(operator.full_merge(KEY, base, &operands).unwrap()),
    }
}

/// Value for a reader that takes all entries by age, as scans do.
fn by_age(operator: &dyn MergeOperator, runs: &[Run], reader: u64) -> Option<Vec<u8>> {
    let mut all: Vec<&Entry> = runs.iter().flatten().filter(|e| e.0 <= reader).collect();
    all.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    value(operator, all.into_iter())
}

/// Value for a reader that goes from run to run, as lookups do.
fn by_level(operator: &dyn MergeOperator, runs: &[Run], reader: u64) -> Option<Vec<u8>> {
    let seen = runs.iter().flatten().filter(|e| e.0 <= reader);
    value(operator, seen)
}

/// Output of a compaction of these operations, newest first.
fn compact(
    operator: &Arc<dyn MergeOperator>,
    input: &[Entry],
    nothing_below: bool,
    snapshots: &[SequenceNumber],
) -> Result<Run> {
    let order = order();
    let is_range = |e: &&Entry| e.1 == ValueType::RangeDeletion;
    let points = input.iter().filter(|e| !is_range(e));
    let points = points.map(|(at, value_type, value)| {
        let key = internal_key(KEY, SequenceNumber(*at), *value_type as u8);
        (key, value.clone())
    });
    let input_points = Entries {
        list: points.collect(),
        at: 0,
    };
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
        input_points,
        older,
        SequenceNumber::MAX,
        snapshots.to_vec(),
        cursor,
        Combiner::of_inline_values(Some(operator)),
        None,
    )?;
    let mut output: Run = Vec::new();
    while survivors.valid() {
        let parsed = ParsedInternalKey::parse(survivors.key())?;
        let value = survivors.value().to_vec();
        output.push((parsed.sequence.0, parsed.value_type, value));
        survivors.next()?;
    }
    assert!(output.is_sorted_by(|a, b| a.0 > b.0), "{output:?}");
    let ranges = kept.iter_tombstones();
    output.extend(ranges.map(|t| (t.sequence.0, ValueType::RangeDeletion, Vec::new())));
    output.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    // That a key was written after a snapshot is known as long as the snapshot lives.
    if let (Some(oldest), Some(newest)) = (snapshots.first(), input.first())
        && newest.0 > oldest.0
    {
        let kept = output.first().map(|(at, ..)| *at);
        assert_eq!(kept, Some(newest.0), "{input:?} at {snapshots:?}");
    }
    Ok(output)
}

struct History {
    operator: Arc<dyn MergeOperator>,
    snapshots: Vec<SequenceNumber>,
}

impl History {
    fn readers(&self) -> impl Iterator<Item = u64> {
        self.snapshots.iter().map(|s| s.0).chain([u64::MAX])
    }

    /// Compacts neighbours in every order; returns the number of compactions.
    fn compact_on(&self, runs: &[Run], expected: &[Option<Vec<u8>>]) -> usize {
        let at = &self.snapshots;
        for (reader, expected) in self.readers().zip(expected) {
            let found = by_age(&*self.operator, runs, reader);
            assert_eq!(&found, expected, "by age, {reader} of {runs:?} at {at:?}");
            let found = by_level(&*self.operator, runs, reader);
            assert_eq!(&found, expected, "by level, {reader} of {runs:?} at {at:?}");
        }
        let mut compactions = 0;
        for upper in 1..runs.len() {
            let (above, below) = (&runs[..upper - 1], &runs[upper + 1..]);
            let input = [&runs[upper - 1][..], &runs[upper][..]].concat();
            let nothing_below = below.iter().all(Vec::is_empty);
            let output = compact(&self.operator, &input, nothing_below, at).unwrap();
            let mut after = above.to_vec();
            after.push(output);
            after.extend_from_slice(below);
            compactions += 1 + self.compact_on(&after, expected);
        }
        if let [last] = runs {
            let released = compact(&self.operator, last, true, &[]).unwrap();
            let newest = expected.last().cloned().flatten();
            let left: Vec<_> = released
                .iter()
                .map(|(_, kind, v)| (*kind, v.clone()))
                .collect();
            let expected = newest.map(|value| (ValueType::Value, value));
            assert_eq!(left, Vec::from_iter(expected), "left of {last:?}");
        }
        compactions
    }
}

#[test]
fn whatever_is_combined_readers_find_the_same() {
    const LEN: u32 = 4;
    let mut compactions = 0;
    for operator in ["stringappend", "stringappendtest"] {
        for number in 0..OPS.len().pow(LEN) {
            let digit = |at| OPS[number / OPS.len().pow(at) % OPS.len()];
            let ops = (1..).zip((0..LEN).map(digit));
            let mut runs: Vec<Run> = ops
                .map(|(at, op)| vec![(at, op, at.to_string().into_bytes())])
                .collect();
            runs.reverse();
            for cut in 0..1_u64 << (LEN - 1) {
                let snapshots = (1..u64::from(LEN)).filter(|at| cut >> (at - 1) & 1 == 1);
                let history = History {
                    operator: builtin::by_name(operator).unwrap(),
                    snapshots: snapshots.map(SequenceNumber).collect(),
                };
                let found = |reader| by_age(&*history.operator, &runs, reader);
                let expected: Vec<_> = history.readers().map(found).collect();
                compactions += history.compact_on(&runs, &expected);
            }
        }
    }
    assert!(compactions > 20_000, "{compactions}");
}

/// Combines nothing, or panics.
struct Refuses {
    panics: bool,
}

impl MergeOperator for Refuses {
    fn name(&self) -> &str {
        "refuses"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        assert!(!self.panics, "the operator");
        None
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

#[test]
fn what_an_operator_refuses_to_combine_stays() {
    for panics in [false, true] {
        let operator: Arc<dyn MergeOperator> = Arc::new(Refuses { panics });
        for base in [ValueType::Value, ValueType::Deletion] {
            let input: Run = vec![
                (3, ValueType::Merge, b"3".to_vec()),
                (2, ValueType::Merge, b"2".to_vec()),
                (1, base, b"1".to_vec()),
            ];
            for nothing_below in [false, true] {
                let output = compact(&operator, &input, nothing_below, &[]).unwrap();
                assert_eq!(output[..2], input[..2]);
                // A deletion below which nothing is may go.
                let dropped = nothing_below && base == ValueType::Deletion;
                assert_eq!(output.len(), if dropped { 2 } else { 3 });
            }
        }
    }
}
