//! A directory entry: the inode of a name.

use bytes::{Buf, Bytes};

use super::inode::FileKind;
use super::keys::InodeNumber;
use super::value::{FORMAT, take, take_format};
use crate::error::{Error, Result};

/// The inode of a name in a directory. The kind is here too, so that a listing reads no inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file or directory.
    pub inode: InodeNumber,
    /// Its kind, which never changes.
    pub kind: FileKind,
}

impl Entry {
    /// The stored form.
    pub fn encode(self) -> Vec<u8> {
        let mut value = vec![FORMAT];
        value.extend_from_slice(&self.inode.0.to_be_bytes());
        value.push(self.kind.code());
        value
    }

    /// The entry of a stored form.
    pub fn decode(value: &Bytes) -> Result<Entry> {
        const WHAT: &str = "a directory entry";
        let value = &mut value.clone();
        take_format(value, WHAT)?;
        let inode = InodeNumber(take(value, WHAT, Buf::try_get_u64)?);
        let code = take(value, WHAT, Buf::try_get_u8)?;
        let kind = FileKind::of_code(code).ok_or_else(|| {
            Error::corrupt(format!("{WHAT} has kind {code}, which does not exist"))
        })?;
        Ok(Entry { inode, kind })
    }
}
