//! Changes of the size of a file.
//!
//! Bytes that a truncation cuts off must never be seen again, also if the file grows later. A few
//! blocks are deleted at once. Many are left for [reclaiming](crate::volume::content::reclaim): the
//! inode has their end in `stale_end`, and a key lists the work. An operation that makes the file
//! grow does that work first.

use std::ops::Range;

use crate::error::Result;
use crate::file_system::Attributes;
use crate::kv::{Scan, Space};
use crate::schema::{FORMAT, FileKind, Inode, InodeNumber, Key, block_key, block_of_key};
use crate::volume::content::blocks::{INLINE_MAX, blocks_of_range, units};
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

/// The most blocks that a truncation deletes at once.
const AT_ONCE: u64 = 256;

/// Blocks that one transaction deletes when there are many.
pub(in crate::volume) const PIECE: usize = 1024;

impl Volume {
    /// Deletes blocks left by earlier truncations, if the file will grow. The caller has the lock
    /// of the inode.
    pub(in crate::volume) fn prepare_to_grow(&self, number: InodeNumber, size: u64) -> Result<()> {
        let inode = self.stored(number)?.inode;
        let forgotten = mutant!(growth_shows_old_bytes);
        if inode.stale_end > 0 && size > inode.size && !forgotten {
            while !self.change(|change| change.cut_stale_blocks(number))? {}
        }
        Ok(())
    }

    /// Queues the blocks that a commit left.
    pub(in crate::volume) fn queue_truncation(&self, attributes: &Attributes) {
        if attributes.inode.stale_end > 0 {
            self.reclaim_queue.push(attributes.number);
        }
    }
}

