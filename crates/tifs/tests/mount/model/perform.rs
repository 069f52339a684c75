//! Operations as system calls, on the current directory of the thread.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    self, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Gid, Mode, OFlags, RawDir,
    RenameFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::{self, Errno};

use super::op::{
    AclEntry, Allocation, Data, Existing, Lock, NewTime, Node, Op, OpenFlag, RenameFlag, SLOTS,
    Slot, Step, bytes_of,
};
use super::outcome::{Answer, Bytes, Outcome, Status};
use crate::mapping::Mapping;
use crate::users::ROOT;

/// Times that are set where file systems may differ in what they do to times.
const SETTLED: Timestamps = Timestamps {
    last_access: Timespec {
        tv_sec: 1_000_000,
        tv_nsec: 1,
    },
    last_modification: Timespec {
        tv_sec: 1_000_001,
        tv_nsec: 2,
    },
};

/// The open files of one side.
#[derive(Default)]
pub struct Performer {
    slots: [Option<OwnedFd>; SLOTS],
}

impl Performer {
    /// Performs an operation.
    pub fn perform(&mut self, step: &Step) -> Outcome {
        step.user.user().does(|| self.call(&step.op))
    }

    fn file(&self, slot: Slot) -> io::Result<BorrowedFd<'_>> {
        self.slots[slot]
            .as_ref()
            .map(AsFd::as_fd)
            .ok_or(Errno::BADF)
    }

    fn call(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Open {
                slot,
                path,
                access,
                flags,
                mode,
            } => {
                // A FIFO must not wait for its other end.
                let always = OFlags::NONBLOCK | OFlags::CLOEXEC;
                let flags = flags.iter().fold(always, |all, &f| all | flag(f));
                let access = match access {
                    super::op::Access::Read => OFlags::RDONLY,
                    super::op::Access::Write => OFlags::WRONLY,
                    super::op::Access::ReadWrite => OFlags::RDWR,
                };
                let mode = Mode::from_raw_mode(*mode);
                let file = fs::open(bytes_of(path), access | flags, mode)?;
                self.slots[*slot] = Some(file);
                Ok(Answer::Done)
            }
            Op::OpenUnnamed { slot, path, mode } => {
                let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
                let file = fs::open(bytes_of(path), flags, Mode::from_raw_mode(*mode))?;
                self.slots[*slot] = Some(file);
                Ok(Answer::Done)
            }
            Op::LinkUnnamed { slot, path } => done(fs::linkat(
                self.file(*slot)?,
                "",
                CWD,
                bytes_of(path),
                AtFlags::EMPTY_PATH,
            )),
            Op::Close { slot } => match self.slots[*slot].take() {
                Some(_) => Ok(Answer::Done),
                None => Err(Errno::BADF),
            },
            Op::Read { slot, length } => {
                let mut buffer = vec![0; *length];
                let read = io::read(self.file(*slot)?, &mut buffer)?;
                buffer.truncate(read);
                Ok(Answer::bytes(buffer))
            }
            Op::Pread { slot, at, length } => {
                let mut buffer = vec![0; *length];
                let read = io::pread(self.file(*slot)?, &mut buffer, *at)?;
                buffer.truncate(read);
                Ok(Answer::bytes(buffer))
            }
            Op::Write { slot, data } => {
                let file = self.file(*slot)?;
                // The kernel does not tell a file system in user space that a FIFO was written.
                if FileType::from_raw_mode(fs::fstat(file)?.st_mode) == FileType::Fifo {
                    return Err(Errno::SPIPE);
                }
                number(io::write(file, &data.bytes()))
            }
            Op::Pwrite { slot, at, data } => {
                number(io::pwrite(self.file(*slot)?, &data.bytes(), *at))
            }
            Op::MapWrite { slot, at, data } => map_write(self.file(*slot)?, *at, *data),
            Op::Ftruncate { slot, size } => done(fs::ftruncate(self.file(*slot)?, *size)),
            Op::Fallocate {
                slot,
                mode,
                at,
                length,
            } => fallocate(self.file(*slot)?, *mode, *at, *length),
            Op::CopyFileRange {
                from,
                from_at,
                to,
                to_at,
                length,
            } => copy(
                (self.file(*from)?, *from_at),
                (self.file(*to)?, *to_at),
                *length,
            ),
            Op::Fsync { slot, data_only } => done(match data_only {
                true => fs::fdatasync(self.file(*slot)?),
                false => fs::fsync(self.file(*slot)?),
            }),
            Op::Fstat { slot } => status(fs::fstat(self.file(*slot)?)),
            Op::Fchmod { slot, mode } => {
                done(fs::fchmod(self.file(*slot)?, Mode::from_raw_mode(*mode)))
            }
            Op::Flock { slot, how } => {
                let how = match how {
                    Lock::Shared => FlockOperation::NonBlockingLockShared,
                    Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
                    Lock::Unlock => FlockOperation::NonBlockingUnlock,
                };
                done(fs::flock(self.file(*slot)?, how))
            }
            Op::Getdents { slot } => names(self.file(*slot)?),
            Op::Mkdir { path, mode } => done(fs::mkdir(bytes_of(path), Mode::from_raw_mode(*mode))),
            Op::Rmdir { path } => done(fs::rmdir(bytes_of(path))),
            Op::Mknod { path, node, mode } => {
                let (kind, device) = match node {
                    Node::File => (FileType::RegularFile, 0),
                    Node::Fifo => (FileType::Fifo, 0),
                    Node::Socket => (FileType::Socket, 0),
                    Node::Device => (FileType::CharacterDevice, fs::makedev(77, 300)),
                };
                let mode = Mode::from_raw_mode(*mode);
                done(fs::mknodat(CWD, bytes_of(path), kind, mode, device))
            }
            Op::Symlink { target, path } => done(fs::symlink(bytes_of(target), bytes_of(path))),
            Op::Readlink { path } => {
                let target = fs::readlink(bytes_of(path), Vec::new())?;
                Ok(Answer::bytes(target.into_bytes()))
            }
            Op::Link { from, to, follow } => {
                let flags = match follow {
                    true => AtFlags::SYMLINK_FOLLOW,
                    false => AtFlags::empty(),
                };
                done(fs::linkat(CWD, bytes_of(from), CWD, bytes_of(to), flags))
            }
            Op::Unlink { path } => done(fs::unlink(bytes_of(path))),
            Op::Rename { from, to, flags } => {
                let flags = flags
                    .iter()
                    .map(|flag| match flag {
                        RenameFlag::Exchange => RenameFlags::EXCHANGE,
                        RenameFlag::NoReplace => RenameFlags::NOREPLACE,
                        RenameFlag::Whiteout => RenameFlags::WHITEOUT,
                    })
                    .collect();
                let (from, to) = (bytes_of(from), bytes_of(to));
                done(fs::renameat_with(CWD, from, CWD, to, flags))
            }
            Op::Stat { path, follow } => {
                status(fs::statat(CWD, bytes_of(path), following(*follow)))
            }
            Op::Access { path, mode } => {
                let mode = fs::Access::from_bits_retain(*mode);
                done(fs::accessat(CWD, bytes_of(path), mode, AtFlags::EACCESS))
            }
            Op::Chmod { path, mode } => done(fs::chmod(bytes_of(path), Mode::from_raw_mode(*mode))),
            Op::Chown {
                path,
                follow,
                uid,
                gid,
            } => {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                let flags = following(*follow);
                done(fs::chownat(CWD, bytes_of(path), uid, gid, flags))
            }
            Op::Utimens {
                path,
                follow,
                accessed,
                modified,
            } => {
                let times = Timestamps {
                    last_access: time(*accessed),
                    last_modification: time(*modified),
                };
                let flags = following(*follow);
                done(fs::utimensat(CWD, bytes_of(path), &times, flags))
            }
            Op::Truncate { path, size } => {
                // This crate has no call by path.
                let size = i64::try_from(*size).map_err(|_| Errno::INVAL)?;
                truncate(&bytes_of(path), size)?;
                // To the same size, tmpfs changes the times if the file has pages, ext4 always.
                ROOT.does(|| fs::utimensat(CWD, bytes_of(path), &SETTLED, AtFlags::empty()))?;
                Ok(Answer::Done)
            }
            Op::Setxattr {
                path,
                follow,
                name,
                value,
                existing,
            } => {
                let flags = match existing {
                    Existing::Any => XattrFlags::empty(),
                    Existing::MustExist => XattrFlags::REPLACE,
                    Existing::MustNotExist => XattrFlags::CREATE,
                };
                set_attribute(&bytes_of(path), *follow, name, &value.bytes(), flags)
            }
            Op::Getxattr { path, follow, name } => {
                let mut value = vec![0; 1 << 16];
                let length = match follow {
                    true => fs::getxattr(bytes_of(path), &**name, &mut value[..])?,
                    false => fs::lgetxattr(bytes_of(path), &**name, &mut value[..])?,
                };
                value.truncate(length);
                Ok(Answer::bytes(value))
            }
            Op::Listxattr { path, follow } => {
                let mut list = vec![0; 1 << 16];
                let length = match follow {
                    true => fs::listxattr(bytes_of(path), &mut list[..])?,
                    false => fs::llistxattr(bytes_of(path), &mut list[..])?,
                };
                Ok(Answer::bytes(sorted(&list[..length])))
            }
            Op::Removexattr { path, follow, name } => done(match follow {
                true => fs::removexattr(bytes_of(path), &**name),
                false => fs::lremovexattr(bytes_of(path), &**name),
            }),
            Op::SetAcl {
                path,
                default,
                entries,
            } => {
                let name = match default {
                    true => "system.posix_acl_default",
                    false => "system.posix_acl_access",
                };
                let (path, value) = (bytes_of(path), acl(entries));
                set_attribute(&path, true, name, &value, XattrFlags::empty())?;
                if !rustix::process::geteuid().is_root() {
                    ROOT.does(|| drop_set_group_id(&path))?;
                }
                Ok(Answer::Done)
            }
            Op::Umask { mask } => {
                let before = rustix::process::umask(Mode::from_raw_mode(*mask));
                Ok(Answer::Number(before.bits().into()))
            }
            Op::DropCaches | Op::Remount => Ok(Answer::Done),
        }
    }
}

