//! Moving names.

use rustix::io::Errno;
use titan::invariant;

use crate::error::Result;
use crate::file_system::{Attributes, Caller, Rename};
use crate::schema::{Entry, FileKind, Inode, InodeNumber, Key};
use crate::volume::names::create::NewInode;
use crate::volume::names::lookup::check_name;
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

/// A name in a directory.
type Name<'a> = (InodeNumber, &'a [u8]);

impl Volume {
    pub(in crate::volume) fn rename(
        &self,
        caller: &Caller,
        from: Name<'_>,
        to: Name<'_>,
        how: Rename,
    ) -> Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        self.locks.check_not_inherited()?;
        // Whether a directory is moved is not known yet, so every move between directories waits
        // here.
        let must_wait = from.0 != to.0;
        let must_wait = must_wait && !mutant!(moves_side_by_side);
        let _moving = must_wait.then(|| self.moving_directories.lock());
        let whiteout = match how {
            Rename::Whiteout => {
                self.make_room(0)?;
                Some(self.numbers.next(&*self.kv)?)
            }
            _ => None,
        };
        let orphan = self.with_children(&[from, to], |[source, target]| {
            let source = source.ok_or(Errno::NOENT)?;
            match (how, target) {
                (Rename::NoReplace, Some(_)) => return Err(Errno::EXIST.into()),
                (Rename::Exchange, None) => return Err(Errno::NOENT.into()),
                // Two names of one inode: nothing is to be done.
                (_, Some(target)) if target.inode == source.inode => return Ok(None),
                _ => {}
            }
            if from.0 != to.0 {
                self.check_no_circle(source, to.0)?;
                if let (Rename::Exchange, Some(target)) = (how, target) {
                    self.check_no_circle(*target, from.0)?;
                }
            }
            if mutant!(rename_in_two_steps) {
                self.change(|change| change.delete(Key::Entry(from.0, from.1)))?;
            }
            let orphan = self.change(|change| match (how, target) {
                (Rename::Exchange, Some(target)) => {
                    change.exchange(from, source, to, *target)?;
                    Ok(None)
                }
                _ => {
                    let orphan = change.move_name(from, source, to, *target)?;
                    if let Some(number) = whiteout {
                        change.add_whiteout(caller, from, number)?;
                    }
                    Ok(orphan)
                }
            })?;
            self.places.removed(from.0, from.1);
            Ok(orphan)
        })?;
        if let Some(orphan) = orphan {
            self.orphaned(orphan);
        }
        Ok(())
    }

    /// `EINVAL` if `moved` is `directory` or one of its ancestors. `ENOENT` if `directory` has no
    /// name: then its former ancestors may be gone.
    fn check_no_circle(&self, moved: Entry, directory: InodeNumber) -> Result<()> {
        if moved.kind != FileKind::Directory {
            return Ok(());
        }
        let mut ancestor = directory;
        loop {
            let inode = self.stored(ancestor)?.inode;
            if inode.links == 0 {
                return Err(Errno::NOENT.into());
            }
            if ancestor == moved.inode {
                return Err(Errno::INVAL.into());
            }
            if inode.parent == ancestor {
                return Ok(());
            }
            ancestor = inode.parent;
        }
    }
}

impl Change<'_> {
    /// Moves a name over the one of the target. Returns an inode that lost its last name.
    fn move_name(
        &mut self,
        from: Name<'_>,
        source: Entry,
        to: Name<'_>,
        target: Option<Entry>,
    ) -> Result<Option<InodeNumber>> {
        let moves_directory = source.kind == FileKind::Directory;
        let mut directories = self.two_directories(from.0, to.0)?;
        let mut orphan = None;
        if let Some(target) = target {
            let replaces_directory = target.kind == FileKind::Directory;
            match (moves_directory, replaces_directory) {
                (true, false) => return Err(Errno::NOTDIR.into()),
                (false, true) => return Err(Errno::ISDIR.into()),
                (true, true) => {
                    self.must_be_empty(target.inode)?;
                    let links = &mut directories.target().links;
                    *links = links.saturating_sub(u32::from(!mutant!(replaced_directory_counted)));
                }
                (false, false) => {}
            }
            let replaced = self.inode(target.inode)?;
            if self.drop_link(target.inode, replaced)? {
                orphan = Some(target.inode);
            }
        }
        if moves_directory {
            directories.move_directory()?;
        }
        self.delete(Key::Entry(from.0, from.1))?;
        self.place(source.inode, to)?;
        directories.put(self, from.0, to.0)?;
        Ok(orphan)
    }

    /// Lets two names change places.
    fn exchange(
        &mut self,
        from: Name<'_>,
        source: Entry,
        to: Name<'_>,
        target: Entry,
    ) -> Result<()> {
        let mut directories = self.two_directories(from.0, to.0)?;
        let is_directory = |entry: Entry| entry.kind == FileKind::Directory;
        if is_directory(source) && !is_directory(target) {
            directories.move_directory()?;
        } else if is_directory(target) && !is_directory(source) {
            directories.move_directory_back()?;
        }
        self.place(source.inode, to)?;
        self.place(target.inode, from)?;
        directories.put(self, from.0, to.0)
    }

    /// Gives an inode a name in place of its old one.
    fn place(&mut self, number: InodeNumber, (directory, name): Name<'_>) -> Result<()> {
        let mut inode = self.inode(number)?;
        invariant!(number != directory, "directory {number} moves into itself");
        if !mutant!(moved_inode_keeps_its_parent) {
            inode.parent = directory;
        }
        inode.changed = self.now;
        self.put_inode(number, &inode)?;
        self.put_entry(directory, name, Attributes { number, inode })
    }

    fn add_whiteout(
        &mut self,
        caller: &Caller,
        (directory, name): Name<'_>,
        number: InodeNumber,
    ) -> Result<()> {
        let parent = self.directory(directory)?;
        let new = NewInode {
            caller,
            kind: FileKind::CharDevice,
            permissions: 0,
            umask: 0,
            device: 0,
            target: None,
        };
        let whiteout = self.add_inode(number, (directory, &parent), &new)?;
        self.put_entry(directory, name, whiteout)
    }

    fn two_directories(&mut self, from: InodeNumber, to: InodeNumber) -> Result<TwoDirectories> {
        Ok(TwoDirectories {
            from: self.directory(from)?,
            to: if from == to {
                None
            } else {
                Some(self.directory(to)?)
            },
        })
    }
}

/// The directories of a rename; one if both are the same.
struct TwoDirectories {
    from: Inode,
    to: Option<Inode>,
}

impl TwoDirectories {
    fn target(&mut self) -> &mut Inode {
        self.to.as_mut().unwrap_or(&mut self.from)
    }

    /// Counts the name `..` of a directory that moves from the first to the second.
    fn move_directory(&mut self) -> Result<()> {
        if let Some(to) = &mut self.to {
            to.links = to.links.checked_add(1).ok_or(Errno::MLINK)?;
            self.from.links = self.from.links.saturating_sub(1);
        }
        Ok(())
    }

    fn move_directory_back(&mut self) -> Result<()> {
        if let Some(to) = &mut self.to {
            self.from.links = self.from.links.checked_add(1).ok_or(Errno::MLINK)?;
            to.links = to.links.saturating_sub(1);
        }
        Ok(())
    }

    fn put(mut self, change: &mut Change<'_>, from: InodeNumber, to: InodeNumber) -> Result<()> {
        change.put_directory(from, &mut self.from)?;
        if let Some(inode) = &mut self.to {
            change.put_directory(to, inode)?;
        }
        Ok(())
    }
}
