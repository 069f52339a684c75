//! The model of a volume: a file system in memory, as simple as possible.

mod content;
mod files;
mod names;
mod outcome;

use std::collections::BTreeMap;

use rustix::io::Errno;
use tifs::file_system::NAME_MAX;
use tifs::schema::{FileKind, Inode, InodeNumber, Time};

use crate::ops::{Name, Op, Raw, Slot, Step, Target};

pub use self::content::Content;
pub use self::outcome::{Listed, Outcome, comparable};

/// Identifies an inode of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

impl Id {
    pub const ROOT: Id = Id(1);
}

/// A file or directory.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: FileKind,
    pub permissions: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub device: u32,
    pub content: Content,
    pub target: Vec<u8>,
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
    pub entries: BTreeMap<Vec<u8>, Id>,
    /// Of a directory, the one that has it or had it last.
    pub parent: Id,
    pub accessed: Time,
    pub modified: Time,
    pub changed: Time,
    pub born: Time,
    /// Slots that refer to it.
    references: u64,
}

impl Node {
    /// Attributes, without what the model does not know.
    pub fn attributes(&self) -> Inode {
        let size = match self.kind {
            FileKind::Symlink => self.target.len() as u64,
            _ => self.content.size(),
        };
        Inode {
            kind: self.kind,
            permissions: self.permissions,
            uid: self.uid,
            gid: self.gid,
            links: self.links,
            device: self.device,
            size,
            blocks: 0,
            parent: InodeNumber::ROOT,
            stale_end: 0,
            block_shift: 0,
            has_attributes: false,
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            born: self.born,
        }
    }
}

type Expected = Result<Outcome<Id>, Errno>;

/// A file system in memory.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<Id, Node>,
    slots: BTreeMap<Slot, Id>,
    last: Id,
    /// Of the operation that is applied.
    now: Time,
    /// The user who does it.
    by: u32,
}

impl Model {
    /// The root directory alone.
    pub fn new(now: Time) -> Self {
        let mut model = Model {
            nodes: BTreeMap::new(),
            slots: [(Slot::ROOT, Id::ROOT)].into(),
            last: Id::ROOT,
            now,
            by: 0,
        };
        let mut root = model.new_node(FileKind::Directory, 0o755);
        root.parent = Id::ROOT;
        root.references = 1;
        model.nodes.insert(Id::ROOT, root);
        model
    }

    /// Does an operation, and says what comes of it. The outcome of [`Op::Seek`] is a choice of the
    /// volume: see [`Model::allows_seek`].
    pub fn apply(&mut self, step: &Step, now: Time) -> Outcome<Id> {
        (self.now, self.by) = (now, step.by);
        if !self.is_meaningful(&step.op) {
            return Outcome::Skipped;
        }
        self.outcome(&step.op).unwrap_or_else(Outcome::Failed)
    }

    /// Whether all slots are bound that must be, to what a kernel would use so. What only the
    /// kernel does is not.
    pub fn is_meaningful(&self, op: &Op) -> bool {
        let bound = |slot: &Slot| self.slots.contains_key(slot);
        let free = |slot: &Option<Slot>| slot.is_none_or(|slot| !bound(&slot));
        let is = |slot: &Slot, kind| self.node(*slot).is_some_and(|node| node.kind == kind);
        let at = |name: &Name| is(&name.directory, FileKind::Directory);
        match op {
            Op::Lookup { at: name, to } => at(name) && !bound(to),
            Op::MakeNode { at: name, to, .. }
            | Op::MakeDirectory { at: name, to, .. }
            | Op::MakeSymlink { at: name, to, .. } => bound(&name.directory) && free(to),
            Op::Link { of, at: name, to } => {
                of.slot().is_some_and(|of| bound(&of)) && bound(&name.directory) && free(to)
            }
            Op::Unlink { at: name } | Op::RemoveDirectory { at: name } => at(name),
            Op::Rename { from, to, how } => at(from) && at(to) && how.rule().is_some(),
            Op::Forget { slot } => bound(slot) && *slot != Slot::ROOT,
            Op::Read { file, offset, .. } => is(file, FileKind::File) && offset.is_some(),
            Op::Seek { file, .. } => is(file, FileKind::File),
            Op::Copy { from, to, .. } => is(from, FileKind::File) && is(to, FileKind::File),
            Op::List {
                directory,
                attributes,
                page,
            } => {
                let node = self.node(*directory);
                let listed = |node: &Node| {
                    node.kind == FileKind::Directory && (node.links > 0 || !attributes)
                };
                *page > 0 && node.is_some_and(listed)
            }
            Op::Write { file, offset, .. } => bound(file) && offset.is_some(),
            Op::Allocate { file, .. } | Op::Fsync { file, .. } => bound(file),
            Op::ReadLink { of }
            | Op::Stat { of }
            | Op::Set { of, .. }
            | Op::SetExtended { of, .. }
            | Op::GetExtended { of, .. }
            | Op::ListExtended { of }
            | Op::RemoveExtended { of, .. } => of.slot().is_some_and(|of| bound(&of)),
            Op::Sync {} | Op::Reclaim {} | Op::Flush {} | Op::Remount {} | Op::Crash {} => true,
            Op::Open { .. }
            | Op::OpenUnnamed { .. }
            | Op::MapWrite { .. }
            | Op::Flock { .. }
            | Op::Access { .. }
            | Op::SetAcl { .. }
            | Op::DropCaches {} => false,
        }
    }

