//! The jump of the clock between two openings, forward or back.

use std::sync::OnceLock;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// Compares the first timestamp and the clock of an opening with the last lease. A clock that is
/// years ahead is more often wrong than right, and timestamps never go back: after the clock is set
/// right, timestamps stand still for those years. A store that was made under such a clock shows it
/// only then.
pub(crate) struct ClockJump {
    /// The largest jump that is not reported.
    most: Duration,
    is_refused: bool,
    found: OnceLock<Duration>,
    lag: OnceLock<Duration>,
}

impl ClockJump {
    pub(crate) fn new(most: Duration, is_refused: bool) -> Self {
        ClockJump {
            most,
            is_refused,
            found: OnceLock::new(),
            lag: OnceLock::new(),
        }
    }

    /// The jump forward, if it exceeded the limit.
    pub(crate) fn found(&self) -> Option<Duration> {
        self.found.get().copied()
    }

    /// The time by which the clock is before the last lease, if that exceeds the limit.
    pub(crate) fn lag(&self) -> Option<Duration> {
        self.lag.get().copied()
    }

    /// `clock` is the time of the opening, if timestamps follow a clock.
    ///
    /// # Errors
    /// `ClockAhead` if `first` is too far after the end of the last lease, `ClockBehind` if the
    /// clock is too far before it, and the options refuse that.
    pub(super) fn check(
        &self,
        leased: Timestamp,
        first: Timestamp,
        clock: Option<Timestamp>,
    ) -> Result<()> {
        let most = self.most;
        let lag = clock.map(|clock| leased.unix_time().saturating_sub(clock.unix_time()));
        if let Some(lag) = lag.filter(|lag| *lag > most) {
            if self.is_refused {
                return Err(Error::ClockBehind { lag, most });
            }
            let _ = self.lag.set(lag);
        }
        let jump = first.unix_time().saturating_sub(leased.unix_time());
        if jump <= most {
            return Ok(());
        }
        if self.is_refused {
            return Err(Error::ClockAhead { jump, most });
        }
        // Only the first successful check gets here.
        let _ = self.found.set(jump);
        Ok(())
    }
}
