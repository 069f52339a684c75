//! The outcome of an operation, in a form that is equal on file systems that do the same.

use std::fmt;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

/// The result of a system call.
pub type Outcome = Result<Answer, Errno>;

/// A result that is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// No system call does this operation, so nothing was done.
    Nothing,
    Number(u64),
    Bytes(Bytes),
    Status(Status),
    /// Names of a directory with their kinds, sorted.
    Names(Vec<(Bytes, FileType)>),
}

impl Answer {
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Answer {
        Answer::Bytes(Bytes(bytes.into()))
    }
}

/// The result of `stat`, without values that file systems may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub kind: FileType,
    /// Permissions in octal, see [`compared`].
    pub permissions: String,
    pub uid: u32,
    pub gid: u32,
    pub links: u64,
    /// Not of directories.
    pub size: Option<i64>,
    pub device: Option<u64>,
    pub accessed: Time,
    pub modified: Time,
}

/// A time: what was set is compared; moments of the test are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    Set(i64, u64),
    DuringTheTest,
}

/// Times from this on are those of the test. All times that operations set are before it, or long
/// after.
const DURING_THE_TEST: std::ops::Range<i64> = 1_600_000_000..4_000_000_000;

impl Time {
    fn new(seconds: i64, nanoseconds: u64) -> Time {
        if DURING_THE_TEST.contains(&seconds) {
            Time::DuringTheTest
        } else {
            Time::Set(seconds, nanoseconds)
        }
    }
}

impl From<&Stat> for Status {
    fn from(stat: &Stat) -> Status {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_device = kind == FileType::CharacterDevice || kind == FileType::BlockDevice;
        Status {
            kind,
            permissions: format!("{:04o}", compared(kind, stat.st_mode & 0o7777)),
            uid: stat.st_uid,
            gid: stat.st_gid,
            links: stat.st_nlink,
            size: (kind != FileType::Directory).then_some(stat.st_size),
            device: is_device.then_some(stat.st_rdev),
            accessed: Time::new(stat.st_atime, stat.st_atime_nsec),
            modified: Time::new(stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

/// The permissions that are compared. On a file that its group may not execute, the bit for
/// set-group-ID means nothing. Who loses it by writing depends on all groups of the process, which
/// the kernel does not tell a file system in user space.
fn compared(kind: FileType, permissions: u32) -> u32 {
    let group_may_execute = permissions & 0o010 != 0;
    match kind {
        FileType::Directory => permissions,
        _ if group_may_execute => permissions,
        _ => permissions & !0o2000,
    }
}

/// Bytes that print as runs of equal ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() <= 300 && self.0.iter().all(|b| (b' '..=b'~').contains(b)) {
            return write!(f, "{:?}", String::from_utf8_lossy(&self.0));
        }
        write!(f, "[")?;
        let mut at = 0;
        for run in self.0.chunk_by(|a, b| a == b).take(60) {
            write!(f, "{at}: {}*{:#04x}, ", run.len(), run[0])?;
            at += run.len();
        }
        write!(f, "to {}]", self.0.len())
    }
}
