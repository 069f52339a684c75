//! The oracle of a store that one process uses: the clock, a counter, and a lease on disk.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use titan::SystemClock;

use super::clock_jump::ClockJump;
use super::lease::Lease;
use super::timestamp_oracle::TimestampOracle;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::timestamp::Timestamp;

/// The most by which runs of timestamps move them ahead of the clock: 2 s, well below usual times
/// to live of locks, which count from start timestamps.
const MOST_AHEAD: Duration = Duration::from_secs(2);
/// The timestamps of a hundred milliseconds.
const SOON: u64 = 100 << 18;
/// The least step back of the clock. Less between two runs is the granularity of clocks.
const STEP_BACK: Duration = Duration::from_millis(100);

/// Follows the clock while it is ahead of the last timestamp, and counts up from that timestamp
/// otherwise. A clock that is set back stops the time of timestamps, not their order.
///
/// A run of timestamps takes up to a millisecond of them, so runs could outpace the clock. They are
/// refused while they have put timestamps more than [`MOST_AHEAD`] ahead.
///
/// The lease on disk covers each timestamp before it is handed out. The next opening begins at the
/// end of the lease. So it repeats none, and is ahead of the clock by at most one lease, however
/// often the store is opened.
pub(crate) struct LocalOracle {
    clock: Arc<dyn SystemClock>,
    state: Mutex<State>,
}

struct State {
    /// The lower bound of the next timestamp.
    next: Timestamp,
    lease: Lease,
    pace: Pace,
}

/// The distance of runs of timestamps from the clock.
struct Pace {
    /// The time by the clock, and monotonic time, at the last run or the opening.
    last: (Duration, Duration),
    /// The distance that runs did not cause, but the last lease and steps back of the clock.
    excused: Duration,
}

impl Pace {
    fn new(clock: &dyn SystemClock) -> Self {
        Pace {
            last: (clock.unix_time(), clock.monotonic()),
            excused: Duration::MAX,
        }
    }

    /// The time by which runs have moved the next timestamp, `next`, ahead of the clock.
    fn ahead(&mut self, next: Timestamp, clock: &dyn SystemClock) -> Duration {
        let (now, monotonic) = (clock.unix_time(), clock.monotonic());
        let ahead = next.unix_time().saturating_sub(now);
        let passed = monotonic.saturating_sub(self.last.1);
        let set_back = self.last.0.saturating_add(passed).saturating_sub(now);
        self.last = (now, monotonic);
        if set_back >= STEP_BACK {
            self.excused = self.excused.saturating_add(set_back);
        }
        self.excused = self.excused.min(ahead);
        ahead.saturating_sub(self.excused)
    }
}

impl LocalOracle {
    /// Begins at the end of the last opening's lease.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn open(
        meta: Meta,
        clock: Arc<dyn SystemClock>,
        jump: Arc<ClockJump>,
    ) -> Result<Self> {
        let lease = Lease::open(meta, jump)?;
        let next = lease.end();
        let pace = Pace::new(&*clock);
        Ok(LocalOracle {
            clock,
            state: Mutex::new(State { next, lease, pace }),
        })
    }
}

impl TimestampOracle for LocalOracle {
    /// Cost: one reading of the clock; a synced write once in three seconds, which blocks other
    /// callers.
    fn next(&self) -> Result<Timestamp> {
        self.next_run(1)
    }

    /// Cost: that of [`LocalOracle::next`]. Refuses a run while earlier ones are too far ahead of
    /// the clock.
    fn next_run(&self, count: u64) -> Result<Timestamp> {
        let count = count.max(1);
        if count > Timestamp::PER_MILLISECOND {
            return Err(Error::oracle(format!(
                "{count} timestamps were asked for at once; a millisecond has {}",
                Timestamp::PER_MILLISECOND
            )));
        }
        let exhausted = || Error::oracle("all timestamps have been handed out");
        let mut state = self.state.lock();
        let by_clock = Timestamp::at(self.clock.unix_time()).ok_or_else(|| {
            Error::oracle("the clock is past the last timestamp, in the year 4199")
        })?;
        let State { next, pace, .. } = &mut *state;
        let ahead = match count {
            1 => Duration::ZERO,
            _ => pace.ahead(*next, &*self.clock),
        };
        if ahead > MOST_AHEAD && !mutant!(runs_outpace_the_clock) {
            return Err(Error::oracle(format!(
                "runs of timestamps are {} ms ahead of the clock; wait for it",
                ahead.as_millis()
            )));
        }
        let first = by_clock.max(state.next);
        let first = first.with_room_for(count).ok_or_else(exhausted)?;
        let last = Timestamp(first.0 + (count - 1));
        let after = last.next().ok_or_else(exhausted)?;
        state.lease.check(first, Some(by_clock))?;
        state.lease.cover(last, by_clock)?;
        state.next = after;
        Ok(first)
    }

    /// False while the lease covers the next hundred milliseconds, and nobody has the mutex.
    fn may_wait(&self) -> bool {
        let Some(state) = self.state.try_lock() else {
            return true;
        };
        let by_clock = Timestamp::at(self.clock.unix_time()).unwrap_or(Timestamp::MAX);
        let soon = by_clock.max(state.next).0.saturating_add(SOON);
        soon >= state.lease.end().0
    }
}
