//! Joins: small neighbouring segments become one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::content::root::Root;
use crate::segments::segment::{Last, Segment};
use crate::segments::shared::Shared;
use crate::stats::Dropped;

impl Shared {
    /// Joins neighbours that are small together.
    pub(crate) fn join_small(&self) {
        let bytes = |segment: &Segment| segment.root().as_ref().map(|root| root.bytes);
        let are_small = |a: &Segment, b: &Segment| {
            let adjacent = a.upper.as_deref() == Some(&*b.lower) && a.is_pinned() == b.is_pinned();
            let sum = bytes(a).zip(bytes(b)).map(|(a, b)| a + b);
            adjacent && sum.is_some_and(|sum| sum < self.segment_size / 2)
        };
        let list = self.directory.load();
        if !list.windows(2).any(|pair| are_small(&pair[0], &pair[1])) {
            return;
        }
        drop(list);
        let mut changing = self.directory.change();
        let mut at = 0;
        while let [a, b] = changing.list.get(at..at + 2).unwrap_or_default() {
            let (a, b) = (Arc::clone(a), Arc::clone(b));
            if !are_small(&a, &b) {
                at += 1;
                continue;
            }
            // Neither can end meanwhile but here, because the directory is locked.
            a.end(Dropped::Replaced, |last_a| {
                b.end(Dropped::Replaced, |last_b| {
                    let (Last::Active(left), Last::Active(right)) = (last_a, last_b) else {
                        return;
                    };
                    #[cfg(test)]
                    self.may_panic("join");
                    let leaves = left.leaves.iter().chain(&right.leaves).cloned().collect();
                    let mut served = left.served.narrowed(&right.served);
                    if mutant!(joined_serves_what_one_served) {
                        served = left.served.clone();
                    }
                    let root = Root::new(served, leaves, &self.budget);
                    let generation = changing.generation();
                    let (lower, upper) = (a.lower.clone(), b.upper.clone());
                    let costs = a.costs.joined(&b.costs);
                    let joined = Segment::active(
                        lower,
                        upper,
                        generation,
                        a.is_pinned(),
                        root,
                        costs,
                        &self.budget,
                    );
                    changing.list.splice(at..at + 2, [Arc::new(joined)]);
                    changing.publish();
                });
            });
            self.counters.joins.fetch_add(1, Ordering::Relaxed);
        }
    }
}
