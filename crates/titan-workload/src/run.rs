//! Runs the threads of a step, and adds up their results.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use titan::Error;

use crate::live::LiveKeys;
use crate::shared::{Conventions, Shared};
use crate::step::{Step, ValueSizes, Workload};
use crate::tally::{Latencies, Tally, add_to, record_all};
use crate::target::Target;
use crate::thread::{Ended, Thread, random};
use crate::values::{Contents, Values};

/// The share of due operations that may be waiting when time is up.
const BEHIND: f64 = 0.01;

/// A step, and what it runs against.
pub struct Plan<'a, T: Target + ?Sized> {
    /// The database's keys and values.
    pub workload: &'a Workload,
    /// One of its steps, or another.
    pub step: &'a Step,
    /// Meaning of the terms of the step.
    pub conventions: Conventions,
    /// Threads derive their own seeds from it.
    pub seed: u64,
    /// Whether every key that is recorded as existing must be found.
    pub exact: bool,
    /// The existing keys; a step that writes keeps it up to date.
    pub live: Option<&'a LiveKeys>,
    /// The database.
    pub target: &'a T,
    /// Called by each thread of a step with a rate before it begins.
    pub before_rate: fn() -> Result<(), T::Error>,
}

/// An error, and what a thread was doing.
#[derive(Debug)]
pub struct Failed<E> {
    /// For example `put number 7`.
    pub doing: String,
    /// The error.
    pub error: E,
}

impl<E> Failed<E> {
    pub(crate) fn new(doing: String, error: E) -> Self {
        Failed { doing, error }
    }
}

/// The values' buffers for threads. They may be made before the database is opened, so that they do
/// not count as its memory.
pub struct Made {
    /// One for each thread of the step, if it writes.
    threads: Vec<Values>,
    /// One for the additional writer.
    beside: Option<Values>,
}

impl Made {
    /// For the threads of this step and, if there is one, for the writer beside them.
    pub fn new(
        step: &Step,
        sizes: ValueSizes,
        contents: Contents,
        seed: u64,
        beside: bool,
    ) -> Self {
        let values = |number: u32| {
            let seed = random(seed, u64::from(number)).u64(..);
            Values::new(sizes, contents, seed)
        };
        let writes = step.mix.iter().any(|(operation, _)| operation.writes());
        let threads = if writes { step.threads } else { 0 };
        Made {
            threads: (0..threads).map(values).collect(),
            beside: beside.then(|| values(threads)),
        }
    }
}

/// A look at a step while it runs.
pub struct Look<'a> {
    /// Operations that are done.
    pub operations: u64,
    /// When the threads began.
    pub began: Instant,
    /// Ends the step early if it is set.
    pub stop: &'a AtomicBool,
}

/// The results of threads with the same step.
#[derive(Debug)]
pub struct Outcome {
    /// The sums over threads.
    pub tally: Tally,
    /// The distributions of all threads together. Operations that were due and that no thread sent
    /// are included with their delay at the end, if threads count together.
    pub latencies: Latencies,
    /// From the first start to the last end; greater than zero.
    pub seconds: f64,
    /// Whether more operations were never sent than a short delay at the end explains.
    pub fell_behind: bool,
}

/// Runs the step and, until its threads are done, one more thread with the step `beside`. Looks at
/// it at this interval.
pub fn run<T: Target + ?Sized>(
    plan: &Plan<'_, T>,
    beside: Option<&Step>,
    made: Made,
    every: Duration,
    mut look: impl FnMut(Look<'_>),
) -> Result<(Outcome, Option<Outcome>), Failed<T::Error>> {
    let (began, stop) = (OnceLock::new(), AtomicBool::new(false));
    let shared = Shared::new(plan, &began, &stop);
    let beside = beside.map(|step| Plan { step, ..*plan });
    let beside = beside.as_ref().map(|plan| Shared::new(plan, &began, &stop));
    // Including this thread.
    let barrier = Barrier::new(1 + plan.step.threads as usize + usize::from(beside.is_some()));
    let main = thread::current();
    let work = |shared: &Shared<'_, T>, index: usize, number: u64, values: Option<Values>| {
        let thread = Thread::new(shared, index, random(plan.seed, number), values);
        barrier.wait();
        let ready = match shared.plan.step.rate {
            Some(_) => (plan.before_rate)(),
            None => Ok(()),
        };
        let ready = ready.map_err(|e| Failed::new("preparing a thread".to_owned(), e));
        let result = ready.and(thread).and_then(Thread::run);
        if result.is_err() {
            // After a failure the other threads have nothing to add.
            stop.store(true, Relaxed);
        }
        main.unpark();
        result
    };
    let mut values = made.threads.into_iter();
    let (ended, of_writer) = thread::scope(|scope| {
        let (work, main) = (&work, &shared);
        let threads: Vec<_> = (0..plan.step.threads as usize)
            .map(|index| {
                let values = values.next();
                scope.spawn(move || work(main, index, index as u64, values))
            })
            .collect();
        let writer = beside.as_ref().map(|shared| {
            let values = made.beside;
            scope.spawn(move || work(shared, 0, u64::MAX, values))
        });
        barrier.wait();
        let mut next = shared.began() + every;
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            thread::park_timeout(next.saturating_duration_since(Instant::now()));
            if Instant::now() >= next {
                next = Instant::now() + every;
                let (operations, began) = (shared.done(), shared.began());
                let stop = &stop;
                look(Look {
                    operations,
                    began,
                    stop,
                });
            }
        }
        // Whether the threads succeeded, failed or panicked, the writer beside them must stop.
        stop.store(true, Relaxed);
        let ended: Vec<_> = threads.into_iter().map(join).collect();
        (ended, writer.map(join))
    });
    let ended = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
    let end = ended.iter().map(|ended| ended.at).max();
    let end = end.unwrap_or_else(|| shared.began());
    let outcome = outcome(&shared, &ended, end)?;
    let of_writer = of_writer.transpose()?.zip(beside.as_ref());
    let of_writer = of_writer.map(|(ended, shared)| self::outcome(shared, &[ended], end));
    Ok((outcome, of_writer.transpose()?))
}

/// Adds up what threads did until this time.
fn outcome<T: Target + ?Sized>(
    shared: &Shared<'_, T>,
    threads: &[Ended],
    end: Instant,
) -> Result<Outcome, Failed<T::Error>> {
    let (mut tally, mut latencies) = (Tally::default(), Latencies::new());
    for ended in threads {
        tally.add(&ended.tally);
        for (name, histogram) in &ended.latencies {
            add_to(&mut latencies, name, histogram);
        }
    }
    let name = shared.plan.step.main_operation().name();
    let unsent = shared.overdue(tally.operations, end);
    let unsent = record_all(&mut latencies, name, unsent);
    let unsent = unsent.map_err(|e| Failed::new("adding latencies".to_owned(), e.into()))?;
    Ok(Outcome {
        tally,
        latencies,
        seconds: (end - shared.began()).as_secs_f64().max(1e-9),
        fell_behind: unsent as f64 > tally.operations as f64 * BEHIND + 1.0,
    })
}

fn join<R, E: From<Error>>(
    thread: ScopedJoinHandle<'_, Result<R, Failed<E>>>,
) -> Result<R, Failed<E>> {
    let panicked = |_| {
        let error = Error::internal("a thread of the step panicked");
        Err(Failed::new("running".to_owned(), error.into()))
    };
    thread.join().unwrap_or_else(panicked)
}

#[cfg(test)]
mod tests;
