//! Time and chance, as the engine sees them.
//!
//! Whatever would differ between two runs of the same operations, but for the order of threads, is
//! asked of a [`SystemClock`]: the two kinds of time, how long waits last, and the random numbers
//! that names are made of. So a test can let both follow from a seed. No other module reads a clock
//! or draws a random number.

#![expect(clippy::disallowed_methods, reason = "this is where they belong")]

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock, given in [`DbOptions::clock`](crate::DbOptions::clock).
pub trait SystemClock: Send + Sync + 'static {
    /// Time since some fixed moment. Never goes back; what spans are measured by.
    fn monotonic(&self) -> Duration;

    /// Time since the beginning of 1970, UTC. May jump; what is written to files.
    fn unix_time(&self) -> Duration;

    /// A wait begins that is to end after `timeout` of this clock unless what is waited for happens
    /// before. Returns for how long to block at most, in real time. A clock that does not follow
    /// real time moves on instead and returns less: the caller asks [`SystemClock::monotonic`] what
    /// is left, and after as many waits as add up to `timeout` that must be nothing. The default
    /// is for clocks that follow real time.
    fn begin_wait(&self, timeout: Duration) -> Duration {
        timeout
    }

    /// 128 bits that nobody else gets, for the names of databases and sessions. The default draws
    /// them from the operating system.
    fn unique_id(&self) -> u128 {
        uuid::Uuid::new_v4().as_u128()
    }
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdClock;

impl SystemClock for StdClock {
    fn monotonic(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    fn unix_time(&self) -> Duration {
        // A clock set before 1970 is told as 1970.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }
}