fn done(result: io::Result<()>) -> Outcome {
    result.map(|()| Answer::Done)
}

fn number(result: io::Result<usize>) -> Outcome {
    result.map(|n| Answer::Number(n as u64))
}

fn status(result: io::Result<fs::Stat>) -> Outcome {
    result.map(|stat| Answer::Status(Status::from(&stat)))
}

fn following(follow: bool) -> AtFlags {
    match follow {
        true => AtFlags::empty(),
        false => AtFlags::SYMLINK_NOFOLLOW,
    }
}

fn flag(flag: OpenFlag) -> OFlags {
    match flag {
        OpenFlag::Append => OFlags::APPEND,
        OpenFlag::Create => OFlags::CREATE,
        OpenFlag::Direct => OFlags::DIRECT,
        OpenFlag::Directory => OFlags::DIRECTORY,
        OpenFlag::Exclusive => OFlags::EXCL,
        OpenFlag::NoAccessTime => OFlags::NOATIME,
        OpenFlag::NoFollow => OFlags::NOFOLLOW,
        OpenFlag::PathOnly => OFlags::PATH,
        OpenFlag::Synchronous => OFlags::SYNC,
        OpenFlag::Truncate => OFlags::TRUNC,
    }
}

fn time(time: NewTime) -> Timespec {
    match time {
        NewTime::Now => Timespec {
            tv_sec: 0,
            tv_nsec: fs::UTIME_NOW,
        },
        NewTime::Omit => Timespec {
            tv_sec: 0,
            tv_nsec: fs::UTIME_OMIT,
        },
        NewTime::At(tv_sec, nanoseconds) => Timespec {
            tv_sec,
            tv_nsec: nanoseconds.into(),
        },
    }
}