impl Change<'_> {
    /// Changes the size of a regular file. The caller stores the inode.
    pub(in crate::volume) fn resize(
        &mut self,
        number: InodeNumber,
        inode: &mut Inode,
        size: u64,
    ) -> Result<()> {
        let old_size = std::mem::replace(&mut inode.size, size);
        if size >= old_size {
            return Ok(());
        }
        if inode.is_inline() {
            let stored = self.inline(number)?;
            let kept = stored
                .len()
                .min(usize::try_from(size).unwrap_or(usize::MAX));
            if kept < stored.len() {
                self.add_blocks(inode, units(kept) - units(stored.len()));
                match kept {
                    0 => self.delete(Key::Inline(number))?,
                    _ => self.put_inline(number, &stored[..kept])?,
                }
            }
            return Ok(());
        }
        if !mutant!(last_block_not_cut) {
            self.cut_boundary(number, inode, size)?;
        }
        self.cut_blocks(number, inode, old_size)
    }

    /// Cuts the block in which the file ends now.
    fn cut_boundary(&mut self, number: InodeNumber, inode: &mut Inode, size: u64) -> Result<()> {
        let kept = (size % inode.block_size()) as usize;
        let block = size / inode.block_size();
        if kept == 0 || self.block_length(number, block)? <= kept {
            return Ok(());
        }
        let stored = self.block(number, block)?;
        self.put_block(number, block, &stored[..kept])?;
        self.add_blocks(inode, units(kept) - units(stored.len()));
        Ok(())
    }

    /// Deletes the blocks after the new end, or leaves them for later.
    fn cut_blocks(&mut self, number: InodeNumber, inode: &mut Inode, old_size: u64) -> Result<()> {
        let block_size = inode.block_size();
        let cut = inode.size.div_ceil(block_size)..old_size.div_ceil(block_size);
        if cut.end - cut.start.min(cut.end) <= AT_ONCE {
            let blocks: Vec<u64> = cut.collect();
            let keys: Vec<_> = blocks
                .iter()
                .map(|block| block_key(number, *block))
                .collect();
            let lengths = self.transaction.value_lengths(Space::Data, &keys)?;
            for (block, length) in blocks.iter().zip(lengths) {
                if let Some(length) = length {
                    self.delete_block(number, *block)?;
                    self.add_blocks(inode, -units(length - 1));
                }
            }
        } else {
            let units = self.units_of(number, inode, cut.clone())?;
            self.add_blocks(inode, -units);
            inode.stale_end = inode.stale_end.max(cut.end);
            if !mutant!(truncation_not_recorded) {
                self.put(Key::Reclaim(number), &[FORMAT])?;
            }
        }
        if inode.size == 0 && inode.stale_end == 0 {
            inode.block_shift = 0;
        }
        Ok(())
    }

    /// The units of the blocks that a truncation cuts. They are read piece by piece.
    fn units_of(&mut self, number: InodeNumber, inode: &Inode, mut cut: Range<u64>) -> Result<i64> {
        if inode.size == 0 {
            return Ok(inode.blocks as i64);
        }
        let mut sum = 0;
        loop {
            let blocks = self.stored_blocks(number, cut.clone(), PIECE)?;
            let keys: Vec<_> = blocks
                .iter()
                .map(|block| block_key(number, *block))
                .collect();
            let lengths = self.transaction.value_lengths(Space::Data, &keys)?;
            sum += lengths
                .iter()
                .flatten()
                .map(|length| units(length - 1))
                .sum::<i64>();
            match blocks.last() {
                Some(last) if blocks.len() == PIECE => cut.start = last + 1,
                _ => return Ok(sum),
            }
        }
    }

    /// The numbers of the blocks of a range that are stored.
    pub(in crate::volume) fn stored_blocks(
        &mut self,
        number: InodeNumber,
        blocks: Range<u64>,
        limit: usize,
    ) -> Result<Vec<u64>> {
        let scan = Scan {
            begin: block_key(number, blocks.start),
            end: block_key(number, blocks.end),
            ..Scan::prefix(Space::Data, b"").keys_only().limit(limit)
        };
        let found = self.transaction.scan(&scan)?;
        let number_of = |(key, _): &(bytes::Bytes, bytes::Bytes)| block_of_key(key).map(|of| of.1);
        Ok(found.iter().filter_map(number_of).collect())
    }

    /// Deletes a piece of the blocks that truncations left. True if none is left.
    pub(in crate::volume) fn cut_stale_blocks(&mut self, number: InodeNumber) -> Result<bool> {
        let mut inode = self.inode(number)?;
        if inode.stale_end == 0 {
            return Ok(true);
        }
        let first = inode.size.div_ceil(inode.block_size());
        let stale = self.stored_blocks(number, first..inode.stale_end, PIECE)?;
        for block in &stale {
            self.delete_block(number, *block)?;
        }
        if stale.len() == PIECE {
            return Ok(false);
        }
        inode.stale_end = 0;
        if inode.size == 0 {
            inode.block_shift = 0;
        }
        self.put_inode(number, &inode)?;
        self.delete(Key::Reclaim(number))?;
        Ok(true)
    }

    /// Makes a range within a file a hole, or a piece of it. Returns where the next piece begins.
    /// The caller stores the inode.
    pub(in crate::volume) fn punch(
        &mut self,
        number: InodeNumber,
        inode: &mut Inode,
        from: u64,
        to: u64,
    ) -> Result<Option<u64>> {
        let to = to.min(inode.size);
        if from >= to || inode.kind != FileKind::File {
            return Ok(None);
        }
        if inode.is_inline() {
            let stored = self.inline(number)?;
            let content = erased(
                &stored,
                from.min(INLINE_MAX) as usize,
                to.min(INLINE_MAX) as usize,
            );
            self.add_blocks(inode, units(content.len()) - units(stored.len()));
            match content.len() {
                0 => self.delete(Key::Inline(number))?,
                _ => self.put_inline(number, &content)?,
            }
            return Ok(None);
        }
        let block_size = inode.block_size();
        let piece = self.stored_blocks(number, blocks_of_range(inode, from, to), PIECE)?;
        for block in &piece {
            let start = block * block_size;
            let (first, last) = (from.max(start) - start, to.min(start + block_size) - start);
            let length = self.block_length(number, *block)?;
            if first == 0 && last as usize >= length {
                self.delete_block(number, *block)?;
                self.add_blocks(inode, -units(length));
            } else {
                let stored = self.block(number, *block)?;
                let content = erased(&stored, first as usize, last as usize);
                self.put_block(number, *block, &content)?;
                self.add_blocks(inode, units(content.len()) - units(length));
            }
        }
        let is_full = piece.len() == PIECE;
        let next = piece.last().map(|last| (last + 1) * block_size);
        Ok(next.filter(|next| is_full && *next < to))
    }
}

/// Stored bytes with zeros in a range; cut, if the range reaches the end.
fn erased(stored: &[u8], from: usize, to: usize) -> Vec<u8> {
    let from = from.min(stored.len());
    if to >= stored.len() {
        return stored[..from].to_vec();
    }
    let mut content = stored.to_vec();
    content[from..to.max(from)].fill(0);
    content
}
