//! Reading and writing content.
//!
//! The content of a small file is one value beside its attributes. A file that grows beyond
//! [`INLINE_MAX`] gets blocks, of a size that the write which made it grow suggests: files that are
//! written in small pieces get small blocks, so that a small write into them rewrites little.

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;

use crate::error::Result;
use crate::file_system::{SIZE_MAX, WriteContext, Written};
use crate::kv::Space;
use crate::schema::{FORMAT, FileKind, Inode, InodeNumber, Key, Time, block_key, content_of};
use crate::volume::attributes::set_attributes::{access_is_due, drop_privileges};
use crate::volume::state::change::Change;
use crate::volume::{AccessTime, Volume};

/// The largest content that is stored beside the attributes, in bytes.
pub(crate) const INLINE_MAX: u64 = 4096;

/// Block sizes, as powers of two: of files that are written in small pieces, and of others.
const SMALL_BLOCK: u8 = 14;
const LARGE_BLOCK: u8 = 15;

/// The unit of `st_blocks`.
const UNIT: usize = 512;

impl Volume {
    pub(in crate::volume) fn read_content(
        &self,
        number: InodeNumber,
        offset: u64,
        size: usize,
    ) -> Result<Bytes> {
        let lock = self.locks.shared(number);
        let inode = self.known(number)?.inode;
        let content = self.content(number, &inode, offset, size)?;
        drop(lock);
        // What can be read is read, also if the disk is full or the store takes no changes.
        let _: Result<()> = self.note_access(number, &inode);
        Ok(content)
    }

    /// Content of an inode that does not change meanwhile.
    pub(in crate::volume) fn content(
        &self,
        number: InodeNumber,
        inode: &Inode,
        offset: u64,
        size: usize,
    ) -> Result<Bytes> {
        let end = offset.saturating_add(size as u64).min(inode.size);
        if offset >= end {
            return Ok(Bytes::new());
        }
        let size = (end - offset) as usize;
        if inode.is_inline() {
            let stored = self.kv.get(Space::Meta, &Key::Inline(number).encode())?;
            let stored = stored.map_or(Ok(Bytes::new()), |value| content_of(&value))?;
            return Ok(part(&stored, offset, size));
        }
        let blocks = blocks_of_range(inode, offset, end);
        let keys: Vec<Vec<u8>> = blocks
            .clone()
            .map(|block| block_key(number, block))
            .collect();
        let values = self.kv.multi_get(Space::Data, &keys)?;
        if let [Some(value)] = &values[..] {
            let within = offset % inode.block_size();
            return Ok(part(&content_of(value)?, within, size));
        }
        let mut content = BytesMut::with_capacity(size);
        for (block, value) in blocks.zip(&values) {
            let Some(value) = value else { continue };
            let stored = content_of(value)?;
            let start = block * inode.block_size();
            let from = offset.max(start);
            let to = end.min(start + stored.len() as u64);
            if from < to {
                // Zeros for a hole before it.
                content.resize((from - offset) as usize, 0);
                content.extend_from_slice(&stored[(from - start) as usize..(to - start) as usize]);
            }
        }
        content.resize(size, 0);
        Ok(content.freeze())
    }

    /// Changes the time of the last access, if a read is to do that now. `inode` is what the read saw.
    pub(in crate::volume) fn note_access(&self, number: InodeNumber, inode: &Inode) -> Result<()> {
        let is_due = |inode: &Inode| match self.options.access_time {
            AccessTime::Never => false,
            AccessTime::Relative => access_is_due(inode, self.now()),
            AccessTime::Strict => true,
        };
        if self.options.read_only || !is_due(inode) {
            return Ok(());
        }
        let _lock = self.locks.exclusive(&[number])?;
        // Another read may have changed it while this one waited.
        if !is_due(&self.stored(number)?.inode) {
            return Ok(());
        }
        self.change(|change| {
            let mut inode = change.inode(number)?;
            inode.accessed = change.now;
            change.put_inode(number, &inode)
        })
    }

    pub(in crate::volume) fn write_content(
        &self,
        number: InodeNumber,
        offset: u64,
        data: &[u8],
        context: WriteContext,
    ) -> Result<Written> {
        let end = offset.checked_add(data.len() as u64);
        let end = end.filter(|end| *end <= SIZE_MAX).ok_or(Errno::FBIG)?;
        let was_last_room = self.make_room_for_write(number, offset..end, context.from_cache)?;
        let _lock = self.locks.exclusive(&[number])?;
        self.prepare_to_grow(number, end)?;
        // MUTANT: the blocks of a write are stored by a transaction before the size.
        if mutant!("size-apart-from-blocks", "-p tifs --test it crash::every") {
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
            // MUTANT: a write leaves the bits for set-user-ID and set-group-ID.
            let kept = mutant!(
                "privileges-kept",
                "-p tifs --test it lockstep::a_volume_in_memory"
            );
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
        let value = crate::schema::with_format(content);
        debug_assert_eq!(value[0], FORMAT);
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

/// Whether the times of a file stay what they are when a write of the kernel's cache arrives.
///
/// The kernel stamps what programs write, and says so, with `setattr`, when it writes its cache back. It does
/// not wait for its writes before that, so a write may arrive after the times that belong to it. And it says
/// nothing if they are those that it was told, because the file was created or changed in the same moment.
/// In both cases the file was changed not long ago. Otherwise its times are still to come. Until then the file
/// has that of the arrival: should the process end in between, it does not look unchanged.
fn kernel_keeps_times(inode: &Inode, now: Time) -> bool {
    /// For how long the kernel may keep what was written: half a minute by default, ten minutes where it saves
    /// the energy of a disk.
    const NOT_LONG: i64 = 15 * 60;
    // MUTANT: each write of the kernel's cache changes the times of the file.
    !mutant!(
        "told-times-forgotten",
        "-p tifs --lib volume::tests::content"
    ) && now.seconds.saturating_sub(inode.changed.seconds) < NOT_LONG
}

/// The units of `st_blocks` that so many bytes take.
pub(in crate::volume) fn units(length: usize) -> i64 {
    length.div_ceil(UNIT) as i64
}

/// The numbers of the blocks that a range touches. The file has blocks.
pub(in crate::volume) fn blocks_of_range(
    inode: &Inode,
    from: u64,
    to: u64,
) -> std::ops::Range<u64> {
    let block_size = inode.block_size();
    from / block_size..to.div_ceil(block_size)
}

/// How many bytes a write of a range stores at most: a block of which it changes a part is written whole.
pub(in crate::volume) fn written_at_most(from: u64, to: u64) -> u64 {
    const BLOCK: u64 = 1 << LARGE_BLOCK;
    to.next_multiple_of(BLOCK) - from / BLOCK * BLOCK
}

/// `size` bytes of what is stored, followed by zeros.
fn part(stored: &Bytes, offset: u64, size: usize) -> Bytes {
    let offset = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(stored.len());
    let end = offset.saturating_add(size).min(stored.len());
    let found = stored.slice(offset..end);
    if found.len() == size {
        return found;
    }
    let mut padded = BytesMut::zeroed(size);
    padded[..found.len()].copy_from_slice(&found);
    padded.freeze()
}

/// What is stored, with data over it, and zeros in between if there is a gap.
fn overlay(stored: &[u8], offset: usize, data: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(stored.len().max(offset + data.len()));
    content.extend_from_slice(stored);
    if content.len() < offset + data.len() {
        content.resize(offset + data.len(), 0);
    }
    content[offset..offset + data.len()].copy_from_slice(data);
    content
}
