//! A volume: the operations of a file system as transactions on a store.
//!
//! Owns the rules of POSIX, which keys an operation reads and writes, and what is deleted later.
//! Promises that each operation is one transaction, and that what a crash leaves needs no repair. Assumes
//! that this process alone uses the volume, which the store's lock sees to.
//!
//! # Order
//!
//! Operations on the same inode take turns, by locks in memory ([`locks`]): the store's conflicts are
//! there for correctness, the locks for speed. All locks of an operation are taken at once and in order.
//! A rename of a directory to another one excludes other such renames, because it checks that no
//! directory becomes its own ancestor.
//!
//! # Deleting later
//!
//! A file whose last name is removed becomes an orphan, in the same transaction, with a key that says
//! so. Once nobody refers to it, a background thread deletes its blocks, piece by piece, and then its
//! inode ([`reclaim`]). The next opening does that for the orphans of a crash. A truncation cuts many
//! blocks in the same way; the inode says up to where old blocks may be left, and whoever makes the file
//! grow deletes them first. So no old byte is ever shown.

mod attributes;
mod background;
mod content;
mod names;
mod operations;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use titan::{StdClock, SystemClock};

use self::content::reclaim::Reclaimer;
use self::content::room::Room;
use self::state::locks::InodeLocks;
use self::state::numbers::Numbers;
use self::state::places::Places;
use self::state::references::References;
use self::state::usage::UsageCounter;

pub(crate) use self::attributes::acl::{
    ACCESS as ACCESS_ACL, DEFAULT as DEFAULT_ACL, permissions_of as acl_permissions,
};
pub use self::attributes::describe::{DESCRIPTION, Description, STATISTICS, Statistics};
pub use self::background::Background;
pub(crate) use self::content::content::INLINE_MAX;
pub(crate) use self::names::create::check_name;
use crate::error::{Error, Result};
use crate::file_system::Attributes;
use crate::kv::{Commit, Kv, Space};
use crate::schema::{FileKind, Inode, InodeNumber, Key, Superblock, Time};

/// Bytes that the device below the store still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpace {
    /// Bytes of the device.
    pub total: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that are free for all users.
    pub available: u64,
}

/// When reads change the time of the last access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTime {
    /// Never.
    Never,
    /// If it is not later than the last change, or a day old.
    #[default]
    Relative,
    /// Always, for reads that reach the volume. Those that the kernel's cache answers do not.
    Strict,
}

/// How a volume is opened.
#[derive(Clone)]
pub struct VolumeOptions {
    /// The clock of all times.
    pub clock: Arc<dyn SystemClock>,
    /// When reads change the time of the last access.
    pub access_time: AccessTime,
    /// Refuse all changes.
    pub read_only: bool,
    /// What the device has left.
    pub host_space: Arc<dyn Fn() -> Result<HostSpace> + Send + Sync>,
    /// Where the store is now, for statistics.
    pub directory: Arc<dyn Fn() -> Option<PathBuf> + Send + Sync>,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        VolumeOptions {
            clock: Arc::new(StdClock),
            access_time: AccessTime::default(),
            read_only: false,
            host_space: Arc::new(|| {
                Ok(HostSpace {
                    total: 1 << 41,
                    free: 1 << 40,
                    available: 1 << 40,
                })
            }),
            directory: Arc::new(|| None),
        }
    }
}

impl fmt::Debug for VolumeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeOptions")
            .field("access_time", &self.access_time)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

/// An open volume. See the [module](self).
pub struct Volume {
    kv: Arc<dyn Kv>,
    superblock: Superblock,
    options: VolumeOptions,
    locks: InodeLocks,
    numbers: Numbers,
    references: References,
    usage: UsageCounter,
    places: Places,
    reclaimer: Reclaimer,
    room: Room,
    /// Held by renames of directories to other ones.
    moving_directories: Mutex<()>,
    /// Something was committed since the last sync began.
    unsynced: AtomicBool,
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
            Commit::Conflict | Commit::Undetermined => Err(Error::new(
                Errno::EXIST,
                "another process makes a volume here",
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
        let reclaimer = Reclaimer::load(&*kv)?;
        Ok(Volume {
            places: Places::new(&superblock),
            superblock,
            locks: InodeLocks::new(),
            numbers: Numbers::default(),
            references: References::default(),
            usage,
            reclaimer,
            room: Room::default(),
            moving_directories: Mutex::new(()),
            unsynced: AtomicBool::new(false),
            kv,
            options,
        })
    }

    /// What identifies the volume.
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
        // What failed is still to be done.
        // MUTANT: after a sync that failed, nothing is said to be left to sync.
        let forgotten = mutant!("failed-sync-forgotten", "-p tifs --test it moods::what");
        let failed = |_: &Error| self.unsynced.store(!forgotten, Ordering::Release);
        self.kv.sync().inspect_err(failed)
    }

    /// The same, if anything was done since the last call.
    pub fn sync_if_needed(&self) -> Result<()> {
        if self.unsynced.load(Ordering::Acquire) {
            self.sync()?;
        }
        Ok(())
    }

    /// Stores the counters and closes the store. Everything is durable afterwards. Nobody may use the
    /// volume meanwhile, or the counters would lack what he does.
    ///
    /// Files without names that programs still have open are deleted by the next opening.
    ///
    /// # Errors
    /// Those of closing the store. Then what was done since the last sync may not be durable.
    pub fn close(&self) -> Result<()> {
        self.locks.check_not_inherited()?;
        if !self.options.read_only {
            // A store that takes no changes now is closed all the same. It may be able to make durable
            // what it has; the next opening counts.
            let _: Result<()> = self.store_usage();
        }
        self.kv.close()
    }

    fn now(&self) -> Time {
        self.options.clock.unix_time().into()
    }

    /// The attributes of an inode as committed, from memory if they are there.
    fn known(&self, number: InodeNumber) -> Result<Attributes> {
        let as_of = match self.references.attributes(number) {
            Ok(inode) => return Ok(Attributes { number, inode }),
            Err(as_of) => as_of,
        };
        let stored = self.stored(number)?;
        self.references.learn(number, &stored.inode, as_of);
        Ok(stored)
    }

    /// The attributes of an inode as committed.
    fn stored(&self, number: InodeNumber) -> Result<Attributes> {
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
