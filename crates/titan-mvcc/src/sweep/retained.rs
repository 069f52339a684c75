//! For how long versions have been retained, in real time.
//!
//! Timestamps follow the clock, and the clock may be wrong: what it says about the age of a version is worth no more than
//! the clock. So the age of commits is measured in two ways, and the safe point goes where either leads.
//!
//! - *By looks.* Each sweep notes the visible timestamp with the monotonic time. What was visible at a look
//!   that is as old as the retention is old enough, whatever its timestamp says.
//! - *By the clock*, as long as it runs evenly. That also tells the age of what earlier openings committed. When the clock is
//!   set, forward or back, or an opening begins under a clock that is far ahead, it is trusted again after the
//!   retention has passed: then all that was committed before is old enough.
//!
//! Timestamps that are ahead of the clock become old by looks alone, and an opening forgets its looks. So a store whose timestamps
//! are ahead keeps a look on disk ([`StoredSample`]).

use std::collections::VecDeque;
use std::time::Duration;

use crate::timestamp::Timestamp;

/// Looks that are remembered.
const MAX_SAMPLES: usize = 32;
/// The time that the clock may gain or lose between two looks, beside a thousandth of the time.
const EVEN: Duration = Duration::from_secs(1);
/// Timestamps that are ahead of the clock by less are so because of leases.
const AHEAD: Duration = Duration::from_secs(60);

/// A moment, as a sweep finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Monotonic time.
    pub(super) monotonic: Duration,
    /// The time since 1970 by which timestamps are made.
    pub(super) clock: Duration,
    /// The visible timestamp.
    pub(super) visible: Timestamp,
}

impl Moment {
    /// The time of the clock at a later monotonic time, if it runs on evenly.
    fn later(&self, monotonic: Duration) -> Duration {
        let passed = monotonic.saturating_sub(self.monotonic);
        self.clock.saturating_add(passed)
    }
}

/// A look that is kept on disk: what was visible at a time by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredSample {
    pub(crate) at: Duration,
    pub(crate) visible: Timestamp,
}

/// See the module.
pub(super) struct Retained {
    retention: Duration,
    /// Since when the clock runs evenly.
    even_since: Moment,
    /// The look since then at which it was furthest behind. Small steps add up.
    slowest: Moment,
    /// Whether it says how old the commits before that are.
    covers_earlier: bool,
    last: Moment,
    samples: VecDeque<(Duration, Timestamp)>,
}

impl Retained {
    /// Begins at the opening. `is_clock_doubted` says that its clock is far ahead of the last one.
    pub(super) fn new(retention: Duration, opened: Moment, is_clock_doubted: bool) -> Self {
        Retained {
            retention,
            even_since: opened,
            slowest: opened,
            covers_earlier: !is_clock_doubted,
            last: opened,
            samples: VecDeque::from([(opened.monotonic, opened.visible)]),
        }
    }

    /// Looks.
    pub(super) fn add_sample(&mut self, now: Moment) {
        let passed = now.monotonic.saturating_sub(self.last.monotonic);
        let by_clock = now.clock.checked_sub(self.last.clock);
        let is_even =
            by_clock.is_some_and(|by_clock| by_clock.abs_diff(passed) <= EVEN + passed / 1000);
        // MUTANT: a clock that was set is trusted.
        if !is_even && !mutant!("set-clocks-are-trusted", "-p titan-mvcc --test it sweeps::") {
            self.even_since = now;
            self.slowest = now;
            self.covers_earlier = false;
        }
        // MUTANT: small steps back of the clock add up unseen.
        if now.clock < self.slowest.later(now.monotonic)
            && !mutant!("small-steps-back-add-up", "-p titan-mvcc --lib sweep::")
        {
            self.slowest = now;
        }
        self.last = now;
        self.samples.push_back((now.monotonic, now.visible));
        if self.samples.len() > MAX_SAMPLES {
            self.remove_one();
        }
    }

    /// Forgets the look, neither the first nor the last one, whose neighbours are closest.
    fn remove_one(&mut self) {
        let gap = |at: &usize| {
            let before = self.samples.get(at - 1).map(|sample| sample.0);
            let after = self.samples.get(at + 1).map(|sample| sample.0);
            after
                .unwrap_or_default()
                .saturating_sub(before.unwrap_or_default())
        };
        if let Some(at) = (1..self.samples.len() - 1).min_by_key(gap) {
            self.samples.remove(at);
        }
    }

    /// Up to where everything was replaced or committed a retention ago. `steady` is the monotonic time.
    pub(super) fn until(&self, monotonic: Duration) -> Timestamp {
        let since = monotonic.saturating_sub(self.even_since.monotonic);
        let is_old = |sample: &&(Duration, Timestamp)| {
            monotonic
                .checked_sub(sample.0)
                .is_some_and(|age| age >= self.retention)
        };
        let by_samples = self
            .samples
            .iter()
            .rev()
            .find(is_old)
            .map(|sample| sample.1);
        let by_clock = (self.covers_earlier || since >= self.retention)
            .then(|| before(self.slowest.later(monotonic), self.retention));
        by_samples.max(by_clock).unwrap_or(Timestamp::ZERO)
    }

