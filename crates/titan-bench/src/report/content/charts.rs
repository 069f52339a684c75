//! Selects the figures for each plot.
//!
//! Lines show the last round that ended well, bars all rounds. Long series are thinned out.

use anyhow::Result;

use super::steps::{latency_of, operations};
use crate::report::document::{Block, Document, Plot, slug};
use crate::report::figures::{Rounds, Spread, StepFigures, WRITE_AMPLIFICATION, WorkloadFigures};
use crate::report::plots::axis::{Axis, Scale};
use crate::report::plots::bars::{Bar, Bars, axis};
use crate::report::plots::lines::{Line, Lines};
use crate::report::units::{bytes_a_second, micros, number};
use crate::results::{Ceilings, Measured, Report, TICK_SECONDS};

/// Points of a line. More would not be visible, and would make the page large.
const POINTS: usize = 300;

/// Higher percentiles are based on too few operations.
const LAST_PERCENTILE: f64 = 99.999;

/// Throughput over time, and the latencies of every kind of operation.
pub(super) fn of_step(document: &mut Document, step: &StepFigures<'_>) -> Result<()> {
    let (workload, name) = (&step.workload.name, &step.step.name);
    let file = |what: &str| format!("{}--{}--{}.svg", slug(workload), slug(name), slug(what));
    let throughput = Lines {
        x: Axis {
            name: "seconds since the start of the step".to_owned(),
            scale: Scale::Linear,
            show: plain,
        },
        y: Axis {
            name: "operations/s".to_owned(),
            scale: Scale::Linear,
            show: number,
        },
        lines: lines(step, throughput),
    };
    let caption = format!("{workload}, {name}: throughput over time, of the last round.");
    plot(document, throughput.draw()?, file("throughput"), caption);
    for operation in operations(step) {
        let latency = Lines {
            x: Axis {
                name: "percentile".to_owned(),
                scale: Scale::Nines,
                show: plain,
            },
            y: Axis {
                name: "latency".to_owned(),
                scale: Scale::Log,
                show: micros,
            },
            lines: lines(step, |measured| curve(measured, operation)),
        };
        let caption = format!("{workload}, {name}: latency of {operation}, of the last round.");
        plot(
            document,
            latency.draw()?,
            file(&format!("latency-{operation}")),
            caption,
        );
    }
    Ok(())
}

/// Space over time, write amplification, and the device's activity compared with its limits.
pub(super) fn of_workload(
    document: &mut Document,
    report: &Report,
    figures: &WorkloadFigures<'_>,
) -> Result<()> {
    let workload = &figures.workload.name;
    let file = |what: &str| format!("{}--{what}.svg", slug(workload));
    let engines = report.engines.iter().map(|engine| Line {
        engine,
        points: space(figures, engine),
    });
    let steps = figures.steps.iter();
    let space = Lines {
        x: Axis {
            name: "steps, each as wide as it is long for that engine".to_owned(),
            scale: Scale::Steps(steps.map(|step| step.step.name.clone()).collect()),
            show: number,
        },
        y: Axis {
            name: "bytes on disk for each live byte".to_owned(),
            scale: Scale::Log,
            show: number,
        },
        lines: engines.collect(),
    };
    let caption = format!("{workload}: space over time, of the last round.");
    plot(document, space.draw()?, file("space"), caption);

    let amplification = Bars {
        axis: axis("bytes at the device for each byte that users wrote", number),
        groups: groups(figures, WRITE_AMPLIFICATION.of),
        limit: None,
    };
    let caption = format!("{workload}: write amplification, median and range of the rounds.");
    plot(
        document,
        amplification.draw()?,
        file("write-amplification"),
        caption,
    );

    for device in &DEVICE {
        let ceiling = Spread::of(report.ceilings.iter().map(device.ceiling));
        let bars = Bars {
            axis: axis(device.name, bytes_a_second),
            groups: groups(figures, device.of),
            limit: ceiling.map(|ceiling| (ceiling.median, "fio, sequential")),
        };
        let caption = format!(
            "{workload}: {}, opening and closing included, median and range of the rounds.",
            device.name
        );
        plot(document, bars.draw()?, file(device.file), caption);
    }
    Ok(())
}

/// A rate at the device, and the rate that `fio` reached.
struct DeviceRate {
    name: &'static str,
    file: &'static str,
    of: fn(&Measured) -> Option<f64>,
    ceiling: fn(&Ceilings) -> f64,
}

static DEVICE: [DeviceRate; 2] = [
    DeviceRate {
        name: "bytes written at the device",
        file: "device-writes",
        of: |measured| Some(measured.device_written as f64 / lifetime(measured)),
        ceiling: |ceilings| ceilings.sequential_write,
    },
    DeviceRate {
        name: "bytes read at the device",
        file: "device-reads",
        of: |measured| Some(measured.device_read as f64 / lifetime(measured)),
        ceiling: |ceilings| ceilings.sequential_read,
    },
];

