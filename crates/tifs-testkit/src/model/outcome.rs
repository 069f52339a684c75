//! The outcome of an operation, in the model and on a volume.

use rustix::io::Errno;
use tifs::schema::{FileKind, Inode, InodeNumber};

/// The result of an operation. `N` identifies inodes: they have other numbers in a volume than in
/// the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<N> {
    /// Slots are not bound as the operation needs it: nothing was done.
    Skipped,
    /// It succeeded and returned nothing.
    Done,
    /// It failed.
    Failed(Errno),
    /// It found or made this.
    Found(N, Inode),
    /// It returned attributes.
    Attributes(Inode),
    /// It returned bytes.
    Bytes(Vec<u8>),
    /// It returned a number.
    Count(u64),
    /// It returned entries.
    Listing(Vec<Listed<N>>),
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<N> {
    pub name: Vec<u8>,
    pub inode: N,
    pub kind: FileKind,
    pub attributes: Option<Inode>,
}

impl<N> Outcome<N> {
    /// The inodes in it, in order.
    pub fn identities(&self) -> Vec<N>
    where
        N: Copy,
    {
        match self {
            Outcome::Found(inode, _) => vec![*inode],
            Outcome::Listing(entries) => entries.iter().map(|listed| listed.inode).collect(),
            _ => Vec::new(),
        }
    }

    /// The same with other identities.
    pub fn map<M>(self, mut map: impl FnMut(N) -> M) -> Outcome<M> {
        match self {
            Outcome::Skipped => Outcome::Skipped,
            Outcome::Done => Outcome::Done,
            Outcome::Failed(errno) => Outcome::Failed(errno),
            Outcome::Found(inode, attributes) => Outcome::Found(map(inode), attributes),
            Outcome::Attributes(attributes) => Outcome::Attributes(attributes),
            Outcome::Bytes(bytes) => Outcome::Bytes(bytes),
            Outcome::Count(count) => Outcome::Count(count),
            Outcome::Listing(entries) => {
                let entry = |listed: Listed<N>| Listed {
                    name: listed.name,
                    inode: map(listed.inode),
                    kind: listed.kind,
                    attributes: listed.attributes,
                };
                Outcome::Listing(entries.into_iter().map(entry).collect())
            }
        }
    }
}

/// Attributes of a volume without those that the model does not know.
pub fn comparable(inode: Inode) -> Inode {
    Inode {
        blocks: 0,
        parent: InodeNumber::ROOT,
        stale_end: 0,
        block_shift: 0,
        has_attributes: false,
        ..inode
    }
}
