//! The order in which commits become visible.
//!
//! Owns the *visible timestamp*, at which reads of the present are made. It promises:
//!
//! 1. Every commit up to the visible timestamp has been published by the engine, or has failed.
//! 2. No later commit takes a timestamp up to it.
//! 3. A commit returns to its caller only when the visible timestamp has reached its own.
//!
//! By 1 and 2, a read at the visible timestamp finds the same whenever it looks, and need not wait. By 3, it
//! finds every commit that was acknowledged before it began.
//!
//! # Why that holds
//!
//! A commit takes its timestamp and is entered into the list of commits in flight under one lock. So while
//! the lock is free, the list has all commits with a timestamp that are neither published nor failed. The
//! oracle's timestamps ascend, and that is checked here; so every later commit has a timestamp after
//! `newest`, the last one that was taken. The visible timestamp is the one that was taken before the oldest
//! commit in flight, or `newest` if there is none: 1 and 2 follow, whatever the order in which commits end. It
//! never goes back, because a commit is entered after `newest`, which is not before the visible timestamp.
//!
//! So it is always the timestamp of a commit, or of the opening. Transactions in two phases have names, which
//! are other timestamps of the same oracle. The start of a transaction in one batch is no name.
//!
//! # Commits whose timestamps others took
//!
//! The caller of [`Percolator::commit`](crate::Percolator::commit) brings a timestamp that it has from the oracle.
//! Such a commit is not in flight here, and 1 and 2 do not hold for it. Instead it has a lock on each of its keys
//! from before its timestamp was taken until it is published, and a reader that finds a lock settles with it:
//! see `resolver` and `docs/adr/0046-two-phases-and-snapshots.md`. 3 holds for it ([`CommitOrder::include`]).
//!
//! A commit leaves the list after the engine's write has returned, that is, after its entries are published.
//! Then it waits until the list has no older one (3). So commits wait for older commits, and reads for
//! nothing. The wait is short: an older commit is in the same write group of the engine or in the one
//! before, unless its thread was stopped between its timestamp and its write.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::oracle::TimestampOracle;
use crate::timestamp::Timestamp;
use crate::wake::Wake;

/// See the module.
pub(crate) struct CommitOrder {
    oracle: Arc<dyn TimestampOracle>,
    state: Mutex<State>,
    /// The visible timestamp. Changed only under the lock.
    visible: AtomicU64,
    /// Told of each commit.
    wake: Arc<Wake>,
}

struct State {
    /// The last timestamp that was taken for a commit.
    newest: Timestamp,
    /// The commits in flight, each with the last timestamp that was taken before.
    in_flight: BTreeMap<Timestamp, Timestamp>,
    /// Threads that wait until no commit up to a timestamp is in flight.
    waiting: Vec<(Timestamp, Thread)>,
}

impl State {
    /// Whether no commit up to `at` is in flight.
    fn is_settled(&self, at: Timestamp) -> bool {
        self.in_flight
            .first_key_value()
            .is_none_or(|(oldest, _)| *oldest > at)
    }
}

impl CommitOrder {
    /// The order after all commits that were made before.
    ///
    /// # Errors
    /// Those of the oracle.
    pub(crate) fn new(oracle: Arc<dyn TimestampOracle>) -> Result<Self> {
        let newest = oracle.next()?;
        Ok(CommitOrder::after(oracle, newest))
    }

    /// The order after all commits up to `newest`.
    pub(crate) fn after(oracle: Arc<dyn TimestampOracle>, newest: Timestamp) -> Self {
        CommitOrder {
            oracle,
            state: Mutex::new(State {
                newest,
                in_flight: BTreeMap::new(),
                waiting: Vec::new(),
            }),
            visible: AtomicU64::new(newest.0),
            wake: Arc::default(),
        }
    }

    /// What wakes the sweeper.
    pub(crate) fn wake(&self) -> &Arc<Wake> {
        &self.wake
    }

    /// The visible timestamp. Never waits.
    pub(crate) fn visible(&self) -> Timestamp {
        // ORDER: acquires what was published before the timestamp was stored.
        Timestamp(self.visible.load(Ordering::Acquire))
    }

