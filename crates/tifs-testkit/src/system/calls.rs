//! Operations as system calls, on the current directory of the thread.
//!
//! Slot 0 is that directory. Another slot has a descriptor: of an open file, or of an inode that
//! was looked up (`O_PATH`), which is opened for reading and writing when its content is used.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    self, AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, SeekFrom,
    Timestamps, Uid, XattrFlags,
};
use rustix::io::{self, Errno};
use tifs::file_system::{Existing, Seek};

use super::outcome::{Answer, Outcome, Status};
use super::parts::{
    SETTLED, acl, copy, done, drop_set_group_id, fallocate, flag, kind, map_write, names, sorted,
    time, truncate,
};
use crate::ops::{Access, Lock, Name, Op, Renaming, Slot, Step, Target};
use crate::users::{ROOT, User};

/// The slots of one side.
pub struct Performer {
    slots: HashMap<Slot, Handle>,
    /// The descriptors of this process, by number. It is opened before the root directory changes.
    descriptors: OwnedFd,
}

/// The descriptor of a slot.
#[derive(Debug)]
enum Handle {
    Open(OwnedFd),
    Found(OwnedFd),
}

impl Performer {
    /// Without slots. `/proc` must be there.
    pub fn new() -> io::Result<Performer> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptors = fs::open("/proc/self/fd", flags, Mode::empty())?;
        Ok(Performer {
            slots: HashMap::new(),
            descriptors,
        })
    }

    /// Performs an operation.
    pub fn perform(&mut self, step: &Step) -> Outcome {
        User::of(step.by).does(|| self.call(&step.op))
    }

    /// Whether a slot has an open file, and not only an inode.
    pub fn is_open(&self, slot: Slot) -> bool {
        matches!(self.slots.get(&slot), Some(Handle::Open(_)))
    }

    /// Closes everything.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// The descriptor of a slot.
    fn descriptor(&self, slot: Slot) -> io::Result<BorrowedFd<'_>> {
        match self.slots.get(&slot) {
            _ if slot == Slot::ROOT => Ok(CWD),
            Some(Handle::Open(file) | Handle::Found(file)) => Ok(file.as_fd()),
            None => Err(Errno::BADF),
        }
    }

    /// The open file of a slot.
    fn file(&mut self, slot: Slot) -> io::Result<BorrowedFd<'_>> {
        if let Some(Handle::Found(found)) = self.slots.get(&slot) {
            let name = found.as_raw_fd().to_string();
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let open = |flags| fs::openat(&self.descriptors, &name, flags, Mode::empty());
            let file = match open(flags) {
                Err(Errno::ISDIR) => open(OFlags::RDONLY | OFlags::CLOEXEC),
                file => file,
            }?;
            self.slots.insert(slot, Handle::Open(file));
        }
        match slot {
            Slot::ROOT => Err(Errno::BADF),
            slot => self.descriptor(slot),
        }
    }

    /// A directory and a path from it.
    fn name<'a>(&self, at: &'a Name) -> io::Result<(BorrowedFd<'_>, &'a [u8])> {
        Ok((self.descriptor(at.directory)?, &at.name.0))
    }

    /// Binds a slot to what was made.
    fn bind(&mut self, slot: Option<Slot>, at: &Name) -> Outcome {
        if let Some(slot) = slot {
            let (directory, name) = self.name(at)?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = fs::openat(directory, name, flags, Mode::empty())?;
            self.slots.insert(slot, Handle::Found(found));
        }
        Ok(Answer::Done)
    }

    fn call(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Lookup { at, to } => self.bind(Some(*to), at),
            Op::Open {
                at,
                access,
                flags,
                mode,
                umask,
                to,
            } => {
                // A FIFO must not wait for its other end.
                let always = OFlags::NONBLOCK | OFlags::CLOEXEC;
                let flags = flags.0.iter().fold(always, |all, &f| all | flag(f));
                let access = match access {
                    Access::Read => OFlags::RDONLY,
                    Access::Write => OFlags::WRONLY,
                    Access::ReadWrite => OFlags::RDWR,
                };
                self.open(at, access | flags, (mode.0, umask.0), *to)
            }
            Op::OpenUnnamed {
                at,
                mode,
                umask,
                to,
            } => {
                let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
                self.open(at, flags, (mode.0, umask.0), *to)
            }
            Op::Forget { slot } => match self.slots.remove(slot) {
                Some(Handle::Open(file)) => {
                    // Unlike `drop`, it says what the file system answers.
                    let closed = nix::unistd::close(file);
                    closed.map_err(|e| Errno::from_raw_os_error(e as i32))?;
                    Ok(Answer::Done)
                }
                Some(Handle::Found(_)) => Ok(Answer::Done),
                None => Err(Errno::BADF),
            },
            Op::Sync {} => done(fs::syncfs(fs::open(".", OFlags::CLOEXEC, Mode::empty())?)),
            Op::Access { at, mode } => {
                let (directory, path) = self.name(at)?;
                let mode = fs::Access::from_bits_retain(mode.0);
                done(fs::accessat(directory, path, mode, AtFlags::EACCESS))
            }
            // Not by this thread.
            Op::Remount {} | Op::Crash {} | Op::DropCaches {} => Ok(Answer::Done),
            _ => match self.call_on_content(op) {
                Some(outcome) => outcome,
                None => self.call_on_names(op),
            },
        }
    }

    fn open(&mut self, at: &Name, flags: OFlags, (mode, umask): (u32, u32), to: Slot) -> Outcome {
        rustix::process::umask(Mode::from_raw_mode(umask));
        let (directory, path) = self.name(at)?;
        let file = fs::openat(directory, path, flags, Mode::from_raw_mode(mode))?;
        self.slots.insert(to, Handle::Open(file));
        Ok(Answer::Done)
    }

    /// `None` if it is no operation on the content of an open file.
    fn call_on_content(&mut self, op: &Op) -> Option<Outcome> {
        let mut call = || {
            Ok(match op {
                Op::Read {
                    file,
                    offset,
                    length,
                } => {
                    let mut buffer = vec![0; *length as usize];
                    let file = self.file(*file)?;
                    let read = match offset {
                        Some(offset) => io::pread(file, &mut buffer, *offset)?,
                        None => io::read(file, &mut buffer)?,
                    };
                    buffer.truncate(read);
                    Answer::bytes(buffer)
                }
                Op::Write { file, offset, data } => {
                    let file = self.file(*file)?;
                    let written = match offset {
                        Some(offset) => io::pwrite(file, &data.bytes(), *offset)?,
                        // The kernel does not tell a file system in user space that a FIFO was
                        // written.
                        None if kind(file)? == FileType::Fifo => return Err(Errno::SPIPE),
                        None => io::write(file, &data.bytes())?,
                    };
                    Answer::Number(written as u64)
                }
                Op::MapWrite { file, at, data } => return map_write(self.file(*file)?, *at, *data),
                Op::Allocate {
                    file,
                    offset,
                    length,
                    what,
                } => return fallocate(self.file(*file)?, *what, *offset, *length),
                Op::Copy {
                    from,
                    offset,
                    to,
                    at,
                    length,
                } => {
                    for slot in [from, to] {
                        self.file(*slot)?;
                    }
                    let (from, to) = (self.descriptor(*from)?, self.descriptor(*to)?);
                    return copy((from, *offset), (to, *at), *length as usize);
                }
                Op::Seek { file, offset, what } => {
                    let goal = match what {
                        Seek::Data => SeekFrom::Data(*offset),
                        Seek::Hole => SeekFrom::Hole(*offset),
                    };
                    Answer::Number(fs::seek(self.file(*file)?, goal)?)
                }
                Op::Fsync { file, data_only } => {
                    let file = self.file(*file)?;
                    return done(match data_only {
                        true => fs::fdatasync(file),
                        false => fs::fsync(file),
                    });
                }
                Op::Flock { file, how } => {
                    let how = match how {
                        Lock::Shared => FlockOperation::NonBlockingLockShared,
                        Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
                        Lock::Unlock => FlockOperation::NonBlockingUnlock,
                    };
                    return done(fs::flock(self.file(*file)?, how));
                }
                Op::List { directory, .. } => return names(self.file(*directory)?),
                _ => return Ok(Answer::Nothing),
            })
        };
        match call() {
            Ok(Answer::Nothing) => None,
            outcome => Some(outcome),
        }
    }

    fn call_on_names(&mut self, op: &Op) -> Outcome {
        match op {
            Op::MakeDirectory {
                at,
                mode,
                umask,
                to,
            } => {
                rustix::process::umask(Mode::from_raw_mode(umask.0));
                let (directory, path) = self.name(at)?;
                fs::mkdirat(directory, path, Mode::from_raw_mode(mode.0))?;
                self.bind(*to, at)
            }
            Op::MakeNode {
                at,
                mode,
                umask,
                device,
                to,
            } => {
                rustix::process::umask(Mode::from_raw_mode(umask.0));
                let (directory, path) = self.name(at)?;
                let kind = FileType::from_raw_mode(mode.0);
                let mode = Mode::from_raw_mode(mode.0 & 0o7777);
                fs::mknodat(directory, path, kind, mode, u64::from(*device))?;
                self.bind(*to, at)
            }
            Op::MakeSymlink { at, target, to } => {
                let (directory, path) = self.name(at)?;
                fs::symlinkat(&target.0[..], directory, path)?;
                self.bind(*to, at)
            }
            Op::Link { of, at, to } => {
                let (directory, path) = self.name(at)?;
                let (from, source, flags) = self.target(of)?;
                fs::linkat(
                    from,
                    source,
                    directory,
                    path,
                    flags & !AtFlags::SYMLINK_NOFOLLOW,
                )?;
                self.bind(*to, at)
            }
            Op::Unlink { at } => {
                let (directory, path) = self.name(at)?;
                done(fs::unlinkat(directory, path, AtFlags::empty()))
            }
            Op::RemoveDirectory { at } => {
                let (directory, path) = self.name(at)?;
                done(fs::unlinkat(directory, path, AtFlags::REMOVEDIR))
            }
            Op::Rename { from, to, how } => {
                let (old, from) = self.name(from)?;
                let (new, to) = self.name(to)?;
                let (exchange, whiteout) = (RenameFlags::EXCHANGE, RenameFlags::WHITEOUT);
                let flags = match how {
                    Renaming::Replace => RenameFlags::empty(),
                    Renaming::NoReplace => RenameFlags::NOREPLACE,
                    Renaming::Exchange => exchange,
                    Renaming::Whiteout => whiteout,
                    Renaming::NoReplaceExchange => RenameFlags::NOREPLACE | exchange,
                    Renaming::WhiteoutExchange => whiteout | exchange,
                };
                done(fs::renameat_with(old, from, new, to, flags))
            }
            _ => self.call_on_attributes(op),
        }
    }

    /// A descriptor, a path from it, and flags for `*at` calls.
    fn target<'a>(&self, of: &'a Target) -> io::Result<(BorrowedFd<'_>, &'a [u8], AtFlags)> {
        let (at, flags) = match of {
            Target::Slot(slot) => {
                let file = self.descriptor(*slot)?;
                return match slot {
                    &Slot::ROOT => Ok((file, b".", AtFlags::empty())),
                    _ => Ok((file, b"", AtFlags::EMPTY_PATH)),
                };
            }
            Target::Path(at) => (at, AtFlags::SYMLINK_NOFOLLOW),
            Target::Followed(at) => (at, AtFlags::SYMLINK_FOLLOW),
        };
        let (directory, path) = self.name(at)?;
        Ok((directory, path, flags))
    }

    fn call_on_attributes(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Stat { of } => {
                let (at, path, flags) = self.target(of)?;
                let stat = fs::statat(at, path, flags & !AtFlags::SYMLINK_FOLLOW)?;
                Ok(Answer::Status(Status::from(&stat)))
            }
            Op::ReadLink { of } => {
                let (at, path, _) = self.target(of)?;
                let target = fs::readlinkat(at, path, Vec::new())?;
                Ok(Answer::bytes(target.into_bytes()))
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
                if let Some(mode) = permissions {
                    self.set_permissions(of, Mode::from_raw_mode(mode.0))?;
                }
                if let Some(size) = size {
                    self.set_size(of, *size)?;
                }
                let (at, path, flags) = self.target(of)?;
                let flags = flags & !AtFlags::SYMLINK_FOLLOW;
                let times = accessed.is_some() || modified.is_some();
                if times {
                    let times = Timestamps {
                        last_access: time(*accessed),
                        last_modification: time(*modified),
                    };
                    fs::utimensat(at, path, &times, flags)?;
                }
                let others = times || permissions.is_some() || size.is_some();
                if uid.is_some() || gid.is_some() || !others {
                    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                    fs::chownat(at, path, uid, gid, flags)?;
                }
                Ok(Answer::Done)
            }
            Op::SetAcl {
                at,
                default,
                entries,
            } => {
                let name: &[u8] = match default {
                    true => b"system.posix_acl_default",
                    false => b"system.posix_acl_access",
                };
                let value = acl(&entries.0);
                let of = Target::Followed(at.clone());
                let set = |path: &[u8], _: bool| {
                    fs::setxattr(path, name, &value, XattrFlags::empty())?;
                    match rustix::process::geteuid().is_root() {
                        true => Ok(()),
                        false => ROOT.does(|| drop_set_group_id(path)),
                    }
                };
                done(self.by_path(&of, set))
            }
            Op::SetExtended {
                of,
                name,
                value,
                existing,
            } => {
                let flags = match existing {
                    Existing::Any => XattrFlags::empty(),
                    Existing::MustExist => XattrFlags::REPLACE,
                    Existing::MustNotExist => XattrFlags::CREATE,
                };
                let (name, value) = (&name.0[..], value.bytes());
                done(self.by_path(of, |path, follows| match follows {
                    true => fs::setxattr(path, name, &value, flags),
                    false => fs::lsetxattr(path, name, &value, flags),
                }))
            }
            Op::GetExtended { of, name } => {
                let (mut value, name) = (vec![0; 1 << 16], &name.0[..]);
                let length = self.by_path(of, |path, follows| match follows {
                    true => fs::getxattr(path, name, &mut value[..]),
                    false => fs::lgetxattr(path, name, &mut value[..]),
                })?;
                value.truncate(length);
                Ok(Answer::bytes(value))
            }
            Op::ListExtended { of } => {
                let mut list = vec![0; 1 << 16];
                let length = self.by_path(of, |path, follows| match follows {
                    true => fs::listxattr(path, &mut list[..]),
                    false => fs::llistxattr(path, &mut list[..]),
                })?;
                Ok(Answer::bytes(sorted(&list[..length])))
            }
            Op::RemoveExtended { of, name } => {
                let name = &name.0[..];
                done(self.by_path(of, |path, follows| match follows {
                    true => fs::removexattr(path, name),
                    false => fs::lremovexattr(path, name),
                }))
            }
            _ => Ok(Answer::Nothing),
        }
    }

    fn set_permissions(&self, of: &Target, mode: Mode) -> io::Result<()> {
        match of.slot().map(|slot| self.slots.get(&slot)) {
            Some(Some(Handle::Open(file))) => fs::fchmod(file, mode),
            _ => self.by_path(of, |path, _| fs::chmod(path, mode)),
        }
    }

    fn set_size(&self, of: &Target, size: u64) -> io::Result<()> {
        match of.slot().map(|slot| self.slots.get(&slot)) {
            Some(Some(Handle::Open(file))) => fs::ftruncate(file, size),
            _ => self.by_path(of, |path, _| {
                // This crate has no call by path.
                let size = i64::try_from(size).map_err(|_| Errno::INVAL)?;
                truncate(path, size)?;
                // To the same size, tmpfs changes the times if the file has pages, ext4 always.
                ROOT.does(|| fs::utimensat(CWD, path, &SETTLED, AtFlags::empty()))
            }),
        }
    }

    /// Calls with a path, and whether a symbolic link at its end is to be followed. Descriptors
    /// have paths in a directory of the kernel.
    fn by_path<T>(
        &self,
        of: &Target,
        call: impl FnOnce(&[u8], bool) -> io::Result<T>,
    ) -> io::Result<T> {
        let (at, path, follows) = match of {
            Target::Slot(Slot::ROOT) => return call(b".", true),
            Target::Slot(slot) => {
                let number = self.descriptor(*slot)?.as_raw_fd().to_string();
                (self.descriptors.as_fd(), number.into_bytes(), true)
            }
            Target::Path(at) => (self.descriptor(at.directory)?, at.name.0.clone(), false),
            Target::Followed(at) => (self.descriptor(at.directory)?, at.name.0.clone(), true),
        };
        if at.as_raw_fd() == CWD.as_raw_fd() {
            return call(&path, follows);
        }
        let here = fs::open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        ROOT.does(|| rustix::process::fchdir(at))?;
        let outcome = call(&path, follows);
        ROOT.does(|| rustix::process::fchdir(here))?;
        outcome
    }
}
