//! A synthetic report for tests: four engines, three rounds. Titan wins `fill` and loses `get`, to
//! LMDB. Redb is cut short at `fill` and fails `get` in round 2.

use crate::results::{AboutEngine, Better, Measure, Report, Round, SCHEMA, Series, Target, X};
use crate::units::Unit;

const ENGINES: [&str; 4] = ["titan", "rocksdb", "lmdb", "redb"];

/// Operations per second by step and engine.
const RATES: [(&str, [f64; 4]); 2] = [
    ("mixed: fill", [60_000.0, 25_000.0, 9_000.0, 8_000.0]),
    ("mixed: get", [22_000.0, 18_000.0, 30_000.0, 21_000.0]),
];

pub(crate) fn report() -> Report {
    let mut report = Report {
        schema: SCHEMA,
        title: "Titan beside its peers".to_owned(),
        began: "2026-11-25".to_owned(),
        commands: vec!["titan-bench quick --out DIR".to_owned()],
        conditions: vec![
            ("processor".to_owned(), "Example <CPU>".to_owned()),
            ("memory limit".to_owned(), "512 MiB".to_owned()),
        ],
        engines: ENGINES.map(str::to_owned).to_vec(),
        about_engines: ENGINES
            .map(|name| {
                let notes = vec!["Deletes ranges key by key.".to_owned()];
                AboutEngine::new(name, "1.2.3", [("cache", "1".to_owned())], notes)
            })
            .to_vec(),
        about: vec![("mixed".to_owned(), "Fills and reads.".to_owned())],
        measures: vec![
            Measure::new("operations_per_second", "operations/s", Unit::Number)
                .judged(Better::Higher, 0.0)
                .drawn(),
            Measure::new("p99_us", "p99 latency", Unit::Micros).judged(Better::Lower, 2.0),
            Measure::new("write_amplification", "write amplification", Unit::Number)
                .judged(Better::Lower, 0.0),
        ],
        targets: vec![Target {
            name: "mixed: get".to_owned(),
            key: "p99_us".to_owned(),
            variant: "titan".to_owned(),
            beside: Some("rocksdb".to_owned()),
            at_most: Some(0.1),
            at_least: None,
        }],
        remarks: vec!["This is a remark.".to_owned()],
        ..Report::default()
    };
    for round in 1..=3 {
        for (name, rates) in RATES {
            for (engine, rate) in rates.into_iter().enumerate() {
                let measured = measured(name, engine, rate * (1.0 + 0.02 * round as f64));
                let measured = match (name, ENGINES[engine], round) {
                    ("mixed: get", "redb", 2) => Err("the disk is full: <no> | space".to_owned()),
                    _ => Ok(measured),
                };
                report.record(name, ENGINES[engine], round, measured);
            }
        }
    }
    report
}

fn measured(name: &str, engine: usize, rate: f64) -> Round {
    let place = engine as f64 + 1.0;
    let mut figures = vec![("operations_per_second", rate), ("p99_us", 20.0 * place)];
    figures.push(("write_amplification", place));
    let figures = figures.into_iter();
    let series = |name: &str, unit, x| Series {
        name: name.to_owned(),
        unit,
        x,
        points: vec![(0.0, rate), (50.0, rate * 2.0)],
    };
    Round {
        figures: figures
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        more: vec![(
            Measure::new("sst", "written: sst", Unit::Bytes),
            place * 1e6,
        )],
        cut_short: engine == 3 && name == "mixed: fill",
        unrated: match name {
            "mixed: get" => vec!["write_amplification".to_owned()],
            _ => Vec::new(),
        },
        series: vec![
            series("operations/s", Unit::Number, X::Seconds),
            series("latency of get", Unit::Micros, X::Percentile),
        ],
    }
}

/// Removes the other engines, as if they had not been requested.
pub(crate) fn keep_engines(report: &mut Report, kept: &[&str]) {
    let is_kept = |name: &str| kept.contains(&name);
    report.engines.retain(|engine| is_kept(engine));
    report.about_engines.retain(|about| is_kept(&about.name));
    report.workloads.retain(|entry| is_kept(&entry.variant));
}
