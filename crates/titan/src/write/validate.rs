//! Validating the conditions of a group: against writes published since they were checked, and
//! against the group itself.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::format::internal_key::ValueType;
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::write::conditions::{Checked, Condition};
use crate::write::queue::Group;

/// Environment of the validation.
pub(super) trait Validator {
    /// Fails with `Conflict` if a published write that is newer than `checked_to` violates the
    /// condition, and with `InvalidArgument` if there is no such family.
    fn validate(&self, condition: &Condition, checked_to: SequenceNumber) -> Result<()>;

    /// The error for a condition that does not hold.
    fn conflict(&self, condition: &Condition) -> Error;

    /// The order of keys in a family that the group writes to.
    fn compare(&self, family: ColumnFamilyId, a: &[u8], b: &[u8]) -> Ordering;
}

/// Refuses the batches of `group` with conditions that do not hold: because of writes that were
/// published after their writers checked, or because of earlier batches of the group. A refused
/// batch is not written, so it violates no condition.
pub(super) fn validate(group: &mut Group, validator: &impl Validator) {
    let mut earlier = EarlierWrites::default();
    for (index, checked) in std::mem::take(&mut group.conditions) {
        if group.is_refused(index) {
            continue;
        }
        let validated = earlier
            .add_up_to(index, group)
            .and_then(|()| validate_one(&checked, &earlier, validator));
        if let Err(e) = validated {
            group.refuse(index, e);
        }
    }
}

fn validate_one(
    checked: &Checked,
    earlier: &EarlierWrites,
    validator: &impl Validator,
) -> Result<()> {
    for condition in &*checked.conditions {
        validator.validate(condition, checked.checked_to)?;
        if earlier.include(condition, validator) {
            return Err(validator.conflict(condition));
        }
    }
    Ok(())
}

/// The keys that batches of a group write.
#[derive(Default)]
struct EarlierWrites {
    /// The batches before this one were added.
    batches: usize,
    keys: HashMap<ColumnFamilyId, HashSet<Vec<u8>>>,
    ranges: Vec<(ColumnFamilyId, Vec<u8>, Vec<u8>)>,
}

impl EarlierWrites {
    /// Adds the batches of the group before `index`.
    fn add_up_to(&mut self, index: usize, group: &Group) -> Result<()> {
        let new = group.batches.get(self.batches..index).unwrap_or_default();
        for op in new.iter().flat_map(|batch| batch.iter()) {
            let op = op?;
            let (Some(family), Some((value_type, key, value))) = (op.column_family(), op.entry()?)
            else {
                continue;
            };
            let forgotten = mutant!(group_key_forgotten);
            if value_type == ValueType::RangeDeletion {
                if !mutant!(group_range_forgotten) {
                    self.ranges.push((family, key.to_vec(), value.to_vec()));
                }
            } else if !forgotten {
                self.keys.entry(family).or_default().insert(key.to_vec());
            }
        }
        self.batches = self.batches.max(index);
        Ok(())
    }

    /// Whether one of them writes the key of a condition.
    fn include(&self, condition: &Condition, validator: &impl Validator) -> bool {
        let Condition { family, key, .. } = condition;
        let compare = |a: &[u8], b: &[u8]| validator.compare(*family, a, b);
        let point = self.keys.get(family).is_some_and(|of| of.contains(key));
        point
            || self.ranges.iter().any(|(of, begin, end)| {
                of == family && compare(begin, key).is_le() && compare(key, end).is_lt()
            })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ErrorKind;
    use crate::batch::WriteBatch;
    use crate::write::WriteOptions;

    const F: ColumnFamilyId = ColumnFamilyId(3);
    const OTHER: ColumnFamilyId = ColumnFamilyId(4);

    /// A database in which nothing was published since the writers checked, in reverse order.
    struct Unchanged;

    impl Validator for Unchanged {
        fn validate(&self, condition: &Condition, _: SequenceNumber) -> Result<()> {
            match condition.key.as_slice() {
                b"unreadable" => Err(Error::corruption("unreadable")),
                _ => Ok(()),
            }
        }

        fn conflict(&self, _: &Condition) -> Error {
            Error::new(ErrorKind::Conflict, "conflict")
        }

        fn compare(&self, _: ColumnFamilyId, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }

    fn put(key: &str) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(F, key, b"v").unwrap();
        batch
    }

    fn if_unchanged(family: ColumnFamilyId, key: &str) -> Checked {
        Checked {
            conditions: Arc::new(vec![Condition {
                family,
                key: key.as_bytes().to_vec(),
                since: SequenceNumber(1),
            }]),
            checked_to: SequenceNumber(1),
        }
    }

    /// The error of each batch that is refused.
    fn refused(batches: Vec<(WriteBatch, Option<Checked>)>) -> Vec<Option<ErrorKind>> {
        let mut group = Group::alone(WriteBatch::new(), WriteOptions::default());
        group.batches.clear();
        for (batch, checked) in batches {
            group.push(batch, checked.map(Box::new));
        }
        validate(&mut group, &Unchanged);
        let results = (0..group.batches.len()).map(|index| {
            let result = group.result_for(index, &Ok(()));
            assert_eq!(result.is_err(), group.batches[index].is_empty());
            result.err().map(|e| e.kind())
        });
        results.collect()
    }

    const CONFLICT: Option<ErrorKind> = Some(ErrorKind::Conflict);

    #[test]
    fn a_key_written_earlier_in_the_group_is_a_conflict_and_one_written_later_is_not() {
        let found = refused(vec![
            (put("own"), Some(if_unchanged(F, "own"))),
            (put("a"), None),
            (put("b"), Some(if_unchanged(F, "a"))),
            (put("c"), Some(if_unchanged(F, "later"))),
            (put("later"), Some(if_unchanged(OTHER, "a"))),
            (put("x"), Some(if_unchanged(F, "later"))),
        ]);
        assert_eq!(found, [None, None, CONFLICT, None, None, CONFLICT]);
    }

    #[test]
    fn a_range_deletion_earlier_in_the_group_is_a_conflict_for_the_keys_in_it() {
        let mut ranges = WriteBatch::new();
        ranges.delete_range(F, b"m", b"c").unwrap();
        let found = refused(vec![
            (ranges, None),
            (put("1"), Some(if_unchanged(F, "m"))),
            (put("2"), Some(if_unchanged(F, "d"))),
            (put("3"), Some(if_unchanged(F, "c"))),
            (put("4"), Some(if_unchanged(F, "n"))),
            (put("5"), Some(if_unchanged(OTHER, "d"))),
        ]);
        assert_eq!(found, [None, CONFLICT, CONFLICT, None, None, None]);
    }

    #[test]
    fn what_a_refused_batch_would_write_is_no_conflict() {
        let found = refused(vec![
            (put("a"), None),
            (put("b"), Some(if_unchanged(F, "a"))),
            (put("c"), Some(if_unchanged(F, "b"))),
            (put("d"), Some(if_unchanged(F, "unreadable"))),
            (put("e"), Some(if_unchanged(F, "d"))),
        ]);
        let damaged = Some(ErrorKind::Corruption);
        assert_eq!(found, [None, CONFLICT, None, damaged, None]);
    }
}