/// Seconds in which the process used the device.
fn lifetime(measured: &Measured) -> f64 {
    let closing = measured.close_seconds.unwrap_or(0.0);
    let all = measured.open_seconds + measured.work.seconds + closing + measured.sync_seconds;
    all.max(1e-9)
}

fn plot(document: &mut Document, svg: Option<String>, file: String, caption: String) {
    if let Some(svg) = svg {
        document
            .blocks
            .push(Block::Plot(Plot { file, caption, svg }));
    }
}

fn lines<'a>(
    step: &StepFigures<'a>,
    points: impl Fn(&Measured) -> Vec<(f64, f64)>,
) -> Vec<Line<'a>> {
    let line = |rounds: &Rounds<'a>| {
        Some(Line {
            engine: rounds.engine,
            points: points(rounds.last()?),
        })
    };
    step.engines.iter().filter_map(line).collect()
}

fn groups<'a>(
    figures: &WorkloadFigures<'a>,
    of: fn(&Measured) -> Option<f64>,
) -> Vec<(&'a str, Vec<Bar<'a>>)> {
    let group = |step: &StepFigures<'a>| {
        let bars = step.engines.iter().filter_map(|rounds| {
            Some(Bar {
                engine: rounds.engine,
                value: rounds.spread(of)?,
            })
        });
        (step.step.name.as_str(), bars.collect())
    };
    figures.steps.iter().map(group).collect()
}

/// Operations per second in the middle of each interval.
fn throughput(measured: &Measured) -> Vec<(f64, f64)> {
    let ticks = measured.work.over_time.as_slice();
    let together = ticks.len().div_ceil(POINTS).max(1);
    let mut start = 0.0;
    let points = ticks.chunks(together).map(|ticks| {
        let seconds = ticks.len() as f64 * TICK_SECONDS;
        let middle = start + seconds / 2.0;
        start += seconds;
        (middle, ticks.iter().sum::<u64>() as f64 / seconds)
    });
    points.collect()
}

fn curve(measured: &Measured, operation: &str) -> Vec<(f64, f64)> {
    let Some(latency) = latency_of(measured, operation) else {
        return Vec::new();
    };
    let shown = latency
        .curve
        .iter()
        .filter(|(percentile, _)| *percentile <= LAST_PERCENTILE);
    let points: Vec<(f64, f64)> = shown.copied().collect();
    let every = points.len().div_ceil(POINTS).max(1);
    // From the end, so that the slowest is kept.
    let mut kept: Vec<_> = points.iter().rev().step_by(every).copied().collect();
    kept.reverse();
    kept
}

/// Steps one after another, each from its number to the next one's. Peaks are kept.
fn space(figures: &WorkloadFigures<'_>, engine: &str) -> Vec<(f64, f64)> {
    let steps = figures.steps.iter().enumerate();
    let points = steps.flat_map(|(at, step)| {
        let last = step.by(engine).and_then(Rounds::last);
        last.map_or_else(Vec::new, |measured| {
            let ends = measured.space.iter().map(|sample| sample.seconds);
            let whole = ends.fold(measured.work.seconds, f64::max).max(1e-9);
            let points: Vec<(f64, f64)> = (measured.space.iter())
                .map(|s| (at as f64 + s.seconds / whole, s.disk as f64 / s.live as f64))
                .collect();
            let together = points
                .len()
                .div_ceil(POINTS / figures.steps.len().max(1))
                .max(1);
            let peak =
                |points: &[(f64, f64)]| points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            points.chunks(together).filter_map(peak).collect()
        })
    });
    points.collect()
}

/// As few digits as possible.
fn plain(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;

    #[test]
    fn long_series_are_thinned_out() {
        let report = synthetic::report();
        let step = synthetic::step_of(&report, "fill");
        let mut measured = step.engines[0].last().unwrap().clone();
        measured.work.over_time = vec![10; 100_001];
        let points = throughput(&measured);
        assert!(points.len() <= POINTS && points.len() > POINTS / 2);
        assert!(points.iter().all(|(_, rate)| *rate == 40.0));
        measured.work.over_time = vec![10];
        assert_eq!(throughput(&measured), [(TICK_SECONDS / 2.0, 40.0)]);
        measured.work.over_time.clear();
        assert!(throughput(&measured).is_empty());

        let latency = &mut measured.work.latencies[0];
        latency.curve = (0..=10_000)
            .map(|at| (f64::from(at) / 100.0, f64::from(at)))
            .collect();
        let points = curve(&measured, "fill");
        assert!(points.len() <= POINTS);
        assert_eq!(points.last(), Some(&(99.99, 9999.0)));
        assert!(curve(&measured, "other").is_empty());
    }

    #[test]
    fn space_goes_from_step_to_step() {
        let report = synthetic::report();
        let figures = crate::report::figures::of(&report);
        let points = space(&figures[0], "titan");
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0));
        assert!(points.first().unwrap().0 < 0.1 && points.last().unwrap().0 > 2.9);
        assert!(space(&figures[0], "nobody").is_empty());
    }
}
