//! Compares calls that only Titan and some peer have: transactions, merges, reads within a prefix,
//! the commit hook, the store of versions.
//!
//! A workload compares whole engines, each in a process of its own. Here several *sides* do the
//! same work in one process, in turn, round after round. The result is the median of the rounds of
//! each side, and the ratio of the first side to each other one.

mod counters;
mod hook;
mod mvcc;
mod prefixes;
mod transactions;

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The names of the comparisons, in the order in which they run.
pub(crate) const NAMES: &[&str] = &[
    "transactions",
    "counters",
    "prefixes",
    "hook",
    "mvcc-points",
    "mvcc-commits",
    "mvcc-scans",
];

/// Amount of work.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Rounds of each side.
    pub(crate) rounds: usize,
    /// Divides what a round does.
    pub(crate) divisor: usize,
    /// Whether Badger takes part where there is something to compare it with. Go must build it.
    pub(crate) badger: bool,
}

impl Extent {
    /// This number of rows or calls, divided.
    fn of(self, number: u64) -> u64 {
        (number / self.divisor as u64).max(1)
    }
}

/// Sides that do the same work.
pub(super) struct Comparison<'a> {
    name: String,
    /// The least ratio of the first side to the last one that is aimed at.
    target: Option<f64>,
    clock: fn() -> Duration,
    sides: Vec<Side<'a>>,
}

/// One of them: does the work of a round, whose number it gets, and returns how many operations
/// that were.
pub(super) struct Side<'a> {
    name: &'static str,
    prepare: Box<dyn FnMut() -> Result<()> + 'a>,
    round: Box<dyn FnMut(u64) -> Result<usize> + 'a>,
}

impl<'a> Side<'a> {
    pub(super) fn new(name: &'static str, round: impl FnMut(u64) -> Result<usize> + 'a) -> Self {
        Side {
            name,
            prepare: Box::new(|| Ok(())),
            round: Box::new(round),
        }
    }

    /// Calls `prepare` before each round; that is not measured.
    pub(super) fn after(self, prepare: impl FnMut() -> Result<()> + 'a) -> Self {
        Side {
            prepare: Box::new(prepare),
            ..self
        }
    }
}

/// Result of a comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    name: String,
    target: Option<f64>,
    sides: Vec<Measured>,
}

/// Work that a side did.
#[derive(Debug, Serialize)]
struct Measured {
    name: &'static str,
    /// The median, in operations per second.
    rate: f64,
    /// All rounds.
    rates: Vec<f64>,
    /// The rate of the first side divided by this one's.
    first_to_this: f64,
}

/// Runs the comparisons of this name in `dir`, which it empties afterwards.
pub(crate) fn run(name: &str, dir: &Path, extent: Extent) -> Result<Vec<Compared>> {
    std::fs::create_dir_all(dir)?;
    let compared = match name {
        "transactions" => transactions::run(dir, extent),
        "counters" => counters::run(dir, extent),
        "prefixes" => prefixes::run(dir, extent),
        "hook" => hook::run(dir, extent),
        "mvcc-points" => mvcc::points(dir, extent),
        "mvcc-commits" => mvcc::commits(dir, extent),
        "mvcc-scans" => mvcc::scans(dir, extent),
        _ => bail!(
            "no comparison is called {name}; there are {}",
            NAMES.join(", ")
        ),
    };
    std::fs::remove_dir_all(dir)?;
    compared
}

impl<'a> Comparison<'a> {
    pub(super) fn new(name: impl Into<String>, sides: Vec<Side<'a>>) -> Self {
        Comparison {
            name: name.into(),
            target: None,
            clock: wall_clock,
            sides,
        }
    }

    /// Rates are by the processor time of the thread that calls, for sides that use no other
    /// thread.
    pub(super) fn by_processor_time(self) -> Self {
        Comparison {
            clock: || processor_time(ClockId::ThreadCPUTime),
            ..self
        }
    }

    /// Rates are by the processor time of all threads of the process, those of the background among
    /// them.
    pub(super) fn by_time_of_all_threads(self) -> Self {
        Comparison {
            clock: || processor_time(ClockId::ProcessCPUTime),
            ..self
        }
    }

    /// With a ratio that the first side is to reach beside the last.
    pub(super) fn aiming_at(self, ratio: f64) -> Self {
        Comparison {
            target: Some(ratio),
            ..self
        }
    }

    /// Runs the sides in turn. One round more, which does not count, comes first.
    pub(super) fn run(mut self, extent: Extent) -> Result<Compared> {
        let mut rates = vec![Vec::new(); self.sides.len()];
        for round in 0..=extent.rounds {
            // Each side is first as often as the others.
            let sides = self.sides.len();
            for turn in 0..sides {
                let at = (turn + round) % sides;
                let (Some(side), Some(rates)) = (self.sides.get_mut(at), rates.get_mut(at)) else {
                    continue;
                };
                (side.prepare)()?;
                let began = (self.clock)();
                let operations = (side.round)(round as u64)?;
                let took = (self.clock)().saturating_sub(began);
                let rate = operations as f64 / took.as_secs_f64();
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
        let medians: Vec<f64> = rates.iter().map(|rates| median(rates)).collect();
        let first = medians.first().copied().unwrap_or_default();
        let sides = self.sides.iter().zip(medians).zip(rates);
        let sides = sides.map(|((side, rate), rates)| Measured {
            name: side.name,
            rate,
            rates,
            first_to_this: first / rate,
        });
        Ok(Compared {
            sides: sides.collect(),
            name: self.name,
            target: self.target,
        })
    }
}

/// The time since it was first asked for.
fn wall_clock() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed()
}

/// The time that a thread or process had a processor.
fn processor_time(of: ClockId) -> Duration {
    let time = clock_gettime(of);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// A table of the sides.
impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        for side in &self.sides {
            let (name, rate, ratio) = (side.name, side.rate, side.first_to_this);
            writeln!(f, "  {name:<36}{rate:>14.0} /s {ratio:>8.2} x")?;
        }
        match self.target {
            Some(target) => writeln!(f, "  aims at {target} x beside the last"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_and_the_first_round_does_not_count() {
        let turns = std::cell::RefCell::new(Vec::new());
        let side = |name: &'static str| {
            let turns = &turns;
            Side::new(name, move |round| {
                turns.borrow_mut().push((name, round));
                Ok(10)
            })
        };
        let comparison = Comparison::new("both", vec![side("a"), side("b")]).aiming_at(1.0);
        let extent = Extent {
            rounds: 2,
            divisor: 1,
            badger: false,
        };
        let compared = comparison.run(extent).unwrap();
        let expected = [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)];
        assert_eq!(*turns.borrow(), expected);
        assert_eq!(compared.sides[0].rates.len(), 2);
        assert_eq!(compared.sides[0].first_to_this, 1.0);
        assert!(compared.to_string().contains("aims at 1 x"));
    }

    #[test]
    fn every_comparison_runs() {
        let dir = tempfile::tempdir().unwrap();
        let extent = Extent {
            rounds: 1,
            divisor: 1000,
            badger: false,
        };
        for name in NAMES {
            let compared = run(name, &dir.path().join(name), extent).unwrap();
            assert!(!compared.is_empty(), "{name}");
            for side in compared.iter().flat_map(|compared| &compared.sides) {
                assert!(side.rate > 0.0, "{name}: {}", side.name);
            }
        }
        assert!(run("nothing", &dir.path().join("x"), extent).is_err());
    }
}
