//! Every history of one key with merge operands, cut by snapshots in every way, its operations
//! compacted in every order: the result of every reader stays the same, and at the end no operand
//! is left.

use std::sync::Arc;

use super::survivors::{Judge, KEY, Written, in_every_order, job};
use crate::compaction::building::combine::Combiner;
use crate::format::SequenceNumber;
use crate::format::internal_key::ValueType;
use crate::histories::every_list;
use crate::merge::{MergeOperator, builtin};

const OPS: [ValueType; 4] = [
    ValueType::Value,
    ValueType::Merge,
    ValueType::Deletion,
    ValueType::RangeDeletion,
];

/// The operations in one sorted run, newest first.
type Run = Vec<Written>;

/// The value of a key from its entries, newest first, all of which the reader sees.
fn value<'a>(
    operator: &dyn MergeOperator,
    entries: impl Iterator<Item = &'a Written>,
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
    let mut all: Vec<&Written> = runs.iter().flatten().filter(|e| e.0 <= reader).collect();
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
    input: &[Written],
    nothing_below: bool,
    snapshots: &[SequenceNumber],
) -> Run {
    let combiner = Combiner::of_inline_values(Some(operator));
    let done = job(input, nothing_below, snapshots, combiner, None);
    done.unwrap().0
}

struct History {
    operator: Arc<dyn MergeOperator>,
    snapshots: Vec<SequenceNumber>,
}

impl History {
    fn readers(&self) -> impl Iterator<Item = u64> {
        self.snapshots.iter().map(|s| s.0).chain([u64::MAX])
    }
}

impl Judge for History {
    type Entry = Written;
    type Found = Option<Vec<u8>>;

    fn look(&self, runs: &[Run], before: &[Option<Vec<u8>>]) -> Vec<Option<Vec<u8>>> {
        let at = &self.snapshots;
        for (reader, before) in self.readers().zip(before) {
            let found = by_age(&*self.operator, runs, reader);
            assert_eq!(&found, before, "by age, {reader} of {runs:?} at {at:?}");
            let found = by_level(&*self.operator, runs, reader);
            assert_eq!(&found, before, "by level, {reader} of {runs:?} at {at:?}");
        }
        before.to_vec()
    }

    fn compact(&self, input: &[Written], below: &[Run]) -> Run {
        let nothing_below = below.iter().all(Vec::is_empty);
        compact(&self.operator, input, nothing_below, &self.snapshots)
    }

    fn end(&self, last: &[Written], found: &[Option<Vec<u8>>]) {
        let left = compact(&self.operator, last, true, &[]).into_iter();
        let left: Vec<_> = left.map(|(_, kind, value)| (kind, value)).collect();
        let newest = found.last().cloned().flatten();
        let expected = newest.map(|value| (ValueType::Value, value));
        assert_eq!(left, Vec::from_iter(expected), "left of {last:?}");
    }
}

#[test]
fn whatever_is_combined_readers_find_the_same() {
    const LEN: u32 = 4;
    let mut compactions = 0;
    for operator in ["stringappend", "stringappendtest"] {
        for ops in every_list(&OPS, LEN) {
            let mut runs: Vec<Run> = (1_u64..)
                .zip(ops)
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
                compactions += in_every_order(&history, &runs, &expected);
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
                let output = compact(&operator, &input, nothing_below, &[]);
                assert_eq!(output[..2], input[..2]);
                // A deletion below which nothing is may go.
                let dropped = nothing_below && base == ValueType::Deletion;
                assert_eq!(output.len(), if dropped { 2 } else { 3 });
            }
        }
    }
}
