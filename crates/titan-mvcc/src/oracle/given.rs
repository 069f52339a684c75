//! An oracle of the program, whose timestamps the store leases on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::clock_jump::ClockJump;
use super::lease::Lease;
use super::timestamp_oracle::TimestampOracle;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::timestamp::Timestamp;

/// Hands out the timestamps of the program's oracle, and leases them as the local oracle does. So a
/// later opening with the local oracle goes on after them, and a read-only opening knows the end of
/// all commits.
///
/// Refuses timestamps that certainly precede one that the store has had: a commit at them would be
/// hidden. It does not notice an oracle that goes back by less than the lease.
pub(crate) struct GivenOracle {
    given: Arc<dyn TimestampOracle>,
    /// A timestamp that earlier openings have reached.
    taken: Option<Timestamp>,
    /// The end of the lease; zero before the first timestamp.
    leased: AtomicU64,
    lease: Mutex<Lease>,
}

impl GivenOracle {
    /// Continues the lease of the last opening.
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
    /// Cost: one call of the program's oracle; a synced write once in three seconds of its time.
    fn next(&self) -> Result<Timestamp> {
        self.next_run(1)
    }

    fn next_run(&self, count: u64) -> Result<Timestamp> {
        let next = self.given.next_run(count)?;
        let last = Timestamp(next.0.saturating_add(count.saturating_sub(1)));
        if last == Timestamp::MAX {
            return Err(Error::oracle("all timestamps have been handed out"));
        }
        if let Some(taken) = self.taken.filter(|taken| next <= *taken) {
            return Err(Error::oracle(format!(
                "the oracle is at {next}, but the store has used timestamps up to {taken}"
            )));
        }
        if last.0 >= self.leased.load(Ordering::Acquire) {
            let mut lease = self.lease.lock();
            lease.check(next, None)?;
            lease.cover(last, next)?;
            self.leased.store(lease.end().0, Ordering::Release);
        }
        Ok(next)
    }
}
