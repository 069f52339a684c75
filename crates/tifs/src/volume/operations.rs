//! A volume as a [`FileSystem`]: each operation, and where it is done.

use bytes::Bytes;
use rustix::io::Errno;

use crate::error::Result;
use crate::file_system::{
    Allocate, Attributes, Caller, Capacity, Changes, Existing, FileSystem, ListedEntry, Rename,
    Seek, WriteContext, Written,
};
use crate::schema::{FileKind, InodeNumber};
use crate::volume::Volume;
use crate::volume::names::create::NewInode;

impl FileSystem for Volume {
    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes> {
        match name {
            b"." => self.find_again(directory),
            b".." => self.find_above(directory),
            _ => self.find(directory, name),
        }
    }

    fn forget(&self, inode: InodeNumber, references: u64) {
        if self.references.remove(inode, references) {
            self.reclaimer.queue(inode);
        }
    }

    fn attributes(&self, inode: InodeNumber) -> Result<Attributes> {
        self.known(inode)
    }

    fn set_attributes(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        changes: &Changes,
    ) -> Result<Attributes> {
        self.change_attributes(caller, inode, changes)
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Bytes> {
        let stored = self.stored(inode)?.inode;
        if stored.kind != FileKind::Symlink {
            return Err(Errno::INVAL.into());
        }
        self.content(inode, &stored, 0, stored.size as usize)
    }

    fn make_node(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        mode: u32,
        umask: u32,
        device: u32,
    ) -> Result<Attributes> {
        let kind = match FileKind::of_mode(mode) {
            Some(FileKind::Directory | FileKind::Symlink) | None => {
                return Err(Errno::INVAL.into());
            }
            Some(kind) => kind,
        };
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        let new = NewInode {
            caller,
            kind,
            permissions: mode & 0o7777,
            umask,
            device: if is_device { device } else { 0 },
            target: None,
        };
        self.create(directory, name, &new)
    }

    fn make_directory(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        mode: u32,
        umask: u32,
    ) -> Result<Attributes> {
        let new = NewInode {
            caller,
            kind: FileKind::Directory,
            permissions: mode & 0o7777,
            umask,
            device: 0,
            target: None,
        };
        self.create(directory, name, &new)
    }

    fn make_symlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attributes> {
        self.create_symlink(caller, directory, name, target)
    }

    fn link(&self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<Attributes> {
        self.add_link(inode, directory, name)
    }

    fn unlink(&self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.remove(directory, name, false)
    }

    fn remove_directory(&self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.remove(directory, name, true)
    }

    fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        how: Rename,
    ) -> Result<()> {
        self.rename_entry(caller, from, to, how)
    }

    fn read(&self, inode: InodeNumber, offset: u64, size: usize) -> Result<Bytes> {
        self.read_content(inode, offset, size)
    }

    fn write(
        &self,
        inode: InodeNumber,
        offset: u64,
        data: &[u8],
        context: WriteContext,
    ) -> Result<Written> {
        if data.is_empty() {
            return Ok(Written::default());
        }
        self.write_content(inode, offset, data, context)
    }

    fn sync(&self) -> Result<()> {
        Volume::sync(self)
    }

    fn list(
        &self,
        directory: InodeNumber,
        from: u64,
        entry: &mut dyn FnMut(&ListedEntry) -> bool,
    ) -> Result<()> {
        self.list_names(directory, from, entry)
    }

    fn list_with_attributes(
        &self,
        directory: InodeNumber,
        from: u64,
        entry: &mut dyn FnMut(&ListedEntry, &Attributes) -> bool,
    ) -> Result<()> {
        self.list_inodes(directory, from, entry)
    }

    fn capacity(&self) -> Result<Capacity> {
        /// What an inode is assumed to take, for the number of those that could be created.
        const INODE: u64 = 512;
        const BLOCK: u64 = Capacity::BLOCK_SIZE as u64;
        let (available, reserved) = self.free_space()?;
        let usage = self.usage();
        let used = usage.blocks * 512 / BLOCK;
        let free = (available + reserved) / BLOCK;
        let free_inodes = available / INODE;
        Ok(Capacity {
            blocks: used + free,
            free,
            available: available / BLOCK,
            inodes: usage.inodes + free_inodes,
            free_inodes,
        })
    }

    fn set_extended_attribute(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        existing: Existing,
    ) -> Result<()> {
        self.set_extended(inode, name, value, existing)
    }

    fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Bytes> {
        self.get_extended(inode, name)
    }

    fn extended_attributes(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.list_extended(inode)
    }

    fn remove_extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.remove_extended(inode, name)
    }

    fn allocate(&self, inode: InodeNumber, offset: u64, length: u64, what: Allocate) -> Result<()> {
        self.allocate_range(inode, offset, length, what)
    }

    fn seek(&self, inode: InodeNumber, offset: u64, what: Seek) -> Result<u64> {
        self.seek_content(inode, offset, what)
    }

    fn copy_range(
        &self,
        from: (InodeNumber, u64),
        to: (InodeNumber, u64),
        length: u64,
    ) -> Result<u64> {
        self.copy_content(from, to, length)
    }
}
