//! When the first entry of a memtable had been written, for families whose compaction filter wants
//! to see entries of a certain age. Code that has a clock notes it here.

use crate::sync::atomic::{AtomicU64, Ordering};

/// See the module: seconds since 1970; 0 while nobody has noted it. All orderings are relaxed:
/// nothing but the time of a flush depends on it.
#[derive(Default)]
pub(super) struct Age(AtomicU64);

impl Age {
    pub(super) fn oldest_time(&self) -> Option<u64> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            time => Some(time),
        }
    }

    /// Notes a time, unless one was noted before; returns whether it was not.
    #[inline]
    pub(super) fn note(&self, time: u64) -> bool {
        // Only the leader of the commit queue notes times.
        let is_first = self.0.load(Ordering::Relaxed) == 0;
        if is_first {
            self.0.store(time.max(1), Ordering::Relaxed);
        }
        is_first
    }
}
