//! Runs the threads of a step, and adds up their results.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Barrier, OnceLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;

use super::thread::{Shared, Tally, Thread, random};
use super::{Event, Job, tell, usage};
use crate::engine::Store;
use crate::results::{Latency, TICK_SECONDS, WorkDone};
use crate::settings::Compression;
use crate::work::live::LiveKeys;
use crate::work::values::Values;
use crate::work::{Amount, Choice, Operation, Step};

/// The name of the additional writer's operations.
const BESIDE: &str = "put beside";
/// The share of due operations that may be waiting when time is up.
const BEHIND: f64 = 0.01;
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
    let writer = step.writer_beside.map(|rate| writer(step, rate));
    // Including this thread.
    let barrier = Barrier::new(1 + step.threads as usize + usize::from(writer.is_some()));
    let began = OnceLock::new();
    let shared = Shared::new(job, step, store, live, &began);
    let beside = writer.as_ref();
    let beside = beside.map(|step| Shared::new(job, step, store, live, &began));
    let work = |shared: &Shared<'_>, number: u64, values: Option<Values>| -> Result<Tally> {
        let thread = Thread::new(shared, number, values);
        barrier.wait();
        let result = thread.and_then(Thread::run);
        if result.is_err() {
            // After a failure the other threads have nothing to add.
            shared.stop.store(true, Relaxed);
        }
        result
    };
    let mut values = made.threads.into_iter();
    let mut seen = Seen::default();
    let (tallies, of_writer) = thread::scope(|scope| {
        let (work, main) = (&work, &shared);
        let threads: Vec<_> = (0..u64::from(step.threads))
            .map(|number| {
                let values = values.next();
                scope.spawn(move || work(main, number, values))
            })
            .collect();
        let writer = beside.as_ref().map(|shared| {
            let values = made.beside;
            scope.spawn(move || work(shared, u64::MAX, values))
        });
        barrier.wait();
        seen.follow(main, &threads);
        let tallies: Vec<Result<Tally>> = threads.into_iter().map(join).collect();
        if let Some(shared) = &beside {
            shared.stop.store(true, Relaxed);
        }
        (tallies, writer.map(join))
    });
    drop(held);
    let puts = |(operation, _): &(Operation, u32)| *operation == Operation::Put;
    if step.mix.iter().any(puts) {
        live.inserted_up_to(job.workload.records);
    }
    let mut tallies = tallies.into_iter().collect::<Result<Vec<Tally>>>()?;
    let operations = tallies.iter().map(|tally| tally.operations).sum();
    let ended = tallies.iter().filter_map(|tally| tally.ended).max();
    let ended = ended.unwrap_or_else(|| shared.began());
    let name = step.main_operation().name();
    let (unsent, mut fell_behind) = never_sent(&shared, operations, ended, name)?;
    tallies.push(unsent);
    if let Some((mut tally, shared)) = of_writer.transpose()?.zip(beside.as_ref()) {
        let of_puts = std::mem::take(&mut tally.latencies).into_values();
        tally.latencies = of_puts.map(|histogram| (BESIDE, histogram)).collect();
        let (unsent, behind) = never_sent(shared, tally.operations, ended, BESIDE)?;
        fell_behind |= behind;
        tallies.extend([tally, unsent]);
    }
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum();
    let work = WorkDone {
        operations,
        seconds: (ended - shared.began()).as_secs_f64(),
        cut_short: step.amount.operations.is_some_and(|all| operations < all) || fell_behind,
        looked_up: sum(|tally| tally.looked_up),
        found: sum(|tally| tally.found),
        bytes_read: sum(|tally| tally.bytes_read),
        bytes_written: sum(|tally| tally.bytes_written),
        live_bytes: live.bytes(),
        live_entries: live.entries(),
        latencies: latencies(&tallies, step)?,
        over_time: seen.over_time,
    };
    Ok((work, seen.peak_memory))
}

/// The values' buffers for threads: made before the engine is opened, and so not counted as the
/// engine's memory.
pub(super) struct Made {
    /// One for each thread of the step, if it writes.
    threads: Vec<Values>,
    /// One for the additional writer.
    beside: Option<Values>,
}

impl Made {
    pub(super) fn new(job: &Job, step: &Step) -> Self {
        let sizes = job.workload.value_sizes;
        let compressible = job.settings.compression != Compression::None;
        let values = |number| {
            let seed = random(job.seed, u64::from(number)).u64(..);
            Values::new(sizes, compressible, seed)
        };
        let writes = step.mix.iter().any(|(operation, _)| operation.writes());
        let threads = if writes { step.threads } else { 0 };
        Made {
            threads: (0..threads).map(values).collect(),
            beside: step.writer_beside.map(|_| values(threads)),
        }
    }
}

/// The operations of the additional writer, which runs as long as the step's threads.
fn writer(step: &Step, rate: f64) -> Step {
    Step {
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

/// The operations that were due and not sent, with their delay at the end; and whether that is more
/// than a short delay at the end.
fn never_sent(
    shared: &Shared<'_>,
    sent: u64,
    ended: Instant,
    name: &'static str,
) -> Result<(Tally, bool)> {
    let (mut tally, mut count) = (Tally::default(), 0);
    for late in shared.overdue(sent, ended) {
        tally.record(name, late)?;
        count += 1;
    }
    Ok((tally, count as f64 > sent as f64 * BEHIND + 1.0))
}

fn join(thread: ScopedJoinHandle<'_, Result<Tally>>) -> Result<Tally> {
    let result = thread.join();
    result.unwrap_or_else(|_| Err(anyhow!("a thread of the step panicked")))
}

/// Samples of a step while it runs.
#[derive(Default)]
struct Seen {
    over_time: Vec<u64>,
    peak_memory: u64,
}

impl Seen {
    /// Samples progress and reports it, until all threads have ended.
    fn follow(&mut self, shared: &Shared<'_>, threads: &[ScopedJoinHandle<'_, Result<Tally>>]) {
        let interval = Duration::from_secs_f64(TICK_SECONDS);
        let (mut next, mut before) = (shared.began() + interval, 0);
        self.look_at_memory();
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            thread::sleep(TELL_EVERY);
            let operations = shared.done.load(Relaxed);
            let live_bytes = shared.live.bytes();
            let told = tell(&Event::Progress {
                operations,
                live_bytes,
            });
            if told.is_err() {
                // The driver is gone.
                shared.stop.store(true, Relaxed);
            }
            self.look_at_memory();
            if Instant::now() >= next {
                next += interval;
                self.over_time.push(operations - before);
                before = operations;
            }
        }
    }

    fn look_at_memory(&mut self) {
        let memory = usage::own_memory("self").unwrap_or(0);
        self.peak_memory = self.peak_memory.max(memory);
    }
}

/// The distributions of all threads together.
fn latencies(tallies: &[Tally], step: &Step) -> Result<Vec<Latency>> {
    let mut all: BTreeMap<&'static str, Histogram<u64>> = BTreeMap::new();
    for (operation, histogram) in tallies.iter().flat_map(|tally| &tally.latencies) {
        match all.get_mut(operation) {
            Some(sum) => sum.add(histogram)?,
            None => {
                all.insert(operation, histogram.clone());
            }
        }
    }
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
    Ok(described)
}

#[cfg(test)]
mod tests;
