//! Figures computed from the measurements: all rounds of a step by an engine, and their spread.
//!
//! Only this module looks up runs by workload, step and engine. Ratios are computed round by round,
//! between engines that met the same state of the machine, and only then aggregated.

use serde::Serialize;

use super::units;
use crate::results::{Measured, Outcome, Report, StepRun};
use titan_workload::step::{Step, Workload};

/// The median of some rounds, and their range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) rounds: usize,
}

impl Spread {
    /// `None` without values; ignores NaN.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread {
            // For two equal values not their mean: it does not exist for infinity.
            median: if low == high { low } else { (low + high) / 2.0 },
            least,
            most,
            rounds: sorted.len(),
        })
    }

    pub(crate) fn contains(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// Whether medians differ by no more than this share.
    pub(crate) fn is_within(&self, other: &Self, margin: f64) -> bool {
        let ratio = ratio(self.median, other.median);
        ratio.max(1.0 / ratio) <= 1.0 + margin
    }

    /// Whether the ranges of values do not overlap.
    pub(crate) fn apart_from(&self, other: &Self) -> bool {
        self.least > other.most || other.least > self.most
    }

    /// `median (least–most)`, or the value if there is only one.
    pub(crate) fn show(&self, show: fn(f64) -> String) -> String {
        let (median, least, most) = (show(self.median), show(self.least), show(self.most));
        if self.rounds == 1 || least == most {
            median
        } else {
            format!("{median} ({least}–{most})")
        }
    }
}

/// `a / b`; 1 if they are equal, also if both are zero.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if a == b { 1.0 } else { a / b }
}

/// Which of two values is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// A measure by which engines are judged.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) better: Better,
    pub(crate) of: fn(&Measured) -> Option<f64>,
    /// Whether it can be compared if engines have written different amounts, in a step that was cut
    /// short or has a time limit.
    pub(crate) of_a_part: bool,
    /// Differences up to this are ignored, however large their ratio.
    pub(crate) noise: f64,
    pub(crate) show: fn(f64) -> String,
}

pub(crate) static RATE: Measure = Measure {
    name: "operations/s",
    better: Better::Higher,
    of: |measured| Some(measured.rate()),
    of_a_part: true,
    noise: 0.0,
    show: units::number,
};

pub(crate) static P99: Measure = Measure {
    name: "p99 latency",
    better: Better::Lower,
    // With fewer it would be the figure of a handful of operations.
    of: |measured| Some(measured.latency().filter(|l| l.count >= 1000)?.p99),
    of_a_part: true,
    noise: 2.0,
    show: units::micros,
};

pub(crate) static WRITE_AMPLIFICATION: Measure = Measure {
    name: "write amplification",
    better: Better::Lower,
    of: Measured::write_amplification,
    of_a_part: false,
    noise: 0.0,
    show: units::number,
};

pub(crate) static SPACE_AMPLIFICATION: Measure = Measure {
    name: "space amplification",
    better: Better::Lower,
    of: Measured::space_amplification,
    of_a_part: false,
    noise: 0.0,
    show: units::number,
};

pub(crate) static PEAK_SPACE_AMPLIFICATION: Measure = Measure {
    name: "peak space amplification",
    better: Better::Lower,
    of: Measured::peak_space_amplification,
    of_a_part: false,
    noise: 0.0,
    show: units::number,
};

pub(crate) static CPU: Measure = Measure {
    name: "CPU per operation",
    better: Better::Lower,
    of: |measured| per_operation(measured, measured.cpu_seconds * 1e6),
    of_a_part: true,
    noise: 0.0,
    show: units::micros,
};

pub(crate) static MEMORY: Measure = Measure {
    name: "peak memory",
    better: Better::Lower,
    of: |measured| Some(measured.peak_memory as f64),
    of_a_part: false,
    noise: (4 << 20) as f64,
    show: units::memory,
};

pub(crate) static OPENING: Measure = Measure {
    name: "time to open",
    better: Better::Lower,
    of: |measured| (measured.open_seconds > 0.0).then_some(measured.open_seconds),
    of_a_part: true,
    noise: 0.02,
    show: units::seconds,
};

impl Measure {
    /// The value for a comparison; `None` if it would be meaningless.
    pub(crate) fn comparable(&self, step: &Step, measured: &Measured) -> Option<f64> {
        let same = step.writes_the_same() && !measured.work.cut_short;
        let whole = self.of_a_part || same;
        whole.then(|| (self.of)(measured)).flatten()
    }
}

/// `None` for a step without operations.
pub(crate) fn per_operation(measured: &Measured, total: f64) -> Option<f64> {
    let operations = measured.work.operations;
    (operations > 0).then(|| total / operations as f64)
}

/// A workload and the results of its steps.
pub(crate) struct WorkloadFigures<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) steps: Vec<StepFigures<'a>>,
}

/// A step and its results, by engine in the report's order; engines that did not run it are
/// missing.
pub(crate) struct StepFigures<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) step: &'a Step,
    pub(crate) engines: Vec<Rounds<'a>>,
}

/// All rounds of one step by one engine.
pub(crate) struct Rounds<'a> {
    pub(crate) engine: &'a str,
    pub(crate) runs: Vec<&'a StepRun>,
}

