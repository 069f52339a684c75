//! The open volume: its store, and the state that its operations share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::file_system::Attributes;
use crate::kv::{Commit, Kv, Space};
use crate::schema::{FileKind, Inode, InodeNumber, Key, Superblock, Time, Usage};
use crate::volume::state::found_room::FoundRoom;
use crate::volume::state::locks::InodeLocks;
use crate::volume::state::numbers::Numbers;
use crate::volume::state::options::VolumeOptions;
use crate::volume::state::places::Places;
use crate::volume::state::reclaim_queue::ReclaimQueue;
use crate::volume::state::references::References;
use crate::volume::state::usage::UsageCounter;

/// An open volume. See the [module](crate::volume).
pub struct Volume {
    pub(in crate::volume) kv: Arc<dyn Kv>,
    pub(in crate::volume) superblock: Superblock,
    pub(in crate::volume) options: VolumeOptions,
    pub(in crate::volume) locks: InodeLocks,
    pub(in crate::volume) numbers: Numbers,
    pub(in crate::volume) references: References,
    pub(in crate::volume) usage: UsageCounter,
    pub(in crate::volume) places: Places,
    pub(in crate::volume) reclaim_queue: ReclaimQueue,
    pub(in crate::volume) room: FoundRoom,
    /// Held by renames of directories to other ones.
    pub(in crate::volume) moving_directories: Mutex<()>,
    /// Something was committed since the last sync began.
    pub(in crate::volume) unsynced: AtomicBool,
}

impl Volume {
    /// Makes a volume in an empty store: the superblock and the root directory.
    ///
    /// # Errors
    /// `EEXIST` if there is a volume already.
    pub fn make(kv: &dyn Kv, options: &VolumeOptions) -> Result<()> {
        let mut transaction = kv.begin()?;
        if transaction
            .get(Space::Meta, &Key::Superblock.encode())?
            .is_some()
        {
            return Err(Error::new(Errno::EXIST, "there is a volume already"));
        }
        let superblock = Superblock {
            uuid: options.clock.unique_id(),
            features: 0,
        };
        let now = Time::from(options.clock.unix_time());
        let root = Inode {
            kind: FileKind::Directory,
            permissions: 0o755,
            uid: 0,
            gid: 0,
            links: 2,
            device: 0,
            size: 0,
            blocks: 0,
            parent: InodeNumber::ROOT,
            stale_end: 0,
            block_shift: 0,
            has_attributes: false,
            accessed: now,
            modified: now,
            changed: now,
            born: now,
        };
        let superblock_key = Key::Superblock.encode();
        let root_key = Key::Inode(InodeNumber::ROOT).encode();
        transaction.put(Space::Meta, &superblock_key, &superblock.encode())?;
        transaction.put(Space::Meta, &root_key, &root.encode())?;
        match transaction.commit()? {
            Commit::Committed => kv.sync(),
            Commit::Conflict => Err(Error::new(
                Errno::EXIST,
                "another process makes a volume here",
            )),
            Commit::Undetermined => Err(Error::new(
                Errno::IO,
                "the store does not know whether there is a volume now",
            )),
        }
    }

    /// Opens the volume in a store. Orphans of a crash are queued for deletion.
    ///
    /// # Errors
    /// `EINVAL` if there is no volume; `EIO` if it is damaged or of a later version.
    ///
    /// Cost: after a crash, a scan of all inodes, to count them.
    pub fn open(kv: Arc<dyn Kv>, options: VolumeOptions) -> Result<Volume> {
        let Some(superblock) = kv.get(Space::Meta, &Key::Superblock.encode())? else {
            return Err(Error::new(Errno::INVAL, "there is no volume"));
        };
        let superblock = Superblock::decode(&superblock)?;
        let usage = UsageCounter::load(&*kv, options.read_only)?;
        let reclaim_queue = ReclaimQueue::load(&*kv)?;
        Ok(Volume {
            places: Places::new(&superblock),
            superblock,
            locks: InodeLocks::new(),
            numbers: Numbers::default(),
            references: References::default(),
            usage,
            reclaim_queue,
            room: FoundRoom::default(),
            moving_directories: Mutex::new(()),
            unsynced: AtomicBool::new(false),
            kv,
            options,
        })
    }

    /// The identity of the volume.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Makes everything that was done before the call survive a power failure.
    pub fn sync(&self) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.locks.check_not_inherited()?;
        self.unsynced.store(false, Ordering::Release);
        // A failed sync is still to be done.
        let forgotten = mutant!(failed_sync_forgotten);
        let failed = |_: &Error| self.unsynced.store(!forgotten, Ordering::Release);
        self.kv.sync().inspect_err(failed)
    }

    /// The same, if anything changed since the last call.
    pub fn sync_if_needed(&self) -> Result<()> {
        if self.unsynced.load(Ordering::Acquire) {
            self.sync()?;
        }
        Ok(())
    }

    /// Stores the counters and closes the store. Everything is durable afterwards. Nobody may use
    /// the volume meanwhile, or the counters would be wrong.
    ///
    /// The next opening deletes files without names that programs still have open.
    ///
    /// # Errors
    /// Those of closing the store. Changes since the last sync may not be durable then.
    pub fn close(&self) -> Result<()> {
        self.locks.check_not_inherited()?;
        if !self.options.read_only {
            // A store that takes no changes now is closed all the same. It may be able to make its
            // changes durable; the next opening counts.
            let _: Result<()> = self.store_usage();
        }
        self.kv.close()
    }

    /// The present counters.
    pub fn usage(&self) -> Usage {
        self.usage.get()
    }

    fn store_usage(&self) -> Result<()> {
        let mut transaction = self.kv.begin()?;
        let Some(usage) = self.usage.last()? else {
            return Ok(());
        };
        transaction.put(Space::Meta, &Key::Usage.encode(), &usage.encode())?;
        // Nobody else writes the key; without it the next opening counts.
        let _: Commit = transaction.commit()?;
        Ok(())
    }

    pub(in crate::volume) fn now(&self) -> Time {
        self.options.clock.unix_time().into()
    }

    /// The attributes of an inode as committed, from memory if they are there.
    pub(in crate::volume) fn attributes(&self, number: InodeNumber) -> Result<Attributes> {
        let as_of = match self.references.attributes(number) {
            Ok(inode) => return Ok(Attributes { number, inode }),
            Err(as_of) => as_of,
        };
        let stored = self.stored(number)?;
        self.references.learn(number, &stored.inode, as_of);
        Ok(stored)
    }

    /// The attributes of an inode as committed.
    pub(in crate::volume) fn stored(&self, number: InodeNumber) -> Result<Attributes> {
        let value = self.kv.get(Space::Meta, &Key::Inode(number).encode())?;
        let value = value.ok_or(Errno::STALE)?;
        let inode = Inode::decode(&value)?;
        Ok(Attributes { number, inode })
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Volume({:032x})", self.superblock.uuid)
    }
}