fn truncate(path: &[u8], size: i64) -> Outcome {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::OsStr::from_bytes(path);
    nix::unistd::truncate(path, size).map_err(|e| Errno::from_raw_os_error(e as i32))?;
    Ok(Answer::Done)
}

fn set_attribute(
    path: &[u8],
    follow: bool,
    name: &str,
    value: &[u8],
    flags: XattrFlags,
) -> Outcome {
    done(match follow {
        true => fs::setxattr(path, name, value, flags),
        false => fs::lsetxattr(path, name, value, flags),
    })
}

/// Names that are each followed by a zero, in order.
fn sorted(list: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = list.split_inclusive(|&b| b == 0).collect();
    names.sort();
    names.concat()
}

/// An ACL as the kernel takes it: version 2, then the entries, little-endian.
fn acl(entries: &[AclEntry]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, id, permissions) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// All entries of an open directory. Its position is then its beginning.
pub fn names(directory: BorrowedFd<'_>) -> Outcome {
    fs::seek(directory, SeekFrom::Start(0))?;
    let mut buffer = vec![MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        names.push((
            Bytes(entry.file_name().to_bytes().to_vec()),
            entry.file_type(),
        ));
    }
    names.sort_by(|a, b| a.0.cmp(&b.0));
    // Positions within a directory are a matter of the file system.
    fs::seek(directory, SeekFrom::Start(0))?;
    Ok(Answer::Names(names))
}

