//! What is done from time to time: looking at the store's readers, pruning idle rows, and keeping segments at their
//! usual size.
//!
//! A write prunes the row that it extends. Rows that are not written any more are pruned here, a few leaves at a
//! time, so that a write never waits long for a segment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use titan_mvcc::{Store, Timestamp};

use crate::content::root::{Root, Target};
use crate::content::timestamps::Served;
use crate::segments::segment::{Last, Segment};
use crate::segments::shared::Shared;
use crate::segments::splits::{cut, is_large};
use crate::stats::Dropped;

/// Leaves that are swept while a segment is locked.
const LEAVES: usize = 8;
/// Readers before the safe point of the cache that are served at most. Older ones read the engine.
const MOST_READERS: usize = 64;
/// The holds of the store that are reads. Others keep the store's versions and not the cache's.
const READS: [&str; 2] = ["snapshot", "transaction"];

impl Shared {
    /// Looks at the store's readers, and moves what may be pruned.
    pub(crate) fn look(&self, store: &Store, lag: Duration) {
        // ORDER: the readers after the present: one that begins later reads at the present or after it.
        let now = store.now();
        let holds = store.holds();
        let reads = holds.iter().filter(|hold| READS.contains(&&*hold.name));
        let mut readers: Vec<Timestamp> = reads.map(|hold| hold.timestamp).collect();
        readers.dedup();
        let skipped = readers.len().saturating_sub(MOST_READERS);
        let readers = readers.split_off(skipped);
        let lagging = now.unix_time().checked_sub(lag).and_then(Timestamp::at);
        let lagging = match lag.is_zero() {
            true => now,
            false => lagging.unwrap_or(Timestamp::ZERO),
        };
        self.aim(now, lagging.max(store.safe_point()), &readers);
    }

    /// Everything from `from` on is kept, and what these readers find, who read before `now`.
    pub(crate) fn aim(&self, now: Timestamp, from: Timestamp, readers: &[Timestamp]) {
        let kept = Served::new(from, readers.iter().copied());
        let needed = Served::new(now, readers.iter().copied());
        self.target.store(Arc::new(Target { kept, needed }));
    }

    /// Prunes idle rows of all segments, splits large segments and joins small ones, and makes room if the limit
    /// was lowered. Forgets which segments were read.
    pub(crate) fn maintain(&self) {
        if self.is_off() {
            self.give_back();
            return;
        }
        self.settle();
        self.make_room();
        #[cfg(test)]
        self.may_panic("sweep");
        let target = self.target.load();
        for segment in self.directory.load().iter() {
            self.sweep(segment, &target.kept);
        }
        self.split_large();
        self.join_small();
        for segment in self.directory.load().iter() {
            segment.untouch();
        }
    }

    pub(crate) fn sweep(&self, segment: &Segment, kept: &Served) {
        let mut first = 0;
        let mut is_done = false;
        while !is_done {
            segment.change(|root| {
                let swept = root.swept(first, LEAVES, kept, &self.budget);
                let before = root.leaves.len();
                let after = swept.as_ref().map_or(before, |root| root.leaves.len());
                first = (first + LEAVES + after).saturating_sub(before);
                is_done = first >= after;
                swept
            });
            // An ended segment is not changed.
            is_done |= segment.root().is_none();
        }
    }

    fn split_large(&self) {
        for segment in self.directory.load().iter() {
            self.split_if_large(segment);
        }
    }

    /// Splits a segment that has become large. Called by writes too, because each copies the list of leaves of its
    /// segment. Cost: a copy of the directory; no leaf is copied.
    pub(crate) fn split_if_large(&self, segment: &Segment) {
        if !segment
            .root()
            .as_ref()
            .is_some_and(|root| is_large(root, self))
        {
            return;
        }
        let mut changing = self.directory.change();
        let Some(at) = changing.position(segment.generation) else {
            return;
        };
        let is_split = segment.end(Dropped::Replaced, |last| {
            let Last::Active(root) = last else {
                return;
            };
            let root = Root::new(root.served.clone(), root.leaves.clone(), &self.budget);
            let pieces = cut(segment, root, &mut changing, self);
            changing.list.splice(at..=at, pieces);
            changing.publish();
        });
        if is_split.is_some() {
            self.counters.splits.fetch_add(1, Ordering::Relaxed);
        }
    }

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
                    // MUTANT: a joined segment serves what one of the two had pruned.
                    if mutant!(
                        "joined-serves-what-one-served",
                        "-p titan-ime --test it pruning::"
                    ) {
                        served = left.served.clone();
                    }
                    let root = Root::new(served, leaves, &self.budget);
                    let generation = changing.generation();
                    let (lower, upper) = (a.lower.clone(), b.upper.clone());
                    let usage = a.usage.joined(&b.usage);
                    let joined = Segment::active(
                        lower,
                        upper,
                        generation,
                        a.is_pinned(),
                        root,
                        usage,
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
