//! Counters of the store and the cache, as sums over several openings.

use titan_ime::ReadSums;
use titan_mvcc::ReadStats;

use super::variants::Opened;

/// Where reads were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// From memory.
    pub(super) hits: u64,
    /// By the engine: the range is not held.
    pub(super) not_held: u64,
    /// By the engine: what is held is too new.
    pub(super) too_old: u64,
    /// By the engine: it is being loaded, or measured, or values are large.
    pub(super) others: u64,
}

/// All that is counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) reads: ReadStats,
    pub(super) points: Answers,
    pub(super) parts: Answers,
    /// Bytes that the cache has charged now.
    pub(super) held_bytes: u64,
}

impl From<ReadSums> for Answers {
    fn from(sums: ReadSums) -> Self {
        Answers {
            hits: sums.hits + sums.hits_nothing,
            not_held: sums.not_held,
            too_old: sums.too_old,
            others: sums.not_ready + sums.not_applied + sums.off + sums.measured + sums.stored,
        }
    }
}

impl Answers {
    /// The share that memory answered; 0 if there was nothing to answer.
    pub(super) fn hit_ratio(self) -> f64 {
        let all = self.hits + self.not_held + self.too_old + self.others;
        self.hits as f64 / all.max(1) as f64
    }

    fn with(self, other: Answers, f: fn(u64, u64) -> u64) -> Self {
        Answers {
            hits: f(self.hits, other.hits),
            not_held: f(self.not_held, other.not_held),
            too_old: f(self.too_old, other.too_old),
            others: f(self.others, other.others),
        }
    }
}

impl Counters {
    /// Counts of this opening.
    pub(super) fn of(opened: &Opened) -> Self {
        let reads = opened.store().read_stats();
        let Some(cache) = opened.cache() else {
            return Counters {
                reads,
                ..Counters::default()
            };
        };
        let stats = cache.stats();
        Counters {
            reads,
            points: stats.points.into(),
            parts: stats.parts.into(),
            held_bytes: stats.memory_used,
        }
    }

    /// The sums with those of an earlier opening.
    pub(super) fn after(self, earlier: Counters) -> Self {
        let mut reads = self.reads;
        reads += earlier.reads;
        Counters {
            reads,
            points: self.points.with(earlier.points, u64::wrapping_add),
            parts: self.parts.with(earlier.parts, u64::wrapping_add),
            held_bytes: self.held_bytes,
        }
    }

    /// Counts since an earlier moment.
    pub(super) fn since(self, before: Counters) -> Self {
        let mut reads = self.reads;
        reads.next -= before.reads.next.min(reads.next);
        reads.prev -= before.reads.prev.min(reads.prev);
        reads.seek -= before.reads.seek.min(reads.seek);
        reads.processed -= before.reads.processed.min(reads.processed);
        Counters {
            reads,
            points: self.points.with(before.points, u64::saturating_sub),
            parts: self.parts.with(before.parts, u64::saturating_sub),
            held_bytes: self.held_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_on_over_an_opening() {
        let mut first = Counters::default();
        (first.reads.next, first.parts.hits, first.held_bytes) = (5, 3, 100);
        let mut second = Counters::default();
        (second.reads.next, second.parts.hits, second.parts.not_held) = (2, 1, 1);
        let sum = second.after(first);
        assert_eq!((sum.reads.next, sum.parts.hits, sum.held_bytes), (7, 4, 0));
        let since = sum.since(first);
        assert_eq!((since.reads.next, since.parts), (2, second.parts));
        assert_eq!(since.parts.hit_ratio(), 0.5);
        assert_eq!(Answers::default().hit_ratio(), 0.0);
    }
}
