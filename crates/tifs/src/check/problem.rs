//! The problems of a volume.

use std::fmt;

use serde::Serialize;

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The superblock is missing, damaged or of a later version.
    Superblock,
    /// The store cannot read a part of itself, or something is not known because of that.
    Unreadable,
    /// A value is not in its format.
    Damaged,
    /// The object store has not the content of a block.
    Lost,
    /// A key is none of the schema.
    UnknownKey,
    /// An inode has a number that may be given out again.
    InodeNumber,
    /// A key belongs to an inode that does not exist.
    UnknownInode,
    /// A name is in something that is no directory, or in one without names.
    NoDirectory,
    /// A name is one that no entry can have.
    Name,
    /// An entry and its inode have different kinds.
    Kind,
    /// An inode counts other names than there are.
    Links,
    /// An inode without names is not listed for deletion, or one with names is.
    Orphan,
    /// A directory has several names, or names another parent than the directory that has it.
    Parent,
    /// A directory is not reached from the root.
    Unreachable,
    /// A file has content that its attributes do not account for.
    Content,
    /// A file takes other space than its attributes say.
    Blocks,
    /// A truncated file is not listed for deleting its blocks, or one that was not is.
    Truncation,
    /// An inode has an extended attribute, and says that it has none.
    Attributes,
    /// An access control list is none, or says something else than the permissions.
    Acl,
    /// The counters of the volume are wrong.
    Counters,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its kind.
    pub problem: Problem,
    /// The inode that has it.
    pub inode: Option<u64>,
    /// The finding.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inode {
            Some(inode) => write!(f, "{:?}: inode {inode}: {}", self.problem, self.detail),
            None => write!(f, "{:?}: {}", self.problem, self.detail),
        }
    }
}
