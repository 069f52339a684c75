//! The state of the simulated machine's file system: the tree that programs see, the tree on the
//! medium, and the name changes between the two.
//!
//! Only [`Disk::apply`] changes it, live and in replay, so that both agree.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};
use std::sync::Arc;

use super::content::Content;
use super::file::File;
use super::op::{FileId, FsOp};

type Name = Arc<str>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirId(u64);

const ROOT: DirId = DirId(0);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(FileId),
    Dir(DirId),
}

#[derive(Clone, Default)]
pub(super) struct Dir {
    pub(super) now: BTreeMap<Name, Node>,
    pub(super) medium: BTreeMap<Name, Node>,
}

/// An atomic change of names: removes a name, adds a name, or both.
#[derive(Clone)]
pub(super) struct NameOp {
    unset: Option<(DirId, Name)>,
    set: Option<((DirId, Name), Node)>,
}

impl NameOp {
    /// The names it changes.
    pub(super) fn names(&self) -> impl Iterator<Item = &(DirId, Name)> {
        self.unset
            .iter()
            .chain(self.set.iter().map(|(name, _)| name))
    }
}

/// Selects one of a directory's two sets of names.
#[derive(Clone, Copy)]
enum Side {
    Now,
    Medium,
}

/// See the module documentation. Cloning costs a pointer per file and directory.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<FileId, Arc<File>>,
    pub(super) dirs: BTreeMap<DirId, Arc<Dir>>,
    /// Name changes that may not be on the medium yet, oldest first.
    pub(super) pending: Vec<NameOp>,
    /// Open handles by file: files with handles outlive their names.
    pub(super) handles: BTreeMap<FileId, usize>,
    next: u64,
}

impl Disk {
    /// An empty file system: the root directory only.
    pub(super) fn new() -> Self {
        Disk {
            files: BTreeMap::new(),
            dirs: BTreeMap::from([(ROOT, Arc::default())]),
            pending: Vec::new(),
            handles: BTreeMap::new(),
            next: 1,
        }
    }

    /// The identity of the next created file.
    pub(super) fn next_file(&self) -> FileId {
        FileId(self.next)
    }

