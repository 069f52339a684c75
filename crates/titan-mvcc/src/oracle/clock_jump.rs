//! The jump of the clock between two openings.

use std::sync::OnceLock;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// Compares the first timestamp of an opening with the last lease. A clock that is years ahead is
/// more often wrong than right, and timestamps never go back: after the clock is set right,
/// timestamps stand still for those years.
pub(crate) struct ClockJump {
    /// The largest jump that is not reported.
    most: Duration,
    is_refused: bool,
    found: OnceLock<Duration>,
}

impl ClockJump {
    pub(crate) fn new(most: Duration, is_refused: bool) -> Self {
        ClockJump {
            most,
            is_refused,
            found: OnceLock::new(),
        }
    }

    /// The jump, if it exceeded the limit.
    pub(crate) fn found(&self) -> Option<Duration> {
        self.found.get().copied()
    }

    /// # Errors
    /// `ClockAhead` if `first` is too far after the end of the last lease, and the options refuse
    /// that.
    pub(super) fn check(&self, leased: Timestamp, first: Timestamp) -> Result<()> {
        let jump = first.unix_time().saturating_sub(leased.unix_time());
        if jump <= self.most {
            return Ok(());
        }
        if self.is_refused {
            return Err(Error::ClockAhead {
                jump,
                most: self.most,
            });
        }
        // Only the first successful check gets here.
        let _ = self.found.set(jump);
        Ok(())
    }
}
