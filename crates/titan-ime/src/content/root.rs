//! The content of a segment at one moment: leaves in order, and the timestamps at which they
//! answer.
//!
//! A write goes to the tail of its leaf. If the tail is full, a new root gets the leaf anew and
//! shares the others. The leaves of a root and its timestamps never change; its leaves only gain
//! newer versions. So a reader with a root has the segment as of one moment or later, and needs no
//! lock.

use std::sync::Arc;

use titan_mvcc::Timestamp;

use crate::content::keys::Keys;
use crate::content::leaf::{Leaf, Rows};
use crate::content::memory::{BLOCK, Budget, Charge};
use crate::content::tail::Entries;
use crate::content::timestamps::Timestamps;
use crate::content::versions::{self, Seen, Version};
use crate::content::view::View;
use crate::content::write::Write;

/// A row with more versions is pruned beyond the cache's safe point.
const LONGEST_CHAIN: usize = 32;

/// The leaves and their timestamps.
pub(crate) struct Root {
    pub(crate) served: Timestamps,
    pub(crate) leaves: Vec<Arc<Leaf>>,
    /// The first keys of the leaves.
    firsts: Keys,
    /// Bytes of the leaves when it was made.
    pub(crate) bytes: usize,
    _charge: Charge,
}

/// The limits of pruning, by the store's readers at the last pass of maintenance.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Timestamps that are kept as long as memory allows.
    pub(crate) kept: Timestamps,
    /// Timestamps that readers need. A long chain is pruned to these.
    pub(crate) needed: Timestamps,
}

impl Root {
    pub(crate) fn new(served: Timestamps, leaves: Vec<Arc<Leaf>>, budget: &Arc<Budget>) -> Self {
        let bytes = leaves.iter().map(|leaf| leaf.bytes()).sum();
        let firsts = Keys::new(leaves.iter().map(|leaf| leaf.first_key()));
        let heap = firsts.heap_bytes() + size_of_val(&*leaves);
        let own = size_of::<Root>() + 16 + 4 * BLOCK + heap;
        Root {
            served,
            bytes,
            firsts,
            leaves,
            _charge: Charge::new(budget, own),
        }
    }