    /// Whether the timestamps are ahead of a clock that can be trusted.
    pub(super) fn is_ahead(&self) -> bool {
        let now = self.last;
        let since = now.monotonic.saturating_sub(self.even_since.monotonic);
        let is_doubted = !self.covers_earlier && since < self.retention;
        !is_doubted && now.visible.unix_time() > now.clock.saturating_add(AHEAD)
    }

    /// The same as [`Retained::until`] by what was noted on disk, and what is to be noted now. None if the timestamps are
    /// not ahead.
    pub(super) fn by_stored_sample(
        &self,
        noted: Option<StoredSample>,
    ) -> Option<(Timestamp, Option<StoredSample>)> {
        let now = self.last;
        if !self.is_ahead() {
            return None;
        }
        let new = Some(StoredSample {
            at: now.clock,
            visible: now.visible,
        });
        Some(match noted {
            // One that is in the future was made under a clock that was wrong.
            Some(noted) if noted.at <= now.clock => match now.clock - noted.at >= self.retention {
                true => (noted.visible, new),
                false => (Timestamp::ZERO, None),
            },
            _ => (Timestamp::ZERO, new),
        })
    }
}

/// The timestamp of some time before another.
pub(super) fn before(time: Duration, by: Duration) -> Timestamp {
    Timestamp::at(time.saturating_sub(by)).unwrap_or(Timestamp::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the clock does, nothing is given up that was committed less than a retention ago, and all that was visible
    /// at a look goes some looks after the retention has passed.
    #[test]
    fn nothing_goes_early_and_nothing_stays() {
        let retention = Duration::from_secs(600);
        for seed in 0..500 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut clock = Duration::from_secs(1_000_000_000);
            let mut monotonic = Duration::from_secs(rng.u64(..1_000));
            let mut last = Timestamp::at(clock).unwrap();
            let opened = |monotonic, clock, visible| Moment {
                monotonic,
                clock,
                visible,
            };
            let mut retained = Retained::new(retention, opened(monotonic, clock, last), false);
            // When each timestamp was committed.
            let mut commits: Vec<(Duration, Timestamp)> = Vec::new();
            // Where small steps are to add up, few large ones begin anew.
            let jumps = if seed % 3 == 0 { 30 } else { 200 };
            for _ in 0..200 {
                let passed = Duration::from_secs(rng.u64(1..20));
                (monotonic, clock) = (monotonic + passed, clock + passed);
                if rng.u8(..jumps) == 0 {
                    let by = Duration::from_secs(rng.u64(..100_000));
                    clock = match rng.bool() {
                        true => clock + by,
                        false => clock.saturating_sub(by),
                    };
                }
                // Steps that each look takes for even. They may add up for hours.
                let small = Duration::from_millis(900);
                match (seed % 3, rng.u8(..4)) {
                    (1, 1..) | (2, 0) => clock -= small,
                    (2, 1) => clock += small,
                    _ => {}
                }
                // As the local oracle does.
                last = Timestamp::at(clock).unwrap().max(last.next().unwrap());
                commits.push((monotonic, last));
                retained.add_sample(opened(monotonic, clock, last));
                let until = retained.until(monotonic);
                for (at, commit) in &commits {
                    let age = monotonic - *at;
                    assert!(*commit > until || age >= retention, "seed {seed}: {age:?}");
                    // Of 32 looks in 600 s.
                    assert!(
                        *commit <= until || age < retention * 2,
                        "seed {seed}: {age:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_note_moves_timestamps_that_are_ahead_over_openings_however_short() {
        let retention = Duration::from_secs(600);
        let second = |n| Duration::from_secs(1_000_000 + n);
        let ahead = Timestamp::at(Duration::from_secs(9_000_000)).unwrap();
        let (mut noted, mut until) = (None, Timestamp::ZERO);
        for n in 0..200 {
            let now = Moment {
                monotonic: Duration::from_secs(5),
                clock: second(n * 10),
                visible: Timestamp(ahead.0 + n),
            };
            let retained = Retained::new(retention, now, false);
            let (to, note) = retained.by_stored_sample(noted).unwrap();
            noted = note.or(noted);
            until = until.max(to);
            // What was committed 60 openings before, or later, is retained.
            assert!(until.0 <= ahead.0 + n.saturating_sub(60), "{n}");
            assert!(n < 125 || until.0 + 125 >= ahead.0 + n, "{n}");
            // Under a clock that is far ahead nothing is concluded.
            let doubted = Retained::new(retention, now, true);
            assert_eq!(doubted.by_stored_sample(noted), None);
        }
        // Timestamps that follow the clock need no note.
        let now = Moment {
            monotonic: Duration::ZERO,
            clock: second(0),
            visible: Timestamp::at(second(3)).unwrap(),
        };
        assert_eq!(
            Retained::new(retention, now, false).by_stored_sample(noted),
            None
        );
    }
}
