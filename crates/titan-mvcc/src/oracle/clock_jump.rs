//! The jump of the clock from the last opening to this one.

use std::sync::OnceLock;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// Compares the first timestamp of an opening with the last lease. A clock that is years ahead is more often wrong than
/// right, and timestamps cannot be taken back: after it is put right, their time stands still for those years.
pub(crate) struct ClockJump {
    /// A jump that is not worth a word.
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

    /// Tells how far the opening is ahead, if that is further than usual.
    pub(crate) fn found(&self) -> Option<Duration> {
        self.found.get().copied()
    }

    /// # Errors
    /// `ClockAhead` if `first` is too far after the end of the last lease, and that is refused.
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
        // It is called once with success.
        let _ = self.found.set(jump);
        Ok(())
    }
}
