//! The inodes to which the kernel refers, those of them without names, and the attributes of used
//! ones.
//!
//! The kernel asks for the attributes of a file after each close, because it does not count blocks
//! itself. So they are kept: as committed last, or as the store had them when they were needed.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use titan::invariant;

use crate::schema::{Inode, InodeNumber};

const SHARDS: usize = 64;

/// The references that [`FileSystem`](crate::file_system::FileSystem) describes.
pub(in crate::volume) struct References([Mutex<Shard>; SHARDS]);

#[derive(Default)]
struct Shard {
    inodes: HashMap<InodeNumber, Referred, RandomState>,
    /// Number of times that an inode of this shard was changed.
    changes: u64,
}

#[derive(Default)]
struct Referred {
    references: u64,
    /// It has no names, and is deleted when the last reference goes.
    orphan: bool,
    attributes: Option<Box<Inode>>,
    /// A commit is about to change it: attributes read from the store may be stale.
    changing: bool,
}

/// The moment of a read of attributes: the store may not have shown later changes.
#[derive(Clone, Copy, Debug)]
pub(in crate::volume) struct AsOf(u64);

impl Default for References {
    fn default() -> Self {
        References(std::array::from_fn(|_| Mutex::default()))
    }
}

impl References {
    fn shard(&self, inode: InodeNumber) -> &Mutex<Shard> {
        &self.0[inode.0 as usize % SHARDS]
    }

    /// The number of inodes with references.
    pub(in crate::volume) fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().inodes.len()).sum()
    }

    /// Adds a reference.
    pub(in crate::volume) fn add(&self, inode: InodeNumber) {
        let mut shard = self.shard(inode).lock();
        shard.inodes.entry(inode).or_default().references += 1;
    }

    /// Removes references. True if the inode is an orphan without further references: the caller
    /// deletes it.
    pub(in crate::volume) fn remove(&self, inode: InodeNumber, references: u64) -> bool {
        let inodes = &mut self.shard(inode).lock().inodes;
        let Some(referred) = inodes.get_mut(&inode) else {
            return false;
        };
        invariant!(
            referred.references >= references,
            "{references} references of {} of inode {inode} are taken back",
            referred.references
        );
        referred.references = referred.references.saturating_sub(references);
        if referred.references > 0 {
            return false;
        }
        let orphan = referred.orphan;
        inodes.remove(&inode);
        orphan
    }

    /// Whether anybody refers to an inode.
    pub(in crate::volume) fn has(&self, inode: InodeNumber) -> bool {
        self.shard(inode).lock().inodes.contains_key(&inode)
    }

    /// Notes that an inode has lost its last name. True if nobody refers to it: the caller deletes
    /// it.
    pub(in crate::volume) fn orphan(&self, inode: InodeNumber) -> bool {
        let inodes = &mut self.shard(inode).lock().inodes;
        match inodes.get_mut(&inode) {
            Some(referred) => {
                invariant!(referred.references > 0, "inode {inode} is known for nobody");
                referred.orphan = true;
                false
            }
            None => true,
        }
    }

    /// The attributes of an inode as committed, if they are known.
    pub(in crate::volume) fn attributes(&self, inode: InodeNumber) -> Result<Inode, AsOf> {
        let shard = self.shard(inode).lock();
        let referred = shard.inodes.get(&inode);
        let attributes = referred.and_then(|referred| referred.attributes.as_deref());
        attributes.copied().ok_or(AsOf(shard.changes))
    }

    /// Notes that a commit is about to change an inode. Until [`changed`](Self::changed), only the
    /// store knows its attributes: others may see the commit there before this thread returns from
    /// it.
    pub(in crate::volume) fn changing(&self, inode: InodeNumber) {
        let mut shard = self.shard(inode).lock();
        shard.changes += 1;
        if let Some(referred) = shard.inodes.get_mut(&inode) {
            referred.attributes = None;
            referred.changing = true;
        }
    }

    /// Notes that a commit changed an inode, and its attributes if that is certain. The caller has
    /// the lock of the inode, or it has no references yet.
    pub(in crate::volume) fn changed(&self, inode: InodeNumber, attributes: Option<&Inode>) {
        let mut shard = self.shard(inode).lock();
        shard.changes += 1;
        let stays = mutant!(known_attributes_stay);
        if let Some(referred) = shard.inodes.get_mut(&inode).filter(|_| !stays) {
            referred.changing = false;
            match (&mut referred.attributes, attributes) {
                (Some(known), Some(attributes)) => **known = *attributes,
                (known, attributes) => *known = attributes.map(|new| Box::new(*new)),
            }
        }
    }

    /// Keeps attributes that the store showed, unless a commit changed the inode since `as_of`.
    pub(in crate::volume) fn learn(&self, inode: InodeNumber, attributes: &Inode, as_of: AsOf) {
        let mut shard = self.shard(inode).lock();
        let believed = mutant!(known_attributes_too_old);
        if shard.changes != as_of.0 && !believed {
            return;
        }
        if let Some(referred) = shard.inodes.get_mut(&inode).filter(|found| !found.changing) {
            referred.attributes = Some(Box::new(*attributes));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;
    use crate::schema::{FileKind, Time};

    const FILE: InodeNumber = InodeNumber(7);

    fn inode(size: u64) -> Inode {
        let time = Time {
            seconds: 0,
            nanoseconds: 0,
        };
        Inode {
            kind: FileKind::File,
            permissions: 0o644,
            uid: 0,
            gid: 0,
            links: 1,
            device: 0,
            size,
            blocks: 0,
            parent: InodeNumber::ROOT,
            stale_end: 0,
            block_shift: 0,
            has_attributes: false,
            accessed: time,
            modified: time,
            changed: time,
            born: time,
        }
    }

    #[test]
    fn attributes_are_those_of_the_last_commit_whatever_the_store_showed_before() {
        let references = References::default();
        let size = || references.attributes(FILE).ok().map(|inode| inode.size);
        let as_of = references.attributes(FILE).unwrap_err();
        // Nobody refers to it.
        references.learn(FILE, &inode(1), as_of);
        references.changed(FILE, Some(&inode(2)));
        assert_eq!(size(), None);
        references.add(FILE);
        // A reader looked before the change, and comes after it.
        references.learn(FILE, &inode(1), as_of);
        assert_eq!(size(), None);
        let as_of = references.attributes(FILE).unwrap_err();
        references.learn(FILE, &inode(2), as_of);
        assert_eq!(size(), Some(2));
        references.changed(FILE, Some(&inode(3)));
        references.learn(FILE, &inode(2), as_of);
        assert_eq!(size(), Some(3));
        // A commit of which nobody knows whether it was done.
        references.changed(FILE, None);
        assert_eq!(size(), None);
        references.remove(FILE, 1);
        references.add(FILE);
        assert_eq!(size(), None);
    }
}
