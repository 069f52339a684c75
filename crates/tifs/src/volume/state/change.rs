//! One operation: a transaction with the keys and values of the schema.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use rustix::io::Errno;
use titan::invariant;

use crate::error::{Error, Result};
use crate::file_system::Attributes;
use crate::kv::{Commit, Scan, Space, Transaction};
use crate::schema::{
    Entry, FileKind, INLINE_MAX, Inode, InodeNumber, Key, Time, content_of, with_format,
};
use crate::volume::state::attempts::until_committed;
use crate::volume::state::usage::UsageChange;
use crate::volume::state::volume::Volume;

/// The reads and writes of an operation.
pub(in crate::volume) struct Change<'a> {
    pub(in crate::volume) transaction: Box<dyn Transaction + 'a>,
    /// The change of the volume's counters.
    pub(in crate::volume) usage: UsageChange,
    /// The time of everything that the operation changes.
    pub(in crate::volume) now: Time,
    /// Inodes as the operation makes them; the last of each counts.
    inodes: Vec<(InodeNumber, Inode)>,
}

impl Volume {
    /// Runs an operation until it commits or fails, perhaps several times. So it may affect only
    /// the transaction.
    ///
    /// # Errors
    /// Those of the operation; `EROFS`, also in a forked child; `EAGAIN` if it conflicted too
    /// often; `ETIMEDOUT` if a cluster used its time up.
    pub(in crate::volume) fn change<T>(
        &self,
        operation: impl Fn(&mut Change<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.options.read_only {
            return Err(Errno::ROFS.into());
        }
        self.locks.check_not_inherited()?;
        until_committed(|budget| {
            let mut change = Change {
                transaction: self.kv.begin_within(budget)?,
                usage: UsageChange::default(),
                now: self.now(),
                inodes: Vec::new(),
            };
            let result = match operation(&mut change) {
                Err(error) if error.is_outdated() => return Ok(None),
                result => result?,
            };
            if mutant!(counted_before_the_commit) {
                self.usage.add(change.usage);
                change.usage = UsageChange::default();
            }
            // If the store has stopped, the next sync finds out.
            for (number, _) in &change.inodes {
                self.references.changing(*number);
            }
            let committed = match change.transaction.commit() {
                Err(error) if error.is_outdated() => Ok(Commit::Conflict),
                committed => committed,
            };
            let is_done = matches!(committed, Ok(Commit::Committed));
            // ORDER: before the locks of the inodes are released.
            for (number, inode) in &change.inodes {
                self.references.changed(*number, is_done.then_some(inode));
            }
            let committed = committed.inspect_err(|_| self.unsynced.store(true, Ordering::Release));
            match committed? {
                Commit::Committed => {
                    self.usage.add(change.usage);
                    self.unsynced.store(true, Ordering::Release);
                    Ok(Some(result))
                }
                Commit::Conflict => Ok(None),
                Commit::Undetermined => {
                    self.usage.doubt();
                    let what = "the store does not know whether the operation took effect";
                    Err(Error::new(Errno::IO, what))
                }
            }
        })
    }
}

impl Change<'_> {
    pub(in crate::volume) fn get(&mut self, key: Key<'_>) -> Result<Option<Bytes>> {
        self.transaction.get(Space::Meta, &key.encode())
    }

    pub(in crate::volume) fn put(&mut self, key: Key<'_>, value: &[u8]) -> Result<()> {
        self.transaction.put(Space::Meta, &key.encode(), value)
    }

    pub(in crate::volume) fn delete(&mut self, key: Key<'_>) -> Result<()> {
        self.transaction.delete(Space::Meta, &key.encode())
    }

    /// The attributes of an inode. `ESTALE` if it does not exist, which the kernel never sees if it
    /// counts its references right.
    pub(in crate::volume) fn inode(&mut self, number: InodeNumber) -> Result<Inode> {
        let value = self.get(Key::Inode(number))?;
        Inode::decode(&value.ok_or(Errno::STALE)?)
    }

    /// The attributes of a directory that has a name, for changing its entries.
    pub(in crate::volume) fn directory(&mut self, number: InodeNumber) -> Result<Inode> {
        let inode = self.inode(number)?;
        if inode.kind != FileKind::Directory {
            return Err(Errno::NOTDIR.into());
        }
        if inode.links == 0 {
            return Err(Errno::NOENT.into());
        }
        Ok(inode)
    }