    fn outcome(&mut self, op: &Op) -> Expected {
        match op {
            Op::Lookup { at, to } => self.lookup(at, *to),
            Op::Forget { slot } => {
                self.forget(*slot);
                Ok(Outcome::Done)
            }
            Op::MakeNode {
                at,
                mode,
                umask,
                device,
                to,
            } => self.make_node(at, *mode, *umask, *device, *to),
            Op::MakeDirectory {
                at,
                mode,
                umask,
                to,
            } => {
                let mode = mode.0 & 0o7777 & !umask.0;
                let node = self.new_node(FileKind::Directory, mode);
                self.create(at, node, *to)
            }
            Op::MakeSymlink { at, target, to } => self.make_symlink(at, target, *to),
            Op::Link { of, at, to } => self.link(self.target(of)?, at, *to),
            Op::Unlink { at } => self.remove(at, false),
            Op::RemoveDirectory { at } => self.remove(at, true),
            Op::Rename { from, to, how } => self.rename(from, to, how.rule().ok_or(Errno::INVAL)?),
            Op::List {
                directory,
                attributes,
                ..
            } => Ok(self.list(*directory, *attributes)),
            Op::Remount {} | Op::Crash {} => {
                self.reopen();
                Ok(Outcome::Done)
            }
            _ => self.outcome_on_inode(op),
        }
    }

    fn outcome_on_inode(&mut self, op: &Op) -> Expected {
        match op {
            Op::ReadLink { of } => {
                let node = &self.nodes[&self.target(of)?];
                match node.kind {
                    FileKind::Symlink => Ok(Outcome::Bytes(node.target.clone())),
                    _ => Err(Errno::INVAL),
                }
            }
            Op::Write { file, offset, data } => {
                self.write(*file, offset.ok_or(Errno::SPIPE)?, *data)
            }
            Op::Read {
                file,
                offset,
                length,
            } => self.read(*file, offset.ok_or(Errno::SPIPE)?, *length),
            Op::Stat { of } => {
                let node = &self.nodes[&self.target(of)?];
                Ok(Outcome::Attributes(node.attributes()))
            }
            Op::Set {
                of,
                permissions,
                uid,
                gid,
                size,
                accessed,
                modified,
            } => {
                let of = self.target(of)?;
                let owner = (*permissions, *uid, *gid);
                self.set(of, owner, *size, (*accessed, *modified))
            }
            Op::Allocate {
                file,
                offset,
                length,
                what,
            } => self.allocate(*file, *offset, *length, *what),
            Op::Copy {
                from,
                offset,
                to,
                at,
                length,
            } => self.copy((*from, *offset), (*to, *at), *length),
            Op::SetExtended {
                of,
                name,
                value,
                existing,
            } => self.set_extended(self.target(of)?, name, *value, *existing),
            Op::GetExtended { of, name } => {
                check_extended_name(name)?;
                let value = self.nodes[&self.target(of)?].extended.get(&name.0);
                Ok(Outcome::Bytes(value.ok_or(Errno::NODATA)?.clone()))
            }
            Op::ListExtended { of } => {
                let names = self.nodes[&self.target(of)?].extended.keys();
                let ended = names.flat_map(|name| [&name[..], &[0]]);
                Ok(Outcome::Bytes(ended.flatten().copied().collect()))
            }
            Op::RemoveExtended { of, name } => self.remove_extended(self.target(of)?, name),
            Op::Fsync { .. } | Op::Sync {} | Op::Reclaim {} | Op::Flush {} => Ok(Outcome::Done),
            // The volume chooses what is found.
            _ => Ok(Outcome::Skipped),
        }
    }

