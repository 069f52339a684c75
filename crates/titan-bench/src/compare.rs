//! Two reports beside each other: what became faster, smaller or neither from A to B.
//!
//! A difference counts only if it exceeds the spread of both, so that no round of one lies within the
//! rounds of the other, and 5 %. Where either has a single round, that cannot be told; of two rounds
//! each, one pair in three is apart by chance alone.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::report::conditions;
use crate::report::document::{Cell, Document, Table};
use crate::report::figures::{
    self, Measure, P99, RATE, Rounds, SPACE_AMPLIFICATION, Spread, StepFigures,
    WRITE_AMPLIFICATION, ratio,
};
use crate::report::markdown;
use crate::report::units::number;
use crate::report::verdict::MARGIN;
use crate::results::{Ceilings, Report};

/// What is compared of each step.
static MEASURES: [&Measure; 4] = [&RATE, &P99, &WRITE_AMPLIFICATION, &SPACE_AMPLIFICATION];

/// What two reports say of the same.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// Conditions that are not the same, so that differences may come from them.
    pub(crate) conditions: Vec<Difference>,
    /// What the device gave.
    pub(crate) device: Vec<Compared>,
    pub(crate) steps: Vec<ComparedStep>,
    pub(crate) rankings: Vec<Ranking>,
    /// Steps by engines that were measured in one report only.
    pub(crate) only_in_a: Vec<String>,
    pub(crate) only_in_b: Vec<String>,
}

/// One condition; a report that does not have it says nothing.
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
    pub(crate) measures: Vec<Compared>,
}

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) what: &'static str,
    pub(crate) a: Spread,
    pub(crate) b: Spread,
    /// The median of B by that of A, and how far it may lie from that: the least of one by the most
    /// of the other.
    pub(crate) ratio: Spread,
    /// By more than the margin. None if either has a single round.
    pub(crate) exceeds_spread: Option<bool>,
    #[serde(skip)]
    show: fn(f64) -> String,
}

/// Engines of a step by their rates, the fastest first; those that both reports measured.
#[derive(Debug, Serialize)]
pub(crate) struct Ranking {
    pub(crate) workload: String,
    pub(crate) step: String,
    pub(crate) a: Vec<String>,
    pub(crate) b: Vec<String>,
    pub(crate) same: bool,
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
        steps: pairs.iter().flat_map(|(a, b)| compare_step(a, b)).collect(),
        rankings: pairs.iter().filter_map(|(a, b)| rank(a, b)).collect(),
        only_in_a: only(&in_a, &in_b),
        only_in_b: only(&in_b, &in_a),
    }
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

/// Those of the run, of its engines and of its workloads.
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
            measures: measures.collect(),
        })
    })
}

fn rank(a: &StepFigures<'_>, b: &StepFigures<'_>) -> Option<Ranking> {
    let order = |these: &StepFigures<'_>, others: &StepFigures<'_>| {
        let both = these.engines.iter().filter(|rounds| {
            others
                .by(rounds.engine)
                .is_some_and(|other| other.last().is_some())
        });
        let mut rated: Vec<(&str, f64)> = both
            .filter_map(|rounds| Some((rounds.engine, rounds.spread(RATE.of)?.median)))
            .collect();
        rated.sort_by(|a, b| b.1.total_cmp(&a.1));
        rated
            .into_iter()
            .map(|(engine, _)| engine.to_owned())
            .collect::<Vec<String>>()
    };
    let (in_a, in_b) = (order(a, b), order(b, a));
    (in_a.len() > 1).then(|| Ranking {
        workload: a.workload.name.clone(),
        step: a.step.name.clone(),
        same: in_a == in_b,
        a: in_a,
        b: in_b,
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
            exceeds_spread: (rounds > 1).then(|| a.apart_from(&b) && !a.is_within(&b, MARGIN)),
            show,
        }
    }

    fn cells(&self) -> [Cell; 5] {
        let verdict = match self.exceeds_spread {
            Some(true) => "differs",
            Some(false) => "within the spread",
            None => "one round",
        };
        [
            self.what.into(),
            self.a.show(self.show).into(),
            self.b.show(self.show).into(),
            self.ratio.show(number).into(),
            verdict.into(),
        ]
    }
}

