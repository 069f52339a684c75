//! The file of an export: the pairs of a range of keys as of one timestamp.
//!
//! ```text
//! file      header block* end
//! header    magic (8) version (4) length of the body (4) checksum (4) body checksum (4)
//! body      timestamp (8) asked (8) age (8) resumable (1) source (string) from (optional)
//!           to (optional)
//! string    length (4) bytes
//! optional  0 (1), or 1 (1) string
//! block     'B' (1) codec (1) stored length (4) plain length (4) pairs (4) checksum (4) stored
//! plain     pair*, pair = length of the key (4) length of the value (4) key value
//! end       'E' (1) blocks (8) pairs (8) bytes of keys and values (8) SHA-256 (32) checksum (4)
//! ```
//!
//! Numbers have the least significant byte first. Keys ascend through all blocks. A checksum is the
//! CRC-32C of the bytes before it in its part, that of a block also of the stored bytes. SHA-256 is
//! that of all plain blocks, so it does not depend on their borders. Codec 0 stores a block as it
//! is, codec 1 by LZ4. A block has about a mebibyte, or one larger pair.
//!
//! | file | owns |
//! |---|---|
//! | `header` | the header |
//! | `block` | blocks |
//! | `end` | the end mark |
//! | `reader` | reading, where every byte may be damaged |
//! | `writer` | writing, and going on with an interrupted export |
//!
//! Promises: a reader returns a pair only from a block whose checksum is right. A file has an end
//! mark only if all before it is durable. Damage is an error with file and offset; so is a file
//! without an end mark.

mod block;
mod end;
mod header;
mod reader;
mod writer;

pub(crate) use header::Header;
pub(crate) use reader::Reader;
pub(crate) use writer::{Found, directory_of};

/// Takes bytes from the front of a part.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }
}
