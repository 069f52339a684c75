//! The time of the store, which runs faster than the clock of the machine.
//!
//! Half an hour of TPC-C shows what a frozen safe point does. So that nobody waits for it, the
//! store's oracle counts [`SPEED`] seconds for each of the clock. All spans of the store and of the
//! cache (retention, the distance of the cache's safe point, the age of old readers) keep their
//! usual values, and so their proportions to each other and to the number of rows that die
//! meanwhile.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use titan_mvcc::{Error, Timestamp, TimestampOracle};

/// Seconds of the store in a second of the clock.
pub(super) const SPEED: f64 = 24.0;

/// When the time of every store begins, so that runs are alike: some day in 2024.
const BEGIN: Duration = Duration::from_secs(1_720_000_000);

/// An oracle of one process. It stands still until it is started, but for what [`StoreTime::pass`]
/// adds.
pub(super) struct StoreTime(Mutex<State>);

struct State {
    /// The time when it was started, or now.
    at: Duration,
    started: Option<Instant>,
    /// The last timestamp.
    last: u64,
}

impl StoreTime {
    pub(super) fn new() -> Self {
        StoreTime(Mutex::new(State {
            at: BEGIN,
            started: None,
            last: 0,
        }))
    }

    /// Time passes at once.
    pub(super) fn pass(&self, time: Duration) {
        self.state().at += time;
    }

    /// Time runs from now on.
    pub(super) fn start(&self) {
        self.state().started.get_or_insert_with(Instant::now);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimestampOracle for StoreTime {
    fn next(&self) -> titan_mvcc::Result<Timestamp> {
        let mut state = self.state();
        let ran = state.started.map_or(Duration::ZERO, |from| from.elapsed());
        let now = Timestamp::at(state.at + ran.mul_f64(SPEED));
        let now = now.ok_or_else(|| Error::oracle("time is over"))?;
        state.last = now.0.max(state.last + 1);
        Ok(Timestamp(state.last))
    }
}

/// The timestamp so long before another one.
pub(super) fn before(timestamp: Timestamp, span: Duration) -> Timestamp {
    let then = timestamp.unix_time().checked_sub(span);
    then.and_then(Timestamp::at).unwrap_or(Timestamp::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_ascend_and_time_passes() {
        let time = StoreTime::new();
        let first = time.next().unwrap();
        assert!(time.next().unwrap() > first);
        time.pass(Duration::from_secs(600));
        let later = time.next().unwrap();
        assert_eq!(
            later.unix_time() - first.unix_time(),
            Duration::from_secs(600)
        );
        assert_eq!(
            before(later, Duration::from_secs(600)).unix_time(),
            first.unix_time()
        );
        time.start();
        assert!(time.next().unwrap() > later);
    }
}
