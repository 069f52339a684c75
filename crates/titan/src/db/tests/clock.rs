//! A clock that only waiting and a test advance.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::SystemClock;

#[derive(Default)]
pub(crate) struct TestClock {
    nanos: AtomicU64,
    at_waits: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl TestClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Has this done at each wait from now on. Has no effect the second time.
    pub(crate) fn at_waits(&self, act: impl Fn() + Send + Sync + 'static) {
        let _ = self.at_waits.set(Box::new(act));
    }
}

impl SystemClock for TestClock {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn unix_time(&self) -> Duration {
        self.monotonic()
    }

    fn begin_wait(&self, timeout: Duration) -> Duration {
        if let Some(act) = self.at_waits.get() {
            act();
        }
        self.advance(timeout);
        Duration::ZERO
    }
}
