//! Tables for one step, and for all steps of a workload together.

use super::joined;
use crate::report::document::{Cell, Document, Table, Tone};
use crate::report::figures::{
    CPU, MEMORY, Measure, OPENING, PEAK_SPACE_AMPLIFICATION, RATE, Rounds, SPACE_AMPLIFICATION,
    Spread, StepFigures, WRITE_AMPLIFICATION, WorkloadFigures, per_operation,
};
use crate::report::units::{bytes, bytes_a_second, micros, number, percent, seconds};
use crate::results::{Latency, Measured, Report};

/// Everything about a step except its plots.
pub(super) fn add(document: &mut Document, step: &StepFigures<'_>) {
    if step.engines.is_empty() {
        return document.text("No engine ran this step.");
    }
    document.list(remarks(step));
    document.table(speed(step));
    document.table(latencies(step));
    document.table(device(step));
    document.table(space(step));
}

/// Remarks that must be read before any figure of this step.
fn remarks(step: &StepFigures<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    for rounds in &step.engines {
        let engine = rounds.engine;
        let failures = rounds.failures();
        remarks.extend(
            failures.map(|(round, why)| format!("{engine} failed in round {round}: {why}")),
        );
        if rounds.cut_short() {
            remarks.push(format!(
                "{engine} was cut short: its time was up before its work was done. It wrote and \
                 read less than others, and its totals are of that."
            ));
        }
        if rounds
            .measured()
            .any(|(_, measured)| !measured.device_counted)
        {
            remarks.push(format!(
                "Bytes at the device of {engine} are those that the kernel counts for the process."
            ));
        }
    }
    remarks
}

fn speed(step: &StepFigures<'_>) -> Table {
    let first = step.engines.first();
    let ratio = first.map_or_else(String::new, |first| format!("ratio to {}", first.engine));
    let columns = [
        ":engine",
        "operations/s",
        &ratio,
        "user data",
        "CPU per operation",
        "found",
    ];
    let mut table = Table::new("Speed: median (range) of the rounds", &columns);
    for rounds in &step.engines {
        let user_data = |measured: &Measured| {
            let bytes = measured.work.bytes_read + measured.work.bytes_written;
            Some(bytes as f64 / measured.work.seconds.max(1e-9))
        };
        let rate = match rounds.last() {
            None => Cell::from("failed").tone(Tone::Bad),
            Some(_) if rounds.cut_short() => {
                let rate = spread(rounds, &RATE).text;
                Cell::from(format!("{rate}, cut short"))
            }
            Some(_) => spread(rounds, &RATE),
        };
        let ratio = first.and_then(|first| rounds.ratio_to(first, RATE.of));
        table.row(vec![
            Cell::engine(rounds.engine),
            rate,
            shown(ratio, number),
            shown(rounds.spread(user_data), bytes_a_second),
            spread(rounds, &CPU),
            shown(rounds.spread(found), percent),
        ]);
    }
    table
}

/// The share of looked-up keys that existed; engines with different shares did different work.
fn found(measured: &Measured) -> Option<f64> {
    let work = &measured.work;
    (work.looked_up > 0).then(|| work.found as f64 / work.looked_up as f64)
}

type Percentile = (&'static str, fn(&Latency) -> Option<f64>);

static PERCENTILES: [Percentile; 7] = [
    ("mean", |latency| Some(latency.mean)),
    ("p50", |latency| Some(latency.p50)),
    ("p90", |latency| latency.p90),
    ("p99", |latency| Some(latency.p99)),
    ("p99.9", |latency| Some(latency.p999)),
    ("p99.99", |latency| Some(latency.p9999)),
    ("max", |latency| Some(latency.max)),
];

fn latencies(step: &StepFigures<'_>) -> Table {
    let names = PERCENTILES.iter().map(|(name, _)| *name);
    let columns: Vec<&str> = [":operation", ":engine"].into_iter().chain(names).collect();
    let mut table = Table::new("Latency: medians of the rounds", &columns);
    for operation in operations(step) {
        for rounds in &step.engines {
            let of = |measured: &Measured, of: fn(&Latency) -> Option<f64>| {
                latency_of(measured, operation).and_then(of)
            };
            let Some(latency) = rounds.last().and_then(|last| latency_of(last, operation)) else {
                continue;
            };
            let from = if latency.from_due_time {
                ", from when it was due"
            } else {
                ""
            };
            let mut row = vec![
                format!("{operation}{from}").into(),
                Cell::engine(rounds.engine),
            ];
            row.extend(PERCENTILES.iter().map(|(_, percentile)| {
                let spread = rounds.spread(|measured| of(measured, *percentile));
                spread.map_or_else(Cell::nothing, |spread| micros(spread.median).into())
            }));
            table.row(row);
        }
    }
    table
}

/// The kinds of operations that have latencies, in the order of the first engine that has any.
pub(super) fn operations<'a>(step: &StepFigures<'a>) -> Vec<&'a str> {
    let mut operations = Vec::new();
    let measured = step.engines.iter().flat_map(|rounds| rounds.last());
    for latency in measured.flat_map(|measured| &measured.work.latencies) {
        if !operations.contains(&latency.operation.as_str()) {
            operations.push(latency.operation.as_str());
        }
    }
    operations
}

