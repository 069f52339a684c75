//! Which owner waits for which others, and the circles in that.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::request::{LockKey, OwnerId};
use crate::format::key_text::KeyText;

/// Locks for which an owner waits.
pub(super) struct Waiting {
    pub(super) key: LockKey,
    /// The name of the key's family, for messages.
    pub(super) family: String,
    /// The owners that have the key locked.
    pub(super) blockers: Vec<OwnerId>,
}

/// All owners that wait.
#[derive(Default)]
pub(super) struct Waits(HashMap<OwnerId, Waiting>);

impl Waits {
    /// Notes the wait of `owner`, in place of its previous wait.
    pub(super) fn begin(&mut self, owner: OwnerId, waiting: Waiting) {
        invariant!(
            !waiting.blockers.contains(&owner),
            "a transaction waits for itself"
        );
        self.0.insert(owner, waiting);
    }

    /// Notes that `owner` waits no longer.
    pub(super) fn end(&mut self, owner: OwnerId) {
        self.0.remove(&owner);
    }

    /// Notes that `owner` has released `key`: nothing waits for it there from now on. Those that
    /// waited may not have looked yet, and must not be taken for a part of a circle.
    pub(super) fn released(&mut self, owner: OwnerId, key: &LockKey) {
        if mutant!(released_lock_still_blocks) {
            return;
        }
        for waiting in self.0.values_mut().filter(|waiting| waiting.key == *key) {
            waiting.blockers.retain(|blocker| *blocker != owner);
        }
    }

    /// The circle through `owner`, if there is one, as a text.
    pub(super) fn circle_through(&self, owner: OwnerId) -> Option<String> {
        if mutant!(deadlock_not_seen) {
            return None;
        }
        let circle = self.path_back_to(owner)?;
        let mut text = String::new();
        for (at, member) in circle.iter().enumerate() {
            let (Some(waiting), Some(next)) =
                (self.0.get(member), circle.get((at + 1) % circle.len()))
            else {
                continue;
            };
            let separator = if at == 0 { "" } else { "; " };
            let (key, family) = (KeyText(waiting.key.key()), &waiting.family);
            let _ = write!(
                text,
                "{separator}transaction {} waits for the key {key} of column family {family}, \
                 which transaction {} has locked",
                member.0, next.0
            );
        }
        Some(text)
    }

    /// The owners on a path from `owner` to itself, each waiting for the next.
    fn path_back_to(&self, owner: OwnerId) -> Option<Vec<OwnerId>> {
        let mut seen = HashSet::new();
        // A path, and for each of its members the blockers that were not tried yet.
        let mut path = vec![owner];
        let mut untried = vec![self.blockers(owner)];
        while let Some(next) = untried.last_mut() {
            match next.pop() {
                Some(blocker) if blocker == owner => return Some(path),
                Some(blocker) => {
                    if seen.insert(blocker) {
                        path.push(blocker);
                        untried.push(self.blockers(blocker));
                    }
                }
                None => {
                    path.pop();
                    untried.pop();
                }
            }
        }
        None
    }

    fn blockers(&self, owner: OwnerId) -> Vec<OwnerId> {
        let waiting = self.0.get(&owner);
        waiting.map_or(Vec::new(), |waiting| waiting.blockers.clone())
    }
}
