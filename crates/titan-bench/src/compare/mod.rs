//! Compares two reports: what became faster, smaller or neither from A to B.
//!
//! A difference counts only if it exceeds the spread of both, so that their ranges of rounds do not
//! overlap, and 5 %. If either has a single round, this is unknown; with two rounds each, one pair
//! in three differs by chance alone.
//!
//! [`judgements`] and [`rankings`] say whether both reports come to the same conclusions.

mod document;
mod judgements;
mod rankings;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

use self::judgements::JudgedTwice;
use self::rankings::Ranking;
use crate::report::conditions;
use crate::report::figures::{
    self, Measure, P99, RATE, Rounds, SPACE_AMPLIFICATION, Spread, StepFigures,
    WRITE_AMPLIFICATION, ratio,
};
use crate::report::verdict::MARGIN;
use crate::results::{Ceilings, Report};

/// The measures that are compared for each step.
static MEASURES: [&Measure; 4] = [&RATE, &P99, &WRITE_AMPLIFICATION, &SPACE_AMPLIFICATION];

/// The comparison of two reports.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// Conditions that differ, and may therefore have caused differences.
    pub(crate) conditions: Vec<Difference>,
    /// The measurements of the device.
    pub(crate) device: Vec<Compared>,
    pub(crate) judged: Vec<JudgedTwice>,
    pub(crate) steps: Vec<ComparedStep>,
    pub(crate) rankings: Vec<Ranking>,
    /// Steps by engines that were measured in one report only.
    pub(crate) only_in_a: Vec<String>,
    pub(crate) only_in_b: Vec<String>,
}

/// One condition; empty for a report that does not have it.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    pub(crate) what: String,
    pub(crate) a: Option<String>,
    pub(crate) b: Option<String>,
}

/// One step of one engine.
#[derive(Debug, Serialize)]
pub(crate) struct ComparedStep {
    pub(crate) workload: String,
    pub(crate) step: String,
    pub(crate) engine: String,
    /// Whether a round of it ran out of time before its work was done, or did not keep its rate.
    pub(crate) cut_short_a: bool,
    pub(crate) cut_short_b: bool,
    pub(crate) measures: Vec<Compared>,
}

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) what: &'static str,
    pub(crate) a: Spread,
    pub(crate) b: Spread,
    /// The median of B divided by that of A, and the range of this ratio: from the least of one
    /// divided by the most of the other.
    pub(crate) ratio: Spread,
    /// By more than the margin. `None` if either has a single round.
    pub(crate) exceeds_spread: Option<bool>,
    #[serde(skip)]
    show: fn(f64) -> String,
}

/// Compares B to A.
pub(crate) fn compare(a: &Report, b: &Report) -> Comparison {
    let (in_a, in_b) = (measured(a), measured(b));
    let only = |these: &BTreeSet<Place>, others: &BTreeSet<Place>| {
        let only = these.difference(others);
        only.map(|(workload, step, engine)| format!("{workload}: {step}, {engine}"))
            .collect()
    };
    let figures_of_b = figures::of(b);
    let other = |step: &StepFigures<'_>| {
        let mut steps = figures_of_b.iter().flat_map(|workload| &workload.steps);
        let names = (&step.workload.name, &step.step.name);
        steps.find(|other| (&other.workload.name, &other.step.name) == names)
    };
    let figures_of_a = figures::of(a);
    let steps = figures_of_a.iter().flat_map(|workload| &workload.steps);
    let pairs: Vec<_> = steps
        .filter_map(|step| Some((step, other(step)?)))
        .collect();
    Comparison {
        conditions: differences(a, b),
        device: device(a, b),
        judged: judgements::judge(&pairs, &a.engines),
        steps: pairs.iter().flat_map(|(a, b)| compare_step(a, b)).collect(),
        rankings: pairs
            .iter()
            .filter_map(|(a, b)| rankings::rank(a, b))
            .collect(),
        only_in_a: only(&in_a, &in_b),
        only_in_b: only(&in_b, &in_a),
    }
}

