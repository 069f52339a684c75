//! A clock that advances only when told to.
//!
//! [`SimClock`] implements [`titan::SystemClock`]. It advances by explicit calls
//! ([`SimClock::advance`]), by the cost of the operations of a simulated file system
//! ([`SimVfs::set_latency`](crate::sim::SimVfs::set_latency)), and by waits: a wait with a timeout
//! returns at once, after advancing the clock by the timeout. No thread ever sleeps, and one
//! thread's waits advance the time of all threads. The names that a database draws are determined
//! by the seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use titan::SystemClock;

/// The start of a new clock: a moment in September 2001, in seconds since 1970.
const START: u64 = 1_000_000_000;

/// See the [module](self) documentation. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct SimClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    nanos: AtomicU64,
    seed: u64,
    names: AtomicU64,
}

impl SimClock {
    /// A clock at its start. Clocks with equal seeds give equal names in the same order.
    pub fn with_seed(seed: u64) -> Self {
        SimClock(Arc::new(Inner {
            nanos: AtomicU64::new(0),
            seed,
            names: AtomicU64::new(0),
        }))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let nanos = by.as_nanos() as u64;
        self.0.nanos.fetch_add(nanos, Ordering::SeqCst);
    }

    /// The time that has passed since the clock was made.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.nanos.load(Ordering::SeqCst))
    }
}

impl SystemClock for SimClock {
    fn monotonic(&self) -> Duration {
        self.elapsed()
    }

    fn unix_time(&self) -> Duration {
        Duration::from_secs(START) + self.elapsed()
    }

    fn begin_wait(&self, timeout: Duration) -> Duration {
        self.advance(timeout);
        Duration::ZERO
    }

    fn unique_id(&self) -> u128 {
        let nth = self.0.names.fetch_add(1, Ordering::SeqCst);
        fastrand::Rng::with_seed(crate::mix(self.0.seed, nth)).u128(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_by_hand_and_by_waits() {
        let clock = SimClock::with_seed(1);
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.begin_wait(Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(clock.clone().monotonic(), Duration::from_millis(2500));
        assert_eq!(clock.unix_time().as_secs(), START + 2);
    }

    #[test]
    fn names_follow_from_the_seed_and_are_all_different() {
        let names = |seed| -> Vec<u128> {
            let clock = SimClock::with_seed(seed);
            (0..100).map(|_| clock.unique_id()).collect()
        };
        assert_eq!(names(1), names(1));
        let all: std::collections::BTreeSet<u128> = (0..10).flat_map(names).collect();
        assert_eq!(all.len(), 1000);
    }
}
