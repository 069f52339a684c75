//! Writing content.
//!
//! The content of a small file is one value beside its attributes. A file that grows beyond
//! [`INLINE_MAX`] gets blocks, of a size that the write which made it grow suggests: files that are
//! written in small pieces get small blocks, so that a small write into them rewrites little.

use rustix::io::Errno;
use titan::invariant;

use crate::error::Result;
use crate::file_system::{SIZE_MAX, WriteContext, Written};
use crate::schema::{FileKind, INLINE_MAX, Inode, InodeNumber, Key, Time};
use crate::volume::content::access::drop_privileges;
use crate::volume::content::blocks::{LARGE_BLOCK, SMALL_BLOCK, blocks_of_range, units};
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

impl Volume {
    pub(in crate::volume) fn write(
        &self,
        number: InodeNumber,
        offset: u64,
        data: &[u8],
        context: WriteContext,
    ) -> Result<Written> {
        if data.is_empty() {
            return Ok(Written::default());
        }
        let end = offset.checked_add(data.len() as u64);
        let end = end.filter(|end| *end <= SIZE_MAX).ok_or(Errno::FBIG)?;
        let was_last_room = self.make_room_for_write(number, offset..end, context.from_cache)?;
        let _lock = self.locks.exclusive(&[number])?;
        self.prepare_to_grow(number, end)?;
        if mutant!(size_apart_from_blocks) {
            self.change(|change| {
                let mut inode = change.inode(number)?;
                change.write(number, &mut inode, offset, data)
            })?;
        }
        self.change(|change| {
            let mut inode = change.inode(number)?;
            if inode.kind != FileKind::File {
                return Err(Errno::INVAL.into());
            }
            let blocks = inode.blocks;
            change.write(number, &mut inode, offset, data)?;
            let kept = mutant!(privileges_kept);
            if context.drop_privileges && !kept {
                drop_privileges(&mut inode);
            }
            if !(context.from_cache && kernel_keeps_times(&inode, change.now)) {
                inode.modified = change.now;
                inode.changed = change.now;
            }
            change.put_inode(number, &inode)?;
            Ok(Written {
                blocks_changed: inode.blocks != blocks,
                was_last_room,
            })
        })
    }
}

impl Change<'_> {
    /// Writes content. The caller stores the inode, and has prepared for growth.
    pub(in crate::volume) fn write(
        &mut self,
        number: InodeNumber,
        inode: &mut Inode,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let end = offset + data.len() as u64;
        invariant!(durable: end <= SIZE_MAX, "inode {number} is written up to {end}")?;
        invariant!(
            durable: end <= inode.size || inode.stale_end == 0,
            "inode {number} grows to {end} over stale blocks"
        )?;
        if inode.is_inline() {
            if end <= INLINE_MAX {
                let stored = self.inline(number)?;
                let content = overlay(&stored, offset as usize, data);
                self.add_blocks(inode, units(content.len()) - units(stored.len()));
                self.put_inline(number, &content)?;
                inode.size = inode.size.max(end);
                return Ok(());
            }
            self.leave_inline(number, inode, offset, data.len())?;
        }
        self.write_blocks(number, inode, offset, data)?;
        inode.size = inode.size.max(end);
        invariant!(
            !inode.is_inline(),
            "inode {number} of {} bytes has no blocks",
            inode.size
        );
        Ok(())
    }

    /// Moves inline content to a block, for a write that makes it too long.
    fn leave_inline(
        &mut self,
        number: InodeNumber,
        inode: &mut Inode,
        offset: u64,
        written: usize,
    ) -> Result<()> {
        let stored = self.inline(number)?;
        inode.block_shift = if written >= 1 << LARGE_BLOCK {
            LARGE_BLOCK
        } else {
            SMALL_BLOCK
        };
        if stored.is_empty() {
            return Ok(());
        }
        self.delete(Key::Inline(number))?;
        if offset == 0 {
            // The write replaces all of it.
            self.add_blocks(inode, -units(stored.len()));
            return Ok(());
        }
        self.put_block(number, 0, &stored)
    }

    fn write_blocks(
        &mut self,
        number: InodeNumber,
        inode: &mut Inode,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let block_size = inode.block_size();
        let end = offset + data.len() as u64;
        for block in blocks_of_range(inode, offset, end) {
            let start = block * block_size;
            let from = offset.max(start);
            let to = end.min(start + block_size);
            let data = &data[(from - offset) as usize..(to - offset) as usize];
            // Nothing is stored at or after the end of the file.
            let stored_end = inode.size.min(start + block_size);
            let old_length = if start >= stored_end {
                invariant!(
                    self.block_length(number, block)? == 0,
                    "block {block} after the end of inode {number} is stored"
                );
                self.put_block(number, block, &overlay(&[], (from - start) as usize, data))?;
                0
            } else if from == start && to >= stored_end {
                let length = self.block_length(number, block)?;
                self.put_block(number, block, data)?;
                length
            } else {
                let stored = self.block(number, block)?;
                let content = overlay(&stored, (from - start) as usize, data);
                self.put_block(number, block, &content)?;
                let grown = units(content.len()) - units(stored.len());
                self.add_blocks(inode, grown);
                continue;
            };
            let length = (to - start) as usize;
            self.add_blocks(inode, units(length) - units(old_length));
        }
        Ok(())
    }
}

/// Whether the times of a file stay when a write of the kernel's cache arrives.
///
/// The kernel stamps writes of programs, and sends the times by `setattr` when it writes its cache
/// back. It does not wait for its writes before, so a write may arrive after its times. And it
/// sends nothing if the times are those that it got, because the file was created or changed in the
/// same moment. In both cases the file was changed a short while ago. Otherwise its times are still
/// to come. Until then it has the time of the arrival: if the process ends in between, the file
/// does not look unchanged.
fn kernel_keeps_times(inode: &Inode, now: Time) -> bool {
    /// For how long the kernel may keep written data: half a minute by default, ten minutes where
    /// it saves the energy of a disk.
    const NOT_LONG: i64 = 15 * 60;
    !mutant!(told_times_forgotten) && now.seconds.saturating_sub(inode.changed.seconds) < NOT_LONG
}

/// Stored bytes with data over them, and zeros in a gap between.
fn overlay(stored: &[u8], offset: usize, data: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(stored.len().max(offset + data.len()));
    content.extend_from_slice(stored);
    if content.len() < offset + data.len() {
        content.resize(offset + data.len(), 0);
    }
    content[offset..offset + data.len()].copy_from_slice(data);
    content
}
