//! Inodes, and the values stored beside them.

use bytes::Bytes;

use super::{Check, Problem, Seen};
use crate::error::Result;
use crate::kv::Space;
use crate::schema::{FileKind, INLINE_MAX, Inode, InodeNumber, Key, blocks_of, content_of};
use crate::volume::{ACCESS_ACL, DEFAULT_ACL, acl_permissions};

impl Check<'_> {
    /// Reads everything whose keys begin with `I`. Numbers from `next` on must not exist.
    pub(super) fn read_inodes(&mut self, next: Option<InodeNumber>) -> Result<()> {
        self.each(Space::Meta, b"I", false, |check, page| {
            for (key, value) in page {
                match (Key::inode_of(key), key.get(9..)) {
                    (Some(number), Some([])) => check.read_inode(number, value, next),
                    (Some(number), Some([1])) => check.read_inline(number, value),
                    (Some(number), Some([2, name @ ..])) => {
                        check.read_attribute(number, name, value);
                    }
                    _ => check.found(Problem::UnknownKey, None, format!("{key:?}")),
                }
            }
            Ok(())
        })?;
        let root = InodeNumber::ROOT;
        if !self.inodes.contains_key(&root) && !self.may_exist(root) {
            self.found(Problem::UnknownInode, Some(root), "there is no root");
        }
        Ok(())
    }

    fn read_inode(&mut self, number: InodeNumber, value: &Bytes, next: Option<InodeNumber>) {
        self.report.inodes += 1;
        if next.is_some_and(|next| number >= next) {
            let detail = "the number is not leased, and may be given out again";
            self.found(Problem::InodeNumber, Some(number), detail);
        }
        match Inode::decode(value) {
            Err(e) => self.found(Problem::Damaged, Some(number), e.context()),
            Ok(inode) => {
                let seen = Seen {
                    inode,
                    names: 0,
                    directories: 0,
                    directory: None,
                    is_orphan: false,
                    is_truncated: false,
                    units: 0,
                    inline: None,
                };
                self.inodes.insert(number, seen);
            }
        }
    }

    fn read_inline(&mut self, number: InodeNumber, value: &Bytes) {
        let content = match content_of(value) {
            Ok(content) => content,
            Err(e) => return self.found(Problem::Damaged, Some(number), e.context()),
        };
        let length = content.len() as u64;
        if !self.inodes.contains_key(&number) && self.may_exist(number) {
            return;
        }
        let Some(seen) = self.inodes.get_mut(&number) else {
            let detail = "its content is there, but it is not";
            return self.found(Problem::UnknownInode, Some(number), detail);
        };
        seen.inline = Some(length);
        let valid = match seen.inode.kind {
            FileKind::File => {
                seen.units += length.div_ceil(512);
                seen.inode.is_inline() && length <= INLINE_MAX && length <= seen.inode.size
            }
            FileKind::Symlink => length == seen.inode.size,
            _ => false,
        };
        self.report.bytes += length;
        if !valid {
            let detail = format!("{length} bytes are stored beside the attributes");
            self.found(Problem::Content, Some(number), detail);
        }
    }

    fn read_attribute(&mut self, number: InodeNumber, name: &[u8], value: &Bytes) {
        self.report.attributes += 1;
        let content = match content_of(value) {
            Ok(content) => content,
            Err(e) => return self.found(Problem::Damaged, Some(number), e.context()),
        };
        if !self.inodes.contains_key(&number) && self.may_exist(number) {
            return;
        }
        let Some(seen) = self.inodes.get(&number) else {
            let detail = "it has an extended attribute, but it does not exist";
            return self.found(Problem::UnknownInode, Some(number), detail);
        };
        let permissions = seen.inode.permissions & 0o777;
        if !seen.inode.has_attributes {
            let detail = "it has an extended attribute, and says that it has none";
            self.found(Problem::Attributes, Some(number), detail);
        }
        if name == ACCESS_ACL || name == DEFAULT_ACL {
            match acl_permissions(&content) {
                Err(_) => self.found(Problem::Acl, Some(number), "the list is none"),
                Ok(listed) if name == ACCESS_ACL && listed != permissions => {
                    let detail = format!(
                        "the list says {listed:03o}, the permissions are {permissions:03o}"
                    );
                    self.found(Problem::Acl, Some(number), detail);
                }
                Ok(_) => {}
            }
        }
    }

    /// Compares each inode with the other keys.
    pub(super) fn compare_inodes(&mut self) {
        let mut numbers: Vec<InodeNumber> = self.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            for (problem, detail) in self.problems_of(number) {
                self.found(problem, Some(number), detail);
            }
        }
    }

    fn problems_of(&self, number: InodeNumber) -> Vec<(Problem, String)> {
        let mut problems = Vec::new();
        let Some(seen) = self.inodes.get(&number) else {
            return problems;
        };
        let inode = &seen.inode;
        let expected = match inode.kind {
            FileKind::Directory if seen.names == 0 && number != InodeNumber::ROOT => 0,
            FileKind::Directory => 2 + seen.directories,
            _ => seen.names,
        };
        let lost = |space, prefix: &[u8]| self.unreadable.may_have(space, prefix);
        // The names that are missing may be where nothing can be read.
        let has_lost_names = expected < inode.links && lost(Space::Meta, b"E");
        if has_lost_names {
            let detail = format!(
                "of the {} names it counts, {expected} can be read",
                inode.links
            );
            problems.push((Problem::Unreadable, detail));
        } else if inode.links != expected {
            let detail = format!("it counts {} names and has {expected}", inode.links);
            problems.push((Problem::Links, detail));
        }
        if seen.is_orphan && expected > 0 {
            let detail = "it has names and is to be deleted".to_owned();
            problems.push((Problem::Orphan, detail));
        } else if !seen.is_orphan && expected == 0 && !has_lost_names && !lost(Space::Meta, b"O") {
            let detail = "it has no names and is not to be deleted".to_owned();
            problems.push((Problem::Orphan, detail));
        }
        let is_mark_lost = !seen.is_truncated && lost(Space::Meta, b"D");
        if seen.is_truncated != (inode.stale_end > 0) && !seen.is_orphan && !is_mark_lost {
            let detail = format!("stale blocks end at {}", inode.stale_end);
            problems.push((Problem::Truncation, detail));
        }
        let is_inline_lost = || lost(Space::Meta, &Key::Inline(number).encode());
        if inode.kind == FileKind::Symlink && seen.inline.is_none() {
            problems.push(match is_inline_lost() {
                true => (Problem::Unreadable, "its target cannot be read".to_owned()),
                false => (Problem::Content, "its target is missing".to_owned()),
            });
        }
        // An orphan may be half deleted.
        if inode.blocks != seen.units && !seen.is_orphan {
            let is_lost = seen.units < inode.blocks
                && (is_inline_lost() || lost(Space::Data, &blocks_of(number)));
            problems.push(match is_lost {
                true => {
                    let (units, read) = (inode.blocks, seen.units);
                    let detail = format!("of its {units} units of 512 bytes, {read} can be read");
                    (Problem::Unreadable, detail)
                }
                false => {
                    let detail =
                        format!("it counts {} units and takes {}", inode.blocks, seen.units);
                    (Problem::Blocks, detail)
                }
            });
        }
        if inode.kind == FileKind::Directory && expected > 0 && !has_lost_names {
            problems.extend(self.problems_of_place(number, seen));
        }
        problems
    }

    /// The place of a directory in the tree.
    fn problems_of_place(&self, number: InodeNumber, seen: &Seen) -> Option<(Problem, String)> {
        let parent = seen.inode.parent;
        if number == InodeNumber::ROOT {
            let detail = format!("the root has {} names and parent {parent}", seen.names);
            return (seen.names != 0 || parent != number).then_some((Problem::Parent, detail));
        }
        if seen.names != 1 || seen.directory != Some(parent) {
            let detail = format!("it has {} names and names parent {parent}", seen.names);
            return Some((Problem::Parent, detail));
        }
        let mut ancestor = parent;
        for _ in 0..self.inodes.len() {
            if ancestor == InodeNumber::ROOT {
                return None;
            }
            match self.inodes.get(&ancestor).and_then(|seen| seen.directory) {
                Some(above) => ancestor = above,
                None => break,
            }
        }
        // It may be reached through unreadable entries.
        let is_known = !self.may_exist(ancestor) && !self.unreadable.may_have(Space::Meta, b"E");
        let detail = format!("its ancestors end at {ancestor}");
        is_known.then_some((Problem::Unreachable, detail))
    }
}
