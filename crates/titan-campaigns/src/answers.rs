//! Compares the outcomes of a list of operations, one by one, with the expected ones.

use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::ops::Op;
use titan_testkit::reference::{Outcome, Reference};

/// The expected outcome of each operation.
pub(crate) fn expected(ops: &[Op]) -> Vec<Outcome> {
    let mut reference = Reference::new();
    ops.iter().map(|op| reference.apply(op)).collect()
}

/// The first unexpected outcome, or another failure, with its position.
#[derive(Debug)]
pub struct Deviation {
    /// The number of operations performed before.
    pub after: usize,
    /// The difference.
    pub what: CheckFailure,
}

/// Checks that an outcome is the expected one.
pub(crate) fn same(found: &Outcome, expected: &Outcome) -> Checked<()> {
    if found == expected {
        return Ok(());
    }
    let (Outcome::Pairs(found), Outcome::Pairs(expected)) = (found, expected) else {
        return Err(CheckFailure::wrong(format!(
            "{found}; expected is: {expected}"
        )));
    };
    // Of long ones only the part that differs.
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    let entry = |pairs: &[_]| {
        let entry = pairs.get(at).cloned();
        entry.map_or("nothing".to_owned(), |pair| {
            Outcome::Pairs(vec![pair]).to_string()
        })
    };
    Err(CheckFailure::wrong(format!(
        "entry {at} of {}: {}; expected is, of {}: {}",
        found.len(),
        entry(found),
        expected.len(),
        entry(expected)
    )))
}
