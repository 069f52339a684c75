//! Moves pending writes into the segments.

use std::sync::Arc;
use std::time::Duration;

use titan::invariant;

use crate::content::write::Write;
use crate::segments::directory::List;
use crate::segments::segment::Written;
use crate::segments::shared::Shared;

impl Shared {
    /// Applies every write added before the call, or waits for the thread that does. Callers then
    /// look at [`FaultState::is_off`](crate::segments::faults::FaultState::is_off), and only then
    /// at segments. Cost: two loads if nothing is pending.
    pub(crate) fn apply_pending(&self) {
        self.pending.apply_pending(|writes| self.apply(writes));
    }

    /// The same for a read, which waits no longer than `wait` and leaves much to the applier. If
    /// false, segments may lack published writes.
    #[must_use]
    pub(crate) fn apply_pending_within(&self, wait: Duration) -> bool {
        self.pending
            .apply_pending_within(wait, |writes| self.apply(writes))
    }

    fn apply(&self, writes: &[Write<'_>]) {
        let applied = self.faults.off_on_panic(|| {
            #[cfg(test)]
            self.may_panic("apply");
            self.write(self.directory.load(), writes);
            self.make_room();
        });
        // ORDER: the cache is off before these count as applied. So a thread that waits for them
        // finds it off, a reader goes on in the engine, and nobody tries again.
        drop(applied);
    }

    /// Adds versions, in the order of their keys, to their segments. The list may be older than the
    /// directory.
    pub(crate) fn write(&self, mut list: Arc<List>, writes: &[Write<'_>]) {
        invariant!(
            writes.is_sorted_by_key(|write| write.key),
            "writes are applied in no order"
        );
        let target = self.target.load();
        let mut rest = writes;
        // The segment that was found gone last.
        let mut gone = None;
        while let Some(first) = rest.first() {
            let Some(segment) = list.get(list.first_with(first.key)) else {
                return;
            };
            let before = rest.partition_point(|write| *write.key < *segment.lower);
            rest = rest.get(before..).unwrap_or_default();
            let inside = rest.partition_point(|write| segment.contains(write.key));
            let (these, others) = rest.split_at(inside);
            // If it is gone and still listed, nothing takes its place, and a load that begins now
            // finds the writes in the engine.
            let written = match these.is_empty() || gone == Some(segment.generation) {
                true => Written::Done,
                false => segment.write(these, &target, &self.budget),
            };
            match written {
                Written::Gone if !mutant!(write_to_a_replaced_segment_is_lost) => {
                    gone = Some(segment.generation);
                    list = self.directory.load();
                }
                Written::Remade => {
                    rest = others;
                    self.split_if_large(segment);
                }
                Written::Done | Written::Gone => rest = others,
            }
        }
    }
}
