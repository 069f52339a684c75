//! Room on the device that was found and not yet used.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Bytes that writes may take without asking the device again.
#[derive(Debug, Default)]
pub(in crate::volume) struct FoundRoom {
    pub(in crate::volume) bytes: AtomicU64,
    /// For writes that replace other data.
    pub(in crate::volume) replacing: AtomicU64,
    /// Locked while the store frees space.
    pub(in crate::volume) freeing: Mutex<()>,
}

/// Takes bytes, if so many were found.
pub(in crate::volume) fn take(found: &AtomicU64, bytes: u64) -> bool {
    let rest = |found: u64| found.checked_sub(bytes);
    let relaxed = Ordering::Relaxed;
    found.fetch_update(relaxed, relaxed, rest).is_ok()
}
