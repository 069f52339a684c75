//! The index: for each data block a separator key and where the block is.
//!
//! ```text
//! entry    shared varint32 | fresh varint32 | [value_len varint32] | key bytes[fresh] | value
//! value    handle, or with delta coding and shared != 0: svarint(size - size of the one before)
//!          [length-prefixed first key of the block, in index type 3]
//! ```
//!
//! A separator is at or after its block's last key and before the next block's first key. It is a
//! user key if no user key straddles two blocks, else an internal key. With delta coding
//! `value_len` is left out, and blocks follow each other without gaps.
//!
//! In memory the index of a table is one flat sorted array, regardless of its shape on disk
//! (partitions included), so a seek is one binary search and a step costs nothing.

use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};
use crate::format::internal_key::{InternalKeyComparator, TRAILER_LEN, user_key};
use crate::table::block::Block;
use crate::table::footer::{BLOCK_TRAILER_LEN, BlockHandle};

/// `rocksdb.block.based.table.index.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexType {
    Binary,
    /// Read as `Binary`; its hash blocks are optional.
    Hash,
    /// The index block is an index of index blocks.
    TwoLevel,
    BinaryWithFirstKey,
}

impl IndexType {
    pub(super) fn from_u32(v: u32) -> Result<Self> {
        Ok(match v {
            0 => IndexType::Binary,
            1 => IndexType::Hash,
            2 => IndexType::TwoLevel,
            3 => IndexType::BinaryWithFirstKey,
            _ => return Err(Error::unsupported(format!("table index of type {v}"))),
        })
    }
}

/// Encoding of the index blocks of a table.
#[derive(Clone, Copy, Debug)]
pub struct IndexFormat {
    pub delta_encoded: bool,
    pub first_keys: bool,
}

struct Entry {
    key_end: u32,
    size: u32,
    offset: u64,
}

/// A table's index in memory.
pub struct Index {
    user_keys: bool,
    keys: Vec<u8>,
    entries: Vec<Entry>,
}

