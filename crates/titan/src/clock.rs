//! Time and random numbers, as the engine sees them.
//!
//! A [`SystemClock`] provides everything that would differ between two runs of the same operations,
//! except for the order of threads: the two kinds of time, how long waits last, and the random
//! numbers that names are made of. So a test can derive them from a seed. No other module reads a
//! clock or draws a random number.

#![expect(clippy::disallowed_methods, reason = "this is where they belong")]

use std::fmt;
use std::sync::{Arc, LazyLock};
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
    /// [`SystemClock::monotonic`] for the time that is left, which must be zero after waits that
    /// add up to `timeout`. The default is for clocks that follow real time.
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

/// Twenty characters, as in RocksDB's session ids, which tell tables apart.
pub fn session_id(clock: &dyn SystemClock) -> String {
    let text = random_uuid(clock).simple().to_string().to_uppercase();
    text.chars().take(20).collect()
}

/// A random UUID of version 4.
pub fn random_uuid(clock: &dyn SystemClock) -> uuid::Uuid {
    uuid::Builder::from_random_bytes(clock.unique_id().to_be_bytes()).into_uuid()
}

/// The time of one opening: it is set once, when the opening begins, and follows the monotonic time
/// from then on. So steps of the system's clock do not make data look older than it is.
///
/// Assumes that the system's clock is right when the database opens. If it is behind then, entries
/// written look older once the clock has been put right and the database is opened again.
#[derive(Clone)]
pub struct SteadyClock {
    clock: Arc<dyn SystemClock>,
    unix: Duration,
    monotonic: Duration,
}

impl SteadyClock {
    /// An opening begins.
    pub fn new(clock: Arc<dyn SystemClock>) -> Self {
        SteadyClock {
            unix: clock.unix_time(),
            monotonic: clock.monotonic(),
            clock,
        }
    }

    fn steady(&self) -> Duration {
        let passed = self.clock.monotonic().saturating_sub(self.monotonic);
        self.unix.saturating_add(passed)
    }

    /// A time that is not before the present: for the times of writes. The system's clock may be
    /// ahead: if the machine slept, monotonic time stood still.
    pub(crate) fn latest(&self) -> Duration {
        self.steady().max(self.clock.unix_time())
    }

    /// A time that is not after the present: to be compared with the times of writes.
    pub(crate) fn earliest(&self) -> Duration {
        match mutant!(clock_steps_age_values) {
            true => self.clock.unix_time(),
            false => self.steady().min(self.clock.unix_time()),
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// The two times in seconds.
    #[derive(Default)]
    struct ByHand {
        unix: AtomicU64,
        monotonic: AtomicU64,
    }

    impl SystemClock for ByHand {
        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.monotonic.load(Ordering::SeqCst))
        }

        fn unix_time(&self) -> Duration {
            Duration::from_secs(self.unix.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn no_step_of_the_clock_makes_anything_look_older() {
        let clock = Arc::new(ByHand::default());
        clock.unix.store(1000, Ordering::SeqCst);
        let steady = SteadyClock::new(clock.clone());
        // 10 seconds pass, then the clock is set ahead or back, or the machine has slept.
        clock.monotonic.store(10, Ordering::SeqCst);
        for (unix, latest, earliest) in [(1010, 1010, 1010), (9000, 9000, 1010), (20, 1010, 20)] {
            clock.unix.store(unix, Ordering::SeqCst);
            let found = (steady.latest().as_secs(), steady.earliest().as_secs());
            assert_eq!(found, (latest, earliest), "at {unix}");
        }
    }
}
