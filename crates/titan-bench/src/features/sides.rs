//! Sides that do the same work in turn, round after round, in one process.

use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::time::{ClockId, clock_gettime};

use crate::results::{Better, Measure, Round, Target};
use crate::session::Session;
use crate::units::{Unit, number};

/// The key of the rates.
const RATE: &str = "operations_per_second";

/// The only measure of these comparisons.
pub(super) fn measures() -> Vec<Measure> {
    let rate = Measure::new(RATE, "operations/s", Unit::Number);
    vec![rate.judged(Better::Higher, 0.0).drawn()]
}

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
    pub(super) fn of(self, number: u64) -> u64 {
        (number / self.divisor as u64).max(1)
    }
}

/// Where a comparison runs, and where its results go.
pub(super) struct Bench<'s> {
    pub(super) dir: &'s Path,
    pub(super) extent: Extent,
    pub(super) session: &'s mut Session,
}

/// Sides that do the same work.
pub(super) struct Comparison<'a> {
    name: String,
    /// The least ratio of the first side to the last one that is aimed at.
    target: Option<f64>,
    clock: fn() -> Duration,
    about: &'static str,
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

    /// Work of so many threads, which each do `each` operations from the seed that they get.
    pub(super) fn of_threads(
        name: &'static str,
        threads: u64,
        each: u64,
        work: impl Fn(u64) -> Result<()> + Sync + 'a,
    ) -> Self {
        Side::new(name, move |round| {
            let work = &work;
            thread::scope(|scope| {
                let started: Vec<_> = (0..threads)
                    .map(|n| scope.spawn(move || work(round * 100 + n)))
                    .collect();
                let ended = started.into_iter().map(|thread| match thread.join() {
                    Ok(done) => done,
                    Err(_) => bail!("a thread panicked"),
                });
                ended.collect::<Result<Vec<()>>>()
            })?;
            Ok((each * threads) as usize)
        })
    }

    /// Calls `prepare` before each round; that is not measured.
    pub(super) fn after(self, prepare: impl FnMut() -> Result<()> + 'a) -> Self {
        Side {
            prepare: Box::new(prepare),
            ..self
        }
    }
}

impl<'a> Comparison<'a> {
    pub(super) fn new(name: impl Into<String>, sides: Vec<Side<'a>>) -> Self {
        Comparison {
            name: name.into(),
            target: None,
            clock: wall_clock,
            about: "rates by the clock",
            sides,
        }
    }

    /// Rates are by the processor time of the thread that calls, for sides that use no other
    /// thread.
    pub(super) fn by_processor_time(self) -> Self {
        Comparison {
            clock: || processor_time(ClockId::ThreadCPUTime),
            about: "rates by the processor time of the thread",
            ..self
        }
    }

    /// Rates are by the processor time of all threads of the process, those of the background among
    /// them.
    pub(super) fn by_time_of_all_threads(self) -> Self {
        Comparison {
            clock: || processor_time(ClockId::ProcessCPUTime),
            about: "rates by the processor time of all threads of the process",
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
    pub(super) fn run(mut self, bench: &mut Bench<'_>) -> Result<()> {
        for round in 0..=bench.extent.rounds {
            // Each side is first as often as the others.
            let sides = self.sides.len();
            for turn in 0..sides {
                let side = &mut self.sides[(turn + round) % sides];
                (side.prepare)()?;
                let began = (self.clock)();
                let operations = (side.round)(round as u64)?;
                let took = (self.clock)().saturating_sub(began);
                let rate = operations as f64 / took.as_secs_f64();
                if round > 0 {
                    let measured = Round {
                        figures: vec![(RATE.to_owned(), rate)],
                        ..Round::default()
                    };
                    let shown = format!("{}/s", number(rate));
                    bench
                        .session
                        .record(&self.name, side.name, round, Ok(measured), &shown);
                }
            }
        }
        let (Some(first), Some(last)) = (self.sides.first(), self.sides.last()) else {
            return Ok(());
        };
        let report = &mut bench.session.report;
        report.targets.extend(self.target.map(|ratio| Target {
            name: self.name.clone(),
            key: RATE.to_owned(),
            variant: first.name.to_owned(),
            beside: Some(last.name.to_owned()),
            at_most: None,
            at_least: Some(ratio),
        }));
        for side in &self.sides {
            if report.engines.iter().all(|known| known != side.name) {
                report.engines.push(side.name.to_owned());
            }
        }
        report.about.push((self.name, self.about.to_owned()));
        bench.session.keep();
        Ok(())
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
        let dir = Path::new("/");
        let mut session = Session::new("t", dir, None, 0, Default::default());
        let extent = Extent {
            rounds: 2,
            divisor: 1,
            badger: false,
        };
        let mut bench = Bench {
            dir,
            extent,
            session: &mut session,
        };
        comparison.run(&mut bench).unwrap();
        let expected = [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)];
        assert_eq!(*turns.borrow(), expected);
        let report = session.report;
        let rates = report.entry("both", "a").unwrap().figures[RATE]
            .rounds()
            .unwrap();
        assert_eq!(rates.len(), 2);
        assert_eq!(report.engines, ["a", "b"]);
        assert!(report.targets[0].judge(&report).is_some());
    }
}
