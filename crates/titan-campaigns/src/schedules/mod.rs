//! The whole engine under a scheduler that a seed decides: which thread goes on after each lock,
//! each atomic operation and each operation of the simulated file system.
//!
//! Only in builds with `--cfg shuttle`, where the engine's locks, atomics and threads are those of
//! [shuttle](::shuttle): threads are coroutines of one thread of the operating system, background work
//! among them, so that the same seed gives the same run, step by step. A thread that waits in vain is
//! a deadlock that is seen at once, and fails the run.
//!
//! A *round* is one scenario under one scheduler, [`EXECUTIONS`] times. Everything follows from its seed:
//! the scenario, the scheduler, the schedules, the data. A round that failed is had again by its seed.

mod ledger;
mod scenarios;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::run::Run;
use scenarios::SCENARIOS;

/// How often a round runs its scenario. The scheduler that spends its changes of priority sparingly
/// learns from the first ones how long a run is.
pub const EXECUTIONS: usize = 10;

/// Without a time, every scenario has this many rounds under each scheduler.
const ROUNDS_EACH: u64 = 2;

/// Bytes of stack a thread has: compactions of debug builds use most.
const STACK: usize = 1 << 20;

/// Scheduling decisions after which a run is taken to go round in circles.
const MAX_STEPS: usize = 3_000_000;

/// What was not as it should be in an execution.
pub(crate) struct Wrong(String);

pub(crate) type Outcome<T = ()> = Result<T, Wrong>;

impl From<titan::Error> for Wrong {
    fn from(e: titan::Error) -> Self {
        Wrong(e.to_string())
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Wrong(what)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fails with the text unless `so`.
pub(crate) fn ensure(so: bool, what: impl FnOnce() -> String) -> Outcome {
    if so { Ok(()) } else { Err(Wrong(what())) }
}

/// What decides who goes on.
#[derive(Clone, Copy, Debug)]
enum Scheduling {
    /// Anyone, at each step.
    Random,
    /// The most important thread that can; priorities change at so many steps. Finds with known
    /// probability what takes that many changes.
    Priorities(usize),
}

const SCHEDULINGS: [Scheduling; 4] = [
    Scheduling::Random,
    Scheduling::Priorities(2),
    Scheduling::Priorities(4),
    Scheduling::Priorities(12),
];

/// Runs rounds from the run's seed on; without a time each scenario under each scheduler a few times.
pub fn schedules(run: &Run) {
    let all = (SCENARIOS.len() * SCHEDULINGS.len()) as u64;
    for seed in run.seeds(all * ROUNDS_EACH) {
        round(run, seed);
    }
}

/// Runs the round of one seed.
pub fn round(run: &Run, seed: u64) {
    let of = |n: usize, from: u64| (from % n as u64) as usize;
    let (name, scenario) = SCENARIOS[of(SCENARIOS.len(), seed)];
    let scheduling = SCHEDULINGS[of(SCHEDULINGS.len(), seed / SCENARIOS.len() as u64)];
    run.phase(format_args!("{name}, {scheduling:?}"));

    let mut config = Config::new();
    config.stack_size = STACK;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    let wrong = Arc::new(Mutex::new(None));
    let execution = Arc::new(AtomicU64::new(0));
    let body = {
        let (wrong, execution) = (Arc::clone(&wrong), Arc::clone(&execution));
        move || {
            let number = execution.fetch_add(1, Ordering::Relaxed);
            if let Err(e) = scenario(seed.wrapping_mul(1000).wrapping_add(number)) {
                let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                wrong.get_or_insert((number, e));
            }
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| match scheduling {
        Scheduling::Random => {
            let scheduler = RandomScheduler::new_from_seed(seed, EXECUTIONS);
            Runner::new(scheduler, config).run(body)
        }
        Scheduling::Priorities(depth) => {
            let scheduler = PctScheduler::new_from_seed(seed, depth, EXECUTIONS);
            Runner::new(scheduler, config).run(body)
        }
    }));
    let executed = execution.load(Ordering::Relaxed);
    let wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner).take();
    let what = match (outcome, wrong) {
        (Ok(_), None) => return run.pass(executed),
        (_, Some((number, e))) => format!("execution {number}: {e}"),
        (Err(panic), None) => format!(
            "execution {}: {}",
            executed.saturating_sub(1),
            text(&*panic)
        ),
    };
    run.pass(executed.saturating_sub(1));
    run.fail(format_args!(
        "{name}, {scheduling:?}: {what}\nagain: cargo xtask shuttle --replay {seed}"
    ));
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without text").to_owned()
}
