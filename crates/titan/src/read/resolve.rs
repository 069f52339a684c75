//! Decides on the value of one user key for a reader.
//!
//! This is the only place with the rule: of the versions that are not newer than the snapshot, the
//! newest one decides. A value is the value of the key, unless a newer range tombstone that the
//! snapshot sees covers the key. A tombstone says that the key has no value. A merge operand
//! changes the result of the versions below it, the *base*.
//!
//! A reader feeds the versions of a key to [`Resolver::see`]:
//!
//! * **Newest first** (lookups, iterators that go forward): the first version that is
//!   [`Step::Done`] is the base, and older versions need not be fed. [`Step::Operand`]s that came
//!   before change it.
//! * **Oldest first** (iterators that go backward): each version that is `Done` replaces the base
//!   and all operands before it. Once a version is [`Step::TooNew`], so are all that follow.
//!
//! If no version is `Done`, there is no base: the key has no value, or that of its operands.
//!
//! Compactions do not use this. They decide for each version whether any reader still needs it,
//! which includes versions that no reader ever sees (see `compaction/building/survival.rs`).
//!
//! Nothing is remembered here from one version to the next: a reader keeps the operands
//! ([`Merged`](super::found::Merged)).

use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::format::internal_key::ValueType;

/// The form in which a value is stored with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The value itself.
    Inline,
    /// An encoded [`BlobIndex`](crate::format::blob_index::BlobIndex).
    Pointer,
    /// An encoded [entity](crate::format::entity): the value is its default column.
    Entity,
}

/// State of a key, from the version that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The key has the value of this version.
    Value(Stored),
    /// The version is a tombstone.
    Deleted,
    /// A newer range tombstone deletes the version and everything older.
    Covered,
    /// The version is of a type that does not belong here.
    Misplaced,
}

impl Outcome {
    /// The form of the value; `None` if the key is deleted.
    ///
    /// # Errors
    /// `Corruption` for a type that does not belong here.
    #[inline]
    pub(crate) fn stored(self) -> Result<Option<Stored>> {
        match self {
            Outcome::Value(stored) => Ok(Some(stored)),
            Outcome::Deleted | Outcome::Covered => Ok(None),
            Outcome::Misplaced => Err(misplaced()),
        }
    }
}

/// Contribution of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It decides. No older version matters.
    Done(Outcome),
    /// It changes the result of older versions.
    Operand,
    /// The snapshot does not see it. An older version may decide.
    TooNew,
}

/// The rule, for a reader at one snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolver {
    snapshot: SequenceNumber,
}

impl Resolver {
    pub(crate) fn new(snapshot: SequenceNumber) -> Self {
        Resolver { snapshot }
    }

    /// Contribution of the version of a key with this sequence number and type. `covered` returns
    /// whether a range tombstone covers the key that is newer than this version and not newer than
    /// the snapshot. It is called at most once, and not for tombstones.
    #[inline]
    pub(crate) fn see(
        self,
        sequence: SequenceNumber,
        value_type: ValueType,
        covered: impl FnOnce() -> bool,
    ) -> Step {
        let too_many = u64::from(mutant!(resolver_sees_the_next_write));
        if sequence > self.snapshot.plus(too_many) {
            return Step::TooNew;
        }
        let overlooked = mutant!(covered_version_is_shown);
        Step::Done(match value_type {
            ValueType::Deletion | ValueType::SingleDeletion => Outcome::Deleted,
            _ if covered() && !overlooked => Outcome::Covered,
            ValueType::Value => Outcome::Value(Stored::Inline),
            ValueType::BlobIndex => Outcome::Value(Stored::Pointer),
            ValueType::WideColumnEntity => Outcome::Value(Stored::Entity),
            ValueType::Merge => return Step::Operand,
            ValueType::RangeDeletion => Outcome::Misplaced,
        })
    }
}

