//! Under every configuration the same operations have the same outcomes.
//!
//! | file | owns |
//! |---|---|
//! | [`configurations`] | the table of configurations |
//! | `executor` | a list of operations on a database of one configuration |
//! | `properties` | what must hold for a database besides its outcomes |
//! | [`case`] | a reduced failing list, kept as a file |
//!
//! The expected outcomes are those of [`Reference`](titan_testkit::reference::Reference); they
//! are computed once for each list, and each configuration is compared with them while it runs.

pub mod case;
pub mod configurations;
mod executor;
mod properties;

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use titan_testkit::failure::Checked;
use titan_testkit::ops::Ops;
use titan_testkit::reference::Outcome;

use self::case::Case;
use self::configurations::{CONFIGURATIONS, Configuration};
use crate::answers::expected;
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
        let (after, what) = (deviation.after, deviation.what.clone());
        let case = Case::reduced(configuration, seed, ops, deviation, task);
        let kept = match &self.cases {
            Some(dir) => keep(&case, dir),
            None => String::new(),
        };
        task.fail(format!(
            "{name}, list {seed}, operation {after}: {what}\n{kept}{case}"
        ));
    }
}

/// Writes a case to its file, and returns the path.
fn keep(case: &Case, dir: &Path) -> String {
    let path = dir.join(case.file_name());
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, case.to_string()));
    match written {
        Ok(()) => format!("kept as {}\n", path.display()),
        Err(e) => format!("cannot be kept as {}: {e}\n", path.display()),
    }
}

/// Performs a case. Returns the number of its operations, once for each configuration.
///
/// # Errors
/// The first failure.
pub fn replay(case: &Case) -> Checked<u64> {
    case.replay()?;
    Ok((case.ops.0.len() * case.configurations.len()) as u64)
}