    /// The node with this path.
    pub(super) fn find(&self, path: &Path) -> io::Result<Option<Node>> {
        let mut node = Node::Dir(ROOT);
        for part in parts(path)? {
            let Node::Dir(dir) = node else {
                return Err(ErrorKind::NotADirectory.into());
            };
            match self.dirs.get(&dir).and_then(|d| d.now.get(part)) {
                Some(child) => node = *child,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// The file with this path.
    pub(super) fn find_file(&self, path: &Path) -> io::Result<FileId> {
        match self.find(path)? {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// The directory with this path.
    pub(super) fn find_dir(&self, path: &Path) -> io::Result<DirId> {
        match self.find(path)? {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(ErrorKind::NotADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// The names in a directory.
    pub(super) fn names(&self, dir: DirId) -> Vec<String> {
        let names = self.dirs.get(&dir).into_iter().flat_map(|d| d.now.keys());
        names.map(|name| name.to_string()).collect()
    }

    /// A file's bytes as programs see them.
    pub(super) fn content(&self, file: FileId) -> io::Result<&Content> {
        self.file(file).map(File::now)
    }

    pub(super) fn file(&self, file: FileId) -> io::Result<&File> {
        self.files
            .get(&file)
            .map(|file| &**file)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// The files that have names, each once per name.
    fn named(&self) -> impl Iterator<Item = FileId> {
        let nodes = self.dirs.values().flat_map(|d| d.now.values());
        nodes.filter_map(|node| match node {
            Node::File(file) => Some(*file),
            Node::Dir(_) => None,
        })
    }

    /// The number of a file's names.
    pub(super) fn link_count(&self, file: FileId) -> u64 {
        self.named().filter(|named| *named == file).count() as u64
    }

    /// Bytes of all files that have a name or a handle, without those in holes.
    pub(super) fn used(&self) -> u64 {
        let alive: BTreeSet<FileId> = self.named().chain(self.handles.keys().copied()).collect();
        alive
            .iter()
            .filter_map(|f| self.content(*f).ok())
            .map(Content::outside_holes)
            .sum()
    }

    /// Performs one operation, completely or not at all.
    pub(super) fn apply(&mut self, op: &FsOp) -> io::Result<()> {
        match op {
            FsOp::Create {
                path,
                file,
                purpose,
            } => {
                let place = self.place(path)?;
                match self.get(&place) {
                    Some(Node::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
                    Some(Node::File(existing)) => self.change(existing, |f| f.clear(*purpose)),
                    None => {
                        self.next = self.next.max(file.0 + 1);
                        self.files.insert(*file, Arc::new(File::new(*purpose)));
                        self.record(None, Some((place, Node::File(*file))));
                    }
                }
            }
            FsOp::Append { file, data, .. } => self.change(*file, |f| f.append(data)),
            FsOp::Write {
                file, offset, data, ..
            } => self.change(*file, |f| f.write_at(*offset, data)),
            FsOp::SetLen { file, len, .. } => self.change(*file, |f| f.set_len(*len)),
            FsOp::PunchHole {
                file, offset, len, ..
            } => self.change(*file, |f| f.punch_hole(*offset, *len)),
            FsOp::Close { file, .. } => self.change(*file, File::close),
            FsOp::Sync { file, .. } => self.change(*file, File::sync),
            FsOp::Rewrite { file, .. } => self.change(*file, File::rewrite),
            FsOp::SyncLost { file, .. } => self.change(*file, File::fail_sync),
            FsOp::Rename { from, to } => self.rename(from, to)?,
            FsOp::Link { from, to } => {
                let file = match self.find(from)? {
                    Some(Node::File(file)) => file,
                    Some(Node::Dir(_)) => return Err(ErrorKind::Unsupported.into()),
                    None => return Err(ErrorKind::NotFound.into()),
                };
                let place = self.place(to)?;
                if self.get(&place).is_some() {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                self.record(None, Some((place, Node::File(file))));
            }
            FsOp::Remove { path } => {
                self.find_file(path)?;
                let place = self.place(path)?;
                self.record(Some(place), None);
            }
            FsOp::SyncDir { path } => {
                let dir = self.find_dir(path)?;
                self.commit(|op| op.names().any(|(d, _)| *d == dir));
            }
            FsOp::CreateDir { path } => {
                let place = self.place(path)?;
                if self.get(&place).is_some() {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                let dir = DirId(self.next);
                self.next += 1;
                self.dirs.insert(dir, Arc::default());
                self.record(None, Some((place, Node::Dir(dir))));
            }
            FsOp::RemoveDir { path } => {
                let dir = self.find_dir(path)?;
                if !self.names(dir).is_empty() {
                    return Err(ErrorKind::DirectoryNotEmpty.into());
                }
                let place = self.place(path)?;
                self.record(Some(place), None);
            }
            FsOp::Replace { path, file, data } => {
                let place = self.place(path)?;
                if let Some(Node::Dir(_)) = self.get(&place) {
                    return Err(ErrorKind::IsADirectory.into());
                }
                self.next = self.next.max(file.0 + 1);
                self.files
                    .insert(*file, Arc::new(File::durable(Content::from(&data[..]))));
                self.record(None, Some((place.clone(), Node::File(*file))));
                self.commit(|op| op.names().any(|name| *name == place));
            }
            FsOp::SyncAll => {
                self.commit(|_| true);
                let files: Vec<FileId> = self.files.keys().copied().collect();
                for file in files {
                    self.change(file, File::sync);
                }
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.find(from)?.ok_or(ErrorKind::NotFound)?;
        let (source, target) = (self.place(from)?, self.place(to)?);
        let old = self.get(&target);
        // If both names are of one file, both stay: POSIX requires it.
        if old == Some(node) {
            return Ok(());
        }
        match (node, old) {
            (_, None) | (Node::File(_), Some(Node::File(_))) => {}
            (Node::Dir(_), Some(Node::Dir(old))) if self.names(old).is_empty() => {}
            (Node::Dir(_), Some(Node::Dir(_))) => {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            (Node::File(_), Some(Node::Dir(_))) => return Err(ErrorKind::IsADirectory.into()),
            (Node::Dir(_), Some(Node::File(_))) => return Err(ErrorKind::NotADirectory.into()),
        }
        if matches!(node, Node::Dir(_)) && parts(to)?.starts_with(&parts(from)?) {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.record(Some(source), Some((target, node)));
        Ok(())
    }

    /// The directory and the last name of a path.
    fn place(&self, path: &Path) -> io::Result<(DirId, Name)> {
        let parts = parts(path)?;
        let Some((name, _)) = parts.split_last() else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let parent = parts[..parts.len() - 1]
            .iter()
            .collect::<std::path::PathBuf>();
        Ok((self.find_dir(&parent)?, Name::from(*name)))
    }

    fn get(&self, (dir, name): &(DirId, Name)) -> Option<Node> {
        self.dirs.get(dir)?.now.get(name).copied()
    }

    /// Changes a file. Ignores one that no longer exists (no name, in replay no handle).
    fn change(&mut self, file: FileId, how: impl FnOnce(&mut File)) {
        if let Some(file) = self.files.get_mut(&file) {
            how(Arc::make_mut(file));
        }
    }

    fn record(&mut self, unset: Option<(DirId, Name)>, set: Option<((DirId, Name), Node)>) {
        let op = NameOp { unset, set };
        self.enact(&op, Side::Now);
        self.pending.push(op);
    }

    fn enact(&mut self, op: &NameOp, side: Side) {
        let mut names = |dir: DirId, how: &mut dyn FnMut(&mut BTreeMap<Name, Node>)| {
            if let Some(dir) = self.dirs.get_mut(&dir).map(Arc::make_mut) {
                match side {
                    Side::Now => how(&mut dir.now),
                    Side::Medium => how(&mut dir.medium),
                }
            }
        };
        if let Some((dir, name)) = &op.unset {
            names(*dir, &mut |map| {
                map.remove(name);
            });
        }
        if let Some(((dir, name), node)) = &op.set {
            names(*dir, &mut |map| {
                map.insert(Name::clone(name), *node);
            });
        }
    }

    /// Writes the `wanted` name changes to the medium, and the older ones of the same names.
    fn commit(&mut self, wanted: impl Fn(&NameOp) -> bool) {
        let mut touched = BTreeSet::new();
        let mut chosen: Vec<bool> = Vec::with_capacity(self.pending.len());
        for op in self.pending.iter().rev() {
            let choose = wanted(op) || op.names().any(|name| touched.contains(name));
            if choose {
                touched.extend(op.names().cloned());
            }
            chosen.push(choose);
        }
        let mut chosen = chosen.into_iter().rev();
        self.commit_chosen(|_| chosen.next().unwrap_or(true));
    }

    /// Writes to the medium the name changes that `choose` selects; it is called oldest first.
    pub(super) fn commit_chosen(&mut self, mut choose: impl FnMut(&NameOp) -> bool) {
        for op in std::mem::take(&mut self.pending) {
            if choose(&op) {
                self.enact(&op, Side::Medium);
            } else {
                self.pending.push(op);
            }
        }
        self.sweep();
    }

    /// Removes files and directories that nothing can restore: no name in either tree, none in a
    /// pending change, no handle.
    pub(super) fn sweep(&mut self) {
        let (mut files, mut dirs) = (BTreeSet::new(), BTreeSet::from([ROOT]));
        let mut todo = vec![ROOT];
        let mut see = |node: Node, todo: &mut Vec<DirId>| match node {
            Node::File(file) => {
                files.insert(file);
            }
            Node::Dir(dir) if dirs.insert(dir) => todo.push(dir),
            Node::Dir(_) => {}
        };
        for (_, node) in self.pending.iter().filter_map(|op| op.set.as_ref()) {
            see(*node, &mut todo);
        }
        while let Some(dir) = todo.pop() {
            let Some(dir) = self.dirs.get(&dir) else {
                continue;
            };
            for node in dir.now.values().chain(dir.medium.values()) {
                see(*node, &mut todo);
            }
        }
        self.files
            .retain(|id, _| files.contains(id) || self.handles.contains_key(id));
        self.dirs.retain(|id, _| dirs.contains(id));
    }
}

/// The names along a path. The root and the working directory are the same.
pub(super) fn parts(path: &Path) -> io::Result<Vec<&str>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => parts.push(name.to_str().ok_or(ErrorKind::InvalidInput)?),
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(parts)
}
