//! The timestamps at which a root answers.
//!
//! A root answers at every timestamp from its safe point on, and at single earlier ones that
//! readers use. Versions are pruned by this set. The pruned content carries the set, in one object
//! that only gains newer versions. So a reader that finds its timestamp in the set finds all
//! versions that it needs, and need not announce itself.

use std::sync::Arc;

use titan_mvcc::Timestamp;

/// A set of timestamps. Clones are cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timestamps {
    /// The safe point of the content: this timestamp and all later ones are in the set.
    from: Timestamp,
    /// Earlier timestamps in the set. Descending.
    readers: Arc<[Timestamp]>,
}

impl Timestamps {
    /// All timestamps from `from` on, and the earlier ones of `readers`, which are in any order.
    pub(crate) fn new(from: Timestamp, readers: impl IntoIterator<Item = Timestamp>) -> Self {
        let mut readers: Vec<Timestamp> = readers.into_iter().filter(|at| *at < from).collect();
        readers.sort_unstable_by(|a, b| b.cmp(a));
        readers.dedup();
        Timestamps {
            from,
            readers: readers.into(),
        }
    }

    pub(crate) fn from(&self) -> Timestamp {
        self.from
    }

    /// The timestamps before `from`, the latest first.
    pub(crate) fn readers(&self) -> &[Timestamp] {
        &self.readers
    }

    pub(crate) fn has(&self, at: Timestamp) -> bool {
        at >= self.from || self.readers.binary_search_by(|r| at.cmp(r)).is_ok()
    }

    /// The timestamps that are in both sets.
    pub(crate) fn narrowed(&self, other: &Timestamps) -> Timestamps {
        let from = self.from.max(other.from);
        if from == self.from && self.readers.is_empty() {
            return self.clone();
        }
        let readers = self.readers.iter().chain(&*other.readers);
        Timestamps::new(
            from,
            readers.copied().filter(|at| {
                self.has(*at) && other.has(*at) || mutant!(narrowed_keeps_all_readers)
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_leaves_what_both_sets_have() {
        for seed in 0..2_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut some = || {
                let readers: Vec<_> = (0..rng.usize(..4))
                    .map(|_| Timestamp(rng.u64(..20)))
                    .collect();
                Timestamps::new(Timestamp(rng.u64(..20)), readers)
            };
            let (a, b) = (some(), some());
            let both = a.narrowed(&b);
            for at in (0..25).map(Timestamp) {
                assert_eq!(both.has(at), a.has(at) && b.has(at), "seed {seed}, {at}");
            }
        }
    }
}