    /// The inode of a slot.
    fn target(&self, of: &Target) -> Result<Id, Errno> {
        let slot = of.slot().ok_or(Errno::INVAL)?;
        Ok(self.slots[&slot])
    }

    /// The content of a slot.
    pub fn node(&self, slot: Slot) -> Option<&Node> {
        self.nodes.get(self.slots.get(&slot)?)
    }

    /// The inode with an identity.
    pub fn by_id(&self, id: Id) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// All slots and what they are bound to.
    pub fn slots(&self) -> impl Iterator<Item = (Slot, Id)> {
        self.slots.iter().map(|(slot, id)| (*slot, *id))
    }

    /// The number of inodes, once everything is reclaimed.
    pub fn inodes(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// Names that lead from the root to what a slot has; `None` if it has no name.
    pub fn path_of(&self, slot: Slot) -> Option<Vec<Raw>> {
        let wanted = *self.slots.get(&slot)?;
        let mut waiting = vec![(Id::ROOT, Vec::new())];
        while let Some((id, path)) = waiting.pop() {
            if id == wanted {
                return Some(path);
            }
            for (name, child) in self
                .nodes
                .get(&id)
                .into_iter()
                .flat_map(|node| &node.entries)
            {
                let mut path = path.clone();
                path.push(Raw(name.clone()));
                waiting.push((*child, path));
            }
        }
        None
    }

    fn get(&mut self, id: Id) -> &mut Node {
        self.nodes.get_mut(&id).unwrap()
    }

    fn bind(&mut self, slot: Option<Slot>, id: Id) -> Outcome<Id> {
        let node = self.get(id);
        node.references += u64::from(slot.is_some());
        let attributes = node.attributes();
        if let Some(slot) = slot {
            self.slots.insert(slot, id);
        }
        Outcome::Found(id, attributes)
    }

    fn forget(&mut self, slot: Slot) {
        let id = self.slots.remove(&slot).unwrap();
        self.get(id).references -= 1;
        self.drop_if_unused(id);
    }

    /// An inode without names exists as long as something refers to it.
    fn drop_if_unused(&mut self, id: Id) {
        if self.nodes[&id].links == 0 && self.nodes[&id].references == 0 {
            self.nodes.remove(&id);
        }
    }

    /// The end of the process: nothing refers to anything. What has a name is found again.
    fn reopen(&mut self) {
        self.nodes.retain(|_, node| node.links > 0);
        self.slots.retain(|_, id| self.nodes.contains_key(id));
    }

    fn new_node(&self, kind: FileKind, permissions: u32) -> Node {
        Node {
            kind,
            permissions,
            uid: self.by,
            gid: self.by,
            links: if kind == FileKind::Directory { 2 } else { 1 },
            device: 0,
            content: Content::default(),
            target: Vec::new(),
            extended: BTreeMap::new(),
            entries: BTreeMap::new(),
            parent: Id::ROOT,
            accessed: self.now,
            modified: self.now,
            changed: self.now,
            born: self.now,
            references: 0,
        }
    }
}

fn check_name(name: &Raw) -> Result<(), Errno> {
    match &name.0[..] {
        long if long.len() > NAME_MAX => Err(Errno::NAMETOOLONG),
        b"" | b"." | b".." => Err(Errno::INVAL),
        other if other.iter().any(|byte| [0, b'/'].contains(byte)) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

fn check_extended_name(name: &Raw) -> Result<(), Errno> {
    match &name.0[..] {
        name if name.len() > NAME_MAX => Err(Errno::RANGE),
        b"user." | b"trusted." => Err(Errno::INVAL),
        name if name.starts_with(b"user.") || name.starts_with(b"trusted.") => Ok(()),
        _ => Err(Errno::OPNOTSUPP),
    }
}
