//! Histories: what the operations of a list answered, one by one.

use titan_testkit::ops::Op;
use titan_testkit::reference::{Outcome, Reference};

use super::configurations::Configuration;
use super::executor::Executor;
use crate::session::Checked;

/// What each operation should answer.
pub(super) fn expected(ops: &[Op]) -> Vec<Outcome> {
    let mut reference = Reference::new();
    ops.iter().map(|op| reference.apply(op)).collect()
}

/// Where a history leaves the expected one, or what else is wrong.
#[derive(Debug)]
pub(super) struct Deviation {
    /// How many operations had been performed before.
    pub(super) after: usize,
    /// What is wrong.
    pub(super) what: String,
}

/// Whether a configuration answers what is expected, and all that must hold does.
pub(super) fn replay(
    configuration: &'static Configuration,
    ops: &[Op],
    expected: &[Outcome],
) -> Result<(), Deviation> {
    let at = |after| move |what| Deviation { after, what };
    let mut executor = Executor::new(configuration).map_err(at(0))?;
    for (n, (op, expected)) in ops.iter().zip(expected).enumerate() {
        let found = executor.apply(op);
        found
            .and_then(|found| same(&found, expected))
            .map_err(|what| format!("{op}: {what}"))
            .map_err(at(n))?;
    }
    executor.finish().map_err(at(ops.len()))
}

/// Says where two outcomes differ.
pub(crate) fn same(found: &Outcome, expected: &Outcome) -> Checked<()> {
    if found == expected {
        return Ok(());
    }
    let (Outcome::Pairs(found), Outcome::Pairs(expected)) = (found, expected) else {
        return Err(format!("{found}; expected is: {expected}"));
    };
    // Of long ones only what matters.
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    let entry = |pairs: &[_]| {
        let entry = pairs.get(at).cloned();
        entry.map_or("nothing".to_owned(), |pair| {
            Outcome::Pairs(vec![pair]).to_string()
        })
    };
    Err(format!(
        "entry {at} of {}: {}; expected is, of {}: {}",
        found.len(),
        entry(found),
        expected.len(),
        entry(expected)
    ))
}
