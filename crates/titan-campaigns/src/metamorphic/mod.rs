//! Whatever the configuration, the same operations give the same answers.
//!
//! | file | owns |
//! |---|---|
//! | [`configurations`] | the table of configurations |
//! | `executor` | a list of operations on a database of one configuration |
//! | `properties` | what must hold of a database besides its answers |
//! | [`case`] | a failing list made small, kept as a file |
//!
//! The expected answers are those of [`Reference`](titan_testkit::reference::Reference); they are
//! found once for each list, and each configuration is compared with them while it runs.

pub mod case;
pub mod configurations;
mod executor;
mod properties;

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::Mutex;
use titan_testkit::ops::Ops;
use titan_testkit::reference::Outcome;

use self::case::Case;
use self::configurations::{CONFIGURATIONS, Configuration};
use crate::history::expected;
use crate::lists::list;
use crate::run::Run;

/// How often a list reopens the database: see [`list`].
const REOPENINGS: u32 = 4;

/// How large a campaign is.
#[derive(Clone, Debug)]
pub struct Metamorphic {
    /// Operations of a list, roughly.
    pub operations: usize,
    /// How many lists, where no time is given.
    pub lists: u64,
    /// Configurations at work at the same time.
    pub threads: usize,
    /// Where failing cases are written, as files.
    pub cases: Option<PathBuf>,
}

impl Default for Metamorphic {
    /// Enough to fill levels, few enough to be reduced; on all cores; nothing is written.
    fn default() -> Self {
        Metamorphic {
            operations: 3000,
            lists: 10,
            threads: thread::available_parallelism().map_or(1, |n| n.get()),
            cases: None,
        }
    }
}

/// A list on its way through the configurations.
struct List {
    seed: u64,
    ops: Ops,
    expected: Vec<Outcome>,
    /// It is a case by now, and not gone on with.
    failed: AtomicBool,
}

impl Metamorphic {
    /// Runs lists of operations under every configuration. Passed are operations, once for each
    /// configuration; failed are cases.
    pub fn run(&self, run: &Run) {
        let lists = run.seeds(self.lists).map(|seed| {
            run.phase(format_args!("list {seed}"));
            let ops = list(seed, self.operations, REOPENINGS);
            let expected = expected(&ops.0);
            let failed = AtomicBool::new(false);
            Arc::new(List {
                seed,
                ops,
                expected,
                failed,
            })
        });
        let work = lists.flat_map(|list| CONFIGURATIONS.iter().zip(iter::repeat(list)));
        let work = Mutex::new(work);
        let next = || work.lock().next();
        thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while let Some((configuration, list)) = next() {
                        // However short the time, one list is gone through.
                        let first = list.seed == run.seed();
                        if first || run.goes_on() {
                            self.compare(run, configuration, &list);
                        }
                    }
                });
            }
        });
    }

    fn compare(&self, run: &Run, configuration: &'static Configuration, list: &List) {
        let (seed, ops) = (list.seed, &list.ops.0);
        if list.failed.load(Ordering::Relaxed) {
            return;
        }
        let Err(deviation) = executor::replay(configuration, ops, &list.expected) else {
            return run.pass(ops.len() as u64);
        };
        if list.failed.swap(true, Ordering::Relaxed) {
            return;
        }
        let (after, what) = (deviation.after, deviation.what.clone());
        let found = format!(
            "{}, list {seed}, operation {after}: {what}",
            configuration.name
        );
        run.phase(format_args!("making a failing list smaller: {found}"));
        let case = Case::reduced(configuration, seed, ops, deviation);
        let kept = match &self.cases {
            Some(dir) => keep(&case, dir),
            None => String::new(),
        };
        run.fail(format_args!("{found}\n{kept}{case}"));
    }
}

/// Writes a case to its file, and says where that is.
fn keep(case: &Case, dir: &Path) -> String {
    let path = dir.join(case.file_name());
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, case.to_string()));
    match written {
        Ok(()) => format!("kept as {}\n", path.display()),
        Err(e) => format!("cannot be kept as {}: {e}\n", path.display()),
    }
}

/// Performs the case in a file. Passed are its operations, once for each configuration.
pub fn replay(run: &Run, file: &Path) {
    run.phase(format_args!("case {}", file.display()));
    let text = fs::read_to_string(file).map_err(|e| e.to_string());
    let case = text.and_then(|text| Case::parse(&text));
    let replayed = case.and_then(|case| {
        case.replay()?;
        Ok(case.ops.0.len() * case.configurations.len())
    });
    match replayed {
        Ok(operations) => run.pass(operations as u64),
        Err(what) => run.fail(format_args!("{}: {what}", file.display())),
    }
}

/// Performs every case in a directory, if there is one.
///
/// # Errors
/// The directory cannot be read.
pub fn replay_all(run: &Run, dir: &Path) -> std::io::Result<()> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "ops"));
    files.sort();
    files.iter().for_each(|file| replay(run, file));
    Ok(())
}