/// The same step of both reports.
type Pair<'p, 'a> = (&'p StepFigures<'a>, &'p StepFigures<'a>);

/// Whether the ranges of the rounds do not overlap, and medians differ by more than the margin.
/// `None` if either has a single round.
fn exceeds_spread(a: &Spread, b: &Spread) -> Option<bool> {
    let several = a.rounds.min(b.rounds) > 1;
    several.then(|| a.apart_from(b) && !a.is_within(b, MARGIN))
}

/// A workload, a step and an engine.
type Place<'a> = (&'a str, &'a str, &'a str);

fn measured(report: &Report) -> BTreeSet<Place<'_>> {
    let runs = report.runs.iter().filter(|run| run.measured().is_some());
    runs.map(|run| {
        (
            run.workload.as_str(),
            run.step.as_str(),
            run.engine.as_str(),
        )
    })
    .collect()
}

fn differences(a: &Report, b: &Report) -> Vec<Difference> {
    let (of_a, of_b) = (all_conditions(a), all_conditions(b));
    let value = |of: &[conditions::Condition], name: &str| {
        let found = of.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.clone())
    };
    let only_b = of_b.iter().filter(|(name, _)| value(&of_a, name).is_none());
    let all = of_a.iter().chain(only_b).map(|(name, _)| Difference {
        what: name.clone(),
        a: value(&of_a, name),
        b: value(&of_b, name),
    });
    all.filter(|difference| difference.a != difference.b)
        .collect()
}

/// The conditions of the run, of its engines and of its workloads.
fn all_conditions(report: &Report) -> Vec<conditions::Condition> {
    let mut all = conditions::of(report);
    for about in &report.about_engines {
        let options = format!("{}; {}", about.version, conditions::options(about));
        all.push((format!("engine {}", about.name), options));
    }
    for workload in &report.workloads {
        all.push((
            format!("workload {}", workload.name),
            conditions::data(workload),
        ));
        all.extend((workload.steps.iter()).map(|step| {
            let name = format!("workload {}: {}", workload.name, step.name);
            (name, conditions::work(step))
        }));
    }
    all
}

fn device(a: &Report, b: &Report) -> Vec<Compared> {
    let of =
        |report: &Report, of: &fn(&Ceilings) -> f64| Spread::of(report.ceilings.iter().map(of));
    let compared = conditions::CEILINGS
        .iter()
        .filter_map(|(name, ceiling, show)| {
            Some(Compared::new(name, *show, of(a, ceiling)?, of(b, ceiling)?))
        });
    compared.collect()
}

fn compare_step<'a>(
    a: &'a StepFigures<'_>,
    b: &'a StepFigures<'_>,
) -> impl Iterator<Item = ComparedStep> + use<'a> {
    a.engines.iter().filter_map(|rounds| {
        let other = b.by(rounds.engine)?;
        let measures = MEASURES.iter().filter_map(|measure| {
            let of = |step: &StepFigures<'_>, rounds: &Rounds<'_>| {
                rounds.spread(|measured| measure.comparable(step.step, measured))
            };
            let (a, b) = (of(a, rounds)?, of(b, other)?);
            Some(Compared::new(measure.name, measure.show, a, b))
        });
        Some(ComparedStep {
            workload: a.workload.name.clone(),
            step: a.step.name.clone(),
            engine: rounds.engine.to_owned(),
            cut_short_a: rounds.cut_short(),
            cut_short_b: other.cut_short(),
            measures: measures.collect(),
        })
    })
}

impl Compared {
    fn new(what: &'static str, show: fn(f64) -> String, a: Spread, b: Spread) -> Self {
        let rounds = a.rounds.min(b.rounds);
        Compared {
            what,
            a,
            b,
            ratio: Spread {
                median: ratio(b.median, a.median),
                least: ratio(b.least, a.most),
                most: ratio(b.most, a.least),
                rounds,
            },
            exceeds_spread: exceeds_spread(&a, &b),
            show,
        }
    }
}
