//! A workload and the trials that it must survive, as text: printed for a failure, read by
//! `--replay`, and stored in the folders of regressions.
//!
//! ```text
//! # What this is about.
//! settings jobs=1 compression=none
//! crash 512 random:7
//! put default k 1*100
//! ```
//!
//! Because the timing of background threads varies, a number in a trial is only where to look
//! first.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::ops::{Op, Operation, Ops, reduce};

use crate::pool::Task;
use crate::settings::Settings;
use crate::workloads::Workload;

/// The time limit for reducing a failing list of operations.
const PATIENCE: Duration = Duration::from_secs(60);

/// A trial that a workload must survive: a crash, a fault.
pub trait Trial: fmt::Display + FromStr<Err = CheckFailure> {
    /// The first word of its line.
    const VERB: &'static str;
}

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regression<T> {
    /// The settings of the workload.
    pub settings: Settings,
    /// Trials that it must survive, in order.
    pub trials: Vec<T>,
    /// The workload.
    pub ops: Vec<Op>,
}

impl<T> Regression<T> {
    /// A workload and its trials.
    pub fn of(workload: &Workload, trials: Vec<T>) -> Regression<T> {
        Regression {
            settings: workload.settings,
            trials,
            ops: workload.ops.clone(),
        }
    }

    /// The workload alone.
    pub fn workload(&self) -> Workload {
        Workload {
            name: "regression".to_owned(),
            settings: self.settings,
            ops: self.ops.clone(),
        }
    }
}

impl<T: Trial> fmt::Display for Regression<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "settings {}", self.settings)?;
        self.trials.iter().try_for_each(|t| writeln!(f, "{t}"))?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

impl<T: Trial> FromStr for Regression<T> {
    type Err = CheckFailure;

    fn from_str(text: &str) -> Checked<Regression<T>> {
        let (mut settings, mut trials) = (Settings::default(), Vec::new());
        let mut ops = String::new();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("settings", rest)) => settings = rest.parse()?,
                Some((verb, _)) if verb == T::VERB => trials.push(line.parse()?),
                _ => {
                    ops += line;
                    ops += "\n";
                }
            }
        }
        if trials.is_empty() {
            return Err(CheckFailure::wrong(format!("a line {} is needed", T::VERB)));
        }
        Ok(Regression {
            settings,
            trials,
            ops: Ops::parse(&ops).doing("reading the operations")?.0,
        })
    }
}

/// The smallest list found, in limited time, that still fails. Reports that the job makes progress.
pub(crate) fn smaller<O: Operation>(
    ops: Vec<O>,
    task: &Task,
    mut fails: impl FnMut(&[O]) -> bool,
) -> Vec<O> {
    smaller_in_time(ops, task, |ops, _| fails(ops))
}

/// The same if one list takes many runs: `fails` is told whether there is time for another.
pub(crate) fn smaller_in_time<O: Operation>(
    ops: Vec<O>,
    task: &Task,
    mut fails: impl FnMut(&[O], &dyn Fn() -> bool) -> bool,
) -> Vec<O> {
    let deadline = Instant::now() + PATIENCE;
    let in_time = || Instant::now() < deadline;
    reduce(ops, |ops| {
        let text = Ops(ops.to_vec()).to_string();
        task.step(move || text.clone());
        in_time() && fails(ops, &in_time)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::Cut;
    use crate::faults::Plan;

    #[test]
    fn regressions_survive_their_text() {
        let crashes = "\
settings jobs=3 compression=zstd min-blob=never wal-limit=0 levels=4 table=4096 unlogged cold
crash 512 random:77
crash any kill:5
sync put default k 1*100
reopen
";
        let regression: Regression<Cut> = crashes.parse().unwrap();
        assert_eq!(regression.to_string(), crashes);
        let commented = format!("# why\n\n{crashes}");
        assert_eq!(commented.parse::<Regression<Cut>>().unwrap(), regression);
        let fault = "\
settings jobs=1 compression=none min-blob=100 wal-limit=0 levels=4 table=4096
fault append 17 part once resume
put default k 1*100
";
        let regression: Regression<Plan> = fault.parse().unwrap();
        assert_eq!(regression.to_string(), fault);
        fault.parse::<Regression<Cut>>().unwrap_err();
        for wrong in ["put default k 1*1\n", "crash 1 some\n", "crash all\n"] {
            wrong.parse::<Regression<Cut>>().unwrap_err();
        }
    }
}
