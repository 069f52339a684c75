//! Waits for locks, and deadlocks.
//!
//! A transaction of this process waits for one lock at a time, a client of the Percolator calls
//! possibly for several. A wait that would close a circle of transactions is refused with the
//! circle; the caller should roll back. Closing the store ends all waits.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use titan::{SystemClock, invariant};

use crate::timestamp::Timestamp;

/// The waiting transactions of a store.
#[derive(Default)]
pub(crate) struct Waits {
    state: Mutex<State>,
    /// Raised when locks are removed, and when the store closes.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// For each waiting transaction, the owner of each lock that it waits for. By start timestamps.
    waiting: HashMap<Timestamp, Vec<Timestamp>>,
    /// True once the store was closed.
    is_closed: bool,
}

impl State {
    /// Removes one wait of a transaction for another.
    fn remove(&mut self, waiter: Timestamp, holder: Timestamp) {
        let holders = self.waiting.get_mut(&waiter);
        invariant!(holders.is_some(), "{waiter} waits for nothing");
        let Some(holders) = holders else {
            return;
        };
        let at = holders.iter().position(|other| *other == holder);
        invariant!(at.is_some(), "{waiter} does not wait for {holder}");
        if let Some(at) = at {
            holders.swap_remove(at);
        }
        if holders.is_empty() {
            self.waiting.remove(&waiter);
        }
    }
}

/// The reason why a wait was refused or ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoWait {
    /// The wait would close this circle.
    Deadlock(Circle),
    /// The store was closed.
    Closed,
}

/// Start timestamps. Each transaction waits for the next, the last one for the first.
pub(crate) type Circle = Vec<Timestamp>;

impl Waits {
    /// Wakes all waits after locks were removed.
    pub(crate) fn wake(&self) {
        // ORDER: under the mutex, so that a thread that found a lock is already waiting.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// Ends all waits: the store was closed.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits while `is_locked` returns true, for the transaction `holder`. Returns false at
    /// `deadline`, a monotonic time. A `waiter` without a start owns no locks, so it is in no
    /// circle.
    ///
    /// # Errors
    /// The reason why it does not wait.
    pub(crate) fn wait(
        &self,
        clock: &dyn SystemClock,
        waiter: Option<Timestamp>,
        holder: Timestamp,
        deadline: Duration,
        is_locked: impl Fn() -> bool,
    ) -> Result<bool, NoWait> {
        let mut state = self.state.lock();
        if let Some(waiter) = waiter {
            if let Some(circle) = circle(&state.waiting, waiter, holder) {
                return Err(NoWait::Deadlock(circle));
            }
            state.waiting.entry(waiter).or_default().push(holder);
        }
        let released = loop {
            if state.is_closed {
                break Err(NoWait::Closed);
            }
            if !is_locked() {
                break Ok(true);
            }
            let left = deadline.saturating_sub(clock.monotonic());
            if left.is_zero() {
                break Ok(false);
            }
            let block = clock.begin_wait(left);
            self.changed.wait_for(&mut state, block);
        };
        if let Some(waiter) = waiter {
            state.remove(waiter, holder);
        }
        released
    }
}

/// The circle that a wait of `waiter` for `holder` would close. Cost: visits all transactions for
/// which `holder` waits, directly or not.
fn circle(
    waiting: &HashMap<Timestamp, Vec<Timestamp>>,
    waiter: Timestamp,
    holder: Timestamp,
) -> Option<Circle> {
    // Each visited transaction, with one that waits for it.
    let mut met = HashMap::from([(holder, waiter)]);
    let mut left = vec![holder];
    while !met.contains_key(&waiter) {
        let next = left.pop()?;
        for holder in waiting.get(&next).into_iter().flatten() {
            met.entry(*holder).or_insert_with(|| {
                left.push(*holder);
                next
            });
        }
    }
    let mut circle = Vec::new();
    let mut at = waiter;
    while let Some(before) = met.remove(&at) {
        circle.push(before);
        at = before;
    }
    circle.reverse();
    (!mutant!(deadlock_not_found)).then_some(circle)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use titan::StdClock;

    use super::*;

    #[test]
    fn a_circle_is_found_from_its_last_wait() {
        let t = |n| Timestamp(n);
        let waiting = [(1, vec![2]), (2, vec![9, 3, 8]), (4, vec![2]), (8, vec![2])];
        let starts = |(waiter, holders): (u64, Vec<u64>)| {
            (t(waiter), holders.into_iter().map(Timestamp).collect())
        };
        let waiting = HashMap::from(waiting.map(starts));
        assert_eq!(circle(&waiting, t(3), t(1)), Some(vec![t(3), t(1), t(2)]));
        assert_eq!(circle(&waiting, t(3), t(4)), Some(vec![t(3), t(4), t(2)]));
        assert_eq!(circle(&waiting, t(4), t(1)), None);
        assert_eq!(circle(&waiting, t(5), t(5)), Some(vec![t(5)]));
    }

    #[test]
    fn a_transaction_that_waits_for_several_locks_is_in_all_circles_that_they_close() {
        let clock = StdClock;
        let waits = Waits::default();
        let t = |n| Timestamp(n);
        let for_long = clock.monotonic() + Duration::from_secs(1000);
        let active = AtomicBool::new(true);
        let wait = |waiter, holder, deadline| {
            let is_locked = || active.load(Ordering::SeqCst);
            waits.wait(&clock, Some(t(waiter)), t(holder), deadline, is_locked)
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| wait(1, 2, for_long));
            while waits.state.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            // One wait may end while another goes on.
            assert_eq!(wait(1, 3, Duration::ZERO), Ok(false));
            let circle = wait(2, 1, Duration::ZERO);
            active.store(false, Ordering::SeqCst);
            waits.wake();
            assert_eq!(circle, Err(NoWait::Deadlock(vec![t(2), t(1)])));
            assert_eq!(first.join().unwrap(), Ok(true));
        });
        assert!(waits.state.lock().waiting.is_empty());
    }
}
