//! The schema of a volume: keys and values.
//!
//! Integers in keys are big-endian, so that keys sort by number. Every value begins with the number
//! of its format, [`FORMAT`]. No value is empty.
//!
//! | space | key | value |
//! |---|---|---|
//! | meta | `S` | the [superblock](Superblock) |
//! | meta | `c` | the [counters](Usage) of the last clean unmount |
//! | meta | `s` | the next inode number that nobody has leased |
//! | meta | `I` inode | the [attributes](Inode) of a file or directory |
//! | meta | `I` inode `1` | the content of a small file, or the target of a symbolic link |
//! | meta | `I` inode `2` name | an extended attribute |
//! | meta | `E` directory name | a [directory entry](Entry) |
//! | meta | `O` inode | an inode without names that the kernel still uses |
//! | meta | `D` inode | an inode whose blocks are to be deleted |
//! | data | `B` inode block | a block of a file |
//!
//! A block that is not there is a hole. A block is as long as the bytes written to it, so the last
//! one of a file, and one before a hole, may be short; missing bytes read as zeros.
//!
//! An inode number is never used again, so blocks that a deletion left of a file can be deleted
//! later.

mod entry;
mod inode;
mod keys;
mod superblock;
mod value;

pub use entry::Entry;
pub use inode::{FileKind, INLINE_MAX, Inode, Time};
pub use keys::{InodeNumber, Key, block_key, block_of_key, blocks_of, name_of_entry};
pub use superblock::{Superblock, Usage};
pub use value::{FORMAT, content_of, inode_number_of, with_format};
