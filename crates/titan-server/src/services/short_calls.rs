//! The choice of the thread of a short call.
//!
//! A hop to another thread and back takes longer than a read from memory. Nobody knows before a
//! read that all it needs is in memory. So the last short call decides: while they are quick, they
//! run on the thread that took them from the network. After a slow one, the next ones run on
//! threads that may block, and then one tries again. So a slow disk holds up a thread of the
//! network at one short call of many. Half of these threads run no calls, however slow one is.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The longest time of a quick call: about that of a hop.
const QUICK: Duration = Duration::from_micros(50);
/// The short calls that run on other threads after a slow one.
const ELSEWHERE: u32 = 256;

/// The short calls of a node.
pub(super) struct ShortCalls {
    /// The calls that still run on other threads.
    elsewhere: AtomicU32,
    /// The calls that run on threads of the network.
    here: AtomicUsize,
    /// The most of them.
    most: usize,
}

/// A call that runs on a thread of the network.
pub(super) struct Here<'a> {
    calls: &'a ShortCalls,
    began: Instant,
}

impl ShortCalls {
    /// With so many threads of the network, at least two.
    pub(super) fn new(threads: usize) -> Self {
        ShortCalls {
            elsewhere: AtomicU32::new(0),
            here: AtomicUsize::new(0),
            most: threads / 2,
        }
    }

    /// Begins a call on this thread of the network. `None` sends it elsewhere.
    pub(super) fn begin_here(&self) -> Option<Here<'_>> {
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let one_less = |left: u32| left.checked_sub(1);
        if self.elsewhere.fetch_update(set, get, one_less).is_ok() {
            return None;
        }
        let here = Here {
            calls: self,
            began: Instant::now(),
        };
        let others = self.here.fetch_add(1, Ordering::Relaxed);
        (others < self.most).then_some(here)
    }

    /// Notes the time of a call that ran on a thread of the network.
    fn took(&self, time: Duration) {
        if time > QUICK {
            self.elsewhere.store(ELSEWHERE, Ordering::Relaxed);
        }
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.calls.here.fetch_sub(1, Ordering::Relaxed);
        self.calls.took(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_after_a_slow_one_run_elsewhere_for_a_while() {
        let calls = ShortCalls::new(2);
        calls.took(QUICK);
        assert_eq!(calls.elsewhere.load(Ordering::Relaxed), 0);
        calls.took(QUICK * 2);
        for _ in 0..ELSEWHERE {
            assert!(calls.begin_here().is_none());
        }
        assert!(calls.begin_here().is_some());
    }

    #[test]
    fn half_of_the_threads_run_no_calls() {
        let calls = ShortCalls::new(5);
        let first = calls.begin_here();
        let second = calls.begin_here();
        assert!(first.is_some() && second.is_some());
        assert!(calls.begin_here().is_none());
        assert_eq!(calls.here.load(Ordering::Relaxed), 2);
        drop((first, second));
        assert_eq!(calls.here.load(Ordering::Relaxed), 0);
    }
}
