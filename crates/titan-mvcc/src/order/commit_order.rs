//! The order in which commits become visible.
//!
//! Hands out the timestamps of commits, and says when a commit is acknowledged and when a read may begin. The
//! *visible timestamp*, at which reads of the present are made, is kept in [`CommitsInFlight`]. They promise:
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
//! A commit takes its timestamp and is entered into the list of commits in flight under one lock, `last_taken`. The
//! oracle's timestamps ascend, and that is checked for all that were taken here, names included; so commits are
//! entered in the order of their timestamps, each commits after its transaction began, and what
//! is entered later has a timestamp after `newest`, the last one that was entered. The visible timestamp is the
//! one that was entered before the oldest commit in flight, or `newest` if there is none: 1 and 2 follow, whatever
//! the order in which commits end. It never goes back, because a commit is entered after `newest`, which is not
//! before the visible timestamp.
//!
//! So it is always the timestamp of a commit, or of the opening. Transactions in two phases have names, which
//! are other timestamps of the same oracle. The start of a transaction in one batch is no name.
//!
//! # When commits end
//!
//! The thread that leads a write group of the engine ends all commits of the group at once, after it has published
//! them and before their threads are told ([`StoreHook`](super::commit_hook::StoreHook)). So a commit usually
//! finds that it is visible when the engine's write returns, and neither takes a lock nor waits. A commit that failed,
//! or that the leader does not know of, ends itself: it leaves the list after its write has returned. If an older
//! commit is still in flight then, it waits (3). That is rare: the thread of the older one was stopped after it took
//! its timestamp and before it was in the engine's queue.
//!
//! The leader takes the lock of the list, and never `last_taken`: under that one, the oracle may write its lease, for
//! which it waits for the lead.
//!
//! # Commits whose timestamps others took
//!
//! The caller of [`Percolator::commit`](crate::Percolator::commit) brings a timestamp that it has from the oracle.
//! Such a commit is not in flight here, and 1 and 2 do not hold for it. Instead it has a lock on each of its keys
//! from before its timestamp was taken until it is published, and a reader that finds a lock settles with it:
//! see `resolver` and `docs/adr/0046-two-phases-and-snapshots.md`. 3 holds for it ([`CommitOrder::include`]).

use std::sync::Arc;

use parking_lot::Mutex;

use super::commits_in_flight::CommitsInFlight;
use super::wakeups::Wakeups;
use crate::error::{Error, Result};
use crate::oracle::TimestampOracle;
use crate::timestamp::Timestamp;

