//! The age of versions in real time.
//!
//! Timestamps follow the clock, and the clock may be wrong. So the age of commits is measured in
//! two ways, and the safe point follows the one that leads further:
//!
//! - *By samples.* Each sweep records the visible timestamp with the monotonic time. Everything
//!   that was visible in a sample as old as the retention is old enough, with any timestamp.
//! - *By the clock*, while it runs evenly. Only the clock knows the age of commits of earlier
//!   openings. After the clock was set, forward or back, or after an opening under a clock that is
//!   far ahead, it is trusted again when the retention has passed: then all earlier commits are old
//!   enough.
//!
//! Timestamps that are ahead of the clock become old by samples alone, and an opening loses its
//! samples. So a store with such timestamps keeps one sample on disk ([`StoredSample`]).

use std::collections::VecDeque;
use std::time::Duration;

use titan::invariant;

use crate::timestamp::Timestamp;

/// The most samples that are kept.
const MAX_SAMPLES: usize = 32;
/// The deviation of an even clock between two samples, besides a thousandth of the time.
const EVEN: Duration = Duration::from_secs(1);
/// Leases explain timestamps that are ahead of the clock by less.
const AHEAD: Duration = Duration::from_secs(60);

/// The clocks and the visible timestamp at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Monotonic time.
    pub(super) monotonic: Duration,
    /// Time since 1970 by the clock that makes timestamps.
    pub(super) clock: Duration,
    /// The visible timestamp.
    pub(super) visible: Timestamp,
}

impl Moment {
    /// The time of an even clock at a later monotonic time.
    fn later(&self, monotonic: Duration) -> Duration {
        let passed = monotonic.saturating_sub(self.monotonic);
        self.clock.saturating_add(passed)
    }
}

/// A sample on disk: the visible timestamp at a time by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredSample {
    pub(crate) at: Duration,
    pub(crate) visible: Timestamp,
}

/// The measurement of a store.
pub(super) struct Retained {
    retention: Duration,
    /// The first moment since which the clock has run evenly.
    even_since: Moment,
    /// The sample since then at which the clock had lost most time. Small steps add up.
    slowest: Moment,
    /// True if the clock also knows the age of earlier commits.
    covers_earlier: bool,
    last: Moment,
    samples: VecDeque<(Duration, Timestamp)>,
}

impl Retained {
    /// Begins at the opening. `is_clock_doubted` says that its clock is far ahead of the last
    /// opening.
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

    /// Adds a sample.
    pub(super) fn add_sample(&mut self, now: Moment) {
        invariant!(
            self.last.monotonic <= now.monotonic && self.last.visible <= now.visible,
            "{now:?} is before the last sample, {:?}",
            self.last
        );
        let passed = now.monotonic.saturating_sub(self.last.monotonic);
        let by_clock = now.clock.checked_sub(self.last.clock);
        let is_even =
            by_clock.is_some_and(|by_clock| by_clock.abs_diff(passed) <= EVEN + passed / 1000);
        if !is_even && !mutant!(set_clocks_are_trusted) {
            self.even_since = now;
            self.slowest = now;
            self.covers_earlier = false;
        }
        if now.clock < self.slowest.later(now.monotonic) && !mutant!(small_steps_back_add_up) {
            self.slowest = now;
        }
        self.last = now;
        self.samples.push_back((now.monotonic, now.visible));
        if self.samples.len() > MAX_SAMPLES {
            self.remove_one();
        }
        let samples = self.samples.len();
        invariant!(samples <= MAX_SAMPLES, "{samples} samples are kept");
    }

    /// Removes the sample, except the first and the last, whose neighbours are closest.
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

    /// The timestamp up to which everything was replaced or committed a retention ago. `monotonic`
    /// is now.
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

    /// Returns true if timestamps are ahead of a trusted clock.
    pub(super) fn is_ahead(&self) -> bool {
        let now = self.last;
        let since = now.monotonic.saturating_sub(self.even_since.monotonic);
        let is_doubted = !self.covers_earlier && since < self.retention;
        !is_doubted && now.visible.unix_time() > now.clock.saturating_add(AHEAD)
    }

    /// The same limit by the sample on disk, and a new sample if one is due. `None` unless
    /// timestamps are ahead.
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
            // A sample of the future was stored under a wrong clock.
            Some(noted) if noted.at <= now.clock => match now.clock - noted.at >= self.retention {
                true => (noted.visible, new),
                false => (Timestamp::ZERO, None),
            },
            _ => (Timestamp::ZERO, new),
        })
    }
}

/// The timestamp of a duration before a time.
pub(super) fn before(time: Duration, by: Duration) -> Timestamp {
    Timestamp::at(time.saturating_sub(by)).unwrap_or(Timestamp::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under any clock, nothing younger than the retention is given up, and everything that a
    /// sample saw goes a few samples after the retention.
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
            // The time of each commit.
            let mut commits: Vec<(Duration, Timestamp)> = Vec::new();
            // In runs of small steps, large ones are rare, because each begins anew.
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
                // Each step looks even by itself. They may add up for hours.
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
                    // With 32 samples in 600 s.
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
            // Commits of the last 60 openings are retained.
            assert!(until.0 <= ahead.0 + n.saturating_sub(60), "{n}");
            assert!(n < 125 || until.0 + 125 >= ahead.0 + n, "{n}");
            // A clock that is far ahead proves nothing.
            let doubted = Retained::new(retention, now, true);
            assert_eq!(doubted.by_stored_sample(noted), None);
        }
        // Timestamps that follow the clock need no sample on disk.
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
