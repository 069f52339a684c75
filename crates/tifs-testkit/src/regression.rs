//! Operations and what they must survive, as text: printed for a failure, read by
//! `cargo xtask tifs --replay`, and stored in `crates/tifs/tests/regressions`.
//!
//! ```text
//! # What this is about.
//! trial crash 7 4
//! mknod 0/a 100644 0 0 1
//! write 1 0 7*5000
//! ```

use std::fmt;
use std::str::FromStr;

use rustix::io::Errno;
use titan_testkit::sim::{self, Fault, SimVfs};

use crate::crash::{self, Life};
use crate::failure::{Checked, Failure};
use crate::faults::{survives_fault, survives_full_disk, survives_small_device};
use crate::lockstep;
use crate::moods::fail_each_call;
use crate::ops::{Generator, Ops, Shape, reduced};
use crate::place::Place;

/// The trial that operations must survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// Nothing but the model, on a store in memory.
    Memory,
    /// The same on the engine, on a simulated disk.
    Engine,
    /// A crash at one in `step` operations of the disk, drawn by the seed.
    Crash { seed: u64, step: usize },
    /// Each call of the store fails once.
    FailingCalls,
    /// A fault of the disk after a third of the operations, then perhaps another opening.
    Fault { fault: String, reopens: bool },
    /// The disk becomes full again and again.
    FullDisk { seed: u64 },
    /// A store with a log on a device of so many MiB.
    SmallDevice { mib: u64 },
    /// System calls on a mounted volume and on a tmpfs: only tests that may mount replay it.
    Mounted,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trial::Memory => f.write_str("memory"),
            Trial::Engine => f.write_str("engine"),
            Trial::Crash { seed, step } => write!(f, "crash {seed} {step}"),
            Trial::FailingCalls => f.write_str("failing-calls"),
            Trial::Fault { fault, reopens } => write!(f, "fault {reopens} {fault}"),
            Trial::FullDisk { seed } => write!(f, "full-disk {seed}"),
            Trial::SmallDevice { mib } => write!(f, "small-device {mib}"),
            Trial::Mounted => f.write_str("mounted"),
        }
    }
}

impl FromStr for Trial {
    type Err = Failure;

    fn from_str(text: &str) -> Checked<Trial> {
        let wrong = || Failure(format!("no trial: {text}"));
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let number = |text: &str| text.parse().map_err(|_| wrong());
        Ok(match (verb, rest) {
            ("memory", "") => Trial::Memory,
            ("engine", "") => Trial::Engine,
            ("failing-calls", "") => Trial::FailingCalls,
            ("mounted", "") => Trial::Mounted,
            ("full-disk", seed) => Trial::FullDisk {
                seed: number(seed)?,
            },
            ("small-device", mib) => Trial::SmallDevice { mib: number(mib)? },
            ("crash", rest) => {
                let (seed, step) = rest.split_once(' ').ok_or_else(wrong)?;
                let step = number(step)?.max(1) as usize;
                Trial::Crash {
                    seed: number(seed)?,
                    step,
                }
            }
            ("fault", rest) => {
                let (reopens, fault) = rest.split_once(' ').ok_or_else(wrong)?;
                let fault: Fault = fault.parse().map_err(|e| Failure(format!("{text}: {e}")))?;
                Trial::Fault {
                    reopens: reopens.parse().map_err(|_| wrong())?,
                    fault: fault.to_string(),
                }
            }
            _ => return Err(wrong()),
        })
    }
}

impl Trial {
    /// A trial for a seed, of any kind that needs no mount, and the shape of its operations with
    /// their number.
    pub fn draw(seed: u64) -> (Trial, Shape, usize) {
        let mut random = fastrand::Rng::with_seed(seed);
        match random.u8(..9) {
            0 => (Trial::Memory, Shape::default(), 400),
            1 => (Trial::Memory, Shape::large_files(), 400),
            2 => (Trial::Engine, Shape::default(), 400),
            3 => (Trial::FailingCalls, Shape::small(), 100),
            6 => {
                let mib = [1, 2, 3][random.usize(..3)];
                (Trial::SmallDevice { mib }, Shape::filling(), 300)
            }
            4 => (Trial::FullDisk { seed }, Shape::small(), 300),
            5 => {
                let errno = [sim::Errno::IO, sim::Errno::NO_SPACE][random.usize(..2)];
                let kinds = crate::faults::WRITING;
                let skip = random.usize(..30);
                let pattern = ["*.log", "*.sst", "*.blob", "MANIFEST-*", "*"][random.usize(..5)];
                let fault = Fault::on([kinds[random.usize(..kinds.len())]]);
                let fault = fault.path(pattern).skip(skip as u64).error(errno);
                let trial = Trial::Fault {
                    fault: crate::faults::variant(fault, random.usize(..5)).to_string(),
                    reopens: random.bool(),
                };
                (trial, Shape::small(), 150)
            }
            _ => {
                let shape = Shape {
                    reopens: true,
                    ..Shape::small()
                };
                (Trial::Crash { seed, step: 4 }, shape, 100)
            }
        }
    }
}

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regression {
    pub trial: Trial,
    pub ops: Ops,
}

