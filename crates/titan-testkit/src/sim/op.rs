//! The operations of a file system, their kinds, and marks between them.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use titan::{Bytes, Error};

/// Identifies a file as long as it exists, under any path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(super) u64);

/// The method by which a file was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// `create`.
    #[default]
    Any,
    /// `create_log`.
    Log,
    /// `create_bulk`.
    Bulk,
}

macro_rules! op_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// Kinds of operation, for faults and counters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "named like the methods of `Vfs` and its files")]
        pub enum OpKind {
            $($(#[$doc])* $kind,)*
        }

        impl OpKind {
            /// All kinds.
            pub const ALL: &[OpKind] = &[$(OpKind::$kind),*];

            /// Its name, as in the text form of a [`Fault`](super::Fault).
            pub fn name(self) -> &'static str {
                match self {
                    $(OpKind::$kind => $name,)*
                }
            }
        }
    };
}

op_kinds! {
    Create = "create",
    Append = "append",
    /// `overwrite_start`.
    Overwrite = "overwrite",
    /// `cut_failed_append`.
    Cut = "cut",
    PunchHole = "punch-hole",
    Sync = "sync",
    Rename = "rename",
    Link = "link",
    Remove = "remove",
    SyncDir = "sync-dir",
    CreateDir = "create-dir",
    RemoveDir = "remove-dir",
    Open = "open",
    Read = "read",
    ReadDir = "read-dir",
    /// `size` of a path or an open file, `allocated_bytes`, `link_count` and `exists`.
    Stat = "stat",
    Lock = "lock",
}

impl OpKind {
    /// Whether it uses a descriptor, even temporarily.
    pub(super) fn opens(self) -> bool {
        matches!(
            self,
            OpKind::Create | OpKind::Open | OpKind::Lock | OpKind::ReadDir | OpKind::SyncDir
        )
    }
}

/// An operation about to start, as faults and hooks see it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The method called.
    pub kind: OpKind,
    /// The path as given; of an open file, the one it was opened by.
    pub path: &'a Path,
    /// The new name in a rename or link.
    pub to: Option<&'a Path>,
    /// The offset of a read or hole.
    pub offset: u64,
    /// Number of bytes that are read, appended, replaced or punched out.
    pub len: usize,
}

impl<'a> Call<'a> {
    pub(super) fn new(kind: OpKind, path: &'a Path) -> Self {
        Call {
            kind,
            path,
            to: None,
            offset: 0,
            len: 0,
        }
    }

    /// The error of this operation.
    pub(super) fn error(&self, error: io::Error, action: &str) -> Error {
        match self.kind.opens() {
            true => Error::opening(error, action, self.path),
            false => Error::io(error, action, self.path),
        }
    }
}

/// An operation that changed the file system, as recorded in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsOp {
    /// A file was created, or an existing one emptied.
    Create {
        /// Its path.
        path: Arc<Path>,
        /// Its identity in the operations that follow.
        file: FileId,
        /// Purpose for which it was created.
        purpose: Purpose,
    },
    /// Bytes were appended.
    Append {
        /// The path the file was opened by.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
        /// The bytes.
        data: Bytes,
    },
    /// Bytes were written at any offset, as by a system call, or replaced at the start.
    Write {
        /// The path the file was opened by.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
        /// Where they begin. Zeros fill a gap after the former end of the file.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// A file was truncated, or extended with zeros, as by a system call.
    SetLen {
        /// The path the file was opened by.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
        /// Its new size.
        len: u64,
    },
    /// A hole was punched.
    PunchHole {
        /// The path the file was opened by.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
        /// Its offset.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// A log was closed, which truncates the zeros at its end. Closing other files is not
    /// recorded.
    Close {
        /// The path the file was opened by.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
    },
    /// A file was synced.
    Sync {
        /// The path the file was opened by.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
    },
    /// The bytes of a file were written again, where they are, and synced.
    Rewrite {
        /// Its path.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
    },
    /// A sync failed and the kernel dropped the unsynced pages.
    SyncLost {
        /// The path the file was opened by.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
    },
    /// A name changed, replacing the file that had the new one.
    Rename {
        /// Old path.
        from: Arc<Path>,
        /// New path.
        to: Arc<Path>,
    },
    /// A file got an additional name.
    Link {
        /// An existing path of it.
        from: Arc<Path>,
        /// The additional one.
        to: Arc<Path>,
    },
    /// A file's name was removed.
    Remove {
        /// Its path.
        path: Arc<Path>,
    },
    /// A directory was synced.
    SyncDir {
        /// Its path.
        path: Arc<Path>,
    },
    /// One directory was created.
    CreateDir {
        /// Its path.
        path: Arc<Path>,
    },
    /// An empty directory was removed.
    RemoveDir {
        /// Its path.
        path: Arc<Path>,
    },
    /// A test wrote these bytes, directly to the medium.
    Replace {
        /// The file's path.
        path: Arc<Path>,
        /// Which file.
        file: FileId,
        /// Its whole new content.
        data: Bytes,
    },
    /// A test made everything durable.
    SyncAll,
}

impl fmt::Display for FsOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FsOp::Create { path, .. } => write!(f, "create {}", path.display()),
            FsOp::Append { path, data, .. } => {
                write!(f, "append {} {}", path.display(), data.len())
            }
            FsOp::Write {
                path, offset, data, ..
            } => write!(f, "write {} {offset} {}", path.display(), data.len()),
            FsOp::SetLen { path, len, .. } => write!(f, "set-len {} {len}", path.display()),
            FsOp::PunchHole {
                path, offset, len, ..
            } => write!(f, "punch-hole {} {offset} {len}", path.display()),
            FsOp::Close { path, .. } => write!(f, "close {}", path.display()),
            FsOp::Sync { path, .. } => write!(f, "sync {}", path.display()),
            FsOp::Rewrite { path, .. } => write!(f, "rewrite {}", path.display()),
            FsOp::SyncLost { path, .. } => write!(f, "sync-lost {}", path.display()),
            FsOp::Rename { from, to } => {
                write!(f, "rename {} {}", from.display(), to.display())
            }
            FsOp::Link { from, to } => {
                write!(f, "link {} {}", from.display(), to.display())
            }
            FsOp::Remove { path } => write!(f, "remove {}", path.display()),
            FsOp::SyncDir { path } => write!(f, "sync-dir {}", path.display()),
            FsOp::CreateDir { path } => write!(f, "create-dir {}", path.display()),
            FsOp::RemoveDir { path } => write!(f, "remove-dir {}", path.display()),
            FsOp::Replace { path, data, .. } => {
                write!(f, "replace {} {}", path.display(), data.len())
            }
            FsOp::SyncAll => f.write_str("sync-all"),
        }
    }
}

/// A note that a test makes about a moment, usually "acknowledged up to here".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A count, such as the number of acknowledged batches.
    Number(u64),
    /// Anything else.
    Text(Arc<str>),
}

impl From<u64> for Mark {
    fn from(number: u64) -> Self {
        Mark::Number(number)
    }
}

impl From<&str> for Mark {
    fn from(text: &str) -> Self {
        Mark::Text(text.into())
    }
}

impl From<String> for Mark {
    fn from(text: String) -> Self {
        Mark::Text(text.into())
    }
}
