//! Random histories of a store of versions, under many configurations: everything that is read is
//! as the model says.
//!
//! The operations are those of [`titan_testkit::versions`]. A list that fails is reduced and kept
//! as a [case](crate::case).
//!
//! | file | owns |
//! |---|---|
//! | [`configurations`] | the table of configurations |
//! | `generate` | random operations |
//! | `world` | a store with its model, and the operations on both |
//! | `transactions`, `clients` | transactions of the store, and of clients that call Percolator |
//! | `waits` | calls that wait for locks |
//! | `reads` | reads of both, compared |
//! | `crashes` | the versions left after a crash |
//! | `left` | the versions left at the end |
//! | `cached` | the ranges that a range cache holds, loads and drops |
//! | `seen` | counts of events in histories |
//! | `clock` | the time of a history |

mod cached;
mod clients;
mod clock;
pub mod configurations;
mod crashes;
mod generate;
mod left;
mod reads;
mod seen;
mod transactions;
mod waits;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use configurations::{CONFIGURATIONS, Configuration};
use generate::Generator;
use parking_lot::Mutex;
pub use seen::{Coverage, Depth, Seen};
use titan_testkit::failure::CheckFailure;
use titan_testkit::versions::Op;
use world::World;

use crate::answers::Deviation;
use crate::case::{Case, Judge};
use crate::ime;
use crate::pool::{catch, run_all};
use crate::run::Run;

/// Operations of a list, and of every tenth one.
const LENGTHS: [usize; 2] = [3_000, 30_000];

/// Size of a campaign.
#[derive(Clone, Debug)]
pub struct Mvcc {
    /// Operations of all configurations together, in each round.
    pub operations: u64,
    /// The number of rounds, if no time is given.
    pub rounds: u64,
    /// The directory for the files of failing cases.
    pub cases: Option<PathBuf>,
}

impl Default for Mvcc {
    fn default() -> Self {
        Mvcc {
            operations: 2_000_000,
            rounds: 1,
            cases: None,
        }
    }
}

impl Mvcc {
    /// Runs lists of operations under every configuration, on all cores. Counts passed operations,
    /// and lists that failed. Returns the counts of events in the histories.
    pub fn run(&self, run: &Run) -> Coverage {
        self.histories(run, &CONFIGURATIONS)
    }

    /// Runs lists under each of these configurations, on all cores.
    pub(crate) fn histories(
        &self,
        run: &Run,
        configurations: &'static [Configuration],
    ) -> Coverage {
        let each = self.operations.div_ceil(configurations.len() as u64) as usize;
        let jobs = run.seeds(self.rounds).flat_map(move |seed| {
            run.phase(format_args!("histories of seed {seed}"));
            configurations.iter().flat_map(move |of| {
                lists(each).map(move |(n, len)| {
                    let seed = titan_testkit::mix(seed, n as u64);
                    (of, seed, len)
                })
            })
        });
        let coverage = Arc::new(Mutex::new(Coverage::default()));
        let (all, kept) = (Arc::clone(&coverage), self.cases.clone());
        run_all(run, jobs, move |(of, seed, len), task| {
            let name = of.name;
            task.step(move || format!("{name}, list {seed}"));
            let ops = Generator::new(of, seed).list(len);
            match history(of, &ops, || task.advance()) {
                Ok(seen) => {
                    all.lock().add(name, &seen);
                    task.pass(ops.len() as u64);
                }
                Err(deviation) => {
                    let kept = kept.as_deref();
                    task.fail(Case::report(of, seed, &ops, deviation, kept, task));
                }
            }
        });
        std::mem::take(&mut *coverage.lock())
    }
}

/// The numbers of the lists of a round, and their lengths.
fn lists(operations: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut left = operations;
    (0..).map_while(move |n: usize| {
        let len = LENGTHS[usize::from(n % 10 == 9)].min(left);
        left -= len;
        (len > 0).then_some((n, len))
    })
}

/// Performs a list, and checks everything. Calls `advance` after each operation.
fn history(of: &'static Configuration, ops: &[Op], advance: impl Fn()) -> Result<Seen, Deviation> {
    let mut after = 0;
    let all = || {
        let mut world = World::new(of)?;
        for op in ops {
            world
                .step(op)
                .map_err(|e| CheckFailure::wrong(format!("{op}: {e}")))?;
            after += 1;
            advance();
        }
        world.finish()
    };
    let caught = catch(all);
    caught.map_err(|what| Deviation { after, what })
}

impl Judge for Configuration {
    type Op = Op;

    fn name(&self) -> &'static str {
        self.name
    }

    fn all() -> Vec<&'static Self> {
        CONFIGURATIONS
            .iter()
            .chain(&ime::configurations::CONFIGURATIONS)
            .collect()
    }

    fn judge(&'static self, ops: &[Op]) -> Result<(), Deviation> {
        history(self, ops, || ()).map(drop)
    }
}