/// The figures of every workload of a report.
pub(crate) fn of(report: &Report) -> Vec<WorkloadFigures<'_>> {
    let rounds = |workload: &Workload, step: &Step| {
        let engines = report.engines.iter().map(|engine| Rounds {
            engine,
            runs: (report.runs.iter())
                .filter(|run| run.engine == *engine)
                .filter(|run| run.workload == workload.name && run.step == step.name)
                .collect(),
        });
        engines.filter(|rounds| !rounds.runs.is_empty()).collect()
    };
    let workloads = report.workloads.iter().map(|workload| WorkloadFigures {
        workload,
        steps: (workload.steps.iter())
            .map(|step| StepFigures {
                workload,
                step,
                engines: rounds(workload, step),
            })
            .collect(),
    });
    workloads.collect()
}

impl<'a> StepFigures<'a> {
    pub(crate) fn by(&self, engine: &str) -> Option<&Rounds<'a>> {
        self.engines.iter().find(|rounds| rounds.engine == engine)
    }
}

impl<'a> Rounds<'a> {
    pub(crate) fn measured(&self) -> impl Iterator<Item = (u32, &'a Measured)> + use<'a, '_> {
        (self.runs.iter()).filter_map(|run| Some((run.round, run.measured()?)))
    }

    /// The last round that ended well.
    pub(crate) fn last(&self) -> Option<&'a Measured> {
        self.measured().last().map(|(_, measured)| measured)
    }

    pub(crate) fn spread(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.measured().filter_map(|(_, measured)| of(measured)))
    }

    /// The ratio of this engine's figure to another's in the same round.
    pub(crate) fn ratio_to(
        &self,
        other: &Rounds<'_>,
        of: fn(&Measured) -> Option<f64>,
    ) -> Option<Spread> {
        let ratios = self.measured().filter_map(|(round, measured)| {
            let (_, beside) = other.measured().find(|(at, _)| *at == round)?;
            Some(ratio(of(measured)?, of(beside)?))
        });
        Spread::of(ratios)
    }

    /// Medians by kind, in the order of the last round.
    pub(crate) fn by_kind(&self, of: fn(&Measured) -> &[(String, u64)]) -> Vec<(&'a str, f64)> {
        let Some(last) = self.last() else {
            return Vec::new();
        };
        let median = |kind: &str| {
            self.spread(|measured| {
                let (_, bytes) = of(measured).iter().find(|(name, _)| name == kind)?;
                Some(*bytes as f64)
            })
        };
        (of(last).iter())
            .filter_map(|(kind, _)| Some((kind.as_str(), median(kind)?.median)))
            .filter(|(_, bytes)| *bytes > 0.0)
            .collect()
    }

    /// Rounds that failed, with the reason.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (u32, &'a str)> + use<'a, '_> {
        self.runs.iter().filter_map(|run| match &run.outcome {
            Outcome::Measured(_) => None,
            Outcome::Failed(reason) => Some((run.round, reason.as_str())),
        })
    }

    pub(crate) fn cut_short(&self) -> bool {
        self.measured().any(|(_, measured)| measured.work.cut_short)
    }

    /// Whether opening had to recover.
    pub(crate) fn recovered(&self) -> bool {
        self.measured().any(|(_, measured)| measured.recovered)
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    #[test]
    fn a_spread_is_of_all_rounds() {
        assert_eq!(Spread::of([]), None);
        let odd = Spread::of([3.0, f64::NAN, 1.0, 2.0]).unwrap();
        assert_eq!(
            (odd.median, odd.least, odd.most, odd.rounds),
            (2.0, 1.0, 3.0, 3)
        );
        let even = Spread::of([4.0, 1.0]).unwrap();
        assert_eq!(even.median, 2.5);
        assert!(even.contains(1.0) && !even.contains(4.5));
        assert!(!even.apart_from(&odd) && odd.apart_from(&Spread::of([3.1]).unwrap()));
        assert_eq!(even.show(units::number), "2.50 (1.00–4.00)");
        assert_eq!(Spread::of([4.0]).unwrap().show(units::number), "4.00");
    }

    #[test]
    fn rounds_are_found_and_paired() {
        let report = synthetic::report();
        let figures = of(&report);
        let fill = &figures[0].steps[0];
        let titan = fill.by("titan").unwrap();
        assert_eq!(titan.measured().count(), 3);
        let ratio = titan
            .ratio_to(fill.by("rocksdb").unwrap(), RATE.of)
            .unwrap();
        assert_eq!(ratio.rounds, 3);
        assert!(ratio.least > 2.0, "{ratio:?}");
        assert_eq!(titan.by_kind(|m| &m.written_by_kind)[0].0, "WAL");
        assert!(fill.by("mystery").is_none());
        assert_eq!(ratio_of_nothing(), (1.0, f64::INFINITY));
    }

    fn ratio_of_nothing() -> (f64, f64) {
        (ratio(0.0, 0.0), ratio(1.0, 0.0))
    }

    #[test]
    fn steps_that_did_nothing_have_no_cost_by_operation() {
        let report = synthetic::report();
        let nothing = synthetic::step_of(&report, "idle").engines[0]
            .last()
            .unwrap();
        assert_eq!((CPU.of)(nothing), None);
        assert_eq!((P99.of)(nothing), None);
        assert_eq!((RATE.of)(nothing), Some(0.0));
    }
}
