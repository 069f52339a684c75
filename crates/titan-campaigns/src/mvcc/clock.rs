//! The clock of a history, which only its operations move.

use std::cell::RefCell;
use std::time::Duration;

use titan::SystemClock;
use titan_testkit::clock::SimClock;

/// Is told when a thread blocks, with its deadline.
pub(super) type Blocked = Box<dyn Fn(Duration)>;

thread_local! {
    static BLOCKED: RefCell<Option<Blocked>> = const { RefCell::new(None) };
}

/// Waits that are longer are ended by others.
const LONG: Duration = Duration::from_secs(3600);
/// The time that passes while a thread waits.
const STEP: Duration = Duration::from_millis(1);

/// Time passes when a history says so, and a little while a thread of the store waits for it.
#[derive(Clone)]
pub(super) struct HistoryClock(SimClock);

impl HistoryClock {
    pub(super) fn new() -> Self {
        HistoryClock(SimClock::with_seed(1))
    }

    /// The number of clones, this one included.
    #[cfg(test)]
    pub(super) fn owners(&self) -> usize {
        self.0.owners()
    }

    /// Time passes.
    pub(super) fn advance(&self, by: Duration) {
        self.0.advance(by);
    }

    /// The time that has passed.
    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Sets the time of day forward or back, not before that of the first operation.
    pub(super) fn jump_ms(&self, by: i64) {
        let since = self.0.unix_time().saturating_sub(SimClock::START);
        self.0.jump_ms(by.max(-(since.as_millis() as i64)));
    }

    /// From now on the calling thread tells when it blocks.
    pub(super) fn tell(blocked: Blocked) {
        BLOCKED.set(Some(blocked));
    }
}

impl SystemClock for HistoryClock {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn unix_time(&self) -> Duration {
        self.0.unix_time()
    }

    fn begin_wait(&self, timeout: Duration) -> Duration {
        let is_told = BLOCKED.with_borrow(|blocked| {
            if let Some(blocked) = blocked {
                blocked(self.monotonic().saturating_add(timeout));
            }
            blocked.is_some()
        });
        if is_told || timeout > LONG {
            // Only a wake ends it.
            return timeout.max(LONG);
        }
        let step = timeout.min(STEP);
        self.advance(step);
        step
    }

    fn unique_id(&self) -> u128 {
        self.0.unique_id()
    }
}
