//! When the first entry of a memtable had been written, for families whose compaction filter wants
//! to see entries of a certain age. Code that has a clock notes it here.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module. All orderings are relaxed: nothing but the time of a flush depends on them.
#[derive(Default)]
pub(super) struct Age {
    /// In seconds since 1970; 0 while nobody has noted it.
    oldest_time: AtomicU64,
    is_flush_requested: AtomicBool,
}

impl Age {
    pub(super) fn oldest_time(&self) -> Option<u64> {
        match self.oldest_time.load(Ordering::Relaxed) {
            0 => None,
            time => Some(time),
        }
    }

    /// Notes a time, unless one was noted before; returns whether it was not.
    #[inline]
    pub(super) fn note(&self, time: u64) -> bool {
        // Only the leader of the commit queue notes times.
        let is_first = self.oldest_time.load(Ordering::Relaxed) == 0;
        if is_first {
            self.oldest_time.store(time.max(1), Ordering::Relaxed);
        }
        is_first
    }

    pub(super) fn is_flush_requested(&self) -> bool {
        self.is_flush_requested.load(Ordering::Relaxed)
    }

    pub(super) fn request_flush(&self) {
        self.is_flush_requested.store(true, Ordering::Relaxed);
    }
}
