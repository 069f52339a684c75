//! Runs a step, reports its progress, and describes its results.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};
use titan_workload::live::LiveKeys;
use titan_workload::run::{self, Look, Made, Plan};
use titan_workload::shared::Conventions;
use titan_workload::step::{Amount, Choice, Operation, Step};
use titan_workload::tally::Latencies;
use titan_workload::values::Contents;

use super::job::{Event, Job, tell};
use super::usage;
use crate::engine::contract::Store;
use crate::measured::{Latency, TICK_SECONDS, WorkDone};
use crate::settings::Compression;

/// The name of the additional writer's operations.
const BESIDE: &str = "put beside";
/// So that the live bytes are as recent as the samples of the disk.
const TELL_EVERY: Duration = Duration::from_millis(20);
/// Percentiles of the curves in reports.
const CURVE: [f64; 16] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.99, 99.999,
    100.0,
];

/// Runs the step; also returns the peak memory of the process in the meantime. Reports progress.
pub(super) fn run(
    job: &Job,
    step: &Step,
    store: &dyn Store,
    live: &LiveKeys,
    made: Made,
) -> Result<(WorkDone, u64)> {
    let held = step.holds_snapshot.then(|| store.snapshot()).transpose();
    let held = held.context("taking a snapshot")?;
    let plan = Plan {
        workload: &job.workload,
        step,
        conventions: Conventions::default(),
        seed: job.seed,
        exact: job.exact,
        live: Some(live),
        target: store,
        before_rate: sleep_precisely,
    };
    let writer = step.writer_beside.map(|rate| writer(step, rate));
    let mut seen = Seen::default();
    seen.look_at_memory();
    let done = run::run(&plan, writer.as_ref(), made, TELL_EVERY, |look| {
        seen.look(&look, live);
    });
    let (done, beside) = done.map_err(|failed| failed.error.context(failed.doing))?;
    drop(held);
    let puts = |(operation, _): &(Operation, u32)| *operation == Operation::Put;
    if step.mix.iter().any(puts) {
        live.inserted_up_to(job.workload.records);
    }
    let (operations, mut fell_behind) = (done.tally.operations, done.fell_behind);
    let (mut tally, mut distributions) = (done.tally, done.latencies);
    if let Some(beside) = beside {
        fell_behind |= beside.fell_behind;
        tally.add(&beside.tally);
        let of_puts = beside.latencies.into_values();
        distributions.extend(of_puts.map(|histogram| (BESIDE, histogram)));
    }
    let work = WorkDone {
        operations,
        seconds: done.seconds,
        cut_short: step.amount.operations.is_some_and(|all| operations < all) || fell_behind,
        looked_up: tally.looked_up,
        found: tally.found,
        bytes_read: tally.bytes_read,
        bytes_written: tally.bytes_written,
        live_bytes: live.bytes(),
        live_entries: live.entries(),
        latencies: latencies(distributions, step),
        over_time: seen.over_time,
    };
    Ok((work, seen.peak_memory))
}

/// The values of the step's threads.
pub(super) fn made(job: &Job, step: &Step) -> Made {
    let contents = match job.settings.compression {
        Compression::None => Contents::Random,
        Compression::Lz4 | Compression::Zstd => Contents::Compressible,
    };
    let (sizes, beside) = (job.workload.value_sizes, step.writer_beside.is_some());
    Made::new(step, sizes, contents, job.seed, beside)
}

/// Makes sleeps of this thread end on time, not within the default of 50 microseconds.
fn sleep_precisely() -> Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// The operations of the additional writer, which runs as long as the step's threads.
fn writer(step: &Step, rate: f64) -> Step {
    Step {
        threads: 1,
        mix: vec![(Operation::Put, 1)],
        keys: Choice::Uniform,
        rate: Some(rate),
        amount: Amount {
            operations: None,
            ..step.amount
        },
        ..step.clone()
    }
}

/// Samples of a step while it runs.
#[derive(Default)]
struct Seen {
    over_time: Vec<u64>,
    /// Operations up to the last interval of `over_time`.
    before: u64,
    peak_memory: u64,
}

impl Seen {
    /// Samples progress and reports it.
    fn look(&mut self, look: &Look<'_>, live: &LiveKeys) {
        let operations = look.operations;
        let told = tell(&Event::Progress {
            operations,
            live_bytes: live.bytes(),
        });
        if told.is_err() {
            // The driver is gone.
            look.stop.store(true, Relaxed);
        }
        self.look_at_memory();
        let next = (self.over_time.len() + 1) as f64 * TICK_SECONDS;
        if look.began.elapsed().as_secs_f64() >= next {
            self.over_time.push(operations - self.before);
            self.before = operations;
        }
    }

    fn look_at_memory(&mut self) {
        let memory = usage::own_memory("self").unwrap_or(0);
        self.peak_memory = self.peak_memory.max(memory);
    }
}

/// The distributions, described; the step's main operation first.
fn latencies(all: Latencies, step: &Step) -> Vec<Latency> {
    let described = all.into_iter().map(|(operation, histogram)| {
        let at = |percentile| histogram.value_at_percentile(percentile) as f64 / 1e3;
        Latency {
            operation: operation.to_owned(),
            count: histogram.len(),
            from_due_time: step.rate.is_some() || operation == BESIDE,
            mean: histogram.mean() / 1e3,
            p50: at(50.0),
            p90: Some(at(90.0)),
            p99: at(99.0),
            p999: at(99.9),
            p9999: at(99.99),
            max: histogram.max() as f64 / 1e3,
            curve: CURVE
                .map(|percentile| (percentile, at(percentile)))
                .to_vec(),
        }
    });
    let mut described: Vec<Latency> = described.collect();
    let main = step.main_operation().name();
    described.sort_by_key(|latency| latency.operation != main);
    described
}

#[cfg(test)]
mod tests;
