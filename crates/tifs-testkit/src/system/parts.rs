//! Parts of system calls, and operations that are several of them.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::fs::{
    self, FallocateFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Timespec, Timestamps,
};
use rustix::io::{self, Errno};
use tifs::file_system::Allocate;

use super::mapping::Mapping;
use super::outcome::{Answer, Bytes, Outcome};
use crate::ops::{AclEntry, Fill, OpenFlag, When};
use crate::users::ROOT;

/// Times that are set where file systems may differ in what they do to times.
pub(super) const SETTLED: Timestamps = Timestamps {
    last_access: Timespec {
        tv_sec: 1_000_000,
        tv_nsec: 1,
    },
    last_modification: Timespec {
        tv_sec: 1_000_001,
        tv_nsec: 2,
    },
};

pub(super) fn kind(file: BorrowedFd<'_>) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fs::fstat(file)?.st_mode))
}

pub(super) fn done(result: io::Result<()>) -> Outcome {
    result.map(|()| Answer::Done)
}

pub(super) fn flag(flag: OpenFlag) -> OFlags {
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

pub(super) fn time(time: Option<When>) -> Timespec {
    let only = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        Some(When::Now) => only(fs::UTIME_NOW),
        Some(When::Omit) | None => only(fs::UTIME_OMIT),
        Some(When::At(tv_sec, nanoseconds)) => Timespec {
            tv_sec,
            tv_nsec: nanoseconds.into(),
        },
    }
}

pub(super) fn truncate(path: &[u8], size: i64) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::OsStr::from_bytes(path);
    nix::unistd::truncate(path, size).map_err(|e| Errno::from_raw_os_error(e as i32))
}

/// Names that are each followed by a zero, in order.
pub(super) fn sorted(list: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = list.split_inclusive(|&b| b == 0).collect();
    names.sort();
    names.concat()
}

/// An ACL as the kernel takes it: version 2, then the entries, little-endian.
pub(super) fn acl(entries: &[AclEntry]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, id, permissions) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// All entries of an open directory. Its position is then its beginning.
pub(super) fn names(directory: BorrowedFd<'_>) -> Outcome {
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
pub(super) fn drop_set_group_id(path: &[u8]) -> io::Result<()> {
    let mode = fs::stat(path)?.st_mode & 0o5777;
    fs::chmod(path, Mode::from_raw_mode(mode))
}

pub(super) fn map_write(file: BorrowedFd<'_>, at: u64, data: Fill) -> Outcome {
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
    if data.byte.is_multiple_of(2) {
        mapping.sync()?;
    }
    drop(mapping);
    ROOT.does(|| fs::futimens(file, &SETTLED))?;
    Ok(Answer::Number(bytes.len() as u64))
}

pub(super) fn fallocate(file: BorrowedFd<'_>, mode: Allocate, at: u64, length: u64) -> Outcome {
    const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
    match mode {
        Allocate::Extend => fs::fallocate(file, FallocateFlags::empty(), at, length)?,
        Allocate::KeepSize => fs::fallocate(file, FallocateFlags::KEEP_SIZE, at, length)?,
        Allocate::PunchHole => fs::fallocate(file, PUNCH, at, length)?,
        Allocate::ZeroRangeKeepSize | Allocate::ZeroRange => {
            let keep = mode == Allocate::ZeroRangeKeepSize;
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
pub(super) fn copy(
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
