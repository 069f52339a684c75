//! Under every configuration the same operations have the same outcomes.
//!
//! | file | owns |
//! |---|---|
//! | [`configurations`] | the table of configurations |
//! | `executor` | a list of operations on a database of one configuration |
//! | `properties` | properties that must hold for a database besides its outcomes |
//!
//! The expected outcomes are those of [`Reference`](titan_testkit::reference::Reference); they
//! are computed once for each list, and each configuration is compared with them while it runs.

pub mod configurations;
mod executor;
mod properties;

use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use titan_testkit::ops::{Op, Ops};
use titan_testkit::reference::Outcome;

use self::configurations::{CONFIGURATIONS, Configuration};
use crate::answers::{Deviation, expected};
use crate::case::{Case, Judge};
use crate::lists::list;
use crate::pool::{Task, run_all};
use crate::run::Run;

/// Number of times that a list reopens the database: see [`list`].
const REOPENINGS: u32 = 4;

/// Size of a campaign.
#[derive(Clone, Debug)]
pub struct Metamorphic {
    /// The approximate number of operations in a list.
    pub operations: usize,
    /// The number of lists, if no time is given.
    pub lists: u64,
    /// The directory for the files of failing cases.
    pub cases: Option<PathBuf>,
}

impl Default for Metamorphic {
    /// Enough operations to fill levels, few enough to be reduced; no files are written.
    fn default() -> Self {
        Metamorphic {
            operations: 3000,
            lists: 10,
            cases: None,
        }
    }
}

/// The state of a list that runs under the configurations.
struct List {
    seed: u64,
    ops: Ops,
    expected: Vec<Outcome>,
    /// It has become a case and is not continued.
    failed: AtomicBool,
}

impl Metamorphic {
    /// Runs lists of operations under every configuration, on all cores. Counts passed
    /// operations, once for each configuration, and failed lists.
    pub fn run(&self, run: &Run) {
        let jobs = run.seeds(self.lists).flat_map(|seed| {
            run.phase(format_args!("list {seed}"));
            let ops = list(seed, self.operations, REOPENINGS);
            let list = Arc::new(List {
                seed,
                expected: expected(&ops.0),
                ops,
                failed: AtomicBool::new(false),
            });
            CONFIGURATIONS.iter().zip(iter::repeat(list))
        });
        let this = self.clone();
        run_all(run, jobs, move |(configuration, list), task| {
            this.compare(task, configuration, &list);
        });
    }

    fn compare(&self, task: &Task, configuration: &'static Configuration, list: &List) {
        let (name, seed, ops) = (configuration.name, list.seed, &list.ops.0);
        if list.failed.load(Ordering::Relaxed) {
            return;
        }
        task.step(move || format!("{name}, list {seed}"));
        let Err(deviation) = executor::replay(configuration, ops, &list.expected) else {
            return task.pass(ops.len() as u64);
        };
        if list.failed.swap(true, Ordering::Relaxed) {
            return;
        }
        let kept = self.cases.as_deref();
        task.fail(Case::report(
            configuration,
            seed,
            ops,
            deviation,
            kept,
            task,
        ));
    }
}

impl Judge for Configuration {
    type Op = Op;

    fn name(&self) -> &'static str {
        self.name
    }

    fn all() -> Vec<&'static Self> {
        CONFIGURATIONS.iter().collect()
    }

    fn judge(&'static self, ops: &[Op]) -> Result<(), Deviation> {
        executor::replay(self, ops, &expected(ops))
    }
}
