//! Commits that have a timestamp and have not ended, and the visible timestamp that follows from
//! them.
//!
//! `commit_order` has the proof. Assumes that commits enter in the order of their timestamps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};

use parking_lot::{Mutex, MutexGuard};
use titan::invariant;

use super::wakeups::Wakeups;
use crate::timestamp::Timestamp;

/// Yields of a waiting thread before it sleeps. It waits for a write of the engine, which takes
/// less time than waking a thread up.
const YIELDS: u32 = 100;

/// The commits in flight of a store.
pub(crate) struct CommitsInFlight {
    state: Mutex<State>,
    /// The visible timestamp. Changed only under the mutex.
    visible: AtomicU64,
    /// Raised after each commit.
    wake: Arc<Wakeups>,
}

struct State {
    /// The last timestamp that was entered.
    newest: Timestamp,
    /// In the order of timestamps. The first commit has not ended.
    commits: VecDeque<Commit>,
    /// Threads that sleep until no commit up to a timestamp is in flight.
    waiting: Vec<(Timestamp, Thread)>,
}

struct Commit {
    at: Timestamp,
    /// The timestamp that was entered before this one.
    before: Timestamp,
    has_ended: bool,
}

impl State {
    /// Returns true if no commit up to `at` is in flight.
    fn have_ended_until(&self, at: Timestamp) -> bool {
        self.commits.front().is_none_or(|oldest| oldest.at > at)
    }

    fn end(&mut self, commit: Timestamp) {
        if let Ok(place) = self.commits.binary_search_by_key(&commit, |other| other.at)
            && let Some(commit) = self.commits.get_mut(place)
        {
            commit.has_ended = true;
        }
        while self.commits.front().is_some_and(|oldest| oldest.has_ended) {
            self.commits.pop_front();
        }
    }

    /// Takes out the threads whose wait is over.
    fn take_ready(&mut self) -> Vec<(Timestamp, Thread)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let (ready, left) = waiting
            .into_iter()
            .partition(|(at, _)| self.have_ended_until(*at));
        self.waiting = left;
        ready
    }
}

impl CommitsInFlight {
    /// An empty list, after all commits up to `newest`.
    pub(crate) fn after(newest: Timestamp) -> Self {
        CommitsInFlight {
            state: Mutex::new(State {
                newest,
                commits: VecDeque::new(),
                waiting: Vec::new(),
            }),
            visible: AtomicU64::new(newest.0),
            wake: Arc::default(),
        }
    }

    /// The sweeper's wake-ups.
    pub(crate) fn wake(&self) -> &Arc<Wakeups> {
        &self.wake
    }

    /// The visible timestamp. Never waits.
    pub(crate) fn visible(&self) -> Timestamp {
        // ORDER: acquires what was published before the timestamp was stored.
        Timestamp(self.visible.load(Ordering::Acquire))
    }

    /// Returns true if a commit up to `at` is in flight.
    pub(crate) fn has_until(&self, at: Timestamp) -> bool {
        !self.state.lock().have_ended_until(at)
    }

    /// Adds the newest commit.
    pub(crate) fn enter(&self, commit: Timestamp) {
        let mut state = self.state.lock();
        let newest = state.newest;
        invariant!(newest < commit, "commit {commit} enters after {newest}");
        let before = std::mem::replace(&mut state.newest, commit);
        state.commits.push_back(Commit {
            at: commit,
            before,
            has_ended: false,
        });
    }

    /// Enters a commit that has ended.
    pub(crate) fn include(&self, commit: Timestamp) {
        let mut state = self.state.lock();
        state.newest = state.newest.max(commit);
        let later = state.commits.partition_point(|other| other.at <= commit);
        if let Some(next) = state.commits.get_mut(later) {
            next.before = next.before.max(commit);
        }
        self.update_visible(&state);
    }

    /// Removes commits that have been published or have failed.
    pub(crate) fn end(&self, commits: impl Iterator<Item = Timestamp>) {
        let mut state = self.state.lock();
        if mutant!(groups_end_all) {
            state.commits.clear();
        }
        commits.for_each(|commit| state.end(commit));
        self.update_visible(&state);
        let ready = state.take_ready();
        drop(state);
        ready.iter().for_each(|(_, thread)| thread.unpark());
    }

