//! The time by the clock of the system.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970; zero before.
pub(crate) fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Seconds since 1970.
pub(crate) fn seconds_now() -> u64 {
    since_1970().as_secs()
}
