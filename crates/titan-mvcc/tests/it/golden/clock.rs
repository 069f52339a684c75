//! A simulated clock that only the thread of a test moves.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use titan::SystemClock;
use titan_testkit::clock::SimClock;

/// Advances over the waits of the thread that made it. Other threads, those of the engine, wait in
/// real time, so that the time in a text does not depend on them.
#[derive(Clone)]
pub(super) struct ThreadClock {
    clock: SimClock,
    owner: Arc<ThreadId>,
}

impl Default for ThreadClock {
    fn default() -> Self {
        ThreadClock {
            clock: SimClock::with_seed(1),
            owner: Arc::new(thread::current().id()),
        }
    }
}

impl ThreadClock {
    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl SystemClock for ThreadClock {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn unix_time(&self) -> Duration {
        self.clock.unix_time()
    }

    fn begin_wait(&self, timeout: Duration) -> Duration {
        match thread::current().id() == *self.owner {
            true => self.clock.begin_wait(timeout),
            false => timeout,
        }
    }

    fn unique_id(&self) -> u128 {
        self.clock.unique_id()
    }
}
