//! A synthetic report for tests: three engines, three rounds, and one case of everything that can
//! go wrong.
//!
//! Titan wins `fill` and loses `get`, to LMDB. Redb fails `get` in round 2; `idle` does nothing;
//! `mixed` has a fixed rate, two kinds of operations and recovery.

use super::figures::{self, StepFigures};
use crate::results::{
    AboutEngine, Ceilings, Latency, Machine, Measured, Outcome, Report, SCHEMA, SpaceSample,
    StepRun, TICK_SECONDS, WorkDone,
};
use crate::settings::{Compression, Durability, Settings};
use titan_workload::step::{Amount, Choice, KeyOrder, Operation, Step, ValueSizes, Workload};

const ENGINES: [&str; 4] = ["titan", "rocksdb", "lmdb", "redb"];

/// Operations per second by step and engine.
const RATES: [(&str, [f64; 4]); 4] = [
    ("fill", [60_000.0, 25_000.0, 9_000.0, 8_000.0]),
    ("get", [22_000.0, 18_000.0, 30_000.0, 21_000.0]),
    ("idle", [0.0; 4]),
    ("mixed", [5000.0, 4990.0, 4000.0, 5000.0]),
];

pub(crate) fn report() -> Report {
    let workloads = vec![
        workload(
            "fill and read",
            vec![
                step("fill", vec![(Operation::Put, 1)]),
                step("get", vec![(Operation::Get, 1)]),
                step("idle", vec![(Operation::Delete, 1)]),
            ],
        ),
        workload(
            "mixed",
            vec![Step {
                threads: 2,
                rate: Some(5000.0),
                keys: Choice::Zipf(0.99),
                ..step("mixed", vec![(Operation::Get, 95), (Operation::Put, 5)])
            }],
        ),
    ];
    let mut runs = Vec::new();
    for round in 1..=3 {
        for workload in &workloads {
            for (place, engine) in ENGINES.iter().enumerate() {
                let outcome = |step: &Step| outcome(&step.name, place, round);
                runs.extend(workload.steps.iter().map(|step| StepRun {
                    round,
                    engine: (*engine).to_owned(),
                    workload: workload.name.clone(),
                    step: step.name.clone(),
                    outcome: outcome(step),
                }));
            }
        }
    }
    Report {
        schema: SCHEMA,
        profile: "quick".to_owned(),
        began: 1_700_000_000,
        seconds: 1234.0,
        machine: Machine {
            cpu: "Example <CPU>".to_owned(),
            cores: 2,
            memory: 8 << 30,
            kernel: "6.1".to_owned(),
            commit: "abc1234".to_owned(),
            storage: "ext4 on a disk".to_owned(),
        },
        settings: settings(),
        engines: ENGINES.map(str::to_owned).to_vec(),
        about_engines: ENGINES.map(about).to_vec(),
        workloads,
        rounds: 3,
        ceilings: (1..=3).map(ceilings).collect(),
        runs,
        remarks: vec!["This is a remark.".to_owned()],
    }
}

/// Removes the other engines, as if they had not been requested.
pub(crate) fn keep_engines(report: &mut Report, kept: &[&str]) {
    report
        .engines
        .retain(|engine| kept.contains(&engine.as_str()));
    report
        .about_engines
        .retain(|about| kept.contains(&about.name.as_str()));
    report
        .runs
        .retain(|run| kept.contains(&run.engine.as_str()));
}

/// The figures of the step of this name.
pub(crate) fn step_of<'a>(report: &'a Report, name: &str) -> StepFigures<'a> {
    let mut steps = figures::of(report)
        .into_iter()
        .flat_map(|workload| workload.steps);
    steps.find(|step| step.step.name == name).unwrap()
}

fn settings() -> Settings {
    Settings {
        durability: Durability::Buffered,
        compression: Compression::None,
        memory_limit: Some(512 << 20),
        block_cache: 85 << 20,
        write_buffer: 32 << 20,
        background_jobs: 2,
        blob_threshold: 1024,
        space_amplification: Some(1.5),
        direct_io: false,
        data_exceeds_memory: true,
        drop_caches: true,
        seed: 1,
    }
}

fn about(name: &str) -> AboutEngine {
    AboutEngine {
        name: name.to_owned(),
        version: "1.2.3".to_owned(),
        options: vec![("cache".to_owned(), "1".to_owned())],
        notes: vec!["Deletes ranges key by key.".to_owned()],
    }
}

