//! Locks on inodes, in memory.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::schema::InodeNumber;

/// How many locks there are. Inodes share them by number.
const STRIPES: usize = 1024;

/// A lock for each inode. Two inodes may have the same one, which costs time only.
pub(super) struct InodeLocks(Vec<RwLock<()>>);

impl InodeLocks {
    pub(super) fn new() -> Self {
        InodeLocks((0..STRIPES).map(|_| RwLock::new(())).collect())
    }

    /// Excludes changes of an inode.
    pub(super) fn shared(&self, inode: InodeNumber) -> RwLockReadGuard<'_, ()> {
        self.0[stripe(inode)].read()
    }

    /// Excludes all other users of these inodes. A thread that has any lock must not call this: locks
    /// are taken in order, so that no two threads wait for each other.
    pub(super) fn exclusive(&self, inodes: &[InodeNumber]) -> Vec<RwLockWriteGuard<'_, ()>> {
        let mut stripes: Vec<usize> = inodes.iter().map(|inode| stripe(*inode)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes
            .iter()
            .map(|stripe| self.0[*stripe].write())
            .collect()
    }
}

fn stripe(inode: InodeNumber) -> usize {
    inode.0 as usize % STRIPES
}
