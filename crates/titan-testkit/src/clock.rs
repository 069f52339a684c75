//! Clocks that advance only when told to.
//!
//! [`SimClock`] implements [`titan::SystemClock`]. It advances by explicit calls
//! ([`SimClock::advance`]), by the cost of the operations of a simulated file system
//! ([`SimVfs::set_latency`](crate::sim::SimVfs::set_latency)), and by waits: a wait with a timeout
//! returns at once, after advancing the clock by the timeout. No thread ever sleeps, and one
//! thread's waits advance the time of all threads. The names that a database draws are determined
//! by the seed. [`SetClock`] has a time of day that is set, and real waits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use titan::{StdClock, SystemClock};

/// See the [module](self) documentation. Clones are the same clock.
#[derive(Clone)]
pub struct SimClock {
    inner: Arc<Inner>,
    /// Whether a wait of this length advances the clock; without it, all do.
    advances: Option<Arc<Rule>>,
}

type Rule = dyn Fn(Duration) -> bool + Send + Sync;

struct Inner {
    nanos: AtomicU64,
    ahead_ms: AtomicI64,
    seed: u64,
    names: AtomicU64,
}

impl SimClock {
    /// The time of day of a new clock: a moment in September 2001.
    pub const START: Duration = Duration::from_secs(1_000_000_000);

    /// A clock at its start. Clocks with equal seeds give equal names in the same order.
    pub fn with_seed(seed: u64) -> Self {
        SimClock {
            inner: Arc::new(Inner {
                nanos: AtomicU64::new(0),
                ahead_ms: AtomicI64::new(0),
                seed,
                names: AtomicU64::new(0),
            }),
            advances: None,
        }
    }

    /// The same clock for other callers: of their waits, only those for which `advances` returns
    /// true advance it. The others last as long as they say.
    pub fn with_waits(&self, advances: impl Fn(Duration) -> bool + Send + Sync + 'static) -> Self {
        SimClock {
            inner: Arc::clone(&self.inner),
            advances: Some(Arc::new(advances)),
        }
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let nanos = by.as_nanos() as u64;
        self.inner.nanos.fetch_add(nanos, Ordering::SeqCst);
    }

    /// Sets the time of day forward or back. The monotonic time goes on.
    pub fn jump_ms(&self, by: i64) {
        self.inner.ahead_ms.fetch_add(by, Ordering::SeqCst);
    }

    /// The time that has passed since the clock was made.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.inner.nanos.load(Ordering::SeqCst))
    }

    /// The number of clones, this one included.
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.inner)
    }
}

impl fmt::Debug for SimClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimClock({:?})", self.elapsed())
    }
}

impl SystemClock for SimClock {
    fn monotonic(&self) -> Duration {
        self.elapsed()
    }

    fn unix_time(&self) -> Duration {
        let ahead = self.inner.ahead_ms.load(Ordering::SeqCst);
        let (now, by) = (
            SimClock::START + self.elapsed(),
            Duration::from_millis(ahead.unsigned_abs()),
        );
        match ahead < 0 {
            true => now.saturating_sub(by),
            false => now + by,
        }
    }

    fn begin_wait(&self, timeout: Duration) -> Duration {
        if self.advances.as_ref().is_some_and(|rule| !rule(timeout)) {
            return timeout;
        }
        self.advance(timeout);
        Duration::ZERO
    }

    fn unique_id(&self) -> u128 {
        let nth = self.inner.names.fetch_add(1, Ordering::SeqCst);
        fastrand::Rng::with_seed(crate::mix(self.inner.seed, nth)).u128(..)
    }
}

/// A clock whose time of day stands still until it is set. Its monotonic time is the real one.
#[derive(Clone, Debug)]
pub struct SetClock(Arc<AtomicU64>);

impl SetClock {
    /// A clock that stands at this many seconds since 1970.
    pub fn at(seconds: u64) -> Self {
        SetClock(Arc::new(AtomicU64::new(seconds)))
    }

    /// Sets the seconds since 1970.
    pub fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

impl SystemClock for SetClock {
    fn monotonic(&self) -> Duration {
        StdClock.monotonic()
    }

    fn unix_time(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
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
        let start = SimClock::START;
        assert_eq!(clock.unix_time(), start + Duration::from_millis(2500));
        clock.jump_ms(-500);
        assert_eq!(clock.unix_time(), start + Duration::from_secs(2));
        let patient = clock.with_waits(|_| false);
        assert_eq!(patient.begin_wait(start), start);
        assert_eq!(patient.monotonic(), Duration::from_millis(2500));
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
