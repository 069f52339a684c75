//! The order in which the databases of an `Env` are served.
//!
//! The most urgent first: one that takes too much space, of several the one nearest its bound; then
//! one with memtables to flush; then one whose level 0 is long; then any other. Of equal ones, the
//! one that was served least recently. So that urgent ones do not starve the others, each
//! [`EACH`]th turn goes to the one that was served least recently, regardless of the others' needs.

use std::cmp::Reverse;

use crate::format::OpeningId;

/// Urgency of a database's jobs, the least urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Nothing suffers if they wait.
    #[default]
    Usual,
    /// Level 0 is half way to where it delays writes, or compactions delay or stop them.
    Level0,
    /// A memtable is to be flushed.
    Flush,
    /// Files are near their bound on space, or beyond it, or jobs lack room.
    Space,
}

/// Urgency of a database's jobs among those of others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Priority {
    pub(crate) class: Class,
    /// Excess of the files over their bound; see
    /// [`Bound::excess`](crate::gc::space::Bound::excess).
    pub(crate) excess: f64,
}

impl Priority {
    fn is_above(&self, other: &Priority) -> bool {
        match self.class.cmp(&other.class) {
            std::cmp::Ordering::Equal => {
                self.class == Class::Space && self.excess.total_cmp(&other.excess).is_gt()
            }
            order => order.is_gt(),
        }
    }
}

/// A database that may have something to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: OpeningId,
    pub(super) priority: Priority,
    /// The turn in which it was served last; 0 if it never was.
    pub(super) served: u64,
}

/// Each turn with a number that this divides goes to the least recently served.
pub(super) const EACH: u64 = 4;

/// The database whose turn it is, in the turn of this number.
pub(super) fn first(candidates: impl Iterator<Item = Candidate>, turn: u64) -> Option<OpeningId> {
    let is_for_all = turn.is_multiple_of(EACH) && !mutant!(urgent_databases_starve_others);
    let least_recent = |c: &Candidate| Reverse((c.served, c.id));
    let first = candidates.reduce(|first, next| {
        let is_before = match is_for_all {
            true => least_recent(&next) > least_recent(&first),
            false if next.priority.is_above(&first.priority) => true,
            false if first.priority.is_above(&next.priority) => false,
            false => least_recent(&next) > least_recent(&first),
        };
        match is_before {
            true => next,
            false => first,
        }
    });
    first.map(|first| first.id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(class: Class) -> Priority {
        Priority { class, excess: 0.0 }
    }

    /// Of databases that were opened in the order of their numbers.
    fn first_of(candidates: &[(u64, Priority, u64)], turn: u64) -> u64 {
        let mut numbers: Vec<u64> = candidates.iter().map(|(number, ..)| *number).collect();
        numbers.sort_unstable();
        let opened = numbers.into_iter().map(|number| (number, OpeningId::new()));
        let ids: BTreeMap<u64, OpeningId> = opened.collect();
        let candidates = candidates
            .iter()
            .map(|&(number, priority, served)| Candidate {
                id: ids[&number],
                priority,
                served,
            });
        let first = first(candidates, turn).unwrap();
        *ids.iter().find(|(_, id)| **id == first).unwrap().0
    }

    #[test]
    fn space_comes_first_then_flushes_then_level_0_then_the_least_recently_served() {
        let classes = [Class::Usual, Class::Level0, Class::Flush, Class::Space];
        for (less, more) in classes.iter().zip(&classes[1..]) {
            let candidates = [(1, of(*less), 1), (2, of(*more), 9)];
            assert_eq!(first_of(&candidates, 1), 2, "{less:?}, {more:?}");
        }
        for class in classes {
            assert_eq!(first_of(&[(1, of(class), 7), (2, of(class), 6)], 1), 2);
            assert_eq!(first_of(&[(2, of(class), 7), (1, of(class), 7)], 1), 1);
        }
        assert!(first([].into_iter(), 1).is_none());
    }

    #[test]
    fn the_database_nearest_its_bound_on_space_goes_first() {
        let near = |excess| Priority {
            class: Class::Space,
            excess,
        };
        let candidates = [(1, near(0.7), 1), (2, near(0.9), 9), (3, near(0.8), 0)];
        assert_eq!(first_of(&candidates, 1), 2);
        // Elsewhere space is no concern.
        let usual = |excess| Priority {
            class: Class::Flush,
            excess,
        };
        assert_eq!(first_of(&[(1, usual(0.1), 1), (2, usual(0.4), 9)], 1), 1);
    }

    /// Counts turns: a database that is urgent all the time, and fifty with one job each.
    #[test]
    fn one_loud_database_does_not_starve_fifty_quiet_ones() {
        let mut served = [0; 51];
        let mut waiting: Vec<u64> = (1..=50).collect();
        let mut turn = 0;
        while !waiting.is_empty() {
            turn += 1;
            let all = waiting.iter().chain([&0]).map(|&id| {
                let class = match id {
                    0 => Class::Space,
                    _ => Class::Usual,
                };
                (id, of(class), served[id as usize])
            });
            let next = first_of(&all.collect::<Vec<_>>(), turn);
            served[next as usize] = turn;
            waiting.retain(|id| *id != next);
            assert!(turn <= 51 * EACH, "{waiting:?} still wait");
        }
        assert!(served[0] > 0, "and it is served itself");
    }
}
