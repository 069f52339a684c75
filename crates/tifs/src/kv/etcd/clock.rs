//! The time since the start of the machine, with the time that it sleeps.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Now. A lease of the cluster runs out while this machine sleeps, too.
pub(super) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}