    /// Takes a timestamp for a commit. Waits for nothing but the oracle.
    ///
    /// # Errors
    /// Those of the oracle, and `Oracle` if its timestamps do not ascend.
    pub(crate) fn begin(&self) -> Result<InFlight<'_>> {
        let mut state = self.state.lock();
        let commit = self.next_after(state.newest)?;
        let before = std::mem::replace(&mut state.newest, commit);
        state.in_flight.insert(commit, before);
        Ok(InFlight {
            order: self,
            commit,
        })
    }

    /// Returns when what commits up to `at` wrote is published and no later commit can have a timestamp up to
    /// it. Waits only if `at` is after the visible timestamp and commits before it are in flight.
    ///
    /// # Errors
    /// `InFuture` if the oracle has not handed out `at` yet; those of the oracle.
    pub(crate) fn settle(&self, at: Timestamp) -> Result<()> {
        if at <= self.visible() {
            return Ok(());
        }
        let state = self.state.lock();
        self.check_past(&state, at)?;
        self.wait(state, at);
        Ok(())
    }

    /// Checks that a timestamp that a caller gives was handed out. Waits for nothing but the oracle.
    ///
    /// # Errors
    /// `InFuture`; those of the oracle.
    pub(crate) fn check_handed_out(&self, at: Timestamp) -> Result<()> {
        match at <= self.visible() {
            true => Ok(()),
            false => self.check_past(&self.state.lock(), at),
        }
    }

    fn check_past(&self, state: &State, at: Timestamp) -> Result<()> {
        if at > state.newest {
            // What the oracle hands out from here on is after `now`.
            let now = self.next_after(state.newest)?;
            if at >= now {
                return Err(Error::InFuture { asked: at, now });
            }
        }
        Ok(())
    }

    /// A timestamp that no commit and no other caller has: the name of a transaction.
    ///
    /// # Errors
    /// Those of the oracle, and `Oracle` if its timestamps do not ascend.
    pub(crate) fn name(&self) -> Result<Timestamp> {
        let state = self.state.lock();
        self.next_after(state.newest)
    }

    /// Says that a commit has been published whose timestamp the oracle gave to the caller. Returns when reads
    /// of the present find it. It was not in flight: until it was published, readers found its locks.
    pub(crate) fn include(&self, commit: Timestamp) {
        let mut state = self.state.lock();
        state.newest = state.newest.max(commit);
        let later = (Bound::Excluded(commit), Bound::Unbounded);
        if let Some((_, before)) = state.in_flight.range_mut(later).next() {
            *before = (*before).max(commit);
        }
        self.show(&state);
        self.wait(state, commit);
    }

    /// Moves the visible timestamp to where it may be.
    fn show(&self, state: &State) {
        let oldest = state.in_flight.first_key_value();
        // MUTANT: a commit becomes visible before older ones that are still being written.
        let oldest = oldest.filter(|_| {
            !mutant!(
                "visible-before-older-commits",
                "-p titan-mvcc --lib commit_order::"
            )
        });
        let visible = oldest.map_or(state.newest, |(_, before)| *before);
        // ORDER: releases what the engine published for all commits up to here: each of them took the lock
        // after its write had returned.
        self.visible.store(visible.0, Ordering::Release);
        self.wake.committed();
    }

    /// Returns when no commit up to `at` is in flight. A thread is woken once, by the commit that was the last
    /// one it waited for.
    fn wait<'o>(&'o self, mut state: MutexGuard<'o, State>, at: Timestamp) {
        while !state.is_settled(at) {
            state.waiting.push((at, thread::current()));
            drop(state);
            thread::park();
            state = self.state.lock();
            // After a wakeup by something else, it is still there.
            let own = thread::current().id();
            state.waiting.retain(|(_, thread)| thread.id() != own);
        }
    }

    fn next_after(&self, newest: Timestamp) -> Result<Timestamp> {
        let next = self.oracle.next()?;
        if next <= newest {
            return Err(Error::oracle(format!(
                "the oracle went back from {newest} to {next}"
            )));
        }
        Ok(next)
    }

    /// Takes a commit from the list.
    fn end(&self, commit: Timestamp) {
        let mut state = self.state.lock();
        state.in_flight.remove(&commit);
        self.show(&state);
        if state.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut state.waiting);
        let (ready, left) = waiting
            .into_iter()
            .partition::<Vec<_>, _>(|(at, _)| state.is_settled(*at));
        state.waiting = left;
        drop(state);
        ready.iter().for_each(|(_, thread)| thread.unpark());
    }
}

/// A commit in flight. Dropping it says that it failed and wrote nothing.
pub(crate) struct InFlight<'a> {
    order: &'a CommitOrder,
    commit: Timestamp,
}

