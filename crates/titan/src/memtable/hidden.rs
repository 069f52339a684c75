//! How much a memtable hides in older tables: noted here by who knows the tables, and when to look
//! again.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So many entries are looked at for the first time.
const FIRST: u64 = 64;

/// See the module. All orderings are relaxed: what is noted is an estimate.
pub(super) struct Hidden {
    bytes: AtomicU64,
    /// From so many operations on it is to be looked at again.
    look_at: AtomicU64,
    /// With more range deletions than these it is to be looked at: each may hide anything.
    ranges: AtomicU64,
    /// So many bytes are enough for the memtable to be flushed.
    enough: AtomicU64,
    /// Whether somebody was told to look.
    asked: AtomicBool,
}

impl Hidden {
    pub(super) fn new() -> Self {
        Hidden {
            bytes: AtomicU64::new(0),
            look_at: AtomicU64::new(FIRST),
            ranges: AtomicU64::new(0),
            enough: AtomicU64::new(u64::MAX),
            asked: AtomicBool::new(false),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it is so much that the memtable is to be flushed.
    pub(super) fn is_enough(&self) -> bool {
        self.bytes() >= self.enough.load(Ordering::Relaxed)
    }

    /// Whether it is to be looked at.
    #[inline]
    pub(super) fn is_due(&self, operations: u64, ranges: u64) -> bool {
        operations >= self.look_at.load(Ordering::Relaxed)
            || ranges > self.ranges.load(Ordering::Relaxed)
    }

    /// Whether nobody has been told yet that it is due.
    pub(super) fn ask(&self) -> bool {
        !self.asked.swap(true, Ordering::Relaxed)
    }

    /// Somebody looks: until that is noted it is not due.
    pub(super) fn begin(&self) {
        self.look_at.store(u64::MAX, Ordering::Relaxed);
        self.ranges.store(u64::MAX, Ordering::Relaxed);
    }

    pub(super) fn note(&self, bytes: u64, enough: u64, ranges: u64, look_at: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.enough.store(enough, Ordering::Relaxed);
        // Each look walks all of them: the more there are, the more have to come before the next.
        self.ranges
            .store(ranges.saturating_add(ranges / 4), Ordering::Relaxed);
        self.look_at.store(look_at, Ordering::Relaxed);
        self.asked.store(false, Ordering::Relaxed);
    }
}
