//! The interface of merge operators, and calls of them.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::internal_key::is_storable;
use crate::format::key_text::KeyText;
use crate::panics::{Panicked, contain};

/// Combines the operands of a key with its value.
///
/// The result must depend on nothing but the arguments: reads, flushes and compactions call it at
/// any time and on any thread, for the same operands again, and with parts of them combined before.
///
/// An operator that panics when it is asked for its name or its id is refused with `InvalidOption`
/// by the call that gives it. Where it panics at a key, reads of the key fail with `Internal`, and
/// compactions keep the parts.
pub trait MergeOperator: Send + Sync {
    /// The name that is recorded with the data, as RocksDB records it. A database that was written
    /// with one operator must not be read with another: its operands would mean something else.
    fn name(&self) -> &str;

    /// The name with the operator's parameters, such as a delimiter, if
    /// [`builtin::by_name`](super::builtin::by_name) can make it of that.
    fn id(&self) -> String {
        self.name().to_owned()
    }

    /// The value of `key` after `operands`, of which there is at least one, oldest first. `base` is
    /// the value before them, `None` if the key had none. Returns `None` if that is impossible:
    /// reads of the key then fail with `Corruption`, and compactions keep the parts.
    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that has the effect of `operands`, of which there are at least two, oldest
    /// first, over any base. `None` keeps them as they are, which is always right.
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }

    /// For the placeholder of an operator that a family has recorded and that was not given: the
    /// family's name.
    #[doc(hidden)]
    fn not_given_for(&self) -> Option<&str> {
        None
    }
}

impl dyn MergeOperator + '_ {
    /// Whether this is no placeholder.
    pub(crate) fn is_given(&self) -> bool {
        self.not_given_for().is_none()
    }
}

impl fmt::Debug for dyn MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An operator whose operands are values: an operand without a base is the value, and two operands
/// are combined like a value and an operand. Wrap it in [`Associative`].
pub trait AssociativeMergeOperator: Send + Sync {
    /// See [`MergeOperator::name`].
    fn name(&self) -> &str;

    /// See [`MergeOperator::id`].
    fn id(&self) -> String {
        self.name().to_owned()
    }

    /// The value of `key` after `operand`, if it was `existing` before. `None` as in
    /// [`MergeOperator::full_merge`].
    fn merge(&self, key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>>;
}

/// Makes a [`MergeOperator`] of an associative one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Associative<O>(pub O);

impl<O: AssociativeMergeOperator> MergeOperator for Associative<O> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn id(&self) -> String {
        self.0.id()
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut value: Option<Vec<u8>> = None;
        for operand in operands {
            let existing = value.as_deref().or(base);
            value = Some(self.0.merge(key, existing, operand)?);
        }
        value
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let (first, rest) = operands.split_first()?;
        self.full_merge(key, Some(first), rest)
    }
}

/// The value of `key`, by the family's operator.
///
/// # Errors
/// `Unsupported` without an operator; `Corruption` if the operator finds no value, or one that no
/// table can have; `Internal` if it panics.
pub(crate) fn full_merge(
    operator: Option<&dyn MergeOperator>,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let operator = match operator {
        Some(operator) if operator.is_given() => operator,
        other => return Err(missing(other, key)),
    };
    match contain(|| operator.full_merge(key, base, operands)) {
        Ok(Some(value)) if is_storable(key, &value) => Ok(value),
        Ok(Some(value)) => Err(Error::corruption(format!(
            "the merge operator {} makes a value of {} bytes for the key {}, which is too large",
            operator.name(),
            value.len(),
            KeyText(key)
        ))),
        Ok(None) => {
            let count = match operands.len() {
                1 => "1 operand".to_owned(),
                n => format!("{n} operands"),
            };
            Err(Error::corruption(format!(
                "the merge operator {} cannot merge {count} into the key {}",
                operator.name(),
                KeyText(key)
            )))
        }
        Err(panicked) => Err(failed(operator, &panicked, key)),
    }
}

/// One operand for several, if the family's operator can combine them to one that a table can have.
/// It keeps them if it panics: the next read reports that.
pub(crate) fn partial_merge(
    operator: &dyn MergeOperator,
    key: &[u8],
    operands: &[&[u8]],
) -> Option<Vec<u8>> {
    let merged = contain(|| operator.partial_merge(key, operands)).unwrap_or(None);
    merged.filter(|operand| is_storable(key, operand))
}

#[cold]
fn failed(operator: &dyn MergeOperator, panicked: &Panicked, key: &[u8]) -> Error {
    Error::internal(format!(
        "the merge operator {} {panicked} at the key {}",
        operator.name(),
        KeyText(key)
    ))
}

/// The error for operands in a family without an operator.
#[cold]
fn missing(recorded: Option<&dyn MergeOperator>, key: &[u8]) -> Error {
    let family = recorded.and_then(MergeOperator::not_given_for);
    let family = family.map_or_else(
        || "its column family".to_owned(),
        |family| format!("column family {family}"),
    );
    let why = why_missing(&family, recorded);
    Error::unsupported(format!(
        "the key {} has merge operands, and {why}",
        KeyText(key)
    ))
}

/// Why a family has no operator to merge with, and what to do.
pub(crate) fn why_missing(family: &str, recorded: Option<&dyn MergeOperator>) -> String {
    let what = match recorded {
        Some(operator) => format!(
            "has the merge operator {}, which was not given",
            operator.name()
        ),
        None => "has no merge operator".to_owned(),
    };
    format!("{family} {what}: set ColumnFamilyOptions::merge_operator")
}

/// The operator with its name and its id, for which it is not asked again.
///
/// # Errors
/// `InvalidOption` if it panics.
pub(crate) fn named(operator: Arc<dyn MergeOperator>) -> Result<Arc<dyn MergeOperator>> {
    match contain(|| (operator.name().to_owned(), operator.id())) {
        Ok((name, id)) => Ok(Arc::new(Named { operator, name, id })),
        Err(panicked) => Err(Error::invalid_option(format!(
            "merge_operator {panicked} when it was asked for its name"
        ))),
    }
}

struct Named {
    operator: Arc<dyn MergeOperator>,
    name: String,
    id: String,
}

impl MergeOperator for Named {
    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> String {
        self.id.clone()
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.operator.full_merge(key, base, operands)
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.operator.partial_merge(key, operands)
    }

    fn not_given_for(&self) -> Option<&str> {
        self.operator.not_given_for()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a value of 4 GiB of any operands. Nothing touches its memory.
    struct Growing;

    impl MergeOperator for Growing {
        fn name(&self) -> &str {
            "growing"
        }

        fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
            Some(vec![0; 4 << 30])
        }

        fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
            self.full_merge(key, None, operands)
        }
    }

    #[test]
    fn a_result_that_no_table_can_have_is_a_failure_of_the_operator() {
        let operands: [&[u8]; 2] = [b"1", b"2"];
        let refused = full_merge(Some(&Growing), b"k", None, &operands).unwrap_err();
        assert!(refused.is_corruption(), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("4294967296 bytes"), "{text}");
        assert_eq!(partial_merge(&Growing, b"k", &operands), None);
    }
}
