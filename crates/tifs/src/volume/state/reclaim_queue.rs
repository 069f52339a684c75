//! The queue of inodes that have something to delete.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::Result;
use crate::kv::{Kv, Scan, Space};
use crate::schema::{InodeNumber, Key};

/// The most orphans that a transaction deletes.
pub(in crate::volume) const BATCH: usize = 128;

/// The inodes that have something to delete.
pub(in crate::volume) struct ReclaimQueue {
    inodes: Mutex<VecDeque<InodeNumber>>,
    /// There is a batch, or the volume ends.
    wake: Condvar,
}

impl ReclaimQueue {
    /// A queue with the stored inodes.
    pub(in crate::volume) fn load(kv: &dyn Kv) -> Result<Self> {
        let mut queue = VecDeque::new();
        for prefix in [b"O", b"D"] {
            let found = kv.scan(&Scan::prefix(Space::Meta, prefix).keys_only())?;
            queue.extend(found.iter().filter_map(|(key, _)| Key::inode_of(key)));
        }
        Ok(ReclaimQueue {
            inodes: Mutex::new(queue),
            wake: Condvar::new(),
        })
    }

    /// The number of inodes in the queue.
    pub(in crate::volume) fn len(&self) -> usize {
        self.inodes.lock().len()
    }

    /// Adds an inode. The background thread is woken by a whole batch only, so that it does not run
    /// beside every single deletion.
    pub(in crate::volume) fn push(&self, inode: InodeNumber) {
        let mut queue = self.inodes.lock();
        queue.push_back(inode);
        if queue.len().is_multiple_of(BATCH) {
            self.wake.notify_one();
        }
    }

    pub(in crate::volume) fn next_batch(&self) -> Vec<InodeNumber> {
        let mut queue = self.inodes.lock();
        let count = queue.len().min(BATCH);
        queue.drain(..count).collect()
    }

    /// Waits until `enough` inodes are queued, `ended` says so after a [`wake`](Self::wake), or the
    /// time is over.
    pub(in crate::volume) fn wait(
        &self,
        enough: usize,
        ended: impl Fn() -> bool,
        at_most: Duration,
    ) {
        let mut queue = self.inodes.lock();
        if !ended() && queue.len() < enough {
            self.wake.wait_for(&mut queue, at_most);
        }
    }

    /// Ends a wait.
    pub(in crate::volume) fn wake(&self) {
        // The lock: or the thread could miss this between its look and its wait.
        let _queue = self.inodes.lock();
        self.wake.notify_all();
    }
}
