//! Runs the threads of a step, and adds up what they did.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;

use super::thread::{Shared, Tally, Thread};
use super::{Event, Job, tell};
use crate::engine::Store;
use crate::results::{Latency, TICK_SECONDS, WorkDone};
use crate::work::live::LiveKeys;
use crate::work::{Choice, Operation, Step};

/// What a thread beside the others records its operations as.
const BESIDE: &str = "put beside";
/// Percentiles of the curves in reports.
const CURVE: [f64; 16] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.99, 99.999,
    100.0,
];

/// Does the step. The process tells of its progress meanwhile.
pub(super) fn run(job: &Job, step: &Step, store: &dyn Store, live: &LiveKeys) -> Result<WorkDone> {
    let held = step.holds_snapshot.then(|| store.snapshot()).transpose()?;
    let beside = step.writer_beside.map(|rate| Step {
        mix: vec![(Operation::Put, 1)],
        keys: Choice::Uniform,
        rate: Some(rate),
        amount: crate::work::Amount {
            operations: None,
            ..step.amount
        },
        ..step.clone()
    });
    let barrier = Barrier::new(step.threads as usize + usize::from(beside.is_some()));
    let began = Instant::now();
    let shared = Shared::new(job, step, store, live, began);
    let shared_beside = beside
        .as_ref()
        .map(|step| Shared::new(job, step, store, live, began));
    let work = |shared: &Shared<'_>, number: u64| -> Result<Tally> {
        let thread = Thread::new(shared, number);
        barrier.wait();
        let result = thread.and_then(Thread::run);
        if result.is_err() {
            // The others have nothing to add to a step that failed.
            shared.stop.store(true, Relaxed);
        }
        result
    };
    let mut over_time = Vec::new();
    let (tallies, beside, seconds) = thread::scope(|scope| {
        let work = &work;
        let main = &shared;
        let threads: Vec<_> = (0..u64::from(step.threads))
            .map(|number| scope.spawn(move || work(main, number)))
            .collect();
        let beside = shared_beside.as_ref();
        let beside = beside.map(|shared| scope.spawn(move || work(shared, u64::MAX)));
        tick(main, &threads, &mut over_time);
        let tallies: Vec<Result<Tally>> = threads.into_iter().map(join).collect();
        let seconds = began.elapsed().as_secs_f64();
        if let Some(shared) = &shared_beside {
            shared.stop.store(true, Relaxed);
        }
        (tallies, beside.map(join), seconds)
    });
    drop(held);
    if step
        .mix
        .iter()
        .any(|(operation, _)| *operation == Operation::Put)
    {
        live.inserted_up_to(job.workload.records);
    }
    let mut tallies = tallies.into_iter().collect::<Result<Vec<Tally>>>()?;
    let operations = tallies.iter().map(|tally| tally.operations).sum();
    if let Some(mut tally) = beside.transpose()? {
        let of_puts = std::mem::take(&mut tally.latencies).into_values();
        tally.latencies = of_puts.map(|histogram| (BESIDE, histogram)).collect();
        tallies.push(tally);
    }
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum();
    Ok(WorkDone {
        operations,
        seconds,
        cut_short: step.amount.operations.is_some_and(|all| operations < all),
        found: sum(|tally| tally.found),
        bytes_read: sum(|tally| tally.bytes_read),
        bytes_written: sum(|tally| tally.bytes_written),
        live_bytes: live.bytes(),
        live_entries: live.entries(),
        latencies: latencies(&tallies, step)?,
        over_time,
    })
}

fn join(thread: ScopedJoinHandle<'_, Result<Tally>>) -> Result<Tally> {
    thread
        .join()
        .unwrap_or_else(|_| Err(anyhow!("a thread of the step panicked")))
}

/// Notes and tells what is done, at equal intervals, until all threads are.
fn tick(
    shared: &Shared<'_>,
    threads: &[ScopedJoinHandle<'_, Result<Tally>>],
    over_time: &mut Vec<u64>,
) {
    let interval = Duration::from_secs_f64(TICK_SECONDS);
    let (mut next, mut before) = (shared.began + interval, 0);
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        // In short sleeps, so that the end is not waited for.
        thread::sleep(Duration::from_millis(5).min(next.saturating_duration_since(Instant::now())));
        if Instant::now() < next {
            continue;
        }
        next += interval;
        let done = shared.done.load(Relaxed);
        over_time.push(done - before);
        before = done;
        let told = tell(&Event::Tick {
            operations: done,
            live_bytes: shared.live.bytes(),
        });
        if told.is_err() {
            // Whoever started this process is gone.
            shared.stop.store(true, Relaxed);
        }
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
            p90: at(90.0),
            p99: at(99.0),
            p999: at(99.9),
            p9999: at(99.99),
            max: histogram.max() as f64 / 1e3,
            curve: CURVE
                .map(|percentile| (percentile, at(percentile)))
                .to_vec(),
        }
    });
    Ok(described.collect())
}

#[cfg(test)]
mod tests;
