//! Operations on a file system, as values.
//!
//! Each is one system call, or a few, with its name. Files are open in *slots*. As text an
//! operation is a line of JSON, so that a failing list can be kept in a file and replayed.

use serde::{Deserialize, Serialize};

use crate::users::{ALICE, BOB, ROOT, User};

/// A path below the root of the side. `%` and two hexadecimal digits stand for a byte.
pub type Path = String;

/// Which of the open files.
pub type Slot = usize;

/// The number of slots.
pub const SLOTS: usize = 3;

/// An operation and the user for whom it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub user: Who,
    pub op: Op,
}

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Who {
    Root,
    Alice,
    Bob,
}

impl Who {
    pub fn user(self) -> User {
        match self {
            Who::Root => ROOT,
            Who::Alice => ALICE,
            Who::Bob => BOB,
        }
    }
}

/// Bytes to write: see [`Data::bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    pub seed: u8,
    pub length: usize,
}

impl Data {
    /// Runs of 512 equal bytes, each of another value, so that differences are short to print and
    /// bytes at a wrong place are seen.
    pub fn bytes(self) -> Vec<u8> {
        (0..self.length)
            .map(|i| self.seed.wrapping_add((i / 512) as u8) | 1)
            .collect()
    }
}

/// The flags for opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    Read,
    Write,
    ReadWrite,
}

/// Further flags of `open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenFlag {
    Append,
    Create,
    Direct,
    Directory,
    Exclusive,
    NoAccessTime,
    NoFollow,
    PathOnly,
    Synchronous,
    Truncate,
}

/// Flags of `renameat2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameFlag {
    Exchange,
    NoReplace,
    Whiteout,
}

/// Modes of `fallocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Allocation {
    Extend,
    KeepSize,
    PunchHole,
    ZeroRange,
    ZeroRangeKeepSize,
}

/// The kind of inode that `mknod` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    File,
    Fifo,
    Socket,
    Device,
}

/// A time that `utimensat` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewTime {
    Now,
    Omit,
    At(i64, u32),
}

/// Flags of `setxattr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    Any,
    MustExist,
    MustNotExist,
}

/// Modes of `flock`. None of them waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lock {
    Shared,
    Exclusive,
    Unlock,
}

/// An entry of an ACL: its tag, as the kernel numbers them, the ID, and the permissions.
pub type AclEntry = (u16, u32, u16);

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    // Open files.
    Open {
        slot: Slot,
        path: Path,
        access: Access,
        flags: Vec<OpenFlag>,
        mode: u32,
    },
    /// A file without a name (`O_TMPFILE`).
    OpenUnnamed {
        slot: Slot,
        path: Path,
        mode: u32,
    },
    /// Gives such a file a name.
    LinkUnnamed {
        slot: Slot,
        path: Path,
    },
    Close {
        slot: Slot,
    },
    Read {
        slot: Slot,
        length: usize,
    },
    Pread {
        slot: Slot,
        at: u64,
        length: usize,
    },
    Write {
        slot: Slot,
        data: Data,
    },
    Pwrite {
        slot: Slot,
        at: u64,
        data: Data,
    },
    /// Writes through a shared mapping, as far as the file reaches. Times are set afterwards.
    MapWrite {
        slot: Slot,
        at: u64,
        data: Data,
    },
    Ftruncate {
        slot: Slot,
        size: u64,
    },
    /// Times and privileges are set afterwards.
    Fallocate {
        slot: Slot,
        mode: Allocation,
        at: u64,
        length: u64,
    },
    CopyFileRange {
        from: Slot,
        from_at: u64,
        to: Slot,
        to_at: u64,
        length: usize,
    },
    Fsync {
        slot: Slot,
        data_only: bool,
    },
    Fstat {
        slot: Slot,
    },
    Fchmod {
        slot: Slot,
        mode: u32,
    },
    Flock {
        slot: Slot,
        how: Lock,
    },
    /// All names of an open directory.
    Getdents {
        slot: Slot,
    },

    // Names.
    Mkdir {
        path: Path,
        mode: u32,
    },
    Rmdir {
        path: Path,
    },
    Mknod {
        path: Path,
        node: Node,
        mode: u32,
    },
    Symlink {
        target: Path,
        path: Path,
    },
    Readlink {
        path: Path,
    },
    Link {
        from: Path,
        to: Path,
        follow: bool,
    },
    Unlink {
        path: Path,
    },
    Rename {
        from: Path,
        to: Path,
        flags: Vec<RenameFlag>,
    },

    // Attributes.
    Stat {
        path: Path,
        follow: bool,
    },
    Access {
        path: Path,
        mode: u32,
    },
    Chmod {
        path: Path,
        mode: u32,
    },
    Chown {
        path: Path,
        follow: bool,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    Utimens {
        path: Path,
        follow: bool,
        accessed: NewTime,
        modified: NewTime,
    },
    /// Times are set afterwards.
    Truncate {
        path: Path,
        size: u64,
    },
    Setxattr {
        path: Path,
        follow: bool,
        name: String,
        value: Data,
        existing: Existing,
    },
    Getxattr {
        path: Path,
        follow: bool,
        name: String,
    },
    Listxattr {
        path: Path,
        follow: bool,
    },
    Removexattr {
        path: Path,
        follow: bool,
        name: String,
    },
    /// By others than the superuser, it also takes the set-group-ID bit away.
    SetAcl {
        path: Path,
        default: bool,
        entries: Vec<AclEntry>,
    },

    // The process, the machine.
    Umask {
        mask: u32,
    },
    /// The kernel forgets names and inodes that it does not use.
    DropCaches,
    /// All files are closed, and the file system is mounted again.
    Remount,
}

/// The bytes of a path, or of a name.
pub fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = after;
            }
            _ => bytes.push(first),
        }
    }
    bytes
}

/// Lists as text: a step per line.
pub fn to_text(steps: &[Step]) -> String {
    let line = |step: &Step| serde_json::to_string(step).unwrap() + "\n";
    steps.iter().map(line).collect()
}

/// The inverse of [`to_text`].
pub fn from_text(text: &str) -> Vec<Step> {
    let steps = text.lines().filter(|line| !line.trim().is_empty());
    steps
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}
