//! An estimate of the bytes that a memtable shadows in older tables, which code that has the tables
//! notes here, and when the next one is due.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The first estimate is due at this number of entries.
const FIRST: u64 = 64;

/// See the module. All orderings are relaxed: the bytes are an estimate.
pub(super) struct Shadowed {
    bytes: AtomicU64,
    /// The next estimate is due from this number of operations on.
    look_at: AtomicU64,
    /// One is also due with more range deletions than this: each may shadow anything.
    ranges: AtomicU64,
    /// From this number of bytes on the memtable should be flushed.
    enough: AtomicU64,
    /// Whether an estimate was asked for.
    asked: AtomicBool,
}

impl Shadowed {
    pub(super) fn new() -> Self {
        Shadowed {
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

    /// Whether it is so much that the memtable should be flushed.
    pub(super) fn is_enough(&self) -> bool {
        self.bytes() >= self.enough.load(Ordering::Relaxed)
    }

    /// Whether an estimate is due.
    #[inline]
    pub(super) fn is_due(&self, operations: u64, ranges: u64) -> bool {
        operations >= self.look_at.load(Ordering::Relaxed)
            || ranges > self.ranges.load(Ordering::Relaxed)
    }

    /// Whether this is the first call since the last estimate: the caller is to ask for one.
    pub(super) fn ask(&self) -> bool {
        !self.asked.swap(true, Ordering::Relaxed)
    }

    /// An estimate begins: until its result is noted no other is due.
    pub(super) fn begin(&self) {
        self.look_at.store(u64::MAX, Ordering::Relaxed);
        self.ranges.store(u64::MAX, Ordering::Relaxed);
    }

    pub(super) fn note(&self, bytes: u64, enough: u64, ranges: u64, look_at: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.enough.store(enough, Ordering::Relaxed);
        // Each estimate walks all of them: the more there are, the more must be added before the
        // next.
        self.ranges
            .store(ranges.saturating_add(ranges / 4), Ordering::Relaxed);
        self.look_at.store(look_at, Ordering::Relaxed);
        self.asked.store(false, Ordering::Relaxed);
    }
}
