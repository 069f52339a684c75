//! Campaign: a volume of TiFS agrees with its model, in memory, in the engine, after crashes, on
//! failing stores and disks, and under threads.
//!
//! The world is that of `tifs_testkit`, whose lists of operations are among the tests of `tifs`,
//! too.

use std::time::{Duration, Instant};

use tifs_testkit::crash::power_failures;
use tifs_testkit::failure::Failure;
use tifs_testkit::fickle::Shared;
use tifs_testkit::place::Place;
use tifs_testkit::regression::{Regression, catch};
use tifs_testkit::threads::{explained, survives_threads};
use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::sim::SimVfs;

use crate::pool::{Task, run_all};
use crate::run::Run;

/// Lists and histories of a whole round.
pub const ROUND: u64 = 100;

/// The time limit for reducing a failing list of operations.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs so many lists of operations and histories of threads, on all cores. Counts those that
/// passed. A failure is a regression as [`replay`] reads it, or a seed if it has threads.
pub fn tifs(run: &Run, lists: u64) {
    let jobs = run.seeds(1).flat_map(|round| {
        run.phase(format_args!("lists of seed {round}"));
        (0..lists).map(move |n| titan_testkit::mix(round, n))
    });
    run_all(run, jobs, job);
}

fn job(seed: u64, task: &Task) {
    task.step(move || format!("seed {seed}"));
    let others = match seed % 16 {
        0 => power_failures(seed, 5).map(|lost| lost as u64 + 1),
        1 => survives_threads(Place::simulated(&SimVfs::new()), seed, 500).map(|()| 1),
        2..4 => histories(seed),
        _ => return list(seed, task),
    };
    match others {
        Ok(passed) => task.pass(passed),
        Err(failure) => task.fail(format!("seed {seed}: {failure}")),
    }
}

/// Short histories of threads.
fn histories(seed: u64) -> Result<u64, Failure> {
    const COUNT: u64 = 50;
    for n in 0..COUNT {
        let kv = Shared::default();
        kv.0.yield_now_and_then();
        kv.0.conflict_one_in(4 * (n % 2));
        explained(Place::Fickle(kv), titan_testkit::mix(seed, n))?;
    }
    Ok(COUNT)
}

fn list(seed: u64, task: &Task) {
    let regression = Regression::draw(seed);
    match catch(|| regression.run()) {
        Ok(passed) => task.pass(passed),
        Err(failure) => {
            let until = Instant::now() + PATIENCE;
            let in_time = || {
                task.step(move || format!("seed {seed}: reducing"));
                Instant::now() < until
            };
            let reduced = regression.reduced(in_time);
            task.fail(format!("seed {seed}: {failure}\n{reduced}"));
        }
    }
}

/// Runs a regression: the text that a failure printed, from its line `trial` on.
///
/// # Errors
/// A violated expectation, or a text that is no regression.
pub fn replay(text: &str) -> Checked<u64> {
    let wrong = |failure: Failure| CheckFailure::wrong(failure);
    let regression: Regression = text.parse().map_err(wrong)?;
    catch(|| regression.run()).map_err(wrong)
}
