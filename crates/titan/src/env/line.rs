//! The databases that wait for the threads of one kind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::order::{Candidate, Priority, first};
use crate::format::OpeningId;

/// See the module.
#[derive(Default)]
pub(super) struct Line {
    /// Those that may have something to do.
    ready: BTreeSet<OpeningId>,
    /// Those that may have something to do at a time.
    timers: BTreeMap<OpeningId, Duration>,
    /// Number of threads that serve a database now.
    inside: BTreeMap<OpeningId, usize>,
    /// The turn in which each was served last.
    served: BTreeMap<OpeningId, u64>,
    turns: u64,
    /// Numbers of the threads that there are.
    pub(super) threads: BTreeSet<usize>,
}

impl Line {
    /// It may have something to do. A timer is over.
    pub(super) fn raise(&mut self, id: OpeningId) {
        self.ready.insert(id);
        self.timers.remove(&id);
    }

    /// It may have something to do at `at`.
    pub(super) fn raise_at(&mut self, id: OpeningId, at: Duration) {
        let at = self.timers.get(&id).map_or(at, |other| at.min(*other));
        self.timers.insert(id, at);
    }

    /// The databases whose time has come may have something to do.
    pub(super) fn advance_to(&mut self, now: Duration) {
        let due = self.timers.extract_if(.., |_, at| *at <= now);
        self.ready.extend(due.map(|(id, _)| id));
    }

    /// The time at which the next one may have something to do.
    pub(super) fn next_timer(&self) -> Option<Duration> {
        self.timers.values().min().copied()
    }

    /// Takes the database whose turn it is, of those that `may_be_served` by so many threads. It
    /// counts as served until [`Line::leave`].
    pub(super) fn enter(
        &mut self,
        mut may_be_served: impl FnMut(OpeningId, usize) -> Option<Priority>,
    ) -> Option<OpeningId> {
        let candidates = self.ready.iter().filter_map(|id| {
            let priority = may_be_served(*id, self.inside_of(*id))?;
            Some(Candidate {
                id: *id,
                priority,
                served: self.served.get(id).copied().unwrap_or_default(),
            })
        });
        let id = first(candidates, self.turns + 1)?;
        self.turns += 1;
        self.ready.remove(&id);
        self.served.insert(id, self.turns);
        *self.inside.entry(id).or_default() += 1;
        Some(id)
    }

    /// A thread has served the database.
    pub(super) fn leave(&mut self, id: OpeningId) {
        let inside = self.inside.entry(id).or_default();
        invariant!(
            *inside > 0,
            "a thread leaves a database that it did not serve"
        );
        *inside -= 1;
        if *inside == 0 {
            self.inside.remove(&id);
        }
    }

    /// Number of threads that serve the database.
    pub(super) fn inside_of(&self, id: OpeningId) -> usize {
        self.inside.get(&id).copied().unwrap_or_default()
    }

    /// Whether the database waits, now or for a time.
    pub(super) fn has(&self, id: OpeningId) -> bool {
        self.ready.contains(&id) || self.timers.contains_key(&id)
    }

    /// Whether any database waits, now or for a time.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.timers.is_empty()
    }

    /// Those that may have something to do.
    pub(super) fn ready(&self) -> impl Iterator<Item = OpeningId> {
        self.ready.iter().copied()
    }

    /// The database has nothing to do any more.
    pub(super) fn remove(&mut self, id: OpeningId) {
        self.ready.remove(&id);
        self.timers.remove(&id);
        self.served.remove(&id);
    }
}