    pub(in crate::volume) fn put_inode(
        &mut self,
        number: InodeNumber,
        inode: &Inode,
    ) -> Result<()> {
        check_to_store(number, inode)?;
        self.inodes.push((number, *inode));
        self.put(Key::Inode(number), &inode.encode())
    }

    /// Stores a directory after a change of its entries.
    pub(in crate::volume) fn put_directory(
        &mut self,
        number: InodeNumber,
        inode: &mut Inode,
    ) -> Result<()> {
        invariant!(
            inode.kind == FileKind::Directory,
            "inode {number} has entries"
        );
        inode.modified = self.now;
        inode.changed = self.now;
        self.put_inode(number, inode)
    }

    pub(in crate::volume) fn entry(
        &mut self,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<Option<Entry>> {
        let value = self.get(Key::Entry(directory, name))?;
        value.map(|value| Entry::decode(&value)).transpose()
    }

    pub(in crate::volume) fn put_entry(
        &mut self,
        directory: InodeNumber,
        name: &[u8],
        child: Attributes,
    ) -> Result<()> {
        let entry = Entry {
            inode: child.number,
            kind: child.inode.kind,
        };
        self.put(Key::Entry(directory, name), &entry.encode())
    }

    /// `ENOTEMPTY` if a directory has entries. No other operation adds one before this one commits:
    /// it would write the directory's inode, too.
    pub(in crate::volume) fn must_be_empty(&mut self, directory: InodeNumber) -> Result<()> {
        let prefix = Key::Entry(directory, b"").encode();
        let scan = Scan::prefix(Space::Meta, &prefix).keys_only().limit(1);
        if self.transaction.scan(&scan)?.is_empty() {
            Ok(())
        } else {
            Err(Errno::NOTEMPTY.into())
        }
    }

    /// The content of a small file, or the target of a symbolic link; empty if nothing is stored.
    pub(in crate::volume) fn inline(&mut self, number: InodeNumber) -> Result<Bytes> {
        let value = self.get(Key::Inline(number))?;
        value.map_or(Ok(Bytes::new()), |value| content_of(&value))
    }

    pub(in crate::volume) fn put_inline(
        &mut self,
        number: InodeNumber,
        content: &[u8],
    ) -> Result<()> {
        invariant!(
            durable: content.len() as u64 <= INLINE_MAX,
            "{} bytes beside the attributes of inode {number}",
            content.len()
        )?;
        invariant!(!content.is_empty(), "nothing is stored of inode {number}");
        self.put(Key::Inline(number), &with_format(content))
    }

    /// Adds to the blocks of a file, and to those of the volume.
    pub(in crate::volume) fn add_blocks(&mut self, inode: &mut Inode, change: i64) {
        invariant!(
            inode.blocks.checked_add_signed(change).is_some(),
            "{change} blocks are added to {}",
            inode.blocks
        );
        inode.blocks = inode.blocks.saturating_add_signed(change);
        self.usage.blocks += change;
    }
}

/// The state of an inode before it is stored.
///
/// Most of it was read from the store, where it may be damaged. So a release checks the number
/// alone.
fn check_to_store(number: InodeNumber, inode: &Inode) -> Result<()> {
    invariant!(durable: number >= InodeNumber::ROOT, "{number} is no number of an inode")?;
    let Inode {
        kind,
        links,
        size,
        blocks,
        stale_end,
        ..
    } = *inode;
    // Each stored byte is before the end, and blocks are of whole units.
    invariant!(
        blocks == 0 || kind == FileKind::File && blocks <= size.div_ceil(512),
        "inode {number} of {size} bytes has {blocks} blocks"
    );
    invariant!(
        size == 0 || matches!(kind, FileKind::File | FileKind::Symlink),
        "inode {number}, a {kind:?}, has {size} bytes"
    );
    invariant!(
        kind != FileKind::Directory || links != 1,
        "directory {number} has one link"
    );
    // Blocks to be deleted later are after the end: a file that grows deletes them first.
    invariant!(
        stale_end == 0 || !inode.is_inline() && stale_end > size.div_ceil(inode.block_size()),
        "inode {number} of {size} bytes has stale blocks up to {stale_end}"
    );
    Ok(())
}