    /// Updates the visible timestamp.
    fn update_visible(&self, state: &State) {
        let oldest = state.commits.front();
        let oldest = oldest.filter(|_| !mutant!(visible_before_older_commits));
        let visible = oldest.map_or(state.newest, |oldest| oldest.before);
        let was = self.visible.load(Ordering::Relaxed);
        invariant!(was <= visible.0, "{visible} is visible after {was}");
        invariant!(
            oldest.is_none_or(|oldest| !oldest.has_ended && visible < oldest.at),
            "{visible} is visible before an older commit has ended"
        );
        // ORDER: releases the engine's publication of all commits up to here: each of them ended
        // under the mutex after that.
        self.visible.store(visible.0, Ordering::Release);
        self.wake.on_commit();
    }

    /// Returns when no commit up to `at` is in flight. The end of the last such commit wakes a
    /// sleeping thread once.
    pub(crate) fn wait(&self, at: Timestamp) {
        for _ in 0..YIELDS {
            if self.state.lock().have_ended_until(at) {
                return;
            }
            thread::yield_now();
        }
        gate!("order: waits");
        self.sleep(self.state.lock(), at);
    }

    fn sleep<'s>(&'s self, mut state: MutexGuard<'s, State>, at: Timestamp) {
        while !state.have_ended_until(at) {
            state.waiting.push((at, thread::current()));
            drop(state);
            thread::park();
            state = self.state.lock();
            // After a spurious wakeup the entry is still there.
            let own = thread::current().id();
            state.waiting.retain(|(_, thread)| thread.id() != own);
        }
    }

    /// Returns true if a thread sleeps until commits end.
    #[cfg(test)]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// The number of commits in flight.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        state.commits.iter().filter(|it| !it.has_ended).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(commits: &[u64]) -> CommitsInFlight {
        let in_flight = CommitsInFlight::after(Timestamp(1));
        for commit in commits {
            in_flight.enter(Timestamp(*commit));
        }
        in_flight
    }

    #[test]
    fn a_group_ends_its_own_commits_in_any_order() {
        let in_flight = entered(&[10, 20, 30, 40, 50]);
        in_flight.end([40, 10].map(Timestamp).into_iter());
        assert_eq!((in_flight.visible(), in_flight.len()), (Timestamp(10), 3));
        in_flight.end([30, 20].map(Timestamp).into_iter());
        assert_eq!((in_flight.visible(), in_flight.len()), (Timestamp(40), 1));
        // A commit may end twice.
        in_flight.end([10, 40].map(Timestamp).into_iter());
        assert_eq!((in_flight.visible(), in_flight.len()), (Timestamp(40), 1));
        in_flight.end([Timestamp(50)].into_iter());
        assert_eq!((in_flight.visible(), in_flight.len()), (Timestamp(50), 0));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "commit 20 enters after 30")]
    fn a_commit_that_enters_out_of_order_is_a_bug() {
        entered(&[10, 30, 20]);
    }

    #[test]
    fn the_visible_timestamp_is_right_whatever_ends_when() {
        for seed in 0..500 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let in_flight = entered(&[]);
            let (mut all, mut open, mut next) = (vec![1], Vec::new(), 2);
            for _ in 0..100 {
                match rng.u8(..4) {
                    0 | 1 => {
                        in_flight.enter(Timestamp(next));
                        open.push(next);
                        all.push(next);
                    }
                    2 => {
                        in_flight.include(Timestamp(next));
                        all.push(next);
                    }
                    _ => {
                        let ended: Vec<u64> = open.iter().copied().filter(|_| rng.bool()).collect();
                        open.retain(|commit| !ended.contains(commit));
                        in_flight.end(ended.into_iter().map(Timestamp));
                        let oldest = open.first().copied().unwrap_or(u64::MAX);
                        let visible = all.iter().copied().filter(|commit| *commit < oldest);
                        let visible = visible.max().map(Timestamp);
                        assert_eq!(Some(in_flight.visible()), visible, "seed {seed}");
                    }
                }
                next += rng.u64(1..5);
            }
        }
    }
}