fn ceilings(round: u32) -> Ceilings {
    Ceilings {
        round,
        sequential_write: 1.2e9 + f64::from(round) * 1e7,
        sequential_read: 2e9,
        random_read_depth_1: 11_000.0,
        random_read_depth_32: 80_000.0,
    }
}

fn workload(name: &str, steps: Vec<Step>) -> Workload {
    Workload {
        name: name.to_owned(),
        about: format!("What {name} is about."),
        records: 1_000_000,
        key_order: KeyOrder::Hashed,
        value_sizes: ValueSizes::Fixed(1000),
        steps,
    }
}

fn step(name: &str, mix: Vec<(Operation, u32)>) -> Step {
    Step {
        name: name.to_owned(),
        threads: 1,
        mix,
        keys: Choice::Uniform,
        amount: Amount {
            operations: None,
            seconds: 30.0,
        },
        rate: None,
        writer_beside: None,
        holds_snapshot: false,
        ends_killed: false,
        fresh: name == "fill",
    }
}

fn outcome(step: &str, engine: usize, round: u32) -> Outcome {
    if (step, ENGINES[engine], round) == ("get", "redb", 2) {
        return Outcome::Failed("the disk is full: <no> | space".to_owned());
    }
    let (_, rates) = RATES.iter().find(|(name, _)| *name == step).unwrap();
    let rate = rates[engine] * (1.0 + 0.02 * f64::from(round));
    let writes = match step {
        "fill" => 1.0,
        "mixed" => 0.05,
        _ => 0.0,
    };
    Outcome::Measured(Box::new(measured(step, engine, rate, writes)))
}

fn measured(step: &str, engine: usize, rate: f64, writes: f64) -> Measured {
    let seconds = 30.0;
    let operations = (rate * seconds) as u64;
    let written = (operations as f64 * writes * 1016.0) as u64;
    let live: u64 = 1_000_000_000;
    let amplification = 1.1 + engine as f64 * 0.9;
    let wave = |second: f64| 1.0 + 0.3 * (second * (0.5 + engine as f64 * 0.4)).sin();
    let ticks = (seconds / TICK_SECONDS) as u32;
    let samples = (0..=30).map(|second| SpaceSample {
        seconds: f64::from(second),
        disk: (live as f64 * wave(f64::from(second)) * (1.2 + engine as f64 / 2.0)) as u64,
        live,
    });
    Measured {
        work: WorkDone {
            operations,
            seconds,
            cut_short: engine == 3 && step == "fill",
            looked_up: operations,
            found: operations,
            bytes_read: ((1.0 - writes) * operations as f64 * 1016.0) as u64,
            bytes_written: written,
            live_bytes: live,
            live_entries: 1_000_000,
            latencies: match step {
                "idle" => Vec::new(),
                "mixed" => vec![
                    latency("get", operations, engine),
                    latency("put", 9, engine),
                ],
                _ => vec![latency(step, operations, engine)],
            },
            over_time: (0..ticks)
                .map(|tick| (rate * TICK_SECONDS * wave(f64::from(tick) * TICK_SECONDS)) as u64)
                .collect(),
        },
        cpu_seconds: 20.0 + engine as f64,
        device_read: operations * 900,
        device_written: (written as f64 * amplification) as u64,
        device_counted: engine != 2,
        written_by_kind: vec![("WAL".to_owned(), written), ("SST".to_owned(), written / 9)],
        disk_by_kind: vec![("sst".to_owned(), live / 3), ("blob".to_owned(), live)],
        space: samples.collect(),
        peak_disk: live * 2,
        disk: live + live / 5,
        peak_memory: (100 + 20 * engine as u64) << 20,
        open_seconds: 0.02 * (engine + 1) as f64,
        recovered: step == "mixed",
        close_seconds: Some(0.1),
        sync_seconds: 0.2,
    }
}

fn latency(operation: &str, count: u64, engine: usize) -> Latency {
    let scale = 20.0 * (engine + 1) as f64;
    let at =
        |percentile: f64| scale * (100.0 / (100.0 - percentile)).powf(0.4 + 0.1 * engine as f64);
    Latency {
        operation: operation.to_owned(),
        count,
        from_due_time: operation == "put",
        mean: at(60.0),
        p50: at(50.0),
        p90: Some(at(90.0)),
        p99: at(99.0),
        p999: at(99.9),
        p9999: at(99.99),
        max: at(99.999),
        curve: [
            0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999, 100.0,
        ]
        .map(|percentile| (percentile, at(f64::min(percentile, 99.999))))
        .to_vec(),
    }
}
