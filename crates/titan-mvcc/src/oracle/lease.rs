//! The lease of timestamps: a bound on disk of all timestamps that the store has had.

use std::sync::Arc;

use titan::invariant;

use super::clock_jump::ClockJump;
use crate::error::Result;
use crate::meta::{LEASE, Meta};
use crate::timestamp::Timestamp;

/// Length of a lease: 3 s, so that an oracle in use writes once in 3 s.
const LEASED_AHEAD: u64 = 3_000 << 18;
/// Length of a lease that is ahead of the clock: 10 ms, or 2.6 million timestamps.
const LEASED_AHEAD_OF_CLOCK: u64 = 10 << 18;

/// The lease of a store.
pub(super) struct Lease {
    meta: Meta,
    /// The first timestamp that is not leased.
    end: Timestamp,
    /// The end of the last opening's lease, for the check of the first timestamp.
    last: Option<(Timestamp, Arc<ClockJump>)>,
}

impl Lease {
    /// The lease of the last opening.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn open(meta: Meta, jump: Arc<ClockJump>) -> Result<Self> {
        let last = meta.get(LEASE)?.map(Timestamp);
        // The timestamp 0 precedes all commits, so it is never handed out.
        let end = last.unwrap_or(Timestamp(1));
        let last = last.map(|last| (last, jump));
        Ok(Lease { meta, end, last })
    }

    /// Checks the first timestamp of the opening, which may be too far ahead, and the time by the
    /// clock, if there is one, which may be too far back.
    ///
    /// # Errors
    /// `ClockAhead` or `ClockBehind` if it is, and the options refuse that.
    pub(super) fn check(&mut self, timestamp: Timestamp, clock: Option<Timestamp>) -> Result<()> {
        if let Some((last, jump)) = &self.last {
            jump.check(*last, timestamp, clock)?;
            self.last = None;
        }
        Ok(())
    }

    /// The end of the lease. No timestamp from here on was used.
    pub(super) fn end(&self) -> Timestamp {
        self.end
    }

    /// A timestamp that earlier openings have certainly reached, at most three seconds before the
    /// end of the lease. `None` without a lease.
    pub(super) fn taken(&self) -> Option<Timestamp> {
        self.end.0.checked_sub(LEASED_AHEAD + 1).map(Timestamp)
    }

    /// Extends the lease beyond `timestamp`, durably. The new end is three seconds after `time`.
    /// Only if `timestamp` is later than that does the lease end 10 ms after it: each opening
    /// begins at the end of the last lease, and many openings must not move ever further ahead of
    /// the clock. Cost: a synced write once in three seconds, or once in 2.6 million timestamps.
    ///
    /// # Errors
    /// Those of the engine. The timestamp must not be used then.
    pub(super) fn cover(&mut self, timestamp: Timestamp, time: Timestamp) -> Result<()> {
        if timestamp >= self.end {
            let by_time = time.0.saturating_add(1 + LEASED_AHEAD);
            let at_least = timestamp.0.saturating_add(1 + LEASED_AHEAD_OF_CLOCK);
            let end = by_time.max(at_least);
            let before = self.end;
            invariant!(durable: end > before.0, "the lease ends at {before} and then at {end}")?;
            // ORDER: the lease is durable before a timestamp within it is handed out.
            self.meta.set(LEASE, end)?;
            self.end = Timestamp(end);
        }
        let end = self.end;
        invariant!(
            timestamp < end,
            "{timestamp} is not in the lease, which ends at {end}"
        );
        Ok(())
    }
}