/// See the module.
pub(crate) struct CommitOrder {
    oracle: Arc<dyn TimestampOracle>,
    /// No later commit has a timestamp up to this one: the last that the oracle gave or that was included. Locked
    /// while a timestamp is taken and entered.
    last_taken: Mutex<Timestamp>,
    in_flight: Arc<CommitsInFlight>,
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
            last_taken: Mutex::new(newest),
            in_flight: Arc::new(CommitsInFlight::after(newest)),
        }
    }

    /// What wakes the sweeper.
    pub(crate) fn wake(&self) -> &Arc<Wakeups> {
        self.in_flight.wake()
    }

    /// The visible timestamp. Never waits.
    pub(crate) fn visible(&self) -> Timestamp {
        self.in_flight.visible()
    }

    /// Takes a timestamp for a commit. Waits for nothing but the oracle.
    ///
    /// # Errors
    /// Those of the oracle, and `Oracle` if its timestamps do not ascend.
    pub(crate) fn begin(&self) -> Result<InFlight<'_>> {
        let mut last = self.last_taken.lock();
        let commit = self.take_after(&mut last)?;
        self.in_flight.enter(commit);
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
    pub(crate) fn wait_for_commits(&self, at: Timestamp) -> Result<()> {
        self.check_handed_out(at)?;
        if at > self.visible() {
            self.in_flight.wait(at);
        }
        Ok(())
    }

    /// Checks that a timestamp that a caller gives was handed out. What commits later has a later one. Waits for
    /// nothing but the oracle.
    ///
    /// # Errors
    /// `InFuture`; those of the oracle.
    pub(crate) fn check_handed_out(&self, at: Timestamp) -> Result<()> {
        if at <= self.visible() {
            return Ok(());
        }
        // ORDER: under the lock, so that a commit that has a timestamp up to `at` is in the list.
        let mut last = self.last_taken.lock();
        if at > *last {
            // What the oracle hands out from here on is after `now`.
            let now = self.take_after(&mut last)?;
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
    pub(crate) fn next_timestamp(&self) -> Result<Timestamp> {
        self.take_after(&mut self.last_taken.lock())
    }

    /// Says that a commit has been published whose timestamp the oracle gave to the caller. Returns when reads
    /// of the present find it. It was not in flight: until it was published, readers found its locks.
    pub(crate) fn include(&self, commit: Timestamp) {
        {
            // ORDER: under the lock, so that no commit is entered later with a timestamp up to this one.
            let mut last = self.last_taken.lock();
            *last = commit.max(*last);
            self.in_flight.include(commit);
        }
        self.in_flight.wait(commit);
    }

    /// What ends commits when the engine has published them.
    pub(crate) fn commits_in_flight(&self) -> &Arc<CommitsInFlight> {
        &self.in_flight
    }

    /// The next timestamp, which is after `last` and takes its place.
    fn take_after(&self, last: &mut Timestamp) -> Result<Timestamp> {
        let next = self.oracle.next()?;
        if next <= *last {
            return Err(Error::oracle(match next == *last {
                true => format!("the oracle gave {next} twice"),
                false => format!("the oracle went back from {last} to {next}"),
            }));
        }
        *last = next;
        Ok(next)
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
            order.in_flight.wait(commit);
        }
        commit
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        // What is visible has been ended.
        if self.order.visible() < self.commit {
            self.order.in_flight.end(std::iter::once(self.commit));
        }
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
            while order.in_flight.len() == 2 {
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
        order.wait_for_commits(Timestamp(19)).unwrap();
        let (done, returned) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| done.send(order.wait_for_commits(Timestamp(25))).unwrap());
            for _ in 0..1000 {
                assert!(returned.try_recv().is_err());
                std::thread::yield_now();
            }
            drop(a);
            returned.recv().unwrap().unwrap();
        });
        let future = order.wait_for_commits(Timestamp(40));
        assert!(matches!(future, Err(Error::InFuture { now, .. }) if now == Timestamp(40)));
        drop(b);
    }

    #[test]
    fn a_commit_at_a_timestamp_of_the_caller_is_visible_before_later_ones_that_are_in_flight() {
        let order = order(&[10, 20, 30, 40]);
        let (_, given) = (
            order.next_timestamp().unwrap(),
            order.next_timestamp().unwrap(),
        );
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
            while !order.in_flight.has_waiting() {
                std::thread::yield_now();
            }
            assert_eq!(order.visible(), Timestamp(10));
            assert_eq!(in_flight.published(), Timestamp(20));
            included.join().unwrap();
        });
        assert_eq!(order.visible(), Timestamp(20));
    }

    #[test]
    fn no_commit_is_before_a_name_or_a_timestamp_that_was_found_to_be_handed_out() {
        let order = order(&[10, 50, 40, 60, 80, 75, 90]);
        let name = order.next_timestamp().unwrap();
        let back = order.begin().err().unwrap();
        assert!(matches!(back, Error::Oracle { .. }), "{back}");
        assert!(order.begin().unwrap().published() > name);
        order.wait_for_commits(Timestamp(70)).unwrap();
        let back = order.begin().err().unwrap();
        assert!(matches!(back, Error::Oracle { .. }), "{back}");
        assert_eq!(order.begin().unwrap().published(), Timestamp(90));
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
