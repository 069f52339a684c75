//! The end of a life, and the data that the crash loses: as data and as text.

use std::fmt;
use std::str::FromStr;

use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::ledger::End;
use titan_testkit::sim::{CrashPoint, Loss, SimVfs};

use crate::regression::Trial;

/// Way in which unsynced state is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The process or the machine stops between two operations.
    Lose(Loss),
    /// The process is killed during an append; the number determines how far that came.
    KillWithin(u64),
}

impl Policy {
    /// The end that it causes.
    pub(super) fn end(&self) -> End {
        match self {
            Policy::Lose(loss) => End::with(loss),
            Policy::KillWithin(_) => End::Process,
        }
    }

    /// The file system after the crash; `None` if the next operation is not an append that could
    /// be killed.
    pub fn image(&self, point: &CrashPoint<'_>) -> Option<SimVfs> {
        match self {
            Policy::Lose(loss) => Some(point.crash(loss)),
            Policy::KillWithin(seed) => point.kill_within(*seed),
        }
    }
}

/// A crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The number of file system operations before the crash; `None` stands for every number.
    pub point: Option<usize>,
    /// The loss.
    pub policy: Policy,
}

/// `crash 512 random:7`; the policies are `nothing`, `all`, `random:SEED` and `kill:SEED`.
impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.point {
            Some(point) => write!(f, "crash {point} ")?,
            None => f.write_str("crash any ")?,
        }
        match self.policy {
            Policy::Lose(Loss::None) => f.write_str("nothing"),
            Policy::Lose(Loss::All) => f.write_str("all"),
            Policy::Lose(Loss::Random(seed)) => write!(f, "random:{seed}"),
            Policy::KillWithin(seed) => write!(f, "kill:{seed}"),
        }
    }
}

impl Trial for Cut {
    const VERB: &'static str = "crash";
}

impl FromStr for Cut {
    type Err = CheckFailure;

    fn from_str(text: &str) -> Checked<Cut> {
        let unknown = || CheckFailure::wrong(format!("not a crash: {text}"));
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["crash", point, policy] = words[..] else {
            return Err(unknown());
        };
        let point = match point {
            "any" => None,
            number => Some(number.parse().map_err(|_| unknown())?),
        };
        let policy = match policy.split_once(':') {
            None if policy == "nothing" => Policy::Lose(Loss::None),
            None if policy == "all" => Policy::Lose(Loss::All),
            Some(("random", seed)) => {
                Policy::Lose(Loss::Random(seed.parse().map_err(|_| unknown())?))
            }
            Some(("kill", seed)) => Policy::KillWithin(seed.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        };
        Ok(Cut { point, policy })
    }
}
