//! Places in directories, at which listings go on.
//!
//! A place is a number that the kernel, a program (`seekdir`) or an NFS client may keep for any
//! time and hand in again, also after a new mount. It is a hash of the name after which the listing
//! goes on. Listings are in the order of names, which never changes. So an entry that stays is
//! listed once, for all creations and removals meanwhile.
//!
//! The name of a place is among those that were needed last, or is found by a scan of the
//! directory. A removed name is in no directory, so removals are remembered too: at least the last
//! [`REMEMBERED`].

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::schema::{InodeNumber, Superblock};

/// The place after `.`.
pub(in crate::volume) const AFTER_SELF: u64 = 1;
/// The place after `..`.
pub(in crate::volume) const AFTER_PARENT: u64 = 2;

/// The fewest names that are remembered of each kind.
const REMEMBERED: usize = 1 << 15;

/// The names of places in the directories of a volume.
pub(in crate::volume) struct Places {
    seed: u64,
    /// The names at which listings stopped.
    ends: Mutex<Recent>,
    /// Removed names, which no scan finds.
    removed: Mutex<Recent>,
}

impl Places {
    /// Makes places that differ from volume to volume, so that names which collide in one do not in
    /// another.
    pub(in crate::volume) fn new(superblock: &Superblock) -> Self {
        let uuid = superblock.uuid;
        Places {
            seed: (uuid >> 64) as u64 ^ uuid as u64,
            ends: Mutex::default(),
            removed: Mutex::default(),
        }
    }

    /// The place after a name.
    pub(in crate::volume) fn after(&self, name: &[u8]) -> u64 {
        /// The kernel's offsets are signed, and the last one means the end.
        const LAST: u64 = i64::MAX as u64 - 1;
        let hash = xxh3_64_with_seed(name, self.seed) >> 1;
        hash.clamp(AFTER_PARENT + 1, LAST)
    }

    /// Remembers that a listing stopped after this name.
    pub(in crate::volume) fn ended(&self, directory: InodeNumber, name: &Bytes) {
        let place = (directory, self.after(name));
        self.ends.lock().add(place, name);
    }

    /// Remembers that a name was removed. The directory is still locked.
    pub(in crate::volume) fn removed(&self, directory: InodeNumber, name: &[u8]) {
        let place = (directory, self.after(name));
        if !mutant!(removed_place_forgotten) {
            self.removed
                .lock()
                .add(place, &Bytes::copy_from_slice(name));
        }
    }

    /// The name of a place, if it is remembered.
    pub(in crate::volume) fn name(&self, directory: InodeNumber, place: u64) -> Option<Bytes> {
        let place = (directory, place);
        let end = self.ends.lock().get(place);
        end.or_else(|| self.removed.lock().get(place))
    }
}

/// The names of the places that were added last.
#[derive(Default)]
struct Recent {
    newer: HashMap<(InodeNumber, u64), Bytes>,
    older: HashMap<(InodeNumber, u64), Bytes>,
}

impl Recent {
    fn add(&mut self, place: (InodeNumber, u64), name: &Bytes) {
        if self.newer.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(place, name.clone());
    }

    fn get(&self, place: (InodeNumber, u64)) -> Option<Bytes> {
        let found = self.newer.get(&place);
        found.or_else(|| self.older.get(&place)).cloned()
    }
}
