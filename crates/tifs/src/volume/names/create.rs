//! Making inodes and names.

use rustix::io::Errno;
use titan::invariant;

use crate::error::Result;
use crate::file_system::{Attributes, Caller, TARGET_MAX};
use crate::schema::{FileKind, Inode, InodeNumber, Key, with_format};
use crate::volume::attributes::acl::Inherited;
use crate::volume::names::lookup::check_name;
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

const SET_GROUP_ID: u32 = 0o2000;

/// The properties of a new inode that the call gives.
pub(in crate::volume) struct NewInode<'a> {
    pub(in crate::volume) caller: &'a Caller,
    pub(in crate::volume) kind: FileKind,
    pub(in crate::volume) permissions: u32,
    /// Permissions that it does not get if the directory has no default ACL.
    pub(in crate::volume) umask: u32,
    pub(in crate::volume) device: u32,
    /// The target of a symbolic link.
    pub(in crate::volume) target: Option<&'a [u8]>,
}

impl Volume {
    pub(in crate::volume) fn make_node(
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

    pub(in crate::volume) fn make_directory(
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

    /// Creates an inode with a name.
    fn create(
        &self,
        directory: InodeNumber,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Attributes> {
        check_name(name)?;
        self.make_room(0)?;
        let number = self.numbers.next(&*self.kv)?;
        let _locks = self.locks.exclusive(&[directory])?;
        let created = self.change(|change| {
            let mut parent = change.directory(directory)?;
            if change.entry(directory, name)?.is_some() {
                return Err(Errno::EXIST.into());
            }
            if new.kind == FileKind::Directory {
                parent.links = parent.links.checked_add(1).ok_or(Errno::MLINK)?;
            }
            let child = change.add_inode(number, (directory, &parent), new)?;
            change.put_entry(directory, name, child)?;
            change.put_directory(directory, &mut parent)?;
            Ok(child)
        })?;
        self.references.add(number);
        self.references.changed(number, Some(&created.inode));
        Ok(created)
    }

    pub(in crate::volume) fn make_symlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attributes> {
        if target.is_empty() {
            return Err(Errno::NOENT.into());
        }
        if target.len() > TARGET_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        let new = NewInode {
            caller,
            kind: FileKind::Symlink,
            permissions: 0o777,
            umask: 0,
            device: 0,
            target: Some(target),
        };
        self.create(directory, name, &new)
    }

    pub(in crate::volume) fn link(
        &self,
        number: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<Attributes> {
        check_name(name)?;
        self.make_room(0)?;
        let _locks = self.locks.exclusive(&[number, directory])?;
        let linked = self.change(|change| {
            let mut parent = change.directory(directory)?;
            let mut inode = change.inode(number)?;
            if inode.kind == FileKind::Directory {
                return Err(Errno::PERM.into());
            }
            if inode.links == 0 {
                return Err(Errno::NOENT.into());
            }
            if change.entry(directory, name)?.is_some() {
                return Err(Errno::EXIST.into());
            }
            inode.links = inode.links.checked_add(1).ok_or(Errno::MLINK)?;
            inode.changed = change.now;
            let linked = Attributes { number, inode };
            change.put_inode(number, &inode)?;
            change.put_entry(directory, name, linked)?;
            change.put_directory(directory, &mut parent)?;
            Ok(linked)
        })?;
        self.references.add(number);
        Ok(linked)
    }
}

impl Change<'_> {
    /// Stores a new inode, without a name.
    pub(in crate::volume) fn add_inode(
        &mut self,
        number: InodeNumber,
        (directory, parent): (InodeNumber, &Inode),
        new: &NewInode<'_>,
    ) -> Result<Attributes> {
        let inherits_group = parent.permissions & SET_GROUP_ID != 0;
        let inherited = match new.target {
            Some(_) => Inherited::none(new.permissions),
            None => self.inherit_acl((directory, parent), new.kind, new.permissions, new.umask)?,
        };
        let mut permissions = inherited.permissions & 0o7777;
        if inherits_group && new.kind == FileKind::Directory {
            permissions |= SET_GROUP_ID;
        }
        let mut inode = Inode {
            kind: new.kind,
            permissions,
            uid: new.caller.uid,
            gid: if inherits_group {
                parent.gid
            } else {
                new.caller.gid
            },
            links: if new.kind == FileKind::Directory {
                2
            } else {
                1
            },
            device: new.device,
            size: 0,
            blocks: 0,
            parent: directory,
            stale_end: 0,
            block_shift: 0,
            has_attributes: inherited.has_acl(),
            accessed: self.now,
            modified: self.now,
            changed: self.now,
            born: self.now,
        };
        if let Some(target) = new.target {
            // A target takes no blocks, as that of a short symbolic link elsewhere.
            inode.size = target.len() as u64;
            self.put(Key::Inline(number), &with_format(target))?;
        }
        invariant!(
            self.get(Key::Inode(number))?.is_none(),
            "inode {number} exists, and is made"
        );
        self.put_acls(number, &inherited)?;
        self.put_inode(number, &inode)?;
        self.usage.inodes += 1;
        Ok(Attributes { number, inode })
    }
}
