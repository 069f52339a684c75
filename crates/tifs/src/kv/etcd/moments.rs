//! The revisions that this process reads at. Those behind the oldest one can be dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use titan::invariant;

use super::clock::now;

/// The revisions that are read at.
#[derive(Default)]
pub(super) struct Moments(Mutex<State>);

#[derive(Default)]
struct State {
    /// The latest one that this process knows. All that it has committed is there.
    latest: i64,
    /// The number of reads at each revision.
    open: BTreeMap<i64, usize>,
    /// Revisions and when each was the latest, the oldest first.
    past: VecDeque<(Duration, i64)>,
}

impl Moments {
    /// Notes a revision that the cluster has reached.
    pub(super) fn reached(&self, revision: i64) {
        let mut state = self.0.lock();
        state.latest = state.latest.max(revision);
    }

    /// Reads at the latest revision begin.
    pub(super) fn open(self: &Arc<Self>) -> Moment {
        let mut state = self.0.lock();
        let revision = state.latest;
        *state.open.entry(revision).or_default() += 1;
        Moment {
            moments: Arc::clone(self),
            revision,
        }
    }

    /// The oldest revision that is read at, or the latest one.
    pub(super) fn oldest(&self) -> i64 {
        let state = self.0.lock();
        state
            .open
            .keys()
            .next()
            .map_or(state.latest, |first| *first)
    }

    /// The latest revision that is as old, and not read at. 0 if there is none.
    pub(super) fn droppable(&self, age: Duration) -> i64 {
        let mut state = self.0.lock();
        let (latest, time) = (state.latest, now());
        state.past.push_back((time, latest));
        let is_old = |(noted, _): &(Duration, i64)| time.saturating_sub(*noted) >= age;
        // The last old one stays: nothing newer is as old.
        while state.past.get(1).is_some_and(is_old) {
            state.past.pop_front();
        }
        let old = state.past.front().filter(|noted| is_old(noted));
        let old = old.map_or(0, |(_, revision)| *revision);
        let oldest = state.open.keys().next().map_or(latest, |first| *first);
        old.min(oldest)
    }
}

/// Reads at a revision, until this is dropped.
pub(super) struct Moment {
    moments: Arc<Moments>,
    pub(super) revision: i64,
}

impl Drop for Moment {
    fn drop(&mut self) {
        let mut state = self.moments.0.lock();
        let count = state.open.get_mut(&self.revision);
        invariant!(count.is_some(), "revision {} is not read at", self.revision);
        if let Some(count) = count {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.revision);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_droppable_that_is_read_at_or_is_young() {
        let moments = Arc::new(Moments::default());
        moments.reached(7);
        assert_eq!(moments.droppable(Duration::from_secs(3600)), 0);
        let first = moments.open();
        moments.reached(9);
        moments.reached(8);
        let second = moments.open();
        assert_eq!((first.revision, second.revision), (7, 9));
        assert_eq!(moments.droppable(Duration::ZERO), 7);
        drop(first);
        assert_eq!(moments.droppable(Duration::ZERO), 9);
        drop(second);
        assert_eq!(moments.droppable(Duration::ZERO), 9);
    }
}
