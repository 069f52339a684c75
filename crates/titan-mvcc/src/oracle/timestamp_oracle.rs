//! The interface of oracles.

use std::fmt;

use crate::error::Result;
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
}

impl fmt::Debug for dyn TimestampOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimestampOracle")
    }
}
