//! When writes were made, for families whose compaction filter wants to know.
//!
//! Owns pairs of a sequence number and a time by which everything up to it had been written. The
//! leader of the commit queue adds to them, flushes put them into tables. Nothing is recorded, and
//! no clock is read, while no family wants it.

use std::time::Duration;

use crate::compaction::building::filter::spacing;
use crate::filter::Revisit;
use crate::format::SequenceNumber;
use crate::format::sequence_times::{SequenceTime, SequenceTimes};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Default)]
pub(crate) struct WriteTimes {
    /// Seconds between two pairs; 0 if nothing is recorded.
    spacing: AtomicU64,
    /// Ascending by sequence number. The last one still grows.
    pairs: Mutex<Vec<SequenceTime>>,
}

/// Pairs from which on the list is thinned.
const MANY: usize = 1024;

impl WriteTimes {
    /// Records times at least so often from now on.
    pub(super) fn record_every(&self, seconds: u64) {
        let now = self.spacing.load(Ordering::Relaxed);
        if now == 0 || seconds < now {
            self.spacing.store(seconds, Ordering::Relaxed);
        }
    }

    /// Records times as often as a family wants it.
    pub(crate) fn record_for(&self, revisit: Option<Revisit>) {
        if let Some(revisit) = revisit {
            self.record_every(spacing(revisit));
        }
    }

    /// Everything up to `sequence` has been written by now. Returns the time, in seconds since
    /// 1970, if it is recorded.
    pub(crate) fn note(
        &self,
        sequence: SequenceNumber,
        now: impl FnOnce() -> Duration,
    ) -> Option<u64> {
        let spacing = self.spacing.load(Ordering::Relaxed);
        if spacing == 0 {
            return None;
        }
        let time = rounded_up(now());
        let mut pairs = self.pairs.lock();
        match pairs.last_mut() {
            Some(last) if last.1 / spacing == time / spacing => *last = (sequence, time),
            _ => pairs.push((sequence, time)),
        }
        if pairs.len() > MANY {
            let thinned = SequenceTimes::of(std::mem::take(&mut *pairs)).thinned(spacing);
            *pairs = thinned.pairs().to_vec();
        }
        Some(time)
    }

    /// All pairs.
    pub(crate) fn known(&self) -> Vec<SequenceTime> {
        self.pairs.lock().clone()
    }
}

/// Whole seconds, not before `time`.
pub(crate) fn rounded_up(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_grows_until_its_time_is_over() {
        let times = WriteTimes::default();
        let note = |sequence, millis| {
            let now = Duration::from_millis(millis);
            times.note(SequenceNumber(sequence), || now)
        };
        assert_eq!(note(1, 1), None);
        assert_eq!(times.known(), [], "nobody wants it");
        times.record_every(10);
        for (sequence, millis) in [
            (2, 20_000),
            (3, 20_001),
            (4, 29_000),
            (5, 29_001),
            (6, 95_000),
        ] {
            assert_eq!(note(sequence, millis), Some(millis.div_ceil(1000)));
        }
        let expected = [(4, 29), (5, 30), (6, 95)].map(|(s, t)| (SequenceNumber(s), t));
        assert_eq!(times.known(), expected);
        for sequence in 7..5000 {
            note(sequence, sequence * 10_000);
        }
        let known = times.known();
        assert!(known.len() <= MANY, "{}", known.len());
        assert_eq!(known.last(), Some(&(SequenceNumber(4999), 49_990)));
    }
}
