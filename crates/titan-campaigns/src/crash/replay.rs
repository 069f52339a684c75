//! Seeing a failure again, and making it small.

use std::fmt;
use std::time::{Duration, Instant};

use titan_testkit::ops::{Op, reduce};

use super::cut::{Cut, Policy};
use super::life::Life;
use super::regression::Regression;
use super::{Failure, lives_on, recovers};
use crate::pool::{Task, catch};
use crate::trouble::Trouble;
use crate::workloads::Workload;

/// How long a failing list of operations is made smaller.
const PATIENCE: Duration = Duration::from_secs(60);
/// A second crash is looked for so far around the first one's point, as threads do not keep time.
const NEAR: usize = 3;
/// Of a second crash anywhere after a first one anywhere, one first one in so many is tried.
const ANYWHERE: usize = 16;

impl Regression {
    /// A workload and its crashes.
    pub(super) fn of(workload: &Workload, cuts: Vec<Cut>) -> Regression {
        Regression {
            settings: workload.settings,
            cuts,
            ops: workload.ops.clone(),
        }
    }
}

/// Runs a regression: first at its points, then, as threads do not keep time, at all others.
/// Returns how many crashes passed.
///
/// # Errors
/// What was wrong, with the crashes after which it was.
pub fn replay(regression: &Regression) -> Result<u64, Trouble> {
    again(regression).map_err(|failure| {
        let cuts: Vec<String> = failure.cuts.iter().map(Cut::to_string).collect();
        Trouble::Wrong(format!("{}: {}", cuts.join(", "), failure.trouble))
    })
}

fn again(regression: &Regression) -> Result<u64, Failure> {
    let workload = Workload {
        name: String::new(),
        settings: regression.settings,
        ops: regression.ops.clone(),
    };
    let life = catch(|| Life::of(&workload)).map_err(|trouble| Failure {
        trouble,
        cuts: Vec::new(),
        tail: String::new(),
    })?;
    let Some((first, then)) = regression.cuts.split_first() else {
        return Ok(1);
    };
    let mut passed = 0;
    let exactly = first.point.into_iter().map(|n| (n, 1));
    for (skip, take) in exactly.chain([(0, usize::MAX)]) {
        for point in life.journal.crash_points().skip(skip).take(take) {
            passed += recover(&life, &point, first.policy, &[])?;
            let Some(second) = then.first() else { continue };
            let near = match first.point {
                Some(n) => point.index().abs_diff(n) <= NEAR,
                None => point.index() % ANYWHERE == 0,
            };
            if near {
                passed += recover_next(&life, &point, first.policy, second)?;
            }
        }
    }
    Ok(passed)
}

/// The crashes `second` of what comes after a first one.
fn recover_next(
    life: &Life,
    point: &titan_testkit::sim::CrashPoint<'_>,
    policy: Policy,
    second: &Cut,
) -> Result<u64, Failure> {
    let earlier = [super::cut_at(point, policy)];
    let next = lives_on(life, point, policy).map_err(|trouble| Failure {
        trouble,
        cuts: earlier.to_vec(),
        tail: life.tail(point.index()),
    })?;
    let mut passed = 0;
    for point in next.iter().flat_map(|next| next.journal.crash_points()) {
        passed += next
            .as_ref()
            .map_or(Ok(0), |next| recover(next, &point, second.policy, &earlier))?;
    }
    Ok(passed)
}

fn recover(
    life: &Life,
    point: &titan_testkit::sim::CrashPoint<'_>,
    policy: Policy,
    earlier: &[Cut],
) -> Result<u64, Failure> {
    let passed = catch(|| recovers(life, point, policy, true));
    passed.map(u64::from).map_err(|trouble| Failure {
        trouble,
        cuts: [earlier, &[super::cut_at(point, policy)]].concat(),
        tail: life.tail(point.index()),
    })
}

/// A failure and the smallest workload found that shows one with the same policies.
pub(super) fn reduced(workload: &Workload, failure: Failure, task: &Task) -> Report {
    let mut regression = Regression::of(workload, failure.cuts.clone());
    let deadline = Instant::now() + PATIENCE;
    let anywhere: Vec<Cut> = failure
        .cuts
        .iter()
        .map(|cut| Cut { point: None, ..*cut })
        .collect();
    let mut newest = failure;
    regression.ops = reduce(regression.ops.clone(), |ops: &[Op]| {
        if Instant::now() > deadline {
            return false;
        }
        let candidate = Regression {
            cuts: anywhere.clone(),
            ops: ops.to_vec(),
            ..regression.clone()
        };
        let text = candidate.to_string();
        task.step(move || text.clone());
        match again(&candidate) {
            Ok(_) => false,
            Err(failure) => {
                newest = failure;
                true
            }
        }
    });
    regression.cuts = match newest.cuts.is_empty() {
        // The workload itself fails, whatever crash follows.
        true => vec![Cut {
            point: None,
            policy: Policy::Lose(titan_testkit::sim::Loss::All),
        }],
        false => newest.cuts.clone(),
    };
    Report {
        regression,
        failure: newest,
    }
}

/// A failure as it is told: why, and below it a regression as `--replay` reads it.
pub(super) struct Report {
    regression: Regression,
    failure: Failure,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.failure.trouble)?;
        if !self.failure.tail.is_empty() {
            writeln!(f, "# after these operations of the file system:")?;
            f.write_str(&self.failure.tail)?;
        }
        write!(f, "{}", self.regression)
    }
}
