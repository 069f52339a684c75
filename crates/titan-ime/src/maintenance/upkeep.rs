//! The upkeep of segments: new limits of pruning, pruning of idle rows, splits and joins.
//!
//! A write prunes the row that it extends. Upkeep prunes rows that are not written any more, a few
//! leaves at a time, so that a write never waits long for a segment.

use std::sync::Arc;
use std::time::Duration;

use titan::invariant;
use titan_mvcc::{Store, Timestamp};

use crate::content::root::Target;
use crate::content::timestamps::Timestamps;
use crate::segments::segment::Segment;
use crate::segments::shared::Shared;

/// Leaves swept under one lock of a segment.
const LEAVES: usize = 8;
/// The most readers before the cache's safe point that memory answers. Older ones read the engine.
const MOST_READERS: usize = 64;
/// The holds of the store that are reads. Others keep versions of the store, not of the cache.
const READS: [&str; 2] = ["snapshot", "transaction"];

impl Shared {
    /// Moves the limits of pruning to the store's readers of now.
    pub(crate) fn update_target(&self, store: &Store, lag: Duration) {
        // ORDER: the safe point before the present, which it never passes; the readers after the
        // present: one that begins later reads at the present or after it.
        let safe_point = store.safe_point();
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
        self.set_target(now, lagging.max(safe_point), &readers);
    }

    /// Sets the limits of pruning: versions from `from` on are kept, and those that these readers,
    /// all before `now`, find.
    pub(crate) fn set_target(&self, now: Timestamp, from: Timestamp, readers: &[Timestamp]) {
        let kept = Timestamps::new(from, readers.iter().copied());
        let needed = Timestamps::new(now, readers.iter().copied());
        invariant!(
            kept.from() <= needed.from(),
            "timestamps from {} on are kept, and needed from {}",
            kept.from(),
            needed.from()
        );
        self.target.store(Arc::new(Target { kept, needed }));
    }

    /// Prunes idle rows of all segments, splits large segments, joins small ones, and evicts if the
    /// limit was lowered. Forgets which segments were read.
    pub(crate) fn maintain(&self) {
        if self.faults.is_off() {
            self.give_back();
            return;
        }
        self.apply_pending();
        self.make_room();
        #[cfg(test)]
        self.may_panic("sweep");
        let target = self.target.load();
        for segment in self.directory.load().iter() {
            self.sweep(segment, &target.kept);
        }
        for segment in self.directory.load().iter() {
            self.split_if_large(segment);
        }
        self.join_small();
        for segment in self.directory.load().iter() {
            segment.untouch();
        }
    }

    pub(crate) fn sweep(&self, segment: &Segment, kept: &Timestamps) {
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
}