impl Comparison {
    fn document(&self) -> Document {
        let mut document = Document {
            title: "B compared to A".to_owned(),
            ..Document::default()
        };
        document.heading(2, "Conditions", "conditions");
        if self.conditions.is_empty() {
            document.text("They are the same.");
        }
        let mut table = Table::new("What differs", &[":condition", ":A", ":B"]);
        for difference in &self.conditions {
            let cell = |value: &Option<String>| {
                value
                    .as_ref()
                    .map_or_else(Cell::nothing, |value| value.as_str().into())
            };
            let name = difference.what.as_str().into();
            table.row(vec![name, cell(&difference.a), cell(&difference.b)]);
        }
        document.table(table);
        let columns = [":the device", "A", "B", "B / A", ":"];
        let mut table = Table::new("What the device gave", &columns);
        for compared in &self.device {
            table.row(compared.cells().into());
        }
        document.table(table);
        document.heading(2, "Rankings", "rankings");
        self.add_rankings(&mut document);
        document.heading(2, "Steps", "steps");
        self.add_steps(&mut document);
        for (name, places) in [("A", &self.only_in_a), ("B", &self.only_in_b)] {
            if !places.is_empty() {
                document.heading(
                    2,
                    format!("Measured only in {name}"),
                    &format!("only-{name}"),
                );
                document.list(places.clone());
            }
        }
        document
    }

    fn add_rankings(&self, document: &mut Document) {
        let changed = self.rankings.iter().filter(|ranking| !ranking.same);
        document.text(format!(
            "By operations/s, engines have the same order in {} of {} steps.",
            self.rankings.len() - changed.clone().count(),
            self.rankings.len()
        ));
        let mut table = Table::new("Where the order changed", &[":step", ":A", ":B"]);
        for ranking in changed {
            table.row(vec![
                format!("{}: {}", ranking.workload, ranking.step).into(),
                ranking.a.join(" > ").into(),
                ranking.b.join(" > ").into(),
            ]);
        }
        document.table(table);
    }

    fn add_steps(&self, document: &mut Document) {
        let columns = [":step", ":engine", ":measure", "A", "B", "B / A", ":"];
        let mut table = Table::new("", &columns);
        for step in &self.steps {
            for compared in &step.measures {
                let name = format!("{}: {}", step.workload, step.step);
                let mut row = vec![name.into(), Cell::engine(&step.engine)];
                row.extend(compared.cells());
                table.row(row);
            }
        }
        document.table(table);
    }
}

/// As Markdown.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&markdown::render(&self.document(), ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;
    use crate::results::Outcome;

    fn find<'c>(comparison: &'c Comparison, step: &str, engine: &str, what: &str) -> &'c Compared {
        let mut steps = comparison.steps.iter();
        let step = steps
            .find(|s| s.step == step && s.engine == engine)
            .unwrap();
        step.measures
            .iter()
            .find(|measure| measure.what == what)
            .unwrap()
    }

    #[test]
    fn a_report_is_the_same_as_itself() {
        let report = synthetic::report();
        let comparison = compare(&report, &report);
        assert!(comparison.conditions.is_empty());
        assert!(comparison.only_in_a.is_empty() && comparison.only_in_b.is_empty());
        assert!(comparison.rankings.iter().all(|ranking| ranking.same));
        let all = comparison.steps.iter().flat_map(|step| &step.measures);
        assert!(all.clone().count() > 20);
        assert!(
            all.clone()
                .all(|c| c.exceeds_spread == Some(false) && c.ratio.contains(1.0))
        );
    }

    #[test]
    fn what_differs_is_told() {
        let (a, mut b) = (synthetic::report(), synthetic::report());
        b.settings.memory_limit = None;
        b.about_engines[0].version = "2.0.0".to_owned();
        b.runs.retain(|run| run.engine != "redb");
        for run in &mut b.runs {
            if let Outcome::Measured(measured) = &mut run.outcome
                && (run.step.as_str(), run.engine.as_str()) == ("get", "titan")
            {
                measured.work.operations *= 2;
            }
        }
        let comparison = compare(&a, &b);
        let names: Vec<&str> = comparison
            .conditions
            .iter()
            .map(|d| d.what.as_str())
            .collect();
        assert_eq!(names, ["memory limit", "engine titan"]);
        let rate = find(&comparison, "get", "titan", RATE.name);
        assert_eq!(rate.exceeds_spread, Some(true));
        assert!((rate.ratio.median - 2.0).abs() < 0.01, "{rate:?}");
        let changed: Vec<_> = comparison
            .rankings
            .iter()
            .filter(|ranking| !ranking.same)
            .collect();
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].b[0], "titan");
        assert_eq!(comparison.only_in_a.len(), 4);
        let text = comparison.to_string();
        for part in [
            "memory limit",
            "Measured only in A",
            "differs",
            "lmdb > titan",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(
            serde_json::to_string(&comparison)
                .unwrap()
                .contains("\"exceeds_spread\":true")
        );
    }

    #[test]
    fn one_round_has_no_spread() {
        let (a, mut b) = (synthetic::report(), synthetic::report());
        b.runs.retain(|run| run.round == 1);
        b.ceilings.clear();
        let comparison = compare(&a, &b);
        assert!(comparison.device.is_empty());
        assert_eq!(
            find(&comparison, "fill", "titan", RATE.name).exceeds_spread,
            None
        );
    }
}
