//! Keys: see the [table](super).

use std::fmt;

/// Identifies a file or directory of a volume. Numbers are given out once and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InodeNumber(pub u64);

impl InodeNumber {
    /// The directory at the top of every volume. FUSE demands this number.
    pub const ROOT: InodeNumber = InodeNumber(1);
}

impl fmt::Display for InodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key of the space for metadata.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// The superblock.
    Superblock,
    /// The counters of the last clean unmount.
    Usage,
    /// The next inode number to lease.
    NextInode,
    /// The attributes of an inode.
    Inode(InodeNumber),
    /// The content of a small file, or the target of a symbolic link.
    Inline(InodeNumber),
    /// An extended attribute; with an empty name, the prefix of all.
    Attribute(InodeNumber, &'a [u8]),
    /// The entry of a directory; with an empty name, the prefix of all.
    Entry(InodeNumber, &'a [u8]),
    /// An inode without names that is still in use.
    Orphan(InodeNumber),
    /// An inode whose blocks are to be deleted.
    Reclaim(InodeNumber),
}

impl Key<'_> {
    /// The bytes of the key.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Key::Superblock => vec![b'S'],
            Key::Usage => vec![b'c'],
            Key::NextInode => vec![b's'],
            Key::Inode(inode) => numbered(b'I', inode, &[]),
            Key::Inline(inode) => numbered(b'I', inode, &[1]),
            Key::Attribute(inode, name) => numbered(b'I', inode, &[&[2], name].concat()),
            Key::Entry(directory, name) => numbered(b'E', directory, name),
            Key::Orphan(inode) => numbered(b'O', inode, &[]),
            Key::Reclaim(inode) => numbered(b'D', inode, &[]),
        }
    }

    /// The inode number of a key that begins with a letter and one.
    pub fn inode_of(key: &[u8]) -> Option<InodeNumber> {
        let number = key.get(1..9)?.try_into().ok()?;
        Some(InodeNumber(u64::from_be_bytes(number)))
    }
}

fn numbered(kind: u8, inode: InodeNumber, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + rest.len());
    key.push(kind);
    key.extend_from_slice(&inode.0.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

/// The name in the key of a directory entry or of an extended attribute, which follows a prefix.
pub fn name_of_entry<'k>(key: &'k [u8], prefix: &[u8]) -> &'k [u8] {
    key.strip_prefix(prefix).unwrap_or_default()
}

/// The key of a block, in the space for data.
pub fn block_key(inode: InodeNumber, block: u64) -> Vec<u8> {
    numbered(b'B', inode, &block.to_be_bytes())
}

/// The prefix of an inode's blocks.
pub fn blocks_of(inode: InodeNumber) -> Vec<u8> {
    numbered(b'B', inode, &[])
}

/// The inode and the number of a block, from its key.
pub fn block_of_key(key: &[u8]) -> Option<(InodeNumber, u64)> {
    let block = key.get(9..17)?.try_into().ok()?;
    (key.len() == 17 && key[0] == b'B')
        .then(|| Key::inode_of(key))
        .flatten()
        .map(|inode| (inode, u64::from_be_bytes(block)))
}
