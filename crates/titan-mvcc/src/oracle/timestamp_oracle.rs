//! The interface of oracles.

use std::fmt;

use crate::error::Result;
use crate::timestamp::Timestamp;

/// Hands out timestamps. One oracle serves all stores whose commits are to be in one order.
pub trait TimestampOracle: Send + Sync + 'static {
    /// A timestamp that is greater than every one that was handed out before this call began: to any caller,
    /// also before a restart, and whatever the clock says.
    ///
    /// # Errors
    /// [`Error::Oracle`](crate::Error::Oracle) if there is none to give; the commit or opening that asked for
    /// it then fails, and may be repeated.
    fn next(&self) -> Result<Timestamp>;
}

impl fmt::Debug for dyn TimestampOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimestampOracle")
    }
}
