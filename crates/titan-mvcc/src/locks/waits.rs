//! Waits for locks, and deadlocks.
//!
//! A transaction of this process waits for one lock at a time, a client of the Percolator calls
//! possibly for several. A wait that would close a circle of transactions is refused with the
//! circle; the caller should roll back. Closing the store ends all waits.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
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
    /// For each waiting transaction, each lock that it waits for. By start timestamps.
    waiting: HashMap<Timestamp, Vec<WaitFor>>,
    /// True once the store was closed.
    is_closed: bool,
}

/// A wait of a transaction for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WaitFor {
    /// The start timestamp of the lock's owner.
    holder: Timestamp,
    key: Bytes,
}

impl State {
    /// Removes one wait of a transaction.
    fn remove(&mut self, waiter: Timestamp, wait: &WaitFor) {
        let holders = self.waiting.get_mut(&waiter);
        invariant!(holders.is_some(), "{waiter} waits for nothing");
        let Some(holders) = holders else {
            return;
        };
        let at = holders.iter().position(|other| other == wait);
        invariant!(at.is_some(), "{waiter} does not wait for {}", wait.holder);
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

/// Start timestamps, each with the key whose lock the transaction waits for. The next one has
/// locked it, for the last transaction the first one.
pub(crate) type Circle = Vec<(Timestamp, Bytes)>;

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

    /// Waits while `is_locked` returns true, for the lock of the transaction `holder` on `key`.
    /// Returns false at `deadline`, a monotonic time. A `waiter` without a start owns no locks, so
    /// it is in no circle.
    ///
    /// # Errors
    /// The reason why it does not wait.
    pub(crate) fn wait(
        &self,
        clock: &dyn SystemClock,
        waiter: Option<Timestamp>,
        (holder, key): (Timestamp, &[u8]),
        deadline: Duration,
        is_locked: impl Fn() -> bool,
    ) -> Result<bool, NoWait> {
        let key = Bytes::copy_from_slice(key);
        let wait = WaitFor { holder, key };
        let mut state = self.state.lock();
        if let Some(waiter) = waiter {
            if let Some(circle) = circle(&state.waiting, waiter, &wait) {
                return Err(NoWait::Deadlock(circle));
            }
            let waits = state.waiting.entry(waiter).or_default();
            waits.push(wait.clone());
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
            state.remove(waiter, &wait);
        }
        released
    }
}

/// The circle that a wait of `waiter` would close. Cost: visits all transactions for which the
/// owner of the lock waits, directly or not.
fn circle(
    waiting: &HashMap<Timestamp, Vec<WaitFor>>,
    waiter: Timestamp,
    wait: &WaitFor,
) -> Option<Circle> {
    // Each visited transaction, with one that waits for it and the key of that wait.
    let mut met = HashMap::from([(wait.holder, (waiter, &wait.key))]);
    let mut left = vec![wait.holder];
    while !met.contains_key(&waiter) {
        let next = left.pop()?;
        for wait in waiting.get(&next).into_iter().flatten() {
            met.entry(wait.holder).or_insert_with(|| {
                left.push(wait.holder);
                (next, &wait.key)
            });
        }
    }
    let mut circle = Vec::new();
    let mut at = waiter;
    while let Some((before, key)) = met.remove(&at) {
        circle.push((before, key.clone()));
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
        // The key of a lock is the number of its owner.
        let wait = |holder: u64| WaitFor {
            holder: t(holder),
            key: Bytes::from(holder.to_string()),
        };
        let starts = |(waiter, holders): (u64, Vec<u64>)| {
            (t(waiter), holders.into_iter().map(wait).collect())
        };
        let waiting = HashMap::from(waiting.map(starts));
        let circle = |waiter: u64, holder: u64| circle(&waiting, t(waiter), &wait(holder));
        let by = |waits: &[(u64, &'static str)]| -> Option<Circle> {
            let waits = waits.iter();
            Some(waits.map(|(n, key)| (t(*n), Bytes::from(*key))).collect())
        };
        assert_eq!(circle(3, 1), by(&[(3, "1"), (1, "2"), (2, "3")]));
        assert_eq!(circle(3, 4), by(&[(3, "4"), (4, "2"), (2, "3")]));
        assert_eq!(circle(4, 1), None);
        assert_eq!(circle(5, 5), by(&[(5, "5")]));
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
            let lock = (t(holder), &b"k"[..]);
            waits.wait(&clock, Some(t(waiter)), lock, deadline, is_locked)
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
            let key = || Bytes::from_static(b"k");
            let expected = vec![(t(2), key()), (t(1), key())];
            assert_eq!(circle, Err(NoWait::Deadlock(expected)));
            assert_eq!(first.join().unwrap(), Ok(true));
        });
        assert!(waits.state.lock().waiting.is_empty());
    }
}
