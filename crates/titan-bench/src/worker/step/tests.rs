use std::path::PathBuf;

use super::*;
use crate::engine;
use crate::settings::Settings;
use titan_workload::live::ROOM;
use titan_workload::step::{KeyOrder, ValueSizes, Workload};

fn step(mix: &[(Operation, u32)], operations: u64) -> Step {
    Step {
        name: "step".to_owned(),
        threads: 2,
        mix: mix.to_vec(),
        keys: Choice::Uniform,
        amount: Amount {
            operations: Some(operations),
            seconds: 60.0,
        },
        rate: None,
        writer_beside: None,
        holds_snapshot: false,
        ends_killed: false,
        fresh: false,
    }
}

fn job(dir: &tempfile::TempDir) -> Job {
    Job {
        engine: "titan".to_owned(),
        program: None,
        dir: dir.path().to_owned(),
        live: PathBuf::new(),
        settings: Settings::of_tests(),
        workload: Workload {
            name: "work".to_owned(),
            about: String::new(),
            records: 1000,
            key_order: KeyOrder::Hashed,
            value_sizes: ValueSizes::Fixed(300),
            steps: Vec::new(),
        },
        step: 0,
        exact: true,
        seed: 7,
        cgroup: None,
    }
}

#[test]
fn steps_do_all_they_are_asked_and_find_what_they_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(&dir);
    let live = LiveKeys::none(1000 + ROOM, ValueSizes::Fixed(300));
    let engine = engine::named("titan").unwrap();
    let store = engine.open(&job.dir, &job.settings).unwrap();
    let run = |step: &Step| {
        super::run(&job, step, &*store, &live, made(&job, step))
            .unwrap()
            .0
    };

    let load = run(&step(&[(Operation::Insert, 1)], 1000));
    assert_eq!((load.operations, load.live_entries), (1000, 1000));
    assert_eq!(load.live_bytes, 316_000);
    assert_eq!(load.bytes_written, 316_000);
    assert!(!load.cut_short);

    let reads = run(&step(
        &[
            (Operation::Get, 3),
            (Operation::MultiGet(4), 1),
            (Operation::ReadModifyWrite, 1),
        ],
        2000,
    ));
    assert!(reads.operations >= 2000, "a batch may end beyond the last");
    assert_eq!(reads.found, reads.operations, "nothing is missing");
    let names: Vec<_> = reads
        .latencies
        .iter()
        .map(|l| l.operation.as_str())
        .collect();
    assert_eq!(names, ["get", "multi-get", "read-modify-write"]);
    let times = &reads.latencies[0];
    assert!(times.p50 <= times.p99 && times.p99 <= times.max && times.p50 > 0.0);

    let order = run(&Step {
        threads: 1,
        ..step(&[(Operation::ReadNext, 1)], 100_000)
    });
    assert_eq!((order.operations, order.found), (1000, 1000));

    let gone = run(&step(&[(Operation::Delete, 1)], 500));
    let left = run(&Step {
        threads: 1,
        ..step(&[(Operation::ReadNext, 1)], 100_000)
    });
    assert_eq!(left.found, gone.live_entries);
    store.close().unwrap();
}

#[test]
fn a_rate_is_kept_and_waiting_counts() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(&dir);
    let live = LiveKeys::none(1000 + ROOM, ValueSizes::Fixed(300));
    let engine = engine::named("titan").unwrap();
    let store = engine.open(&job.dir, &job.settings).unwrap();
    let paced = Step {
        rate: Some(1000.0),
        writer_beside: Some(500.0),
        amount: Amount {
            operations: Some(200),
            seconds: 60.0,
        },
        ..step(&[(Operation::Put, 1)], 0)
    };
    let work = super::run(&job, &paced, &*store, &live, made(&job, &paced))
        .unwrap()
        .0;
    assert_eq!(work.operations, 200);
    assert!(
        work.seconds > 0.198,
        "the last is due 199 ms after the first"
    );
    let names: Vec<_> = work
        .latencies
        .iter()
        .map(|l| l.operation.as_str())
        .collect();
    assert_eq!(names, ["put", BESIDE]);
    assert!(work.latencies.iter().all(|l| l.from_due_time));

    let read = Step {
        writer_beside: Some(500.0),
        ..step(&[(Operation::Get, 1)], 5000)
    };
    let work = super::run(&job, &read, &*store, &live, made(&job, &read))
        .unwrap()
        .0;
    assert_eq!(work.operations, 5000);
    assert!(work.latencies.iter().any(|l| l.operation == BESIDE));
    store.close().unwrap();
}
