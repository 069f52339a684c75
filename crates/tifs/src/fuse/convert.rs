//! Types of the file system to those of the protocol, and back.

use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileType, Generation, INodeNo, RenameFlags, TimeOrNow};

use crate::file_system::{Allocate, Attributes, Existing, NewTime, Rename, Seek};
use crate::schema::{FileKind, InodeNumber, Time};

/// The block size that `stat` recommends. A file says its own, within these bounds.
const BLOCK_SIZES: std::ops::RangeInclusive<u64> = 4096..=64 << 10;

/// The lifetime of answers in the kernel: only the kernel changes the volume.
pub(super) const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Inode numbers are never used again, so all of them are of the first generation.
pub(super) const GENERATION: Generation = Generation(0);

/// The prefix of extended attributes that only the superuser sees.
const TRUSTED: &[u8] = b"trusted.";

/// The attributes of the protocol.
pub(super) fn attributes(of: &Attributes) -> FileAttr {
    let inode = &of.inode;
    let block_size = inode
        .block_size()
        .clamp(*BLOCK_SIZES.start(), *BLOCK_SIZES.end());
    FileAttr {
        ino: INodeNo(of.number.0),
        size: inode.size,
        blocks: inode.blocks,
        atime: system_time(inode.accessed),
        mtime: system_time(inode.modified),
        ctime: system_time(inode.changed),
        crtime: system_time(inode.born),
        kind: kind(inode.kind),
        perm: (inode.permissions & 0o7777) as u16,
        nlink: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.device,
        blksize: block_size as u32,
        flags: 0,
    }
}

/// The reply for a name that does not exist: inode 0. The kernel remembers it.
pub(super) fn no_attributes() -> FileAttr {
    let epoch = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The kind of a file.
pub(super) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::Directory => FileType::Directory,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::File => FileType::RegularFile,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Socket => FileType::Socket,
    }
}

/// The number of an inode.
pub(super) fn inode(number: INodeNo) -> InodeNumber {
    InodeNumber(number.0)
}

/// The errno of an error.
pub(super) fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    let nanoseconds = Duration::from_nanos(time.nanoseconds.into());
    second
        .and_then(|second| second.checked_add(nanoseconds))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A time as `fuser` hands it over.
///
/// Before 1970 `fuser` 0.18 subtracts the nanoseconds where it should add them: the kernel's
/// seconds `-s` and nanoseconds `n` arrive as the moment `s` seconds and `n` nanoseconds before
/// 1970. This takes `s` and `n` from there.
pub(super) fn time(arrived: SystemTime) -> Time {
    match arrived.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.into(),
        Err(before) => {
            let before = before.duration();
            Time {
                seconds: 0i64.saturating_sub_unsigned(before.as_secs()),
                nanoseconds: before.subsec_nanos(),
            }
        }
    }
}

/// A time to set.
pub(super) fn new_time(time_or_now: TimeOrNow) -> NewTime {
    match time_or_now {
        TimeOrNow::SpecificTime(at) => NewTime::At(time(at)),
        TimeOrNow::Now => NewTime::Now,
    }
}

/// The kind of rename; `None` for a combination of flags that has no meaning.
pub(super) fn rename(flags: RenameFlags) -> Option<Rename> {
    if flags.is_empty() {
        Some(Rename::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Some(Rename::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Some(Rename::Exchange)
    } else if flags == RenameFlags::RENAME_WHITEOUT {
        Some(Rename::Whiteout)
    } else {
        None
    }
}

/// The request of `fallocate`; `None` for a mode that is not supported.
pub(super) fn allocate(mode: i32) -> Option<Allocate> {
    use rustix::fs::FallocateFlags as Flags;
    let flags = Flags::from_bits_retain(mode.cast_unsigned());
    if flags.is_empty() {
        Some(Allocate::Extend)
    } else if flags == Flags::KEEP_SIZE {
        Some(Allocate::KeepSize)
    } else if flags == Flags::PUNCH_HOLE | Flags::KEEP_SIZE {
        Some(Allocate::PunchHole)
    } else if flags == Flags::ZERO_RANGE {
        Some(Allocate::ZeroRange)
    } else if flags == Flags::ZERO_RANGE | Flags::KEEP_SIZE {
        Some(Allocate::ZeroRangeKeepSize)
    } else {
        None
    }
}

/// The goal of `lseek`; `None` for searches that the kernel makes itself.
pub(super) fn seek(whence: i32) -> Option<Seek> {
    // The kernel's numbers, include/uapi/linux/fs.h.
    const SEEK_DATA: i32 = 3;
    const SEEK_HOLE: i32 = 4;
    match whence {
        SEEK_DATA => Some(Seek::Data),
        SEEK_HOLE => Some(Seek::Hole),
        _ => None,
    }
}

/// The rule of `setxattr` for an attribute that exists; `None` for flags that have no meaning.
pub(super) fn existing(flags: i32) -> Option<Existing> {
    use rustix::fs::XattrFlags as Flags;
    let flags = Flags::from_bits_retain(flags.cast_unsigned());
    if flags.is_empty() {
        Some(Existing::Any)
    } else if flags == Flags::CREATE {
        Some(Existing::MustNotExist)
    } else if flags == Flags::REPLACE {
        Some(Existing::MustExist)
    } else {
        None
    }
}

/// The names, each followed by a zero, that are not `trusted`.
pub(super) fn without_trusted(names: &[u8]) -> Vec<u8> {
    let names = names.split_inclusive(|&byte| byte == 0);
    names
        .filter(|name| !name.starts_with(TRUSTED))
        .flatten()
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn times_before_1970_arrive_as_fuser_makes_them_and_leave_as_they_are() {
        // The time that `fuser` makes of the kernel's -2 s and 250 ns.
        let arrived = SystemTime::UNIX_EPOCH - Duration::new(2, 250);
        let understood = time(arrived);
        assert_eq!((understood.seconds, understood.nanoseconds), (-2, 250));
        let left = system_time(understood);
        let before = SystemTime::UNIX_EPOCH.duration_since(left).unwrap();
        assert_eq!(before, Duration::new(1, 999_999_750));
    }

    #[test]
    fn the_first_and_the_last_time_are_no_overflow() {
        for seconds in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX] {
            let time = Time {
                seconds,
                nanoseconds: 0,
            };
            assert_eq!(super::time(system_time(time)), time);
        }
    }

    #[test]
    fn modes_of_fallocate_that_are_not_supported_are_refused() {
        const COLLAPSE_RANGE: i32 = 0x08;
        const PUNCH_HOLE_WITHOUT_KEEP_SIZE: i32 = 0x02;
        assert_eq!(allocate(COLLAPSE_RANGE), None);
        assert_eq!(allocate(PUNCH_HOLE_WITHOUT_KEEP_SIZE), None);
        assert_eq!(allocate(0x03), Some(Allocate::PunchHole));
        assert_eq!(allocate(0x11), Some(Allocate::ZeroRangeKeepSize));
    }

    #[test]
    fn flags_of_rename_that_exclude_each_other_are_refused() {
        let both = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
        assert_eq!(rename(both), None);
        assert_eq!(rename(RenameFlags::from_bits_retain(64)), None);
    }

    #[test]
    fn trusted_attributes_are_left_out_of_a_list() {
        let names = b"user.a\0trusted.b\0user.trusted.\0trusted.c\0";
        assert_eq!(without_trusted(names), b"user.a\0user.trusted.\0");
        assert_eq!(without_trusted(b""), b"");
    }
}
