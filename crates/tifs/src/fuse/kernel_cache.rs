//! Notifications to the kernel about its cache.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use fuser::{INodeNo, Notifier};

use crate::schema::InodeNumber;

/// The kernel's cache of a mount. Clones are of the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelCache(Arc<OnceLock<Notifier>>);

impl KernelCache {
    /// Sets the kernel to notify.
    pub(super) fn connect(&self, notifier: Notifier) {
        // There is one session, which calls this once.
        let _ = self.0.set(notifier);
    }

    /// Lets the kernel ask for the attributes of an inode when it needs them again. Does not wait
    /// for anything, so a thread that serves requests may call it.
    pub(super) fn forget_attributes(&self, inode: InodeNumber) {
        /// An offset below 0 means no content.
        const NO_CONTENT: i64 = -1;
        self.forget(inode, NO_CONTENT, 0);
    }

    /// Lets the kernel write its changes in a range of a file, and forget the range. Waits for
    /// these writes, so a thread that serves requests must not call it.
    pub(super) fn write_back(&self, inode: InodeNumber, range: &Range<u64>) {
        let offset = i64::try_from(range.start).unwrap_or(i64::MAX);
        // 0 means everything from the offset on.
        let length = i64::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
        self.forget(inode, offset, length);
    }

    fn forget(&self, inode: InodeNumber, offset: i64, length: i64) {
        if let Some(notifier) = self.0.get() {
            // It fails if the mount has ended: then there is nothing to forget.
            let _ = notifier.inval_inode(INodeNo(inode.0), offset, length);
        }
    }
}
