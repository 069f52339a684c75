//! The patience with a service that may be out of reach: a caller that meets a long silence waits,
//! and later callers do not wait as long again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest wait for a service that was silent before: enough to see that it answers again.
const SHORT: Duration = Duration::from_secs(1);

/// The patience with a service.
pub(in crate::kv) struct Patience {
    whole: Duration,
    /// The last wait came to its end, and there was no answer since.
    is_silent: AtomicBool,
}

impl Patience {
    /// Waits of a length, until one has come to its end.
    pub(in crate::kv) fn new(whole: Duration) -> Patience {
        Patience {
            whole,
            is_silent: AtomicBool::new(false),
        }
    }

    /// The longest wait of an operation that begins now.
    pub(in crate::kv) fn get(&self) -> Duration {
        match self.is_silent() {
            true => self.whole.min(SHORT),
            false => self.whole,
        }
    }

    /// The longest wait of an operation that must be tried even after a silence.
    pub(in crate::kv) fn whole(&self) -> Duration {
        self.whole
    }

    pub(in crate::kv) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Notes an answer.
    pub(in crate::kv) fn answered(&self) {
        self.is_silent.store(false, Ordering::Relaxed);
    }

    /// Notes a wait that came to its end without an answer.
    pub(in crate::kv) fn ended(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }
}
