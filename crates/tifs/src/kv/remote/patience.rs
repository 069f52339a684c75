//! The time that operations may take.
//!
//! | work | time at most |
//! |---|---|
//! | an operation: its transaction, with all attempts and calls | `timeout`, its [`Budget`] |
//! | the search for the fate of a commit without an answer | `timeout` again |
//! | a call outside of a transaction, or of a long read | `timeout` |
//! | the same while the service is silent | [`SHORT`] |
//! | work of a thread of the mount | `timeout`, without the time of earlier work |
//! | one attempt at a call | a part of the rest, so that another connection has its turn |

use std::cell::Cell;
#[cfg(any(feature = "etcd", feature = "tikv"))]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time of one operation, with all its attempts. It begins with the first one.
#[derive(Debug, Default)]
pub struct Budget(Cell<Option<Instant>>);

impl Budget {
    /// The end of the operation, if it has begun.
    pub fn end(&self) -> Option<Instant> {
        self.0.get()
    }

    /// The end of the operation, which begins now if it has not begun, and has so much time then.
    pub fn begin(&self, time: Duration) -> Instant {
        let end = self.end().unwrap_or_else(|| Instant::now() + time);
        self.0.set(Some(end));
        end
    }
}

/// The longest wait for a service that was silent before: enough to see that it answers again.
#[cfg(any(feature = "etcd", feature = "tikv"))]
const SHORT: Duration = Duration::from_secs(1);

/// The patience with a service that may be out of reach: a caller that meets a long silence waits,
/// and later callers do not wait as long again.
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(in crate::kv) struct Patience {
    whole: Duration,
    /// The last wait came to its end, and there was no answer since.
    is_silent: AtomicBool,
}

#[cfg(any(feature = "etcd", feature = "tikv"))]
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

    /// Notes a wait that came to its end without an answer. True if it was a long one, and there
    /// were answers before: somebody has to find out when there are some again, and to wait the
    /// whole time for them.
    ///
    /// A short one says nothing: the service may be slower, and others may have answers since.
    pub(in crate::kv) fn ended(&self, waited: Duration) -> bool {
        waited >= self.whole / 2 && !self.is_silent.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_wait_makes_later_ones_short_until_an_answer() {
        let patience = Patience::new(Duration::from_secs(9));
        assert!(!patience.ended(SHORT) && !patience.is_silent());
        assert!(patience.ended(Duration::from_secs(9)));
        assert!(!patience.ended(Duration::from_secs(9)));
        assert_eq!(patience.get(), SHORT);
        patience.answered();
        // One that began in the silence.
        assert!(!patience.ended(SHORT));
        assert_eq!(patience.get(), patience.whole());
    }
}
