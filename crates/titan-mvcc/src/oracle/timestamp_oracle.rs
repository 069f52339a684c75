//! The interface of oracles.

use std::fmt;

use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// A source of timestamps. All stores whose commits share one order use one oracle.
pub trait TimestampOracle: Send + Sync + 'static {
    /// Returns a timestamp greater than every one that any caller got before this call began, also
    /// before a restart and after any change of the clock.
    ///
    /// # Errors
    /// [`Error::Oracle`](crate::Error::Oracle) if there is none to give. The commit or opening that
    /// asked for it fails, and may be repeated.
    fn next(&self) -> Result<Timestamp>;

    /// Returns the first of `count` timestamps that follow one another, all of which the caller
    /// gets, as from as many calls of [`TimestampOracle::next`]. All are of one millisecond.
    ///
    /// # Errors
    /// Those of [`TimestampOracle::next`]; `Oracle` for more than 262,144, if the oracle gives only
    /// one at a time, or while runs are too far ahead of the clock.
    fn next_run(&self, count: u64) -> Result<Timestamp> {
        match count {
            0 | 1 => self.next(),
            _ => Err(Error::oracle("the oracle gives one timestamp at a time")),
        }
    }

    /// Returns false if the next call will probably wait for nothing, neither a disk nor a network
    /// nor another caller. A caller that must not wait asks first.
    fn may_wait(&self) -> bool {
        true
    }
}

impl fmt::Debug for dyn TimestampOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimestampOracle")
    }
}