impl Index {
    pub fn new(user_keys: bool) -> Self {
        Index {
            user_keys,
            keys: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Data blocks.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether separators are user keys.
    pub(super) fn user_keys(&self) -> bool {
        self.user_keys
    }

    /// Where block `i` is.
    #[inline]
    pub fn handle(&self, i: usize) -> Option<BlockHandle> {
        let entry = self.entries.get(i)?;
        Some(BlockHandle {
            offset: entry.offset,
            size: u64::from(entry.size),
        })
    }

    /// The separator after block `i`; empty if there is no such block.
    #[inline]
    pub fn key(&self, i: usize) -> &[u8] {
        let start = match i.checked_sub(1).and_then(|before| self.entries.get(before)) {
            Some(before) => before.key_end as usize,
            None => 0,
        };
        let end = self.entries.get(i).map_or(start, |e| e.key_end as usize);
        self.keys.get(start..end).unwrap_or_default()
    }

    /// The user key of the separator after block `i`.
    #[inline]
    pub fn user_key(&self, i: usize) -> &[u8] {
        if self.user_keys {
            self.key(i)
        } else {
            user_key(self.key(i))
        }
    }

    /// The one block that may have the first entry at or after `target`, an internal key; `len()`
    /// if there is none. If all entries of that block are before `target`, the next block's first
    /// entry is the one.
    #[inline]
    pub(super) fn find(&self, order: &InternalKeyComparator, target: &[u8]) -> usize {
        self.find_between(order, target, 0, self.entries.len())
    }

    /// The same, if it is known that no block before `from` is the one, and `guess` is likely to
    /// be. Cost: a logarithm of the distance between the guess and the block.
    pub(super) fn find_near(
        &self,
        order: &InternalKeyComparator,
        target: &[u8],
        from: usize,
        guess: usize,
    ) -> usize {
        let guess = guess.min(self.entries.len());
        if guess > from && !self.is_before(order, guess - 1, target) {
            return self.find_between(order, target, from, guess - 1);
        }
        let (mut low, mut step) = (guess.max(from), 1);
        while low < self.entries.len() && self.is_before(order, low, target) {
            let next = low.saturating_add(step);
            if next >= self.entries.len() || !self.is_before(order, next, target) {
                return self.find_between(order, target, low + 1, next.min(self.entries.len()));
            }
            (low, step) = (next, step * 2);
        }
        low
    }

    /// The block at a file offset. Blocks are in the order of their offsets.
    pub(super) fn at_offset(&self, offset: u64) -> Option<usize> {
        let entries = &self.entries;
        entries.binary_search_by_key(&offset, |e| e.offset).ok()
    }

    /// The first block from `low` up to `high` whose separator is not before `target`; `high` if
    /// there is none.
    #[inline]
    fn find_between(
        &self,
        order: &InternalKeyComparator,
        target: &[u8],
        mut low: usize,
        mut high: usize,
    ) -> usize {
        while low < high {
            let mid = low + (high - low) / 2;
            match self.is_before(order, mid, target) {
                true => low = mid + 1,
                false => high = mid,
            }
        }
        low
    }

    /// Whether the separator after block `i` is before `target`, an internal key.
    #[inline]
    fn is_before(&self, order: &InternalKeyComparator, i: usize, target: &[u8]) -> bool {
        match self.user_keys {
            true => order.compare_user(self.key(i), user_key(target)).is_lt(),
            false => order.compare(self.key(i), target).is_lt(),
        }
    }

    /// Where the data blocks end.
    pub fn data_end(&self) -> u64 {
        let end = |e: &Entry| e.offset + u64::from(e.size) + BLOCK_TRAILER_LEN as u64;
        self.entries.last().map_or(0, end)
    }

    /// Appends the entries of an index block. Blocks must be in the order of their offsets, must
    /// not overlap and must end at or before `limit`.
    pub fn append(&mut self, block: &Block, format: IndexFormat, limit: u64) -> Result<()> {
        let mut d = Decoder::new(block.entries());
        let mut key = Vec::new();
        let mut last = BlockHandle::default();
        while !d.is_empty() {
            let shared = d.varint32()? as usize;
            let fresh = d.varint32()? as usize;
            let value_len = if format.delta_encoded {
                None
            } else {
                Some(d.varint32()? as usize)
            };
            if shared > key.len() {
                return Err(Error::corruption("index entry with an impossible key"));
            }
            key.truncate(shared);
            key.extend_from_slice(d.bytes(fresh)?);
            if !self.user_keys && key.len() < TRAILER_LEN {
                return Err(Error::corruption("index key shorter than its trailer"));
            }
            let handle = match value_len {
                Some(len) => {
                    let mut value = Decoder::new(d.bytes(len)?);
                    BlockHandle::decode(&mut value)?
                }
                None => {
                    let handle = if shared == 0 {
                        BlockHandle::decode(&mut d)?
                    } else {
                        after(last, d.signed_varint()?)?
                    };
                    if format.first_keys {
                        d.length_prefixed()?;
                    }
                    handle
                }
            };
            handle.stored_len(limit)?;
            if handle.offset < self.data_end() {
                return Err(Error::corruption("index entries overlap"));
            }
            self.push(&key, handle)?;
            last = handle;
        }
        Ok(())
    }

    fn push(&mut self, key: &[u8], handle: BlockHandle) -> Result<()> {
        self.keys.extend_from_slice(key);
        match (u32::try_from(self.keys.len()), u32::try_from(handle.size)) {
            (Ok(key_end), Ok(size)) => {
                self.entries.push(Entry {
                    key_end,
                    size,
                    offset: handle.offset,
                });
                Ok(())
            }
            _ => Err(Error::corruption("index or block exceeds 4 GiB")),
        }
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.keys.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Frees memory that was allocated in excess.
    pub(super) fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.entries.shrink_to_fit();
    }
}

/// The handle of the block after `last`, whose size differs by `delta`.
fn after(last: BlockHandle, delta: i64) -> Result<BlockHandle> {
    let offset = last.offset.checked_add(last.size);
    let offset = offset.and_then(|end| end.checked_add(BLOCK_TRAILER_LEN as u64));
    match (offset, last.size.checked_add_signed(delta)) {
        (Some(offset), Some(size)) => Ok(BlockHandle { offset, size }),
        _ => Err(Error::corruption("index entry with an impossible size")),
    }
}

/// Collects separators while a table is written.
#[derive(Default)]
pub(super) struct IndexBuilder {
    /// Internal keys, because only the end shows whether user keys suffice.
    keys: Vec<u8>,
    entries: Vec<(usize, BlockHandle)>,
    straddled: bool,
}

impl IndexBuilder {
    /// Adds a block with its separator, an internal key.
    pub(super) fn add(&mut self, separator: &[u8], handle: BlockHandle) {
        invariant!(
            self.entries.last().is_none_or(|(_, last)| {
                last.offset + last.size + BLOCK_TRAILER_LEN as u64 <= handle.offset
            }),
            "a data block at {} begins before the end of the one before it",
            handle.offset
        );
        self.keys.extend_from_slice(separator);
        self.entries.push((self.keys.len(), handle));
    }

    /// Notes that a user key has entries in two blocks.
    pub(super) fn note_straddling(&mut self) {
        self.straddled = true;
    }

    /// Whether the index will consist of user keys.
    pub(super) fn user_keys(&self) -> bool {
        !self.straddled
    }

    /// Data blocks added.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// An estimate of the block's size in bytes.
    pub(super) fn size(&self) -> usize {
        self.keys.len() + 12 * self.entries.len()
    }

    /// The index block: delta-coded values, each entry a restart point, hence full handles.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut block = Vec::with_capacity(self.size() + 4 * self.entries.len() + 8);
        let mut restarts = Vec::with_capacity(self.entries.len());
        let mut start = 0;
        for (end, handle) in &self.entries {
            let key = self.keys.get(start..*end).unwrap_or_default();
            let key = if self.straddled { key } else { user_key(key) };
            restarts.push(block.len() as u32);
            put_varint(&mut block, 0);
            put_varint(&mut block, key.len() as u64);
            block.extend_from_slice(key);
            handle.encode(&mut block);
            start = *end;
        }
        if restarts.is_empty() {
            restarts.push(0);
        }
        for restart in &restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        block.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        block
    }
}