#[cold]
fn misplaced() -> Error {
    Error::corruption("a range deletion is among point entries")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histories::every_list;

    /// Operation on a key with one sequence number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Op {
        Nothing,
        Point(ValueType),
        /// A range deletion over the key.
        Range,
    }

    const OPS: [Op; 8] = [
        Op::Nothing,
        Op::Point(ValueType::Value),
        Op::Point(ValueType::BlobIndex),
        Op::Point(ValueType::Deletion),
        Op::Point(ValueType::SingleDeletion),
        Op::Point(ValueType::Merge),
        Op::Point(ValueType::WideColumnEntity),
        Op::Range,
    ];
    /// Operations of each history; the first has sequence number 1.
    const LEN: u32 = 5;

    /// A value: the operation that gave the key its base, if one did, and how; and the operands
    /// since, oldest first.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Value {
        base: Option<(usize, ValueType)>,
        operands: Vec<usize>,
    }

    impl Value {
        fn exists(self) -> Option<Self> {
            (self != Value::default()).then_some(self)
        }
    }

    /// Content of a map with one key after these operations.
    fn model(history: &[Op]) -> Option<Value> {
        let mut value = Value::default();
        for (at, op) in history.iter().enumerate() {
            match op {
                Op::Nothing => {}
                Op::Point(ValueType::Deletion | ValueType::SingleDeletion) | Op::Range => {
                    value = Value::default();
                }
                Op::Point(ValueType::Merge) => value.operands.push(at),
                Op::Point(value_type) => {
                    value = Value {
                        base: Some((at, *value_type)),
                        operands: Vec::new(),
                    }
                }
            }
        }
        value.exists()
    }

    /// The versions of the key, oldest first.
    fn versions(history: &[Op]) -> Vec<(usize, ValueType)> {
        let numbered = history.iter().enumerate();
        let points = numbered.filter_map(|(at, op)| match op {
            Op::Point(value_type) => Some((at, *value_type)),
            _ => None,
        });
        points.collect()
    }

    /// Feeds one version to the resolver of a reader that sees the first `seen` operations.
    fn see(history: &[Op], seen: usize, (at, value_type): (usize, ValueType)) -> Step {
        let sequence = |operations: usize| SequenceNumber(operations as u64);
        let resolver = Resolver::new(sequence(seen));
        resolver.see(sequence(at + 1), value_type, || {
            assert!(!value_type.is_point_deletion(), "asked in vain");
            history[at + 1..seen].contains(&Op::Range)
        })
    }

    /// Outcome of one version in the terms of the model.
    fn value((at, _): (usize, ValueType), outcome: Outcome) -> Option<(usize, ValueType)> {
        match (outcome, outcome.stored()) {
            (Outcome::Deleted | Outcome::Covered, Ok(None)) => None,
            (Outcome::Value(Stored::Inline), Ok(Some(_))) => Some((at, ValueType::Value)),
            (Outcome::Value(Stored::Pointer), Ok(Some(_))) => Some((at, ValueType::BlobIndex)),
            (Outcome::Value(Stored::Entity), Ok(Some(_))) => {
                Some((at, ValueType::WideColumnEntity))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn newest_first_the_first_version_that_is_done_is_the_base_of_what_a_map_has() {
        let mut values = 0;
        for history in every_list(&OPS, LEN) {
            for seen in 0..=history.len() {
                let mut found = Value::default();
                for version in versions(&history).into_iter().rev() {
                    match see(&history, seen, version) {
                        Step::Done(outcome) => {
                            found.base = value(version, outcome);
                            break;
                        }
                        Step::Operand => found.operands.insert(0, version.0),
                        Step::TooNew => assert_eq!(found, Value::default()),
                    }
                }
                let expected = model(&history[..seen]);
                values += usize::from(expected.is_some());
                assert_eq!(found.exists(), expected, "{history:?}, {seen} seen");
            }
        }
        assert!(values > 10_000);
    }

    #[test]
    fn oldest_first_the_last_version_that_is_done_is_the_base_of_what_a_map_has() {
        for history in every_list(&OPS, LEN) {
            for seen in 0..=history.len() {
                let mut found = Value::default();
                let mut too_new = false;
                for version in versions(&history) {
                    match see(&history, seen, version) {
                        Step::Done(outcome) => {
                            assert!(!too_new, "{history:?}, {seen} seen");
                            found = Value {
                                base: value(version, outcome),
                                operands: Vec::new(),
                            };
                        }
                        Step::Operand => found.operands.push(version.0),
                        Step::TooNew => too_new = true,
                    }
                }
                let expected = model(&history[..seen]);
                assert_eq!(found.exists(), expected, "{history:?}, {seen} seen");
            }
        }
    }

    #[test]
    fn a_range_deletion_among_points_is_damage() {
        let see = |value_type| {
            Resolver::new(SequenceNumber(9)).see(SequenceNumber(1), value_type, || false)
        };
        assert_eq!(
            see(ValueType::RangeDeletion),
            Step::Done(Outcome::Misplaced)
        );
        assert!(Outcome::Misplaced.stored().unwrap_err().is_corruption());
    }
}
