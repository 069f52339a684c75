//! Runs the whole engine under a seeded scheduler: it decides which thread continues after each
//! lock, each atomic operation and each operation of the simulated file system.
//!
//! Only in builds with `--cfg shuttle`, in which the engine's locks, atomics and threads are those
//! of [shuttle](::shuttle): all threads, including background ones, are coroutines of one thread of
//! the operating system, so that the same seed gives the same run, step by step. A thread that can
//! never continue is a deadlock, which is detected at once and fails the run.
//!
//! A *round* is one scenario under one scheduler, [`EXECUTIONS`] times. Its seed determines
//! everything: the scenario, the scheduler, the schedules, the data. A failed round is reproduced
//! by its seed.

mod cached;
mod scenarios;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use titan_testkit::failure::{CheckFailure, Checked};

use crate::pool::catch;
use crate::run::Run;
use scenarios::SCENARIOS;

/// Number of times that a round runs its scenario. The scheduler with few priority changes learns
/// the length of a run from the first executions.
pub const EXECUTIONS: usize = 10;

/// Without a time, the number of rounds of every scenario under each scheduler.
const ROUNDS_EACH: u64 = 2;

/// Bytes of a thread's stack: compactions of debug builds need most.
const STACK: usize = 1 << 20;

/// Scheduling decisions after which a run is taken to be in a livelock.
const MAX_STEPS: usize = 3_000_000;

/// The rule that selects the next thread.
#[derive(Clone, Copy, Debug)]
enum Scheduling {
    /// A random thread, at each step.
    Random,
    /// The runnable thread with the highest priority; priorities change at this many steps. Finds
    /// bugs that need that many changes with known probability.
    Priorities(usize),
}

const SCHEDULINGS: [Scheduling; 4] = [
    Scheduling::Random,
    Scheduling::Priorities(2),
    Scheduling::Priorities(4),
    Scheduling::Priorities(12),
];

/// Shows that a seed reproduces a run, then runs rounds starting with the run's seed; without a
/// time each scenario under each scheduler a few times.
pub fn schedules(run: &Run) {
    comes_again(run, run.seed());
    let all = (SCENARIOS.len() * SCHEDULINGS.len()) as u64;
    for seed in run.seeds(all * ROUNDS_EACH) {
        round(run, seed);
    }
}

/// Runs rounds of one scenario. Without a time it is `rounds` of them.
///
/// # Errors
/// If there is no such scenario.
pub fn schedules_of(run: &Run, scenario: &str, rounds: u64) -> Result<(), String> {
    let Some(number) = SCENARIOS.iter().position(|(name, _)| *name == scenario) else {
        let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "no scenario {scenario}; there are: {}",
            names.join(", ")
        ));
    };
    for seed in run.seeds(rounds) {
        // The remainder says which scenario it is.
        let seed = seed.wrapping_mul(SCENARIOS.len() as u64);
        round(run, seed.wrapping_add(number as u64));
    }
    Ok(())
}

/// Runs the round of one seed.
pub fn round(run: &Run, seed: u64) {
    let of = |n: usize, from: u64| (from % n as u64) as usize;
    let (name, scenario) = SCENARIOS[of(SCENARIOS.len(), seed)];
    let scheduling = SCHEDULINGS[of(SCHEDULINGS.len(), seed / SCENARIOS.len() as u64)];
    run.phase(format_args!("{name}, {scheduling:?}"));
    match execute(scheduling, seed, scenario) {
        Ok(executions) => run.pass(executions),
        Err((executions, what)) => {
            run.pass(executions);
            run.fail(format_args!(
                "{name}, {scheduling:?}, execution {executions}: {what}\n\
                 again: cargo xtask shuttle --replay {seed}"
            ));
        }
    }
}

/// Runs `scenario` [`EXECUTIONS`] times. On failure, returns the number of the execution that
/// failed, and why.
fn execute(
    scheduling: Scheduling,
    seed: u64,
    scenario: impl Fn(u64) -> Checked<()> + Send + Sync + 'static,
) -> Result<u64, (u64, CheckFailure)> {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    let wrong = Arc::new(Mutex::new(None));
    let begun = Arc::new(AtomicU64::new(0));
    let body = {
        let (wrong, begun) = (Arc::clone(&wrong), Arc::clone(&begun));
        move || {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            if let Err(e) = scenario(seed.wrapping_mul(1000).wrapping_add(number)) {
                let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                wrong.get_or_insert((number, e));
            }
        }
    };
    let outcome = catch(|| {
        Ok(match scheduling {
            Scheduling::Random => {
                let scheduler = RandomScheduler::new_from_seed(seed, EXECUTIONS);
                Runner::new(scheduler, config).run(body)
            }
            Scheduling::Priorities(depth) => {
                let scheduler = PctScheduler::new_from_seed(seed, depth, EXECUTIONS);
                Runner::new(scheduler, config).run(body)
            }
        })
    });
    let begun = begun.load(Ordering::Relaxed);
    let wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (outcome, wrong) {
        (Ok(_), None) => Ok(begun),
        (_, Some(wrong)) => Err(wrong),
        (Err(panic), None) => Err((begun.saturating_sub(1), panic)),
    }
}

/// Runs the same seed twice and checks that the operations on the file system are the same, in the
/// same order.
fn comes_again(run: &Run, seed: u64) {
    run.phase("the same seed twice");
    for scheduling in SCHEDULINGS {
        match (journals(scheduling, seed), journals(scheduling, seed)) {
            (Ok(once), Ok(again)) if once == again => run.pass(1),
            (Ok(once), Ok(again)) => {
                let mut lines = once.lines().zip(again.lines()).enumerate();
                let differs = lines.find(|(_, (a, b))| a != b);
                run.fail(format_args!(
                    "{scheduling:?}, seed {seed}: not the same again, from here on: {differs:?}"
                ));
            }
            (Err(e), _) | (_, Err(e)) => run.fail(format_args!("{scheduling:?}, seed {seed}: {e}")),
        }
    }
}

/// The operations on the file system in all executions of a seed.
fn journals(scheduling: Scheduling, seed: u64) -> Checked<String> {
    let journals = Arc::new(Mutex::new(String::new()));
    let all = Arc::clone(&journals);
    let executed = execute(scheduling, seed, move |seed| {
        let mut rng = fastrand::Rng::with_seed(seed);
        let world = world::World::new(&mut rng)?;
        scenarios::work_in(&world, &mut rng)?;
        world.db.close()?;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_str(&world.vfs.journal().to_string());
        Ok(())
    });
    executed.map_err(|(_, what)| what)?;
    Ok(std::mem::take(
        &mut journals.lock().unwrap_or_else(PoisonError::into_inner),
    ))
}
