//! The order in which commits become visible.
//!
//! Gives commits their timestamps, decides when a commit is acknowledged and when a read may begin.
//! [`CommitsInFlight`] keeps the *visible timestamp*, at which reads of the present are made.
//! Together they promise:
//!
//! 1. The engine has published every commit up to the visible timestamp, or the commit has failed.
//! 2. No later commit takes a timestamp up to it.
//! 3. A commit returns to its caller only when the visible timestamp has reached its own.
//!
//! By 1 and 2, reads at the visible timestamp always find the same, and need not wait. By 3, they
//! find every commit that was acknowledged before they began.
//!
//! # Proof
//!
//! Under one mutex, `last_taken`, a commit takes its timestamp and enters the list of commits in
//! flight. The order checks that the oracle's timestamps ascend, including those that identify
//! transactions. So commits enter in the order of their timestamps, each commits after its
//! transaction began, and each later entry has a timestamp after `newest`, the last one that was
//! entered. The visible timestamp is the entry before the oldest commit in flight, or `newest` if
//! none is in flight. This gives 1 and 2 for commits that end in any order. It never goes back: a
//! commit enters after `newest`, which is not before the visible timestamp.
//!
//! The visible timestamp is always that of a commit or of the opening. A transaction in two phases
//! is identified by another timestamp of the same oracle. The start of a transaction in one batch
//! identifies nothing.
//!
//! # The end of a commit
//!
//! The leader of a write group of the engine ends all commits of the group at once, after it has
//! published them and before their threads wake up ([`StoreHook`](super::commit_hook::StoreHook)).
//! So a commit usually finds itself visible when the engine's write returns, and neither locks nor
//! waits. A commit that failed, or that the leader does not know, leaves the list itself after its
//! write has returned. If an older commit is still in flight then, it waits (3). That is rare: the
//! older commit's thread stopped between taking its timestamp and entering the engine's queue.
//!
//! The leader locks the list, but never `last_taken`: under that mutex the oracle may write its
//! lease, and that write waits for the leader.
//!
//! # Commits with a caller's timestamp
//!
//! The caller of [`Percolator::commit`](crate::Percolator::commit) brings a timestamp of the
//! oracle. Such a commit is not in flight here, and 1 and 2 do not cover it. Instead each of its
//! keys has a lock from before the timestamp was taken until the commit is published, and a reader
//! that finds a lock resolves it: see `percolator` and `docs/adr/0046-two-phases-and-snapshots.md`.
//! 3 holds for it ([`CommitOrder::include`]).

use std::sync::Arc;

use parking_lot::Mutex;
use titan::invariant;

use super::commits_in_flight::CommitsInFlight;
use super::wakeups::Wakeups;
use crate::error::{Error, Result};
use crate::oracle::TimestampOracle;
use crate::timestamp::Timestamp;

/// The order of commits of a store.
pub(crate) struct CommitOrder {
    oracle: Arc<dyn TimestampOracle>,
    /// The last timestamp that the oracle gave, or that was included. Every later commit has a
    /// later one. Locked while a timestamp is taken and entered.
    last_taken: Mutex<Timestamp>,
    in_flight: Arc<CommitsInFlight>,
}

impl CommitOrder {
    /// The order after all commits of earlier openings.
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

    /// The sweeper's wake-ups.
    pub(crate) fn wake(&self) -> &Arc<Wakeups> {
        self.in_flight.wake()
    }

    /// The visible timestamp. Never waits.
    pub(crate) fn visible(&self) -> Timestamp {
        self.in_flight.visible()
    }

    /// Takes a timestamp for a commit. Waits only for the oracle.
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

    /// Returns when all commits up to `at` are published and no later commit can take a timestamp
    /// up to it. Waits only if `at` is after the visible timestamp and an earlier commit is in
    /// flight.
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

    /// Returns false if [`CommitOrder::wait_for_commits`] would wait for nothing now.
    pub(crate) fn may_wait(&self, at: Timestamp) -> bool {
        at > self.visible() && (self.in_flight.has_until(at) || self.oracle.may_wait())
    }

    /// Checks that the oracle has handed out a caller's timestamp, so that later commits have later
    /// ones. Waits only for the oracle.
    ///
    /// # Errors
    /// `InFuture`; those of the oracle.
    pub(crate) fn check_handed_out(&self, at: Timestamp) -> Result<()> {
        if at <= self.visible() {
            return Ok(());
        }
        // ORDER: under the mutex, so that every commit with a timestamp up to `at` is in the list.
        let mut last = self.last_taken.lock();
        if at > *last {
            // The oracle's next timestamps are after `now`.
            let now = self.take_after(&mut last)?;
            if at >= now {
                return Err(Error::InFuture { asked: at, now });
            }
        }
        Ok(())
    }

    /// A timestamp that no commit and no other caller has. It identifies a transaction.
    ///
    /// # Errors
    /// Those of the oracle, and `Oracle` if its timestamps do not ascend.
    pub(crate) fn next_timestamp(&self) -> Result<Timestamp> {
        self.take_after(&mut self.last_taken.lock())
    }

    /// Enters a published commit whose timestamp came from the caller. Returns when reads of the
    /// present find it. It was never in flight: before it was published, readers found its locks.
    pub(crate) fn include(&self, commit: Timestamp) {
        {
            // ORDER: under the mutex, so that no later commit enters with a timestamp up to this
            // one.
            let mut last = self.last_taken.lock();
            *last = commit.max(*last);
            self.in_flight.include(commit);
        }
        self.in_flight.wait(commit);
        let visible = self.visible();
        invariant!(visible >= commit, "{commit} is included at {visible}");
    }

    /// The commits in flight, for the commit hook.
    pub(crate) fn commits_in_flight(&self) -> &Arc<CommitsInFlight> {
        &self.in_flight
    }

    /// Takes the next timestamp and makes it the last one.
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

/// A commit in flight. Dropping it ends a commit that failed and wrote nothing.
pub(crate) struct InFlight<'a> {
    order: &'a CommitOrder,
    commit: Timestamp,
}

impl InFlight<'_> {
    /// The timestamp of the commit.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.commit
    }

    /// Ends a commit that the engine has published. Returns when reads of the present find it.
    pub(crate) fn published(self) -> Timestamp {
        let (order, commit) = (self.order, self.commit);
        drop(self);
        let early = mutant!(acknowledged_early);
        if order.visible() < commit && !early {
            order.in_flight.wait(commit);
        }
        let visible = order.visible();
        invariant!(visible >= commit, "{commit} is acknowledged at {visible}");
        commit
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        // A visible commit has ended.
        if self.order.visible() < self.commit {
            self.order.in_flight.end(std::iter::once(self.commit));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Hands out the given timestamps, last first.
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
            // Its thread has ended `b`. Without the wait it would return now.
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
        let in_flight = [19, 20, 25].map(|at| order.in_flight.has_until(Timestamp(at)));
        assert_eq!(in_flight, [false, true, true]);
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