impl fmt::Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trial {}\n{}", self.trial, self.ops)
    }
}

impl FromStr for Regression {
    type Err = Failure;

    fn from_str(text: &str) -> Checked<Regression> {
        let (mut trial, mut ops) = (None, String::new());
        for line in text.lines() {
            match line.strip_prefix("trial ") {
                Some(text) => trial = Some(text.trim().parse()?),
                None => ops = ops + line + "\n",
            }
        }
        Ok(Regression {
            trial: trial.ok_or_else(|| Failure("a line trial is needed".to_owned()))?,
            ops: ops.parse().map_err(Failure)?,
        })
    }
}

impl Regression {
    /// A trial and operations, drawn by a seed.
    pub fn draw(seed: u64) -> Regression {
        let (trial, shape, count) = Trial::draw(seed);
        let ops = Generator::with_seed(seed, shape).ops(count);
        Regression { trial, ops }
    }

    /// Does the operations and checks. Returns how many things were as they should be.
    ///
    /// # Errors
    /// A violated expectation.
    pub fn run(&self) -> Checked<u64> {
        let ops = &self.ops;
        match &self.trial {
            Trial::Memory => lockstep::run(Place::in_memory(), ops)?,
            Trial::Engine => lockstep::run(Place::simulated(&SimVfs::new()), ops)?,
            Trial::Crash { seed, step } => {
                return crash::crash(&Life::of(ops)?, *seed, *step);
            }
            Trial::FailingCalls => return fail_each_call(ops),
            Trial::Fault { fault, reopens } => {
                let fault: Fault = fault.parse().map_err(|e| Failure(format!("{e}")))?;
                let errno = match self.trial.is_about_space() {
                    true => Errno::NOSPC,
                    false => Errno::IO,
                };
                survives_fault(ops, fault, errno, *reopens)?;
            }
            Trial::FullDisk { seed } => {
                survives_full_disk(*seed, ops)?;
            }
            Trial::SmallDevice { mib } => {
                survives_small_device(ops, *mib)?;
            }
            Trial::Mounted => return Err(Failure("it needs a mount".to_owned())),
        }
        Ok(ops.0.len() as u64)
    }

    /// A smaller one that still fails. Asks `in_time` before each attempt.
    pub fn reduced(self, in_time: impl Fn() -> bool) -> Regression {
        let Regression { trial, ops } = self;
        // Short lists have few crash points. A part of them, drawn anew for each list, would miss.
        let trial = match trial {
            Trial::Crash { seed, .. } => Trial::Crash { seed, step: 1 },
            other => other,
        };
        let fails = |ops: &Ops| {
            let regression = Regression {
                trial: trial.clone(),
                ops: ops.clone(),
            };
            in_time() && catch(|| regression.run()).is_err()
        };
        let ops = reduced(ops, fails);
        Regression { trial, ops }
    }
}

impl Trial {
    fn is_about_space(&self) -> bool {
        matches!(self, Trial::Fault { fault, .. } if fault.contains("ENOSPC"))
    }
}

/// The result of a check; a panic is a failure, too.
pub fn catch<T>(check: impl FnOnce() -> Checked<T>) -> Checked<T> {
    titan_testkit::failure::catch(check, Failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regressions_survive_their_text() {
        for seed in 0..200 {
            let regression = Regression::draw(seed);
            let text = format!("# why\n\n{regression}");
            assert_eq!(text.parse::<Regression>().unwrap(), regression);
        }
        for wrong in [
            "sync\n",
            "trial\n",
            "trial crash 1\n",
            "trial memory\nnothing\n",
        ] {
            wrong.parse::<Regression>().unwrap_err();
        }
    }
}
