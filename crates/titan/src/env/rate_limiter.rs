//! The rate at which garbage is collected.

use std::time::Duration;

use crate::sync::atomic::{AtomicU64, Ordering};

/// The rate of the collections of an `Env`: the bytes per second that they may read and write while
/// users are active and nothing is urgent. It can be changed at any time. Each collection keeps to
/// it by itself: one thread runs them all, one after the other.
pub(crate) struct RateLimiter {
    bytes_per_second: AtomicU64,
}

impl RateLimiter {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        RateLimiter {
            bytes_per_second: AtomicU64::new(bytes_per_second),
        }
    }

    pub(crate) fn set(&self, bytes_per_second: u64) {
        self.bytes_per_second
            .store(bytes_per_second, Ordering::Relaxed);
    }

    /// Time that copying so many bytes should take.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        let rate = self.bytes_per_second.load(Ordering::Relaxed).max(1);
        Duration::from_secs_f64(bytes as f64 / rate as f64)
    }
}