    /// The answer for a key at a timestamp, which must be in the root's set.
    pub(crate) fn get(&self, key: &[u8], at: Timestamp) -> Seen<'_> {
        match self.leaves.get(self.leaf_of(key)) {
            Some(leaf) => View::new(leaf).get(key, at),
            None => Seen::Nothing,
        }
    }

    /// The leaf that has a key, or would get it.
    pub(crate) fn leaf_of(&self, key: &[u8]) -> usize {
        self.firsts.up_to(key).saturating_sub(1)
    }

    /// The content with versions added, as by [`Root::add`].
    pub(crate) fn with(self, writes: &[Write<'_>], target: &Target, budget: &Arc<Budget>) -> Root {
        self.add(writes, target, budget).unwrap_or(self)
    }

    /// Adds versions, in the order of their keys. If a tail has no room, returns the content that
    /// must replace this one; the leaves made anew are pruned. Called by one thread at a time.
    pub(crate) fn add(
        &self,
        writes: &[Write<'_>],
        target: &Target,
        budget: &Arc<Budget>,
    ) -> Option<Root> {
        let mut served = None;
        let mut leaves = Vec::new();
        let mut copied = 0;
        let mut rest = writes;
        while let Some(first) = rest.first() {
            let n = self.leaf_of(first.key);
            let next = self.firsts.get(n + 1);
            let in_leaf = match next {
                Some(next) => rest.partition_point(|write| write.key < next),
                None => rest.len(),
            };
            let (these, others) = rest.split_at(in_leaf);
            rest = others;
            let leaf = self.leaves.get(n).map(|leaf| &**leaf);
            if leaf.is_some_and(|leaf| leaf.append(these, budget)) {
                continue;
            }
            let served = served.get_or_insert_with(|| {
                leaves.reserve(self.leaves.len() + 1);
                self.served.narrowed(&target.kept)
            });
            leaves.extend_from_slice(self.leaves.get(copied..n).unwrap_or_default());
            let rows = rebuild(leaf, these, served, target, budget);
            rows.into_leaves(budget, &mut leaves);
            copied = n + 1;
        }
        let mut served = served?;
        leaves.extend_from_slice(self.leaves.get(copied..).unwrap_or_default());
        if mutant!(pruned_and_still_served) {
            served = self.served.clone();
        }
        Some(Root::new(served, leaves, budget))
    }

    /// The content after a sweep of up to `most` leaves from number `first` on: pruned, small
    /// leaves joined, idle tails merged. None if nothing would change.
    pub(crate) fn swept(
        &self,
        first: usize,
        most: usize,
        kept: &Timestamps,
        budget: &Arc<Budget>,
    ) -> Option<Root> {
        let end = (first + most).min(self.leaves.len());
        let window = self.leaves.get(first..end).unwrap_or_default();
        let is_small = window
            .windows(2)
            .any(|pair| pair[0].is_small() && pair[1].is_small());
        let served = self.served.narrowed(kept);
        let is_due: Vec<bool> = window
            .iter()
            .map(|leaf| leaf.has_idle_tail() || View::new(leaf).has_prunable(&served))
            .collect();
        if !is_small && !is_due.contains(&true) {
            return None;
        }
        let mut leaves = self.leaves.get(..first).unwrap_or_default().to_vec();
        let mut rows = Rows::default();
        for (leaf, is_due) in window.iter().zip(is_due) {
            if !leaf.is_small() && !is_due {
                std::mem::take(&mut rows).into_leaves(budget, &mut leaves);
                leaves.push(Arc::clone(leaf));
                continue;
            }
            for row in View::new(leaf).forward(&[]) {
                let mut versions = row.versions();
                versions::prune(&mut versions, &served);
                rows.push(row.key, &versions, budget);
                if rows.is_enough() {
                    std::mem::take(&mut rows).into_leaves(budget, &mut leaves);
                }
            }
        }
        rows.into_leaves(budget, &mut leaves);
        leaves.extend_from_slice(self.leaves.get(end..).unwrap_or_default());
        if mutant!(swept_and_still_served) {
            return Some(Root::new(self.served.clone(), leaves, budget));
        }
        Some(Root::new(served, leaves, budget))
    }
}

/// The rows of a leaf and its tail with versions added. Narrows `served` if a chain gets too long.
fn rebuild(
    leaf: Option<&Leaf>,
    writes: &[Write<'_>],
    served: &mut Timestamps,
    target: &Target,
    budget: &Arc<Budget>,
) -> Rows {
    let is_lost = mutant!(tail_is_lost);
    let tail = leaf.filter(|_| !is_lost).map(|leaf| leaf.tail());
    let mut all: Vec<Write<'_>> = Entries::of(tail.flatten()).writes().collect();
    all.extend_from_slice(writes);
    // Stable: those of a key stay in the order in which they were written.
    all.sort_by_key(|write| write.key);
    let writes = &*all;
    let more: usize = writes.iter().map(Write::len).sum();
    let mut rows = match leaf {
        Some(leaf) => Rows::for_leaf(leaf, writes.len(), more),
        None => Rows::default(),
    };
    let mut n = 0;
    let mut rest = writes;
    while let Some(first) = rest.first() {
        let key = first.key;
        let mut versions = Vec::new();
        if let Some(leaf) = leaf {
            let at = leaf.rank(key);
            rows.push_rows(leaf, n..at);
            n = at;
            if n < leaf.len() && leaf.row(n).key == key {
                versions = leaf.row(n).versions();
                n += 1;
            }
        }
        let of_key = rest.iter().take_while(|write| write.key == key).count();
        let (these, others) = rest.split_at(of_key);
        for write in these {
            versions::add(&mut versions, write.version());
            // Each is inserted before all others, so there must not be thousands of them.
            if versions.len() > 4 * LONGEST_CHAIN {
                prune(&mut versions, served, target);
            }
        }
        prune(&mut versions, served, target);
        rows.push(key, &versions, budget);
        rest = others;
    }
    if let Some(leaf) = leaf {
        rows.push_rows(leaf, n..leaf.len());
    }
    rows
}

/// Prunes the versions of a key. If many remain, prunes to the readers' timestamps of the last
/// pass; if still many remain, to the newest half and those readers. Narrows `served` accordingly.
fn prune(versions: &mut Vec<Version>, served: &mut Timestamps, target: &Target) {
    versions::prune(versions, served);
    if versions.len() <= LONGEST_CHAIN {
        return;
    }
    *served = served.narrowed(&target.needed);
    versions::prune(versions, served);
    if versions.len() > LONGEST_CHAIN
        && let Some(middle) = versions.get(LONGEST_CHAIN / 2)
    {
        let readers = target.needed.readers().iter().copied();
        *served = served.narrowed(&Timestamps::new(middle.commit, readers));
        versions::prune(versions, served);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::content::versions::LARGEST_INLINE;
    use crate::content::write::NewValue;

    type Model = BTreeMap<Vec<u8>, Vec<(u64, Option<Vec<u8>>)>>;

    fn expected<'m>(model: &'m Model, key: &[u8], at: u64) -> Option<&'m [u8]> {
        let versions = model.get(key)?.iter().rev();
        let mut found = versions.filter(|(commit, _)| *commit <= at);
        found.next()?.1.as_deref()
    }

    fn check(root: &Root, model: &Model, now: u64, what: &str) {
        for key in model.keys() {
            for at in (0..=now).filter(|at| root.served.has(Timestamp(*at))) {
                let found = match root.get(key, Timestamp(at)) {
                    Seen::Value(value) => Some(value),
                    Seen::Stored(_) => Some(&b"stored"[..]),
                    Seen::Nothing => None,
                };
                let expected = expected(model, key, at);
                let expected = expected.map(|v| {
                    if v.len() > LARGEST_INLINE {
                        b"stored"
                    } else {
                        v
                    }
                });
                assert_eq!(
                    found, expected,
                    "{what}, {key:?} at {at}, {:?}",
                    root.served
                );
            }
        }
        let bytes: usize = root.leaves.iter().map(|leaf| leaf.bytes()).sum();
        // Tails have grown since.
        assert!(bytes >= root.bytes);
        assert!(root.leaves.iter().all(|leaf| leaf.len() > 0));
        let firsts: Vec<_> = root.leaves.iter().map(|leaf| leaf.first_key()).collect();
        assert!(firsts.is_sorted(), "{what}");
    }

    #[test]
    fn what_is_served_is_found_whatever_is_written_and_pruned() {
        for seed in 0..60 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let budget = Arc::new(Budget::new(usize::MAX));
            let everything = Timestamps::new(Timestamp(0), []);
            let mut target = Target {
                kept: everything.clone(),
                needed: everything.clone(),
            };
            let mut root = Root::new(everything, Vec::new(), &budget);
            let mut model = Model::new();
            let keys = [3, 40, 400][rng.usize(..3)];
            for now in 1..150 {
                let mut group = Vec::new();
                for _ in 0..rng.usize(1..6) {
                    let key = rng.u32(..keys).to_be_bytes().to_vec();
                    let len = [0, 5, 100, 300][rng.usize(..4)];
                    let value = rng.bool().then(|| vec![rng.u8(..); len]);
                    if !group.iter().any(|(k, _)| *k == key) {
                        group.push((key, value));
                    }
                }
                group.sort();
                let writes: Vec<Write<'_>> = group
                    .iter()
                    .map(|(key, value)| Write {
                        key,
                        commit: Timestamp(now),
                        value: value.as_deref().map(NewValue::of),
                    })
                    .collect();
                root = root.with(&writes, &target, &budget);
                for (key, value) in group {
                    model.entry(key).or_default().push((now, value));
                }
                if rng.usize(..8) == 0 {
                    let readers: Vec<_> = (0..rng.usize(..3))
                        .map(|_| Timestamp(rng.u64(..now)))
                        .collect();
                    target = Target {
                        kept: Timestamps::new(Timestamp(rng.u64(..=now)), readers.clone()),
                        needed: Timestamps::new(Timestamp(now), readers),
                    };
                }
                if rng.usize(..8) == 0 {
                    let first = rng.usize(..root.leaves.len() + 1);
                    if let Some(swept) = root.swept(first, rng.usize(1..9), &target.kept, &budget) {
                        root = swept;
                    }
                }
                if now % 10 == 0 {
                    check(&root, &model, now, &format!("seed {seed}, {now}"));
                }
            }
            drop(root);
            assert_eq!(budget.used(), 0, "seed {seed}");
        }
    }

    #[test]
    fn a_row_of_100_bytes_takes_at_most_180() {
        let budget = Arc::new(Budget::new(usize::MAX));
        let served = Timestamps::new(Timestamp(0), []);
        let target = Target {
            kept: served.clone(),
            needed: served.clone(),
        };
        let mut root = Root::new(served, Vec::new(), &budget);
        let rows = 4_000_u64;
        for n in 0..rows {
            // A key of 20 bytes, which takes 27 in its encoded form, and a value of 80.
            let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let key = titan_mvcc::codec::encode_key(format!("{n:020}").as_bytes());
            let value = NewValue::of(&[7; 80]);
            let write = Write {
                key: &key,
                commit: Timestamp(1),
                value: Some(value),
            };
            root = root.with(&[write], &target, &budget);
        }
        let each = budget.used() as u64 / rows;
        assert!(each <= 180, "{each}");
    }

    /// A row that is written much and not read brings them at once. At quadratic cost this would
    /// take minutes.
    #[test]
    fn many_versions_of_a_row_that_come_at_once_are_pruned_as_they_come() {
        let budget = Arc::new(Budget::new(usize::MAX));
        let served = Timestamps::new(Timestamp(0), []);
        let target = Target {
            kept: served.clone(),
            needed: Timestamps::new(Timestamp(500), [Timestamp(7)]),
        };
        let commits = 1..=1_000_000_u64;
        let values: Vec<_> = commits.clone().map(u64::to_be_bytes).collect();
        let writes = commits.zip(&values).map(|(commit, value)| Write {
            key: b"hot",
            commit: Timestamp(commit),
            value: Some(NewValue::Inline(value)),
        });
        let writes: Vec<_> = writes.collect();
        let root = Root::new(served, Vec::new(), &budget).with(&writes, &target, &budget);
        let left = root.leaves[0].row(0).versions();
        assert!(left.len() <= LONGEST_CHAIN, "{}", left.len());
        for at in [7, 1_000_000] {
            let at = Timestamp(at);
            assert!(root.served.has(at));
            let value = at.0.to_be_bytes();
            assert_eq!(root.get(b"hot", at), Seen::Value(&value), "{at}");
        }
        assert!(!root.served.has(Timestamp(8)) && !root.served.has(Timestamp(500)));
    }

    /// Also when no pass has run for long.
    #[test]
    fn a_hot_row_does_not_grow_without_end() {
        for looked_at in [1, 5_000] {
            let budget = Arc::new(Budget::new(usize::MAX));
            let served = Timestamps::new(Timestamp(0), []);
            let target = Target {
                kept: served.clone(),
                needed: Timestamps::new(Timestamp(looked_at), [Timestamp(looked_at.min(7))]),
            };
            let mut root = Root::new(served, Vec::new(), &budget);
            for now in 1..5_000 {
                let value = Some(NewValue::Inline(b"value"));
                let write = Write {
                    key: b"hot",
                    commit: Timestamp(now),
                    value,
                };
                root = root.with(&[write], &target, &budget);
                let longest = root.leaves[0].row(0).versions().len();
                assert!(
                    longest <= LONGEST_CHAIN + 2,
                    "{looked_at}, {now}: {longest}"
                );
            }
            assert!(root.served.has(Timestamp(5_000)));
            if looked_at == 5_000 {
                assert_eq!(root.get(b"hot", Timestamp(7)), Seen::Value(b"value"));
                assert!(!root.served.has(Timestamp(8)));
            }
        }
    }
}
