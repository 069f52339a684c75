//! At which timestamps a copy can answer.
//!
//! Owns the set: everything from a moment on, and single timestamps before it at which reads are alive. Versions
//! are pruned by a set, and what is pruned carries the set, in one object, to which only newer versions are added. So a reader that finds its
//! timestamp in the set finds all that it needs beside it, whatever is pruned meanwhile, and no reader has to
//! announce itself first.

use std::sync::Arc;

use titan_mvcc::Timestamp;

/// See the module. Clones are cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timestamps {
    /// The copy's own safe point: this timestamp and all later ones are served.
    from: Timestamp,
    /// Those before it that are served too. Descending.
    readers: Arc<[Timestamp]>,
}

impl Timestamps {
    /// From a moment on, and at these timestamps before it, in any order.
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
            readers
                .copied()
                .filter(|at| self.has(*at) && other.has(*at)),
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
