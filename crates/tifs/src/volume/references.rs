//! Which inodes the kernel refers to, and which of them have no names any more.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::schema::InodeNumber;

const SHARDS: usize = 64;

/// The references that [`FileSystem`](crate::file_system::FileSystem) describes.
pub(super) struct References([Mutex<HashMap<InodeNumber, Referred>>; SHARDS]);

#[derive(Default)]
struct Referred {
    references: u64,
    /// It has no names, and is deleted when the last reference goes.
    orphan: bool,
}

impl Default for References {
    fn default() -> Self {
        References(std::array::from_fn(|_| Mutex::default()))
    }
}

impl References {
    fn shard(&self, inode: InodeNumber) -> &Mutex<HashMap<InodeNumber, Referred>> {
        &self.0[inode.0 as usize % SHARDS]
    }

    /// How many inodes are referred to.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Adds a reference.
    pub(super) fn add(&self, inode: InodeNumber) {
        let mut shard = self.shard(inode).lock();
        shard.entry(inode).or_default().references += 1;
    }

    /// Takes references back. True if the inode is an orphan and was referred to for the last time: the
    /// caller deletes it.
    pub(super) fn remove(&self, inode: InodeNumber, references: u64) -> bool {
        let mut shard = self.shard(inode).lock();
        let Some(referred) = shard.get_mut(&inode) else {
            return false;
        };
        referred.references = referred.references.saturating_sub(references);
        if referred.references > 0 {
            return false;
        }
        let orphan = referred.orphan;
        shard.remove(&inode);
        orphan
    }

    /// Whether anybody refers to an inode.
    pub(super) fn has(&self, inode: InodeNumber) -> bool {
        self.shard(inode).lock().contains_key(&inode)
    }

    /// Notes that an inode has lost its last name. True if nobody refers to it: the caller deletes it.
    pub(super) fn orphan(&self, inode: InodeNumber) -> bool {
        let mut shard = self.shard(inode).lock();
        match shard.get_mut(&inode) {
            Some(referred) => {
                referred.orphan = true;
                false
            }
            None => true,
        }
    }
}
