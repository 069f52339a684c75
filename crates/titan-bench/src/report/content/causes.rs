//! Causes that accompany a loss or a win: other figures of the same step, of which the measure
//! consists.
//!
//! A rate and a latency consist of what an operation costs the processor and the device; the bytes
//! written, and those on disk, consist of kinds of files. The other measures have no parts.

use super::joined;
use crate::report::figures::{
    P99, PEAK_SPACE_AMPLIFICATION, RATE, Rounds, WRITE_AMPLIFICATION, per_operation,
};
use crate::report::units::{bytes, micros, number};
use crate::report::verdict::{SUBJECT, Verdict};
use crate::results::Measured;

/// Kinds of files with a smaller share of the whole are not mentioned.
const SMALL: f64 = 0.005;

/// Titan's figures next to those of the engine that was best in most rounds, the first of several;
/// `None` if there is nothing to report.
pub(super) fn of(verdict: &Verdict<'_, '_>) -> Option<String> {
    let ours = verdict.step.by(SUBJECT)?;
    let best = *verdict.engines.first()?;
    let theirs = verdict.step.by(best)?;
    let measure = verdict.measure.name;
    if [RATE.name, P99.name].contains(&measure) {
        let costs = COSTS.iter().filter_map(|cost| cost.both(ours, theirs));
        return joined(costs, "; ").map(|costs| format!("{SUBJECT}, {best}: {costs}"));
    }
    let (when, kinds, whole): (_, KindsOf, WholeOf) = if measure == WRITE_AMPLIFICATION.name {
        ("", |m| &m.written_by_kind, |m| m.work.bytes_written)
    } else if measure == PEAK_SPACE_AMPLIFICATION.name {
        (" at the end", |m| &m.disk_by_kind, |m| m.work.live_bytes)
    } else {
        return None;
    };
    let (ours, theirs) = (shares(ours, kinds, whole), shares(theirs, kinds, whole));
    let told = |shares: Option<String>| shares.unwrap_or_else(|| "not told".to_owned());
    let none = ours.is_none() && theirs.is_none();
    (!none).then(|| format!("{SUBJECT}{when} {}; {best} {}", told(ours), told(theirs)))
}

/// The cost of an operation.
struct Cost {
    name: &'static str,
    total: fn(&Measured) -> f64,
    show: fn(f64) -> String,
}

static COSTS: [Cost; 3] = [
    Cost {
        name: "CPU",
        total: |measured| measured.cpu_seconds * 1e6,
        show: micros,
    },
    Cost {
        name: "device reads",
        total: |measured| measured.device_read as f64,
        show: bytes,
    },
    Cost {
        name: "device writes",
        total: |measured| measured.device_written as f64,
        show: bytes,
    },
];

impl Cost {
    /// The cost of an operation for both; `None` if it is negligible for both.
    fn both(&self, ours: &Rounds<'_>, theirs: &Rounds<'_>) -> Option<String> {
        let each = |rounds: &Rounds<'_>| {
            let spread = rounds.spread(|measured| per_operation(measured, (self.total)(measured)));
            spread.map(|spread| spread.median)
        };
        let (ours, theirs) = (each(ours)?, each(theirs)?);
        let (our, their) = ((self.show)(ours), (self.show)(theirs));
        (ours + theirs > 0.0).then(|| format!("{} {our}, {their}", self.name))
    }
}

type KindsOf = fn(&Measured) -> &[(String, u64)];
type WholeOf = fn(&Measured) -> u64;

/// Bytes by kind for each byte of the whole.
fn shares(rounds: &Rounds<'_>, kinds: KindsOf, whole: WholeOf) -> Option<String> {
    let whole = rounds.spread(|measured| Some(whole(measured) as f64))?;
    let kinds = rounds.by_kind(kinds);
    if kinds.is_empty() {
        return None;
    }
    let shares = kinds.iter().map(|(kind, size)| (kind, size / whole.median));
    let large = shares.filter(|(_, share)| *share >= SMALL);
    let large = joined(
        large.map(|(kind, share)| format!("{kind} {}", number(share))),
        ", ",
    );
    Some(large.unwrap_or_else(|| "next to nothing".to_owned()))
}
