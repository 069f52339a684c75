//! Operations on names.

use rustix::io::Errno;
use tifs::file_system::{Rename, TARGET_MAX};
use tifs::schema::FileKind;

use super::{Expected, Id, Listed, Model, Node, Outcome, check_name};
use crate::ops::{Mode, Name, Raw, Slot};

const SET_GROUP_ID: u32 = 0o2000;

impl Model {
    pub(super) fn lookup(&mut self, at: &Name, to: Slot) -> Expected {
        let directory = self.slots[&at.directory];
        let found = match &at.name.0[..] {
            b"." => self.named(directory)?,
            b".." => self.named(self.nodes[&directory].parent)?,
            _ => {
                check_name(&at.name)?;
                self.child(at)?.1
            }
        };
        Ok(self.bind(Some(to), found))
    }

    /// A directory that is found by its number: not one that was removed.
    fn named(&self, id: Id) -> Result<Id, Errno> {
        let node = self.nodes.get(&id).filter(|node| node.links > 0);
        node.map(|_| id).ok_or(Errno::STALE)
    }

    pub(super) fn make_node(
        &mut self,
        at: &Name,
        mode: Mode,
        umask: Mode,
        device: u32,
        to: Option<Slot>,
    ) -> Expected {
        let kind = match FileKind::of_mode(mode.0) {
            None | Some(FileKind::Directory | FileKind::Symlink) => return Err(Errno::INVAL),
            Some(kind) => kind,
        };
        let mut node = self.new_node(kind, mode.0 & 0o7777 & !umask.0);
        if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) {
            node.device = device;
        }
        self.create(at, node, to)
    }

    pub(super) fn make_symlink(&mut self, at: &Name, target: &Raw, to: Option<Slot>) -> Expected {
        match target.0.len() {
            0 => return Err(Errno::NOENT),
            length if length > TARGET_MAX => return Err(Errno::NAMETOOLONG),
            _ => {}
        }
        let mut node = self.new_node(FileKind::Symlink, 0o777);
        node.target = target.0.clone();
        self.create(at, node, to)
    }

    pub(super) fn create(&mut self, at: &Name, node: Node, to: Option<Slot>) -> Expected {
        check_name(&at.name)?;
        let directory = self.living_directory(at.directory)?;
        if self.nodes[&directory].entries.contains_key(&at.name.0) {
            return Err(Errno::EXIST);
        }
        let id = self.add(directory, &at.name, node);
        Ok(self.bind(to, id))
    }

    fn add(&mut self, directory: Id, name: &Raw, mut node: Node) -> Id {
        self.last.0 += 1;
        let id = self.last;
        let parent = &self.nodes[&directory];
        if parent.permissions & SET_GROUP_ID != 0 {
            node.gid = parent.gid;
            if node.kind == FileKind::Directory {
                node.permissions |= SET_GROUP_ID;
            }
        }
        node.parent = directory;
        self.nodes.insert(id, node);
        self.enter(directory, name, id);
        id
    }

    pub(super) fn link(&mut self, id: Id, at: &Name, to: Option<Slot>) -> Expected {
        check_name(&at.name)?;
        let directory = self.living_directory(at.directory)?;
        let node = &self.nodes[&id];
        if node.kind == FileKind::Directory {
            return Err(Errno::PERM);
        }
        if node.links == 0 {
            return Err(Errno::NOENT);
        }
        if self.nodes[&directory].entries.contains_key(&at.name.0) {
            return Err(Errno::EXIST);
        }
        let now = self.now;
        let node = self.get(id);
        node.links += 1;
        node.changed = now;
        self.enter(directory, &at.name, id);
        Ok(self.bind(to, id))
    }

    pub(super) fn remove(&mut self, at: &Name, is_directory: bool) -> Expected {
        check_name(&at.name)?;
        let (directory, child) = self.child(at)?;
        let node = &self.nodes[&child];
        match (node.kind == FileKind::Directory, is_directory) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            (true, true) if !node.entries.is_empty() => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        self.leave(directory, &at.name, child);
        self.lose_name(child);
        Ok(Outcome::Done)
    }

    pub(super) fn rename(&mut self, from: &Name, to: &Name, how: Rename) -> Expected {
        check_name(&from.name)?;
        check_name(&to.name)?;
        let (old, source) = self.child(from)?;
        let target = self.child(to).ok().map(|(_, target)| target);
        match (how, target) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EXIST),
            (Rename::Exchange, None) => return Err(Errno::NOENT),
            (_, Some(target)) if target == source => return Ok(Outcome::Done),
            _ => {}
        }
        let new = self.living_directory(to.directory)?;
        if self.is_within(new, source)
            || how == Rename::Exchange && target.is_some_and(|target| self.is_within(old, target))
        {
            return Err(Errno::INVAL);
        }
        if let Some(target) = target.filter(|_| how != Rename::Exchange) {
            let is_directory = |id| self.nodes[&id].kind == FileKind::Directory;
            match (is_directory(source), is_directory(target)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.nodes[&target].entries.is_empty() => {
                    return Err(Errno::NOTEMPTY);
                }
                _ => {}
            }
        }
        self.leave(old, &from.name, source);
        if let Some(target) = target {
            self.leave(new, &to.name, target);
            match how {
                Rename::Exchange => self.place(target, old, &from.name),
                _ => self.lose_name(target),
            }
        }
        self.place(source, new, &to.name);
        if how == Rename::Whiteout {
            let whiteout = self.new_node(FileKind::CharDevice, 0);
            self.add(old, &from.name, whiteout);
        }
        Ok(Outcome::Done)
    }

    fn place(&mut self, id: Id, directory: Id, name: &Raw) {
        self.enter(directory, name, id);
        let now = self.now;
        let node = self.get(id);
        node.changed = now;
        node.parent = directory;
    }

    /// Gives a directory an entry.
    fn enter(&mut self, directory: Id, name: &Raw, child: Id) {
        let now = self.now;
        let is_directory = self.nodes[&child].kind == FileKind::Directory;
        let node = self.get(directory);
        node.entries.insert(name.0.clone(), child);
        node.links += u32::from(is_directory);
        (node.modified, node.changed) = (now, now);
    }

    /// Takes an entry from a directory.
    fn leave(&mut self, directory: Id, name: &Raw, child: Id) {
        let now = self.now;
        let is_directory = self.nodes[&child].kind == FileKind::Directory;
        let node = self.get(directory);
        node.entries.remove(&name.0);
        node.links -= u32::from(is_directory);
        (node.modified, node.changed) = (now, now);
    }

    fn lose_name(&mut self, id: Id) {
        let now = self.now;
        let node = self.get(id);
        match node.kind {
            FileKind::Directory => node.links = 0,
            _ => node.links -= 1,
        }
        node.changed = now;
        self.drop_if_unused(id);
    }

    /// A directory and what a name in it leads to.
    fn child(&self, at: &Name) -> Result<(Id, Id), Errno> {
        let directory = self.slots[&at.directory];
        let child = self.nodes[&directory].entries.get(&at.name.0);
        Ok((directory, *child.ok_or(Errno::NOENT)?))
    }

    fn living_directory(&self, slot: Slot) -> Result<Id, Errno> {
        let id = self.slots[&slot];
        match &self.nodes[&id] {
            node if node.kind != FileKind::Directory => Err(Errno::NOTDIR),
            node if node.links == 0 => Err(Errno::NOENT),
            _ => Ok(id),
        }
    }

    /// Whether a directory with a name is `other`, or in it.
    fn is_within(&self, directory: Id, other: Id) -> bool {
        let parent = self.nodes[&directory].parent;
        directory == other || directory != Id::ROOT && self.is_within(parent, other)
    }

    pub(super) fn list(&self, directory: Slot, attributes: bool) -> Outcome<Id> {
        let id = self.slots[&directory];
        let node = &self.nodes[&id];
        let dots = [(b".".to_vec(), id), (b"..".to_vec(), node.parent)];
        let entries = node.entries.iter().map(|(name, id)| (name.clone(), *id));
        let listed = |(name, inode): (Vec<u8>, Id)| {
            let node = self.nodes.get(&inode);
            Listed {
                name,
                inode,
                // The former parent of a removed directory may be gone.
                kind: node.map_or(FileKind::Directory, |node| node.kind),
                attributes: node.filter(|_| attributes).map(Node::attributes),
            }
        };
        Outcome::Listing(dots.into_iter().chain(entries).map(listed).collect())
    }
}
