//! Finding names, and giving back the references of lookups.

use rustix::io::Errno;

use crate::error::Result;
use crate::file_system::{Attributes, NAME_MAX};
use crate::kv::Space;
use crate::schema::{Entry, FileKind, InodeNumber, Key};
use crate::volume::state::volume::Volume;

impl Volume {
    pub(in crate::volume) fn lookup(
        &self,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<Attributes> {
        match name {
            b"." => self.find_again(directory),
            b".." => self.find_above(directory),
            _ => self.find(directory, name),
        }
    }

    pub(in crate::volume) fn forget(&self, inode: InodeNumber, references: u64) {
        if self.references.remove(inode, references) {
            self.reclaim_queue.push(inode);
        }
    }

    fn find(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes> {
        check_name(name)?;
        let _lock = self.locks.shared(directory);
        let entry = self
            .kv
            .get(Space::Meta, &Key::Entry(directory, name).encode())?;
        let entry = Entry::decode(&entry.ok_or(Errno::NOENT)?)?;
        // ORDER: the reference first. While the directory is locked the name stays, so the inode
        // exists.
        self.references.add(entry.inode);
        self.stored(entry.inode).inspect_err(|_| {
            if !mutant!(failed_lookup_refers) {
                self.references.remove(entry.inode, 1);
            }
        })
    }

    /// An inode by its number, for a caller that knew it earlier.
    ///
    /// # Errors
    /// `ESTALE` if it has no names any more.
    fn find_again(&self, number: InodeNumber) -> Result<Attributes> {
        // While it is locked it keeps its names.
        let _lock = self.locks.shared(number);
        let found = self.stored(number)?;
        if found.inode.links == 0 {
            return Err(Errno::STALE.into());
        }
        self.references.add(number);
        Ok(found)
    }

    /// The directory that a directory is in. Above the root is the root.
    fn find_above(&self, directory: InodeNumber) -> Result<Attributes> {
        let inode = self.stored(directory)?.inode;
        if inode.kind != FileKind::Directory {
            return Err(Errno::NOTDIR.into());
        }
        self.find_again(inode.parent)
    }
}

/// Refuses names that no entry can have.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Errno::NAMETOOLONG.into());
    }
    if name.is_empty()
        || name == b"."
        || name == b".."
        || name.iter().any(|b| matches!(b, 0 | b'/'))
    {
        return Err(Errno::INVAL.into());
    }
    Ok(())
}
