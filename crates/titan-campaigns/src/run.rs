//! One run of a campaign: its seed, its time, its findings.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

/// A campaign stops after this many failures: only the first ones are examined.
const FAILURES_SHOWN: u64 = 10;

/// Is notified of a run's findings. The default methods do nothing.
pub trait Observer: Send + Sync {
    /// The run starts another phase.
    fn phase(&self, what: &str) {
        let _ = what;
    }

    /// A fact worth knowing.
    fn note(&self, what: &str) {
        let _ = what;
    }

    /// The progress so far.
    fn progress(&self, tally: Tally) {
        let _ = tally;
    }

    /// A failure. The text has all that is needed to reproduce it.
    fn failure(&self, what: &str) {
        let _ = what;
    }
}

/// Ignores everything.
impl Observer for () {}

/// The findings of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
}

/// `N passed, N failed`: the last line of a campaign.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// One run of a campaign. Shared by the threads of the campaign.
pub struct Run {
    seed: u64,
    time: Option<Duration>,
    started: Instant,
    observer: Box<dyn Observer>,
    passed: AtomicU64,
    failed: AtomicU64,
    stopped: AtomicBool,
    looks_at_everything: AtomicBool,
    failures: Mutex<Vec<String>>,
}

impl Run {
    /// A run that starts now. Without a `time`, a campaign does its work once; with one, it
    /// continues with new randomness until the time is over.
    ///
    /// From now on every database of the process compares its MANIFEST with its versions after
    /// every edit, if this build checks invariants.
    pub fn new(seed: u64, time: Option<Duration>, observer: impl Observer + 'static) -> Run {
        titan::invariants::compare_manifests();
        Run {
            seed,
            time,
            started: Instant::now(),
            observer: Box::new(observer),
            passed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            looks_at_everything: AtomicBool::new(false),
            failures: Mutex::new(Vec::new()),
        }
    }

    /// A run for a test: does the work once, and [`Run::finish`] panics if anything failed.
    pub fn once(seed: u64) -> Run {
        Run::new(seed, None, ())
    }

    /// The same with another seed each day, or with that of the environment variable
    /// `TITAN_TEST_SEED`. Prints it.
    #[expect(
        clippy::print_stdout,
        reason = "tests show what they print when they fail"
    )]
    pub fn tonight() -> Run {
        let given = std::env::var("TITAN_TEST_SEED").ok();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let day = since.map_or(0, |since| since.as_secs() / (24 * 3600));
        let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or(day);
        println!("TITAN_TEST_SEED={seed}");
        Run::once(seed)
    }

    /// The seed of all randomness of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Time that the run is to take, if that was given.
    pub fn time(&self) -> Option<Duration> {
        self.time
    }

    /// The seeds of the rounds of this run: first the run's own, so that a failed round can be
    /// repeated by its seed, then the following ones as long as the time lasts. Without a time
    /// there are `rounds` of them.
    pub fn seeds(&self, rounds: u64) -> impl Iterator<Item = u64> + '_ {
        (0..)
            .take_while(move |round| self.time.is_some() || *round < rounds)
            .take_while(|_| self.goes_on())
            .map(|round| self.seed.wrapping_add(round))
    }

    /// Continues however much fails: for campaigns whose parts are independent.
    pub(crate) fn look_at_everything(&self) {
        self.looks_at_everything.store(true, Ordering::Relaxed);
    }

    /// Whether to continue: not stopped, time left, and not too many failures.
    pub fn goes_on(&self) -> bool {
        let too_much = self.failed.load(Ordering::Relaxed) >= FAILURES_SHOWN;
        !self.stopped.load(Ordering::Relaxed)
            && (!too_much || self.looks_at_everything.load(Ordering::Relaxed))
            && self.time.is_none_or(|time| self.started.elapsed() < time)
    }

    /// Ends the run early, from any thread.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the run was stopped early.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Reports the present phase of the run.
    pub fn phase(&self, what: impl fmt::Display) {
        self.observer.phase(&what.to_string());
    }

    /// Reports a fact worth knowing: a figure, an omission.
    pub fn note(&self, what: impl fmt::Display) {
        self.observer.note(&what.to_string());
    }

    /// Counts `n` more passes.
    pub fn pass(&self, n: u64) {
        self.passed.fetch_add(n, Ordering::Relaxed);
        self.observer.progress(self.tally());
    }

    /// Reports a failure. `what` has all that is needed to reproduce it.
    pub fn fail(&self, what: impl fmt::Display) {
        let what = what.to_string();
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.observer.failure(&what);
        self.observer.progress(self.tally());
        self.failures.lock().push(what);
    }

    /// The findings so far.
    pub fn tally(&self) -> Tally {
        Tally {
            passed: self.passed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    /// Ends a run in a test.
    ///
    /// # Panics
    /// If anything failed, or fewer than `at_least` checks were made.
    #[expect(clippy::panic, reason = "it is how a test fails")]
    pub fn finish(self, at_least: u64) {
        let tally = self.tally();
        if let Some(first) = self.failures.lock().first() {
            panic!("seed {}: {tally}; the first:\n{first}", self.seed);
        }
        assert!(
            tally.passed >= at_least,
            "seed {}: only {tally}, not {at_least}",
            self.seed
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_time_has_its_rounds_and_one_with_no_time_left_has_none() {
        assert_eq!(Run::once(5).seeds(3).collect::<Vec<_>>(), [5, 6, 7]);
        let over = Run::new(5, Some(Duration::ZERO), ());
        assert_eq!(over.seeds(3).count(), 0);
    }

    #[test]
    fn a_run_gives_up_after_enough_failures() {
        let run = Run::once(1);
        for _ in 0..FAILURES_SHOWN {
            assert!(run.goes_on());
            run.fail("wrong");
        }
        assert!(!run.goes_on());
        assert_eq!(run.tally().to_string(), "0 passed, 10 failed");
    }

    #[test]
    #[should_panic(expected = "only 2 passed, 0 failed, not 3")]
    fn a_test_that_looked_at_too_little_fails() {
        let run = Run::once(1);
        run.pass(2);
        run.finish(3);
    }
}