/// The right to keep the bit depends on all groups of the process, which a file system in user
/// space is not told.
fn drop_set_group_id(path: &[u8]) -> io::Result<()> {
    let mode = fs::stat(path)?.st_mode & 0o5777;
    fs::chmod(path, Mode::from_raw_mode(mode))
}

fn map_write(file: BorrowedFd<'_>, at: u64, data: Data) -> Outcome {
    let stat = fs::fstat(file)?;
    let size = stat.st_size as u64;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::NODEV);
    }
    // Only small files, and only what the file has: a page beyond its end cannot be written.
    if size > 1 << 22 || at >= size {
        return Ok(Answer::Number(0));
    }
    let mut bytes = data.bytes();
    bytes.truncate((size - at) as usize);
    let mut mapping = Mapping::new(file, size as usize)?;
    mapping.write(at as usize, &bytes);
    if data.seed.is_multiple_of(2) {
        mapping.sync()?;
    }
    drop(mapping);
    ROOT.does(|| fs::futimens(file, &SETTLED))?;
    Ok(Answer::Number(bytes.len() as u64))
}

fn fallocate(file: BorrowedFd<'_>, mode: Allocation, at: u64, length: u64) -> Outcome {
    const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
    match mode {
        Allocation::Extend => fs::fallocate(file, FallocateFlags::empty(), at, length)?,
        Allocation::KeepSize => fs::fallocate(file, FallocateFlags::KEEP_SIZE, at, length)?,
        Allocation::PunchHole => fs::fallocate(file, PUNCH, at, length)?,
        Allocation::ZeroRangeKeepSize | Allocation::ZeroRange => {
            let keep = mode == Allocation::ZeroRangeKeepSize;
            let flags = match keep {
                true => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                false => FallocateFlags::ZERO_RANGE,
            };
            match fs::fallocate(file, flags, at, length) {
                // tmpfs: a hole has the same content.
                Err(Errno::OPNOTSUPP) => {
                    fs::fallocate(file, PUNCH, at, length)?;
                    if !keep && fs::fstat(file)?.st_size < (at + length) as i64 {
                        fs::ftruncate(file, at + length)?;
                    }
                }
                result => result?,
            }
        }
    }
    ROOT.does(|| {
        fs::futimens(file, &SETTLED)?;
        let mode = fs::fstat(file)?.st_mode & 0o777;
        fs::fchmod(file, Mode::from_raw_mode(mode))
    })?;
    Ok(Answer::Done)
}

/// Copies as much as there is: one call may copy less.
fn copy(
    (from, mut from_at): (BorrowedFd<'_>, u64),
    (to, mut to_at): (BorrowedFd<'_>, u64),
    length: usize,
) -> Outcome {
    let mut copied = 0;
    loop {
        let (source, target) = (Some(&mut from_at), Some(&mut to_at));
        match fs::copy_file_range(from, source, to, target, length - copied)? {
            0 => return Ok(Answer::Number(copied as u64)),
            n => copied += n,
        }
    }
}
