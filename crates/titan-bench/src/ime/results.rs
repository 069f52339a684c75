//! Measurements of an experiment: the schema of its `report.json`.
//!
//! `workloads` has an entry for each side of each workload, with `name`, `variant`,
//! `next_per_processed`, `reader_cpu_percent`, `mean_us` and `p99_us` among its fields. Latencies
//! are in microseconds, other times in seconds, processor time in percent of one processor.

use serde::Serialize;

use super::series::{Figures, Phase, Point, Series, seconds_to_hits};
use super::targets::Judged;
use super::variants::Variant;
use super::workloads::{Window, Workload};
use crate::results::Machine;

/// All of it.
#[derive(Serialize)]
pub(super) struct Results {
    /// `quick` or `full`.
    pub(super) profile: &'static str,
    /// When it began, in seconds since 1970.
    pub(super) began: u64,
    pub(super) machine: Machine,
    pub(super) workloads: Vec<Measured>,
    pub(super) targets: Vec<Judged>,
    /// Other remarks for the reader.
    pub(super) remarks: Vec<String>,
}

/// A side of a workload.
#[derive(Clone, Serialize)]
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) variant: &'static str,
    /// Those between `from` and `to`.
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// The part of the run that has the figures.
    pub(super) from: f64,
    pub(super) to: f64,
    /// Transactions of the whole run that were begun again after a conflict.
    pub(super) conflicts: u64,
    /// Jobs of the whole run that were due and never begun.
    pub(super) missed: u64,
    pub(super) phases: Vec<MeasuredPhase>,
    /// The whole run.
    pub(super) curve: Vec<Point>,
}

/// A phase of a run.
#[derive(Clone, Serialize)]
pub(super) struct MeasuredPhase {
    pub(super) name: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
    /// The hit ratio of scans in the last quarter; none without hits.
    pub(super) last_hit_ratio: Option<f64>,
    /// Seconds until nine tenths of it.
    pub(super) seconds_to_hits: Option<f64>,
}

/// The part of a run that gives the figures, and a remark if it is not the one that is meant. `off`
/// is the run of the store alone.
pub(super) fn window(workload: &Workload, off: &Series) -> ((f64, f64), Option<String>) {
    let end = off.phases.last().map_or(0.0, |phase| phase.to);
    let (steps, most) = match workload.window {
        Window::Between(from, to) => return ((end * from, end * to), None),
        Window::Crossing(steps) => (steps, (end / 12.0).max(1.0)),
    };
    match off.crossing(steps) {
        Some(at) => (((at - most).max(0.0), (at + most).min(end)), None),
        None => {
            let remark = format!(
                "{}: the store alone did not come to {steps} steps for a row. Its figures are those of the end of \
                 the run.",
                workload.name
            );
            ((end - 2.0 * most, end), Some(remark))
        }
    }
}

impl Measured {
    /// The figures of a side in a part of its run.
    pub(super) fn new(
        workload: &Workload,
        variant: Variant,
        series: &Series,
        (from, to): (f64, f64),
    ) -> Self {
        // Looks are a little late.
        let figures = series.figures(from, to + 0.05).unwrap_or_default();
        let curve = series.curve();
        let phase = |phase: &Phase| {
            let hot = seconds_to_hits(&curve, phase);
            MeasuredPhase {
                name: phase.name,
                from: phase.from,
                to: phase.to,
                last_hit_ratio: hot.map(|(_, ratio)| ratio),
                seconds_to_hits: hot.map(|(seconds, _)| seconds),
            }
        };
        Measured {
            name: workload.name,
            variant: variant.name(),
            figures,
            from,
            to,
            conflicts: series.done.conflicts,
            missed: series.done.missed,
            phases: series.phases.iter().map(phase).collect(),
            curve,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::series::tests::series;
    use super::super::workloads::{Extent, catalog};
    use super::*;

    /// A side of a workload, with invented figures.
    pub(in crate::ime) fn measured(name: &'static str, variant: &'static str) -> Measured {
        let workload = catalog::workload("W1", EXTENT).unwrap();
        let measured = Measured::new(&workload, Variant::Off, &series(), (2.0, 10.0));
        Measured {
            name,
            variant,
            ..measured
        }
    }

    const EXTENT: Extent = Extent {
        history: Duration::ZERO,
        seconds: 10.0,
        phase: 1.0,
        divisor: 1,
    };

    #[test]
    fn the_fixed_fields_are_in_the_json() {
        let results = Results {
            profile: "quick",
            began: 0,
            machine: Machine::default(),
            workloads: vec![measured("W1", "off"), measured("W1", "on")],
            targets: Vec::new(),
            remarks: Vec::new(),
        };
        let json: serde_json::Value = serde_json::to_value(&results).unwrap();
        let sides = json["workloads"].as_array().unwrap();
        assert_eq!(sides.len(), 2);
        for (side, variant) in sides.iter().zip(["off", "on"]) {
            assert_eq!(side["name"], "W1");
            assert_eq!(side["variant"], variant);
            for field in [
                "next_per_processed",
                "reader_cpu_percent",
                "mean_us",
                "p99_us",
            ] {
                assert!(side[field].as_f64().unwrap() > 0.0, "{field}");
            }
            assert_eq!(side["curve"].as_array().unwrap().len(), 10);
        }
    }

    #[test]
    fn the_window_is_around_the_crossing_or_at_the_end() {
        let mut workload = catalog::workload("W1", EXTENT).unwrap();
        workload.window = Window::Crossing(5.0);
        assert_eq!(window(&workload, &series()), ((4.0, 6.0), None));
        workload.window = Window::Crossing(62.0);
        let (part, remark) = window(&workload, &series());
        assert_eq!(part, (8.0, 10.0));
        assert!(remark.unwrap().contains("did not come to 62"));
        workload.window = Window::Between(0.4, 1.0);
        assert_eq!(window(&workload, &series()), ((4.0, 10.0), None));
    }
}
