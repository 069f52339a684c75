//! The attributes of a file or directory.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};

use super::keys::InodeNumber;
use super::value::{FORMAT, take, take_format};
use crate::error::{Error, Result};

/// The largest content of a file that is stored beside the attributes, in bytes.
pub const INLINE_MAX: u64 = 4096;

/// The kind of an inode. The discriminant is the file type of `st_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FileKind {
    /// A named pipe.
    Fifo = 0o010000,
    /// A character device.
    CharDevice = 0o020000,
    /// A directory.
    Directory = 0o040000,
    /// A block device.
    BlockDevice = 0o060000,
    /// A regular file.
    File = 0o100000,
    /// A symbolic link.
    Symlink = 0o120000,
    /// A socket.
    Socket = 0o140000,
}

impl FileKind {
    const ALL: [FileKind; 7] = [
        FileKind::Fifo,
        FileKind::CharDevice,
        FileKind::Directory,
        FileKind::BlockDevice,
        FileKind::File,
        FileKind::Symlink,
        FileKind::Socket,
    ];

    /// The kind in a mode. A mode without a type means a regular file, as for `mknod`.
    pub fn of_mode(mode: u32) -> Option<FileKind> {
        if mode & 0o170000 == 0 {
            return Some(FileKind::File);
        }
        let is = |kind: &FileKind| *kind as u32 == mode & 0o170000;
        FileKind::ALL.into_iter().find(is)
    }

    /// The stored form: the type bits of the mode.
    pub(super) fn code(self) -> u8 {
        (self as u32 >> 12) as u8
    }

    pub(super) fn of_code(code: u8) -> Option<FileKind> {
        let is = |kind: &FileKind| kind.code() == code;
        FileKind::ALL.into_iter().find(is)
    }
}

/// A moment, as files have it: since the beginning of 1970, UTC; it may be before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds after them, less than a billion.
    pub nanoseconds: u32,
}

impl From<Duration> for Time {
    fn from(since_epoch: Duration) -> Self {
        Time {
            seconds: since_epoch.as_secs().try_into().unwrap_or(i64::MAX),
            nanoseconds: since_epoch.subsec_nanos(),
        }
    }
}

/// The attributes of an inode, 105 bytes when stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The kind.
    pub kind: FileKind,
    /// Permissions, with the bits for set-user-ID, set-group-ID and the sticky bit: 12 bits.
    pub permissions: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Names; for a directory 2 and one for each directory in it.
    pub links: u32,
    /// For a device, its number, as the kernel encodes it in 32 bits.
    pub device: u32,
    /// Bytes of the content.
    pub size: u64,
    /// Units of 512 bytes that the content takes: each block rounded up.
    pub blocks: u64,
    /// Of a directory, the one that has it; of others, the one in which they were created or to
    /// which they were moved last.
    pub parent: InodeNumber,
    /// The number of blocks before which everything at or after the size may be left over from
    /// before a truncation; 0 if nothing is. It must be deleted before the file grows.
    pub stale_end: u64,
    /// The block size is two to this power. 0: the content is inline.
    pub block_shift: u8,
    /// Extended attributes may be stored. Without this, none is.
    pub has_attributes: bool,
    /// Last access.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Last change of the attributes or the content.
    pub changed: Time,
    /// When it was created.
    pub born: Time,
}

impl Inode {
    /// Type and permissions, as `st_mode` has them.
    pub fn mode(&self) -> u32 {
        self.kind as u32 | self.permissions
    }

    /// Bytes of a block; 0 if the content is inline.
    pub fn block_size(&self) -> u64 {
        if self.is_inline() {
            0
        } else {
            1 << self.block_shift
        }
    }

