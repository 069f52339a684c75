//! Removing names.

use rustix::io::Errno;

use crate::error::Result;
use crate::kv::Space;
use crate::schema::{Entry, FORMAT, FileKind, Inode, InodeNumber, Key};
use crate::volume::names::lookup::check_name;
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

impl Volume {
    pub(in crate::volume) fn unlink(&self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.remove(directory, name, false)
    }

    pub(in crate::volume) fn remove_directory(
        &self,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<()> {
        self.remove(directory, name, true)
    }

    /// Removes a name, of a directory or of anything else.
    fn remove(&self, directory: InodeNumber, name: &[u8], is_directory: bool) -> Result<()> {
        check_name(name)?;
        let (child, orphan) = self.with_children(&[(directory, name)], |children| {
            let child = children[0].ok_or(Errno::NOENT)?;
            let orphan = self.change(|change| {
                let mut parent = change.directory(directory)?;
                let inode = change.inode(child.inode)?;
                if is_directory {
                    if inode.kind != FileKind::Directory {
                        return Err(Errno::NOTDIR.into());
                    }
                    if !mutant!(removed_directory_not_empty) {
                        change.must_be_empty(child.inode)?;
                    }
                    parent.links = parent.links.saturating_sub(1);
                } else if inode.kind == FileKind::Directory {
                    return Err(Errno::ISDIR.into());
                }
                change.delete(Key::Entry(directory, name))?;
                change.put_directory(directory, &mut parent)?;
                change.drop_link(child.inode, inode)
            })?;
            self.places.removed(directory, name);
            Ok((child.inode, orphan))
        })?;
        if orphan {
            self.orphaned(child);
        }
        Ok(())
    }

    /// Looks up names, locks their directories and inodes, then runs `locked` with the entries. The
    /// names do not change while it runs.
    pub(in crate::volume) fn with_children<T, const N: usize>(
        &self,
        names: &[(InodeNumber, &[u8]); N],
        locked: impl Fn(&[Option<Entry>; N]) -> Result<T>,
    ) -> Result<T> {
        loop {
            let children = self.children(names)?;
            let directories = names.iter().map(|(directory, _)| *directory);
            let inodes = children.iter().flatten().map(|child| child.inode);
            let all: Vec<InodeNumber> = directories.chain(inodes).collect();
            let _locks = self.locks.exclusive(&all)?;
            let believed = mutant!(name_not_looked_up_again);
            if believed || self.children(names)? == children {
                return locked(&children);
            }
        }
    }

    fn children<const N: usize>(
        &self,
        names: &[(InodeNumber, &[u8]); N],
    ) -> Result<[Option<Entry>; N]> {
        let mut children = [None; N];
        for (child, (directory, name)) in children.iter_mut().zip(names) {
            let value = self
                .kv
                .get(Space::Meta, &Key::Entry(*directory, name).encode())?;
            *child = value.map(|value| Entry::decode(&value)).transpose()?;
        }
        Ok(children)
    }

    /// Queues an inode whose last name a commit removed, unless it is referred to.
    pub(in crate::volume) fn orphaned(&self, number: InodeNumber) {
        if self.references.orphan(number) {
            self.reclaim_queue.push(number);
        }
    }
}

impl Change<'_> {
    /// Counts one name less, for a directory all of its names. True if it was the last one: the
    /// inode is an orphan then, and the caller calls [`Volume::orphaned`] after the commit.
    pub(in crate::volume) fn drop_link(
        &mut self,
        number: InodeNumber,
        mut inode: Inode,
    ) -> Result<bool> {
        inode.links = match inode.kind {
            FileKind::Directory => 0,
            _ => inode.links.saturating_sub(1),
        };
        inode.changed = self.now;
        self.put_inode(number, &inode)?;
        if inode.links > 0 {
            return Ok(false);
        }
        if !mutant!(orphan_not_recorded) {
            self.put(Key::Orphan(number), &[FORMAT])?;
        }
        Ok(true)
    }
}
