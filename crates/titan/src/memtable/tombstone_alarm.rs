//! The alarm of a memtable that has many tombstones.
//!
//! The thread that cleans up an idle database may wait without a timeout. A commit wakes it once
//! the memtable has many tombstones, and once only. If the thread then finds fewer, since the
//! version has changed meanwhile, it sets the alarm again.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the [module](self).
pub(crate) struct TombstoneAlarm {
    /// Tombstones that free much of the version beside the memtable.
    much: AtomicU64,
    is_off: AtomicBool,
}

impl Default for TombstoneAlarm {
    fn default() -> Self {
        TombstoneAlarm {
            much: AtomicU64::new(u64::MAX),
            is_off: AtomicBool::new(false),
        }
    }
}

impl TombstoneAlarm {
    /// Takes this number of tombstones for much from now on, since the version has changed.
    pub(crate) fn set_much(&self, tombstones: u64) {
        self.much.store(tombstones, Ordering::Relaxed);
    }

    pub(super) fn is_much(&self, tombstones: u64) -> bool {
        tombstones >= self.much.load(Ordering::Relaxed)
    }

    /// Rings once. Returns whether the caller is to wake the thread.
    pub(crate) fn ring(&self) -> bool {
        !self.is_off.swap(true, Ordering::SeqCst)
    }

    /// Sets it again, unless there are many tombstones.
    pub(crate) fn set_unless(&self, are_many: impl FnOnce() -> bool) {
        // ORDER: tombstones that are not yet counted below ring it.
        self.is_off.store(false, Ordering::SeqCst);
        if are_many() {
            self.is_off.store(true, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_and_again_after_it_was_set() {
        let alarm = TombstoneAlarm::default();
        assert!(!alarm.is_much(u64::MAX - 1));
        alarm.set_much(3);
        assert_eq!([2, 3].map(|n| alarm.is_much(n)), [false, true]);
        assert_eq!([(); 2].map(|()| alarm.ring()), [true, false]);
        alarm.set_unless(|| true);
        assert!(!alarm.ring());
        alarm.set_unless(|| false);
        assert_eq!([(); 2].map(|()| alarm.ring()), [true, false]);
        // A commit between the two is not lost.
        alarm.set_unless(|| {
            assert!(alarm.ring());
            false
        });
    }
}
