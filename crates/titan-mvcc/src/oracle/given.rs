//! An oracle of the program, whose timestamps the store notes on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::clock_jump::ClockJump;
use super::lease::Lease;
use super::timestamp_oracle::TimestampOracle;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::timestamp::Timestamp;

/// Hands out the timestamps of another oracle, and leases them as the local oracle does. So an opening with the local
/// oracle goes on after them, and one that only reads knows where all commits end.
///
/// Refuses timestamps that are certainly before some that the store has had: commits at them would be hidden. An
/// oracle that is behind by less than the lease is not noticed at once.
pub(crate) struct GivenOracle {
    given: Arc<dyn TimestampOracle>,
    /// What earlier openings have had.
    taken: Option<Timestamp>,
    /// The end of the lease; before the first timestamp, zero.
    leased: AtomicU64,
    lease: Mutex<Lease>,
}

impl GivenOracle {
    /// Goes on with the lease of the last opening.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn open(
        meta: Meta,
        given: Arc<dyn TimestampOracle>,
        jump: Arc<ClockJump>,
    ) -> Result<Self> {
        let lease = Lease::open(meta, jump)?;
        Ok(GivenOracle {
            given,
            taken: lease.taken(),
            leased: AtomicU64::new(0),
            lease: Mutex::new(lease),
        })
    }
}

impl TimestampOracle for GivenOracle {
    /// Cost: that of the other oracle; a synced write once in three seconds of its time.
    fn next(&self) -> Result<Timestamp> {
        let next = self.given.next()?;
        if next == Timestamp::MAX {
            return Err(Error::oracle("all timestamps have been handed out"));
        }
        if let Some(taken) = self.taken.filter(|taken| next <= *taken) {
            return Err(Error::oracle(format!(
                "the oracle is at {next}, and the store has had the timestamp {taken}"
            )));
        }
        if next.0 >= self.leased.load(Ordering::Acquire) {
            let mut lease = self.lease.lock();
            lease.check(next)?;
            lease.cover(next, next)?;
            self.leased.store(lease.end().0, Ordering::Release);
        }
        Ok(next)
    }
}
