//! The oracle of a store that one process uses: the clock, a counter, and a lease on disk.

use std::sync::Arc;

use parking_lot::Mutex;
use titan::SystemClock;

use super::clock_jump::ClockJump;
use super::lease::Lease;
use super::timestamp_oracle::TimestampOracle;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::timestamp::Timestamp;

/// Follows the clock while it is ahead of the last timestamp, and counts up from that timestamp
/// otherwise. A clock that is set back stops the time of timestamps, not their order.
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
        Ok(LocalOracle {
            clock,
            state: Mutex::new(State { next, lease }),
        })
    }
}

impl TimestampOracle for LocalOracle {
    /// Cost: one reading of the clock; a synced write once in three seconds, which blocks other
    /// callers.
    fn next(&self) -> Result<Timestamp> {
        self.next_run(1)
    }

    /// Cost: that of [`LocalOracle::next`].
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
        let first = by_clock.max(state.next);
        let first = first.with_room_for(count).ok_or_else(exhausted)?;
        let last = Timestamp(first.0 + (count - 1));
        let after = last.next().ok_or_else(exhausted)?;
        state.lease.check(first)?;
        state.lease.cover(last, by_clock)?;
        state.next = after;
        Ok(first)
    }
}
