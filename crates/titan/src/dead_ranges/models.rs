//! Models a reader that reports a dead range beside the leader of the commit queue, under every
//! schedule: no reader finds a range around a key that has a value at its snapshot.

use std::sync::Arc;

use super::{DeadRanges, Way};
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BytewiseComparator, SequenceNumber};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{model, spawn};

/// A family in which `b` has a value from operation [`WRITE`] on, and all other keys are dead.
struct Family {
    ranges: DeadRanges,
    published: AtomicU64,
}

const WRITE: u64 = 2;

impl Family {
    fn new() -> Self {
        let order = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        Family {
            ranges: DeadRanges::new(order),
            published: AtomicU64::new(WRITE - 1),
        }
    }

    /// As the leader of the commit queue.
    fn write(&self) {
        let last = SequenceNumber(WRITE);
        self.ranges.write(last, || [&b"b"[..]].into_iter());
        self.published.store(WRITE, Ordering::Release);
    }

    /// As an iterator that walks from `a` to `c`: uses what is known, or reports what it met.
    fn walk(&self) {
        let snapshot = SequenceNumber(self.published.load(Ordering::Acquire));
        let sees_value = snapshot >= SequenceNumber(WRITE);
        let skips = self.ranges.end(b"a", snapshot, Way::Forward).is_some();
        let hides = self.ranges.end(b"b", snapshot, Way::Forward).is_some();
        assert!(!(hides && sees_value), "a range hides a value");
        if !skips && !sees_value {
            self.ranges.add(b"a", b"c", 100, snapshot);
        }
    }
}

#[test]
fn a_range_hides_no_value_that_is_written_beside_its_walk() {
    model(|| {
        let family = Arc::new(Family::new());
        let (writer, reader) = (Arc::clone(&family), Arc::clone(&family));
        let threads = [spawn(move || writer.write()), spawn(move || reader.walk())];
        family.walk();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        family.walk();
        let snapshot = SequenceNumber(WRITE);
        assert!(family.ranges.end(b"b", snapshot, Way::Forward).is_none());
    });
}

/// A range that waits becomes known by a second walk, which sees what was written meanwhile.
#[test]
fn a_range_that_waits_is_cut_by_writes_before_it_is_known() {
    model(|| {
        let family = Arc::new(Family::new());
        family.ranges.looked_to.store(1, Ordering::SeqCst);
        // At a snapshot before the number to which the leader has looked.
        family.ranges.add(b"a", b"c", 100, SequenceNumber(0));
        let writer = Arc::clone(&family);
        let writing = spawn(move || writer.write());
        family.walk();
        writing.join().unwrap();
        family.walk();
        let snapshot = SequenceNumber(WRITE);
        assert!(family.ranges.end(b"b", snapshot, Way::Forward).is_none());
    });
}
