//! Names in directories.

use bytes::Bytes;

use super::{Check, Problem};
use crate::error::Result;
use crate::kv::Space;
use crate::schema::{Entry, FileKind, InodeNumber, Key};
use crate::volume::check_name;

impl Check<'_> {
    pub(super) fn read_names(&mut self) -> Result<()> {
        self.each(Space::Meta, b"E", false, |check, page| {
            for (key, value) in page {
                match (Key::inode_of(key), key.get(9..)) {
                    (Some(directory), Some(name)) => check.read_name(directory, name, value),
                    _ => check.found(Problem::UnknownKey, None, format!("{key:?}")),
                }
            }
            Ok(())
        })
    }

    fn read_name(&mut self, directory: InodeNumber, name: &[u8], value: &Bytes) {
        self.report.entries += 1;
        let shown = name.escape_ascii();
        if check_name(name).is_err() {
            let detail = format!("{shown:?} is no name");
            self.found(Problem::Name, Some(directory), detail);
        }
        let entry = match Entry::decode(value) {
            Ok(entry) => entry,
            Err(e) => {
                let detail = format!("{shown}: {}", e.context());
                return self.found(Problem::Damaged, Some(directory), detail);
            }
        };
        let is_directory = entry.kind == FileKind::Directory;
        let is_unreadable = self.may_exist(directory);
        match self.inodes.get_mut(&directory) {
            Some(seen) if seen.inode.kind == FileKind::Directory && seen.inode.links > 0 => {
                seen.directories += u32::from(is_directory);
            }
            None if is_unreadable => {}
            _ => {
                let detail = format!("{shown} is in it, but it is no directory with a name");
                self.found(Problem::NoDirectory, Some(directory), detail);
            }
        }
        if !self.inodes.contains_key(&entry.inode) && self.may_exist(entry.inode) {
            let detail = format!(
                "{shown} in directory {directory} leads to it, and its attributes cannot be read"
            );
            return self.found(Problem::Unreadable, Some(entry.inode), detail);
        }
        let Some(seen) = self.inodes.get_mut(&entry.inode) else {
            let detail = format!(
                "{shown} leads to inode {}, which does not exist",
                entry.inode
            );
            return self.found(Problem::UnknownInode, Some(directory), detail);
        };
        seen.names += 1;
        seen.directory = is_directory.then_some(directory);
        let kind = seen.inode.kind;
        if kind != entry.kind {
            let detail = format!(
                "{shown} is a {:?}, inode {} a {kind:?}",
                entry.kind, entry.inode
            );
            self.found(Problem::Kind, Some(directory), detail);
        }
    }
}
