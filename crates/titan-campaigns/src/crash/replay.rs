//! Reproduces a failure and reduces it.

use std::fmt;

use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::sim::{CrashPoint, Loss};

use super::cut::{Cut, Policy};
use super::life::Life;
use super::{Failure, cut_at, lives_on, recovers};
use crate::pool::{Task, catch};
use crate::regression::{Regression, smaller};
use crate::workloads::Workload;

/// Distance from the recorded point within which a second crash is tried, because the timing of
/// threads varies.
const NEAR: usize = 3;
/// When all second crashes after all first ones are tried: one first crash in this many.
const ANYWHERE: usize = 16;

/// Runs a regression: first at its points, then, because the timing of threads varies, at all
/// others. Returns how many crashes passed.
///
/// # Errors
/// A violated expectation, with the crashes that led to it.
pub fn replay(regression: &Regression<Cut>) -> Checked<u64> {
    again(regression).map_err(|failure| {
        let cuts: Vec<String> = failure.cuts.iter().map(Cut::to_string).collect();
        CheckFailure::Wrong(format!("{}: {}", cuts.join(", "), failure.failure))
    })
}

fn again(regression: &Regression<Cut>) -> Result<u64, Failure> {
    let workload = regression.workload();
    let life = catch(|| Life::of(&workload)).map_err(|failure| Failure {
        failure,
        cuts: Vec::new(),
        tail: String::new(),
    })?;
    let Some((first, then)) = regression.trials.split_first() else {
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

/// Makes the crashes `second` in the life after a first one.
fn recover_next(
    life: &Life,
    point: &CrashPoint<'_>,
    policy: Policy,
    second: &Cut,
) -> Result<u64, Failure> {
    let earlier = [cut_at(point, policy)];
    let next = lives_on(life, point, policy).map_err(|failure| Failure {
        failure,
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
    point: &CrashPoint<'_>,
    policy: Policy,
    earlier: &[Cut],
) -> Result<u64, Failure> {
    let passed = catch(|| recovers(life, point, policy, true));
    passed.map(u64::from).map_err(|failure| Failure {
        failure,
        cuts: [earlier, &[cut_at(point, policy)]].concat(),
        tail: life.tail(point.index()),
    })
}

/// A failure, and the smallest workload found that fails with the same policies.
pub(super) fn reduced(workload: &Workload, failure: Failure, task: &Task) -> Report {
    let mut regression = Regression::of(workload, Vec::new());
    let anywhere = |cut: &Cut| Cut {
        point: None,
        ..*cut
    };
    let trials: Vec<Cut> = failure.cuts.iter().map(anywhere).collect();
    let mut newest = failure;
    regression.ops = smaller(regression.ops, task, |ops| {
        let outcome = again(&Regression {
            settings: workload.settings,
            trials: trials.clone(),
            ops: ops.to_vec(),
        });
        outcome.map_err(|failure| newest = failure).is_err()
    });
    regression.trials = match newest.cuts.is_empty() {
        // The workload itself fails, with any crash after it.
        true => vec![Cut {
            point: None,
            policy: Policy::Lose(Loss::All),
        }],
        false => newest.cuts.clone(),
    };
    Report {
        regression,
        failure: newest,
    }
}

/// The text of a failure: the reason, followed by a regression as `--replay` reads it.
pub(super) struct Report {
    regression: Regression<Cut>,
    failure: Failure,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.failure.failure)?;
        if !self.failure.tail.is_empty() {
            writeln!(f, "# after these operations of the file system:")?;
            f.write_str(&self.failure.tail)?;
        }
        write!(f, "{}", self.regression)
    }
}
