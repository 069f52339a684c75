//! Random histories of a store of versions, under many configurations: everything that is read is
//! as the model says.
//!
//! | file | owns |
//! |---|---|
//! | [`configurations`] | the table of configurations |
//! | `world` | a store with its model, and the operations on both |
//! | `reads` | reads of both, compared |
//! | `crashes` | what is left after a crash |
//! | `cached` | what a range cache holds, loads and drops |

mod cached;
pub mod configurations;
mod crashes;
mod reads;
mod world;

use configurations::{CONFIGURATIONS, Configuration};
use titan_testkit::failure::Checked;
use world::World;

use crate::pool::{Task, catch, run_all};
use crate::run::Run;

/// Operations between two reports of a history.
const REPORTED: u64 = 500;

/// Size of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Mvcc {
    /// Operations of all configurations together, in each round.
    pub operations: u64,
    /// The number of rounds, if no time is given.
    pub rounds: u64,
}

impl Default for Mvcc {
    fn default() -> Self {
        Mvcc {
            operations: 5_000_000,
            rounds: 1,
        }
    }
}

impl Mvcc {
    /// Runs a history under every configuration, on all cores. Counts passed operations, and
    /// histories that failed.
    pub fn run(self, run: &Run) {
        histories(run, &CONFIGURATIONS, self);
    }
}

/// Runs a history under each of these configurations, on all cores.
pub(crate) fn histories(run: &Run, configurations: &'static [Configuration], size: Mvcc) {
    let jobs = run.seeds(size.rounds).flat_map(|seed| {
        run.phase(format_args!("histories of seed {seed}"));
        configurations.iter().map(move |of| (of, seed))
    });
    let each = size.operations.div_ceil(configurations.len() as u64);
    run_all(run, jobs, move |(configuration, seed), task| {
        let name = configuration.name;
        if let Err(failure) = catch(|| history(configuration, seed, each, task)) {
            task.fail(format!("{name}, seed {seed}: {failure}"));
        }
    });
}

/// One history of so many operations.
fn history(
    configuration: &'static Configuration,
    seed: u64,
    operations: u64,
    task: &Task,
) -> Checked<()> {
    let name = configuration.name;
    task.step(move || format!("{name}, seed {seed}: opening"));
    let mut world = World::new(configuration, seed)?;
    let mut done = 0;
    while done < operations && task.goes_on() {
        let now = REPORTED.min(operations - done);
        task.step(move || format!("{name}, seed {seed}, after {done} operations"));
        for n in 0..now {
            let at = |failure| wrong_at(done + n, failure);
            world.step().map_err(at)?;
        }
        done += now;
        task.pass(now);
    }
    task.step(move || format!("{name}, seed {seed}: the end"));
    world.finish()
}

fn wrong_at(
    operation: u64,
    failure: titan_testkit::failure::CheckFailure,
) -> titan_testkit::failure::CheckFailure {
    titan_testkit::failure::CheckFailure::wrong(format!("operation {operation}: {failure}"))
}
