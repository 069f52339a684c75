//! The rule by which readers see entries, as text: the files of `golden`, in the form of
//! [`titan_testkit::golden`].
//!
//! The input lines of `key` are its versions and the range deletions over it, in any order:
//! `5 value`. `read AT` feeds the versions to the resolver of a reader with that snapshot, newest
//! first and oldest first, and shows each step and the reader's result.

use titan_testkit::golden::Machine;

use super::resolve::{Outcome, Resolver, Step};
use crate::format::SequenceNumber;
use crate::format::internal_key::ValueType;

titan_testkit::golden_tests!(
    Key,
    "src/read/golden",
    deletions,
    operands,
    range_deletions,
    values,
);

#[derive(Default)]
struct Key {
    /// Newest first.
    versions: Vec<(u64, ValueType)>,
    ranges: Vec<u64>,
}

impl Machine for Key {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        match command.split_once(' ') {
            None if command == "key" => self.set(input),
            Some(("read", at)) => self.read(at.parse().unwrap()),
            _ => panic!("unknown command: {command}"),
        }
    }
}

fn value_type(word: &str) -> ValueType {
    match word {
        "value" => ValueType::Value,
        "pointer" => ValueType::BlobIndex,
        "entity" => ValueType::WideColumnEntity,
        "delete" => ValueType::Deletion,
        "single-delete" => ValueType::SingleDeletion,
        "operand" => ValueType::Merge,
        "misplaced" => ValueType::RangeDeletion,
        _ => panic!("unknown type: {word}"),
    }
}

impl Key {
    fn set(&mut self, input: &[&str]) -> Vec<String> {
        *self = Key::default();
        for line in input {
            let (sequence, word) = line.split_once(' ').unwrap();
            let sequence = sequence.parse().unwrap();
            match word {
                "range" => self.ranges.push(sequence),
                word => self.versions.push((sequence, value_type(word))),
            }
        }
        self.versions
            .sort_by_key(|(sequence, _)| std::cmp::Reverse(*sequence));
        vec![format!(
            "{} versions, {} range deletions",
            self.versions.len(),
            self.ranges.len()
        )]
    }

    fn see(&self, at: u64, (sequence, value_type): (u64, ValueType)) -> Step {
        Resolver::new(SequenceNumber(at)).see(SequenceNumber(sequence), value_type, || {
            let mut ranges = self.ranges.iter();
            ranges.any(|range| *range > sequence && *range <= at)
        })
    }

    fn read(&self, at: u64) -> Vec<String> {
        let (mut down, mut up) = (Vec::new(), Vec::new());
        let (mut from_newest, mut from_oldest) = (Found::default(), Found::default());
        for version in &self.versions {
            let step = self.see(at, *version);
            down.push(shown(version.0, step));
            match step {
                Step::Done(outcome) => {
                    from_newest.base = Some((version.0, outcome));
                    break;
                }
                Step::Operand => from_newest.operands.insert(0, version.0),
                Step::TooNew => {}
            }
        }
        for version in self.versions.iter().rev() {
            let step = self.see(at, *version);
            up.push(shown(version.0, step));
            match step {
                Step::Done(outcome) => {
                    from_oldest = Found {
                        base: Some((version.0, outcome)),
                        operands: Vec::new(),
                    }
                }
                Step::Operand => from_oldest.operands.push(version.0),
                Step::TooNew => break,
            }
        }
        vec![
            format!("newest first: {}", down.join(", ")),
            format!("oldest first: {}", up.join(", ")),
            match (from_newest.shown(), from_oldest.shown()) {
                (a, b) if a == b => a,
                (a, b) => format!("DIFFERENT: {a} and {b}"),
            },
        ]
    }
}

/// Result of a reader.
#[derive(Default)]
struct Found {
    base: Option<(u64, Outcome)>,
    operands: Vec<u64>,
}

impl Found {
    fn shown(&self) -> String {
        let base = match self
            .base
            .map(|(sequence, outcome)| (sequence, outcome.stored()))
        {
            Some((sequence, Ok(Some(stored)))) => format!("the value of {sequence}, {stored:?}"),
            Some((_, Err(e))) => return format!("an error: {e}"),
            Some((_, Ok(None))) | None => "no value".to_owned(),
        };
        match self.operands.is_empty() {
            true => base,
            false => format!("{base}, with operands {:?}", self.operands),
        }
    }
}

fn shown(sequence: u64, step: Step) -> String {
    match step {
        Step::Done(outcome) => format!("{sequence} {outcome:?}"),
        Step::Operand => format!("{sequence} is an operand"),
        Step::TooNew => format!("{sequence} is too new"),
    }
}
