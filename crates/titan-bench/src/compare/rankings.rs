//! Whether two reports put the engines of a step in the same order.

use serde::Serialize;

use crate::report::figures::{RATE, Rounds, Spread, StepFigures};

/// Engines of a step by their rates, the fastest first; those that both reports measured.
#[derive(Debug, Serialize)]
pub(crate) struct Ranking {
    pub(crate) workload: String,
    pub(crate) step: String,
    pub(crate) a: Vec<String>,
    pub(crate) b: Vec<String>,
    pub(crate) same: bool,
    /// The order changed, and two engines that changed places have no round in common with each other
    /// in either report.
    pub(crate) contrary: bool,
}

/// None where fewer than two can be ranked.
pub(super) fn rank(a: &StepFigures<'_>, b: &StepFigures<'_>) -> Option<Ranking> {
    let (in_a, in_b) = (order(a, b), order(b, a));
    if in_a.len() < 2 {
        return None;
    }
    let names = |ranked: &[Rated<'_>]| ranked.iter().map(|(name, _)| (*name).to_owned()).collect();
    let (a_names, b_names): (Vec<String>, Vec<String>) = (names(&in_a), names(&in_b));
    Some(Ranking {
        workload: a.workload.name.clone(),
        step: a.step.name.clone(),
        same: a_names == b_names,
        contrary: contrary(&in_a, &in_b),
        a: a_names,
        b: b_names,
    })
}

/// An engine and its rates.
type Rated<'n> = (&'n str, Spread);

fn order<'a>(these: &StepFigures<'a>, others: &StepFigures<'_>) -> Vec<Rated<'a>> {
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
    let of_b = |name: &str| b.iter().find(|(other, _)| *other == name);
    a.iter().enumerate().any(|(i, (faster, fast))| {
        a[i + 1..].iter().any(|(slower, slow)| {
            let (Some((_, fast_in_b)), Some((_, slow_in_b))) = (of_b(faster), of_b(slower)) else {
                return false;
            };
            fast.least > slow.most && slow_in_b.least > fast_in_b.most
        })
    })
}
