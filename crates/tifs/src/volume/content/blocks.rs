//! Blocks: the pieces of a file that is too long for one value beside its attributes.

use std::ops::Range;

use bytes::Bytes;
use titan::invariant;

use crate::error::Result;
use crate::kv::Space;
use crate::schema::{FORMAT, Inode, InodeNumber, block_key, content_of, with_format};
use crate::volume::state::change::Change;

/// Block sizes, as powers of two: of files that are written in small pieces, and of others.
pub(in crate::volume) const SMALL_BLOCK: u8 = 14;
pub(in crate::volume) const LARGE_BLOCK: u8 = 15;

/// The unit of `st_blocks`.
const UNIT: usize = 512;

impl Change<'_> {
    /// The content of a block; empty for a hole.
    pub(in crate::volume) fn block(&mut self, number: InodeNumber, block: u64) -> Result<Bytes> {
        let value = self
            .transaction
            .get(Space::Data, &block_key(number, block))?;
        value.map_or(Ok(Bytes::new()), |value| content_of(&value))
    }

    /// The length of a block's content as of the beginning of the operation; 0 for a hole.
    pub(in crate::volume) fn block_length(
        &mut self,
        number: InodeNumber,
        block: u64,
    ) -> Result<usize> {
        let key = [block_key(number, block)];
        let lengths = self.transaction.value_lengths(Space::Data, &key)?;
        Ok(lengths
            .first()
            .copied()
            .flatten()
            .map_or(0, |length| length - 1))
    }

    pub(in crate::volume) fn put_block(
        &mut self,
        number: InodeNumber,
        block: u64,
        content: &[u8],
    ) -> Result<()> {
        invariant!(
            durable: content.len() <= 1 << LARGE_BLOCK,
            "block {block} of inode {number} has {} bytes",
            content.len()
        )?;
        invariant!(
            !content.is_empty(),
            "block {block} of inode {number} is empty"
        );
        let value = with_format(content);
        invariant!(value[0] == FORMAT, "a block of another format");
        self.transaction
            .put(Space::Data, &block_key(number, block), &value)
    }

    pub(in crate::volume) fn delete_block(
        &mut self,
        number: InodeNumber,
        block: u64,
    ) -> Result<()> {
        self.transaction
            .delete(Space::Data, &block_key(number, block))
    }
}

/// The units of `st_blocks` that so many bytes take.
pub(in crate::volume) fn units(length: usize) -> i64 {
    length.div_ceil(UNIT) as i64
}

/// The numbers of the blocks that a range touches. The file has blocks.
pub(in crate::volume) fn blocks_of_range(inode: &Inode, from: u64, to: u64) -> Range<u64> {
    let block_size = inode.block_size();
    from / block_size..to.div_ceil(block_size)
}

/// The size of the largest blocks.
pub(in crate::volume) const MAX_BLOCK: u64 = 1 << LARGE_BLOCK;

/// The most bytes that a write of a range stores: a block is written whole.
pub(in crate::volume) fn written_at_most(from: u64, to: u64) -> u64 {
    to.next_multiple_of(MAX_BLOCK) - from / MAX_BLOCK * MAX_BLOCK
}
