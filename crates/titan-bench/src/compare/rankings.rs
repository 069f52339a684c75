//! Whether two reports rank the engines of a step in the same order.

use serde::Serialize;

use super::exceeds_spread;
use crate::report::figures::{RATE, Rounds, Spread, StepFigures};

/// Engines of a step by rate, the fastest first; only those that both reports measured.
#[derive(Debug, Serialize)]
pub(crate) struct Ranking {
    pub(crate) workload: String,
    pub(crate) step: String,
    pub(crate) a: Vec<String>,
    pub(crate) b: Vec<String>,
    pub(crate) order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Same,
    /// Engines changed places, but at least one report does not show a clear difference between
    /// them.
    Changed,
    /// One of two engines is faster in A and the other in B, both times in all rounds and by more
    /// than the margin.
    Contrary,
}

/// `None` if fewer than two can be ranked, or if all had the same prescribed rate.
pub(super) fn rank(a: &StepFigures<'_>, b: &StepFigures<'_>) -> Option<Ranking> {
    let (in_a, in_b) = (by_rate(a, b), by_rate(b, a));
    if in_a.len() < 2 || a.step.rate.is_some() {
        return None;
    }
    let names = |rated: &[Rated<'_>]| -> Vec<String> {
        rated.iter().map(|(name, _)| (*name).to_owned()).collect()
    };
    let order = match (names(&in_a) == names(&in_b), contrary(&in_a, &in_b)) {
        (true, _) => Order::Same,
        (false, false) => Order::Changed,
        (false, true) => Order::Contrary,
    };
    Some(Ranking {
        workload: a.workload.name.clone(),
        step: a.step.name.clone(),
        a: names(&in_a),
        b: names(&in_b),
        order,
    })
}

/// An engine and its rates.
type Rated<'n> = (&'n str, Spread);

/// The engines of a step that the other report measured too.
fn by_rate<'a>(these: &StepFigures<'a>, others: &StepFigures<'_>) -> Vec<Rated<'a>> {
    let in_both = |rounds: &&Rounds<'_>| {
        let other = others.by(rounds.engine);
        other.is_some_and(|other| other.last().is_some())
    };
    let both = these.engines.iter().filter(in_both);
    let mut rated: Vec<Rated<'_>> = both
        .filter_map(|rounds| Some((rounds.engine, rounds.spread(RATE.of)?)))
        .collect();
    rated.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
    rated
}

fn contrary(a: &[Rated<'_>], b: &[Rated<'_>]) -> bool {
    let in_b = |name: &str| b.iter().find(|(other, _)| *other == name);
    a.iter().enumerate().any(|(i, (faster, fast))| {
        a[i + 1..].iter().any(|(slower, slow)| {
            let (Some((_, fast_in_b)), Some((_, slow_in_b))) = (in_b(faster), in_b(slower)) else {
                return false;
            };
            is_clearly_faster(fast, slow) && is_clearly_faster(slow_in_b, fast_in_b)
        })
    })
}

fn is_clearly_faster(a: &Spread, b: &Spread) -> bool {
    exceeds_spread(a, b) == Some(true) && a.least > b.most
}