impl InFlight<'_> {
    /// The timestamp of the commit.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.commit
    }

    /// Says that the engine has published the commit. Returns when reads of the present find it.
    pub(crate) fn published(self) -> Timestamp {
        let (order, commit) = (self.order, self.commit);
        drop(self);
        // MUTANT: a commit is acknowledged while an older one hides it from reads.
        let early = mutant!("acknowledged-early", "-p titan-mvcc --lib commit_order::");
        if order.visible() < commit && !early {
            order.wait(order.state.lock(), commit);
        }
        commit
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.order.end(self.commit);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Hands out what it was given, last first.
    struct Given(Mutex<Vec<u64>>);

    impl TimestampOracle for Given {
        fn next(&self) -> Result<Timestamp> {
            let next = self.0.lock().pop();
            next.map(Timestamp)
                .ok_or_else(|| Error::oracle("unreachable"))
        }
    }

    fn order(given: &[u64]) -> CommitOrder {
        let mut given = given.to_vec();
        given.reverse();
        CommitOrder::new(Arc::new(Given(Mutex::new(given)))).unwrap()
    }

    #[test]
    fn the_visible_timestamp_is_before_the_oldest_commit_in_flight() {
        let order = order(&[10, 20, 30, 40]);
        assert_eq!(order.visible(), Timestamp(10));
        let (a, b) = (order.begin().unwrap(), order.begin().unwrap());
        assert_eq!(order.visible(), Timestamp(10));
        drop(b);
        assert_eq!(order.visible(), Timestamp(10));
        let c = order.begin().unwrap();
        assert_eq!(a.published(), Timestamp(20));
        assert_eq!(order.visible(), Timestamp(30));
        assert_eq!(c.published(), Timestamp(40));
        assert_eq!(order.visible(), Timestamp(40));
    }

    #[test]
    fn a_commit_returns_after_all_older_ones_have_ended() {
        let order = order(&[10, 20, 30]);
        let (a, b) = (order.begin().unwrap(), order.begin().unwrap());
        let (done, returned) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| done.send(b.published()).unwrap());
            while order.state.lock().in_flight.len() == 2 {
                std::thread::yield_now();
            }
            // Its thread has ended `b`, and would soon return if it did not wait.
            for _ in 0..1000 {
                assert!(returned.try_recv().is_err());
                std::thread::yield_now();
            }
            drop(a);
            assert_eq!(returned.recv().unwrap(), Timestamp(30));
            assert_eq!(order.visible(), Timestamp(30));
        });
    }

    #[test]
    fn a_read_after_the_visible_timestamp_waits_for_older_commits_only() {
        let order = order(&[10, 20, 30, 40]);
        let (a, b) = (order.begin().unwrap(), order.begin().unwrap());
        order.settle(Timestamp(19)).unwrap();
        let (done, returned) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| done.send(order.settle(Timestamp(25))).unwrap());
            for _ in 0..1000 {
                assert!(returned.try_recv().is_err());
                std::thread::yield_now();
            }
            drop(a);
            returned.recv().unwrap().unwrap();
        });
        let future = order.settle(Timestamp(40));
        assert!(matches!(future, Err(Error::InFuture { now, .. }) if now == Timestamp(40)));
        drop(b);
    }

    #[test]
    fn a_commit_at_a_timestamp_of_the_caller_is_visible_before_later_ones_that_are_in_flight() {
        let order = order(&[10, 20, 30, 40]);
        let (_, given) = (order.name().unwrap(), order.name().unwrap());
        let later = order.begin().unwrap();
        assert_eq!((given, later.timestamp()), (Timestamp(30), Timestamp(40)));
        assert_eq!(order.visible(), Timestamp(10));
        order.include(given);
        assert_eq!(order.visible(), given);
        assert_eq!(later.published(), Timestamp(40));
        order.include(given);
        assert_eq!(order.visible(), Timestamp(40));
    }

    #[test]
    fn what_others_commit_for_a_transaction_in_flight_is_visible_when_that_has_ended() {
        let order = order(&[10, 20]);
        let in_flight = order.begin().unwrap();
        std::thread::scope(|scope| {
            let included = scope.spawn(|| order.include(Timestamp(20)));
            while order.state.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            assert_eq!(order.visible(), Timestamp(10));
            assert_eq!(in_flight.published(), Timestamp(20));
            included.join().unwrap();
        });
        assert_eq!(order.visible(), Timestamp(20));
    }

    #[test]
    fn an_oracle_that_fails_or_goes_back_fails_the_commit_alone() {
        let order = order(&[10, 9, 20]);
        let back = order.begin().err().unwrap();
        assert!(
            back.to_string().contains("went back from 10 to 9"),
            "{back}"
        );
        assert_eq!(order.begin().unwrap().published(), Timestamp(20));
        let gone = order.begin().err().unwrap();
        assert!(matches!(gone, Error::Oracle { .. }), "{gone}");
        assert_eq!(order.visible(), Timestamp(20));
    }
}
