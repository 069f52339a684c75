//! A block in memory. [`crate::table::block::iter`] walks its entries.
//!
//! ```text
//! entry    shared varint32 | fresh varint32 | value_len varint32 | key bytes[fresh] | value
//! block    entry * | restart u32 * n | [hash index: bucket u8 * m | m u16] | packed u32
//! packed   bits 0..28 n | 28 separated values | 29 uniform keys (a hint) | 30 reserved
//!          | 31 hash index
//! ```
//!
//! A key is the first `shared` bytes of the previous key and `fresh` new ones. At restart points
//! `shared` is 0, so that a seek can search them; the restart array holds their offsets. The hash
//! index (only in blocks of at most 64 KiB) speeds up RocksDB's point lookups; it is skipped here.
//! A block with [separated values](crate::table::block::separated) is converted to this layout when
//! it is read.
//!
//! Everything is checked as it is decoded, so a damaged block causes an error and nothing worse.

pub(in crate::table) mod builder;
pub(crate) mod io;
pub(crate) mod iter;
#[cfg(test)]
mod iter_tests;
pub(in crate::table) mod separated;

use std::ops::Range;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::coding::Decoder;

const NUM_RESTARTS_MASK: u32 = (1 << 28) - 1;
pub(in crate::table) const SEPARATED_VALUES: u32 = 1 << 28;
const RESERVED: u32 = 1 << 30;
const HASH_INDEX: u32 = 1 << 31;
const MAX_LEN_WITH_HASH_INDEX: usize = 64 << 10;

/// A decompressed, verified block. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Block {
    data: Bytes,
    /// Where entries end and the restart array starts.
    entries_end: usize,
    num_restarts: usize,
}

impl Block {
    /// Reads the block's frame. Entries are checked when a cursor reaches them.
    pub fn new(data: Bytes) -> Result<Self> {
        let Some((rest, packed)) = data.split_last_chunk::<4>() else {
            return Err(Error::corruption("block shorter than its restart count"));
        };
        let packed = u32::from_le_bytes(*packed);
        let mut tail = rest;
        let mut values_at = None;
        if packed & SEPARATED_VALUES != 0 {
            let Some((rest, at)) = tail.split_last_chunk::<4>() else {
                return Err(Error::corruption("block shorter than its restart count"));
            };
            (tail, values_at) = (rest, Some(u32::from_le_bytes(*at) as usize));
        }
        let mut restarts_end = tail.len();
        if packed & RESERVED != 0 {
            return Err(Error::corruption("block with an unknown feature bit"));
        }
        if packed & HASH_INDEX != 0 {
            let buckets = tail.split_last_chunk::<2>();
            let buckets = buckets.map_or(0, |(_, m)| usize::from(u16::from_le_bytes(*m)));
            match restarts_end.checked_sub(buckets + 2) {
                Some(end) if data.len() <= MAX_LEN_WITH_HASH_INDEX => restarts_end = end,
                _ => return Err(Error::corruption("block with an impossible hash index")),
            }
        }
        let num_restarts = (packed & NUM_RESTARTS_MASK) as usize;
        let block = match restarts_end.checked_sub(4 * num_restarts) {
            Some(entries_end) if num_restarts > 0 || entries_end == 0 => Block {
                data,
                entries_end,
                num_restarts,
            },
            _ => return Err(Error::corruption("block with an impossible restart count")),
        };
        match values_at {
            None => Ok(block),
            Some(at) => Block::new(block.joined(at)?),
        }
    }

    /// The bytes of all entries.
    pub(in crate::table) fn entries(&self) -> &[u8] {
        self.data.get(..self.entries_end).unwrap_or_default()
    }

    /// Bytes of the block, in the layout above.
    #[inline]
    pub(in crate::table) fn data(&self) -> &Bytes {
        &self.data
    }

    /// Where entries end.
    #[inline]
    pub(in crate::table) fn entries_end(&self) -> usize {
        self.entries_end
    }

    /// Restart points; 0 only in a block without entries.
    #[inline]
    pub(in crate::table) fn num_restarts(&self) -> usize {
        self.num_restarts
    }

    /// Offset of restart point `i`, unchecked: it may lie anywhere.
    #[inline]
    pub(in crate::table) fn restart(&self, i: usize) -> usize {
        let at = self.entries_end + 4 * i;
        match self.data.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(bytes) => u32::from_le_bytes(*bytes) as usize,
            None => self.entries_end,
        }
    }

    /// Checks that restart points are at entries with whole keys, and the first one at the first
    /// entry, so that a seek finds the entry that a walk through the entries finds. Cost: one step
    /// per entry.
    pub(in crate::table) fn verify_restarts(&self) -> Result<()> {
        let mut restarts = (0..self.num_restarts).map(|i| self.restart(i));
        let mut next = restarts.next();
        let mut at = 0;
        while at < self.entries_end {
            let entry = self.entry(at)?;
            if next == Some(at) && entry.shared == 0 {
                next = restarts.next();
            } else if at == 0 {
                break;
            }
            at = entry.value.end;
        }
        // A block without entries has a restart point at its end, if it has one.
        match next {
            Some(left) if left != 0 || self.entries_end > 0 => {
                Err(Error::corruption("restart point at no entry"))
            }
            _ => Ok(()),
        }
    }

    /// Decodes the entry at `at`.
    #[inline]
    pub(in crate::table) fn entry(&self, at: usize) -> Result<Entry> {
        let header = self.entries().get(at..).and_then(|e| e.first_chunk::<3>());
        match header {
            Some(&[a, b, c]) if (a | b | c) < 0x80 => {
                self.entry_of(a.into(), b.into(), c.into(), at + 3)
            }
            _ => self.long_entry(at),
        }
    }

    /// An entry with a length of more than one byte.
    #[cold]
    fn long_entry(&self, at: usize) -> Result<Entry> {
        let mut d = Decoder::new(self.entries().get(at..).unwrap_or_default());
        let shared = d.varint32()? as usize;
        let fresh = d.varint32()? as usize;
        let value_len = d.varint32()? as usize;
        self.entry_of(shared, fresh, value_len, at + d.position())
    }

    #[inline]
    fn entry_of(&self, shared: usize, fresh: usize, value_len: usize, at: usize) -> Result<Entry> {
        let value_at: usize = at + fresh;
        let end = value_at + value_len;
        if end > self.entries_end {
            return Err(Error::corruption("block entry reaches beyond the entries"));
        }
        Ok(Entry {
            shared,
            key: at..value_at,
            value: value_at..end,
        })
    }
}

/// An entry's parts, within the block.
pub(in crate::table) struct Entry {
    /// Number of bytes that its key shares with the previous key.
    pub(in crate::table) shared: usize,
    /// The rest of its key.
    pub(in crate::table) key: Range<usize>,
    pub(in crate::table) value: Range<usize>,
}