    /// Whether the content is in one value beside the attributes.
    pub fn is_inline(&self) -> bool {
        self.block_shift == 0
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(112);
        value.put_u8(FORMAT);
        value.put_u32(self.mode());
        for field in [self.uid, self.gid, self.links, self.device] {
            value.put_u32(field);
        }
        for field in [self.size, self.blocks, self.parent.0, self.stale_end] {
            value.put_u64(field);
        }
        value.put_u8(self.block_shift);
        value.put_u8(self.has_attributes.into());
        for time in [self.accessed, self.modified, self.changed, self.born] {
            value.put_i64(time.seconds);
            value.put_u32(time.nanoseconds);
        }
        value
    }

    /// The attributes of a stored form.
    ///
    /// # Errors
    /// `EIO` if they are damaged or of a later version.
    pub fn decode(value: &Bytes) -> Result<Inode> {
        const WHAT: &str = "an inode";
        let value = &mut value.clone();
        take_format(value, WHAT)?;
        let word = |value: &mut Bytes| take(value, WHAT, Buf::try_get_u32);
        let long = |value: &mut Bytes| take(value, WHAT, Buf::try_get_u64);
        let mode = word(value)?;
        let kind = FileKind::of_code((mode >> 12) as u8).ok_or_else(|| {
            Error::corrupt(format!(
                "{WHAT} has mode {mode:#o}, whose type does not exist"
            ))
        })?;
        let (uid, gid, links, device) = (word(value)?, word(value)?, word(value)?, word(value)?);
        let (size, blocks, parent, stale_end) =
            (long(value)?, long(value)?, long(value)?, long(value)?);
        let block_shift = take(value, WHAT, Buf::try_get_u8)?;
        if block_shift != 0 && !(9..=24).contains(&block_shift) {
            return Err(Error::corrupt(format!(
                "{WHAT} has block shift {block_shift}"
            )));
        }
        let flags = take(value, WHAT, Buf::try_get_u8)?;
        if flags > 1 {
            return Err(Error::corrupt(format!("{WHAT} has the flags {flags:#x}")));
        }
        let time = |value: &mut Bytes| -> Result<Time> {
            let seconds = take(value, WHAT, Buf::try_get_i64)?;
            let nanoseconds = take(value, WHAT, Buf::try_get_u32)?;
            Ok(Time {
                seconds,
                nanoseconds,
            })
        };
        Ok(Inode {
            kind,
            permissions: mode & 0o7777,
            uid,
            gid,
            links,
            device,
            size,
            blocks,
            parent: InodeNumber(parent),
            stale_end,
            block_shift,
            has_attributes: flags == 1,
            accessed: time(value)?,
            modified: time(value)?,
            changed: time(value)?,
            born: time(value)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    fn inode() -> Inode {
        let time = |seconds| Time {
            seconds,
            nanoseconds: 999_999_999,
        };
        Inode {
            kind: FileKind::Symlink,
            permissions: 0o7641,
            uid: u32::MAX,
            gid: 2,
            links: 3,
            device: 4,
            size: 1 << 57,
            blocks: 1 << 48,
            parent: InodeNumber(u64::MAX),
            stale_end: 5,
            block_shift: 16,
            has_attributes: true,
            accessed: time(-1),
            modified: time(i64::MAX),
            changed: time(0),
            born: time(1),
        }
    }

    #[test]
    fn an_inode_is_read_as_it_was_written() {
        let value = Bytes::from(inode().encode());
        assert_eq!(Inode::decode(&value).unwrap(), inode());
    }

    #[test]
    fn no_prefix_and_no_changed_byte_of_an_inode_panics() {
        let value = inode().encode();
        for end in 0..value.len() {
            assert!(Inode::decode(&Bytes::copy_from_slice(&value[..end])).is_err());
        }
        for place in 0..value.len() {
            for bit in 0..8 {
                let mut damaged = value.clone();
                damaged[place] ^= 1 << bit;
                let _ = Inode::decode(&Bytes::from(damaged));
            }
        }
    }

    #[test]
    fn a_later_format_is_refused_by_name() {
        let mut value = inode().encode();
        value[0] = 2;
        let error = Inode::decode(&Bytes::from(value)).unwrap_err();
        assert!(error.to_string().contains("format 2"), "{error}");
    }
}
