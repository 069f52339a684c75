//! Waiting for locks, and finding deadlocks.
//!
//! A transaction waits for one lock at a time, so who waits for whom is a chain from each waiter on. A wait
//! that would close the chain to a circle is refused: the caller gets the circle, and should roll back. When the
//! store is closed, all waits end.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use titan::SystemClock;

use crate::timestamp::Timestamp;

/// The transactions that wait.
#[derive(Default)]
pub(crate) struct Waits {
    state: Mutex<State>,
    /// Raised when locks are removed, and at the end.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The start of each waiting transaction, and that of the one for which it waits.
    waiting: HashMap<Timestamp, Timestamp>,
    /// The store has been closed.
    is_closed: bool,
}

/// Why a wait was refused or broken off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoWait {
    /// It would close this circle.
    Deadlock(Circle),
    /// The store has been closed.
    Closed,
}

/// The starts of transactions each of which waits for the next, and the last one for the first.
pub(crate) type Circle = Vec<Timestamp>;

impl Waits {
    /// Locks were removed.
    pub(crate) fn wake(&self) {
        // ORDER: with the lock, so a waiter that has found the lock held is waiting already.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// The store has been closed: nobody waits any more.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits while `is_held` says so, for the transaction that began at `holder`. False if `deadline`, a
    /// monotonic time, comes first. A `waiter` of no name holds no locks, so it can be in no circle.
    ///
    /// # Errors
    /// Why it does not wait.
    pub(crate) fn wait(
        &self,
        clock: &dyn SystemClock,
        waiter: Option<Timestamp>,
        holder: Timestamp,
        deadline: Duration,
        is_held: impl Fn() -> bool,
    ) -> Result<bool, NoWait> {
        let mut state = self.state.lock();
        if let Some(waiter) = waiter {
            if let Some(circle) = circle(&state.waiting, waiter, holder) {
                return Err(NoWait::Deadlock(circle));
            }
            state.waiting.insert(waiter, holder);
        }
        let released = loop {
            if state.is_closed {
                break Err(NoWait::Closed);
            }
            if !is_held() {
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
            state.waiting.remove(&waiter);
        }
        released
    }
}

/// The circle that would be closed if `waiter` waited for `holder`.
fn circle(
    waiting: &HashMap<Timestamp, Timestamp>,
    waiter: Timestamp,
    holder: Timestamp,
) -> Option<Circle> {
    let mut circle = vec![waiter];
    let mut next = holder;
    while next != waiter {
        circle.push(next);
        next = *waiting.get(&next)?;
    }
    // MUTANT: nobody looks whether transactions wait for each other.
    (!mutant!(
        "deadlock-not-found",
        "-p titan-mvcc --test it pessimistic::"
    ))
    .then_some(circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_from_its_last_wait() {
        let t = |n| Timestamp(n);
        let waiting = HashMap::from([(t(1), t(2)), (t(2), t(3)), (t(4), t(2))]);
        assert_eq!(circle(&waiting, t(3), t(1)), Some(vec![t(3), t(1), t(2)]));
        assert_eq!(circle(&waiting, t(3), t(4)), Some(vec![t(3), t(4), t(2)]));
        assert_eq!(circle(&waiting, t(4), t(1)), None);
        assert_eq!(circle(&waiting, t(5), t(5)), Some(vec![t(5)]));
    }
}
