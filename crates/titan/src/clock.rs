//! Time and random numbers, as the engine sees them.
//!
//! A [`SystemClock`] provides everything that would differ between two runs of the same operations,
//! except for the order of threads: the two kinds of time, how long waits last, and the random
//! numbers that names are made of. So a test can derive them from a seed. No other module reads a
//! clock or draws a random number.

#![expect(clippy::disallowed_methods, reason = "this is where they belong")]

use std::fmt;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock, given in [`DbOptions::clock`](crate::DbOptions::clock).
pub trait SystemClock: Send + Sync + 'static {
    /// Time since some fixed moment. Never goes back; used to measure durations.
    fn monotonic(&self) -> Duration;

    /// Time since the beginning of 1970, UTC. May jump; used for times in files.
    fn unix_time(&self) -> Duration;

    /// Called when a wait begins that ends after `timeout` of this clock, unless the awaited event
    /// happens first. Returns for how long to block at most, in real time. A clock that does not
    /// follow real time advances instead and returns less: the caller asks
    /// [`SystemClock::monotonic`] for the time that is left, which must be zero after waits that add
    /// up to `timeout`. The default is for clocks that follow real time.
    fn begin_wait(&self, timeout: Duration) -> Duration {
        timeout
    }

    /// 128 bits that no other call returns, for the names of databases and sessions. The default
    /// draws them from the operating system.
    fn unique_id(&self) -> u128 {
        uuid::Uuid::new_v4().as_u128()
    }
}

impl fmt::Debug for dyn SystemClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemClock")
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
        // A clock set before 1970 is read as 1970.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }
}