pub(super) fn latency_of<'m>(measured: &'m Measured, operation: &str) -> Option<&'m Latency> {
    let mut latencies = measured.work.latencies.iter();
    latencies.find(|latency| latency.operation == operation)
}

fn device(step: &StepFigures<'_>) -> Table {
    let columns = [
        ":engine",
        "read per operation",
        "written per operation",
        "read",
        "written",
        "write amplification",
        ":written by kind, as the engine counts",
    ];
    let mut table = Table::new(
        "Device: before the process starts to after a last sync",
        &columns,
    );
    for rounds in &step.engines {
        let each = |of: fn(&Measured) -> u64| {
            rounds.spread(|measured| per_operation(measured, of(measured) as f64))
        };
        let all = |of: fn(&Measured) -> u64| rounds.spread(|measured| Some(of(measured) as f64));
        table.row(vec![
            Cell::engine(rounds.engine),
            shown(each(|measured| measured.device_read), bytes),
            shown(each(|measured| measured.device_written), bytes),
            shown(all(|measured| measured.device_read), bytes),
            shown(all(|measured| measured.device_written), bytes),
            spread(rounds, &WRITE_AMPLIFICATION),
            kinds(rounds, |measured| &measured.written_by_kind),
        ]);
    }
    table
}

fn space(step: &StepFigures<'_>) -> Table {
    let columns = [
        ":engine",
        "on disk at the end",
        "at most",
        "space amplification",
        "at most",
        "memory at most",
        "open",
        "close",
        ":on disk at the end by kind",
    ];
    let mut table = Table::new("Space, memory and opening", &columns);
    for rounds in &step.engines {
        let all = |of: fn(&Measured) -> u64| rounds.spread(|measured| Some(of(measured) as f64));
        let mut open = spread(rounds, &OPENING);
        if rounds.recovered() {
            open.text.push_str(", recovery");
        }
        table.row(vec![
            Cell::engine(rounds.engine),
            shown(all(|measured| measured.disk), bytes),
            shown(all(|measured| measured.peak_disk), bytes),
            spread(rounds, &SPACE_AMPLIFICATION),
            spread(rounds, &PEAK_SPACE_AMPLIFICATION),
            spread(rounds, &MEMORY),
            open,
            shown(rounds.spread(|measured| measured.close_seconds), seconds),
            kinds(rounds, |measured| &measured.disk_by_kind),
        ]);
    }
    table
}

/// For all steps of a workload: the fairer figures, because they include the work that a step
/// left to the next one. Only rounds in which all of them ended well are counted.
pub(super) fn together(report: &Report, figures: &WorkloadFigures<'_>) -> Table {
    let columns = [
        ":engine",
        "written by users",
        "written at the device",
        "write amplification",
        "read at the device",
        "CPU",
        "time",
    ];
    let mut table = Table::new("All steps together", &columns);
    for engine in &report.engines {
        let rounds = (1..=report.rounds).filter_map(|round| {
            let steps = figures.steps.iter().map(|step| {
                let mut measured = step.by(engine)?.measured();
                measured
                    .find(|(at, _)| *at == round)
                    .map(|(_, measured)| measured)
            });
            steps.collect::<Option<Vec<&Measured>>>()
        });
        let rounds: Vec<Vec<&Measured>> = rounds.filter(|steps| !steps.is_empty()).collect();
        let sum = |steps: &[&Measured], of: fn(&Measured) -> f64| -> f64 {
            steps.iter().map(|measured| of(measured)).sum()
        };
        let sums = |of| Spread::of(rounds.iter().map(|steps| sum(steps, of)));
        let user: fn(&Measured) -> f64 = |measured| measured.work.bytes_written as f64;
        let device: fn(&Measured) -> f64 = |measured| measured.device_written as f64;
        let writing = rounds.iter().filter(|steps| sum(steps, user) > 0.0);
        let amplification = writing.map(|steps| sum(steps, device) / sum(steps, user));
        table.row(vec![
            Cell::engine(engine),
            shown(sums(user), bytes),
            shown(sums(device), bytes),
            shown(Spread::of(amplification), number),
            shown(sums(|measured| measured.device_read as f64), bytes),
            shown(sums(|measured| measured.cpu_seconds), seconds),
            shown(sums(|measured| measured.work.seconds), seconds),
        ]);
    }
    table
}

fn spread(rounds: &Rounds<'_>, measure: &Measure) -> Cell {
    shown(rounds.spread(measure.of), measure.show)
}

fn shown(spread: Option<Spread>, show: fn(f64) -> String) -> Cell {
    spread.map_or_else(Cell::nothing, |spread| spread.show(show).into())
}

fn kinds(rounds: &Rounds<'_>, of: fn(&Measured) -> &[(String, u64)]) -> Cell {
    let kinds = rounds.by_kind(of).into_iter();
    let kinds = kinds.map(|(kind, size)| format!("{kind} {}", bytes(size)));
    joined(kinds, ", ").map_or_else(Cell::nothing, Cell::from)
}
