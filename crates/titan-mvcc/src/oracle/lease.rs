//! The lease of timestamps: a bound on disk of all timestamps that the store has had.

use std::sync::Arc;

use super::clock_jump::ClockJump;
use crate::error::Result;
use crate::meta::{LEASE, Meta};
use crate::timestamp::Timestamp;

/// How far ahead of the time timestamps are leased: 3 s, so that an oracle in use writes once in 3 s.
const LEASED_AHEAD: u64 = 3_000 << 18;
/// How far ahead of a timestamp that is ahead of the clock: 10 ms, or 2.6 million timestamps.
const LEASED_AHEAD_OF_CLOCK: u64 = 10 << 18;

/// See the module.
pub(super) struct Lease {
    meta: Meta,
    /// Timestamps before this one may be used.
    end: Timestamp,
    /// The time with which the first timestamp of this opening is to be compared.
    last: Option<(Timestamp, Arc<ClockJump>)>,
}

impl Lease {
    /// That of the last opening.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn open(meta: Meta, jump: Arc<ClockJump>) -> Result<Self> {
        let last = meta.get(LEASE)?.map(Timestamp);
        // The timestamp 0 is before all commits, so it is never handed out.
        let end = last.unwrap_or(Timestamp(1));
        let last = last.map(|last| (last, jump));
        Ok(Lease { meta, end, last })
    }

    /// Looks at a timestamp that is about to be handed out: the first one may be too far ahead.
    ///
    /// # Errors
    /// `ClockAhead` if it is, and that is refused.
    pub(super) fn check(&mut self, timestamp: Timestamp) -> Result<()> {
        if let Some((last, jump)) = &self.last {
            jump.check(*last, timestamp)?;
            self.last = None;
        }
        Ok(())
    }

    /// No timestamp from this one on was used.
    pub(super) fn end(&self) -> Timestamp {
        self.end
    }

    /// A timestamp up to which some were taken for certain; it is at most three seconds before the end of the lease.
    /// None if nothing was ever leased.
    pub(super) fn taken(&self) -> Option<Timestamp> {
        self.end.0.checked_sub(LEASED_AHEAD + 1).map(Timestamp)
    }

    /// Makes sure that the end of the lease is on disk, and after a timestamp that is not before `time`. It is three
    /// seconds after `time`, if the timestamp is before that: a store that is opened again and again begins each
    /// time at the end of a lease, and must not get further and further ahead. Cost: a synced write once in three
    /// seconds, or once in 2.6 million timestamps.
    ///
    /// # Errors
    /// Those of the engine. The timestamp must not be used then.
    pub(super) fn cover(&mut self, timestamp: Timestamp, time: Timestamp) -> Result<()> {
        if timestamp >= self.end {
            let by_time = time.0.saturating_add(1 + LEASED_AHEAD);
            let at_least = timestamp.0.saturating_add(1 + LEASED_AHEAD_OF_CLOCK);
            let end = by_time.max(at_least);
            // ORDER: the lease is durable before a timestamp within it is handed out.
            self.meta.set(LEASE, end)?;
            self.end = Timestamp(end);
        }
        Ok(())
    }
}
