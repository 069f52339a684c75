//! Operations on ranges of files: allocating, finding holes, copying.

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::file_system::{Allocate, SIZE_MAX, Seek};
use crate::kv::{Scan, Space};
use crate::schema::{FileKind, INLINE_MAX, Inode, InodeNumber, block_key, block_of_key};
use crate::volume::content::blocks::{blocks_of_range, written_at_most};
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

/// The most bytes that one call copies.
const COPY_MAX: u64 = 8 << 20;

/// Blocks that a search for a hole reads at once.
const SEEK_PAGE: usize = 1024;

impl Volume {
    /// Reserves nothing: data takes space when it is written. A range that could not be written now
    /// is refused. A hole of many blocks is made piece by piece, while the file is locked.
    pub(in crate::volume) fn allocate(
        &self,
        number: InodeNumber,
        offset: u64,
        length: u64,
        what: Allocate,
    ) -> Result<()> {
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        if length == 0 {
            return Err(Errno::INVAL.into());
        }
        if end > SIZE_MAX {
            return Err(Errno::FBIG.into());
        }
        let extends = matches!(what, Allocate::Extend | Allocate::ZeroRange);
        let erases = !matches!(what, Allocate::Extend | Allocate::KeepSize);
        if erases {
            self.make_room_to_cut(offset..end)?;
        } else if length > self.free_space()?.0 {
            return Err(Error::new(Errno::NOSPC, "the device has less than that"));
        }
        let _lock = self.locks.exclusive(&[number])?;
        if extends && !mutant!(allocated_over_stale_blocks) {
            self.prepare_to_grow(number, end)?;
        }
        let mut from = offset;
        loop {
            let next = self.change(|change| {
                let mut inode = change.inode(number)?;
                match inode.kind {
                    FileKind::File => {}
                    FileKind::Directory => return Err(Errno::ISDIR.into()),
                    _ => return Err(Errno::NODEV.into()),
                }
                let next = match erases {
                    true => change.punch(number, &mut inode, from, end)?,
                    false => None,
                };
                let grows = extends && end > inode.size && next.is_none();
                if grows {
                    inode.size = end;
                }
                if erases || grows {
                    inode.modified = change.now;
                }
                inode.changed = change.now;
                change.put_inode(number, &inode)?;
                Ok(next)
            })?;
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    pub(in crate::volume) fn seek(
        &self,
        number: InodeNumber,
        offset: u64,
        what: Seek,
    ) -> Result<u64> {
        let _lock = self.locks.shared(number);
        let inode = self.stored(number)?.inode;
        if offset >= inode.size {
            return Err(Errno::NXIO.into());
        }
        if inode.is_inline() {
            // One block, with a hole after it if the file is longer.
            let stored = if inode.blocks > 0 { INLINE_MAX } else { 0 };
            let data_end = inode.size.min(stored);
            return match what {
                Seek::Data if offset < data_end => Ok(offset),
                Seek::Data => Err(Errno::NXIO.into()),
                Seek::Hole => Ok(offset.max(data_end)),
            };
        }
        self.seek_blocks(number, &inode, offset, what)
    }

    fn seek_blocks(
        &self,
        number: InodeNumber,
        inode: &Inode,
        offset: u64,
        what: Seek,
    ) -> Result<u64> {
        let block_size = inode.block_size();
        let blocks = blocks_of_range(inode, offset, inode.size);
        let mut expected = blocks.start;
        loop {
            let scan = Scan {
                begin: block_key(number, expected),
                end: block_key(number, blocks.end),
                ..Scan::prefix(Space::Data, b"").keys_only().limit(SEEK_PAGE)
            };
            let page = self.kv.scan(&scan)?;
            for (key, _) in &page {
                let Some((_, block)) = block_of_key(key) else {
                    return Err(Error::corrupt("the key of a block has another length"));
                };
                match what {
                    Seek::Data => return Ok(offset.max(block * block_size)),
                    Seek::Hole if block > expected => {
                        return Ok(offset.max(expected * block_size));
                    }
                    Seek::Hole => expected += 1,
                }
            }
            if page.len() < SEEK_PAGE {
                break;
            }
        }
        match what {
            Seek::Data => Err(Errno::NXIO.into()),
            Seek::Hole => Ok(offset.max(expected * block_size).min(inode.size)),
        }
    }

    pub(in crate::volume) fn copy_range(
        &self,
        (source, from): (InodeNumber, u64),
        (target, to): (InodeNumber, u64),
        length: u64,
    ) -> Result<u64> {
        let length = length.min(COPY_MAX);
        if to.checked_add(length).is_none_or(|end| end > SIZE_MAX) {
            return Err(Errno::FBIG.into());
        }
        if source == target && from < to + length && to < from.saturating_add(length) {
            return Err(Errno::INVAL.into());
        }
        let _locks = self.locks.exclusive(&[source, target])?;
        let source_inode = self.stored(source)?.inode;
        if source_inode.kind != FileKind::File {
            return Err(Errno::INVAL.into());
        }
        let content = self.content(source, &source_inode, from, length as usize)?;
        if content.is_empty() {
            return Ok(0);
        }
        let end = to + content.len() as u64;
        self.make_room(written_at_most(to, end))?;
        if !mutant!(copied_over_stale_blocks) {
            self.prepare_to_grow(target, end)?;
        }
        self.change(|change| change.write_copy(target, to, &content))?;
        Ok(content.len() as u64)
    }
}

impl Change<'_> {
    fn write_copy(&mut self, target: InodeNumber, to: u64, content: &[u8]) -> Result<()> {
        let mut inode = self.inode(target)?;
        if inode.kind != FileKind::File {
            return Err(Errno::INVAL.into());
        }
        self.write(target, &mut inode, to, content)?;
        inode.modified = self.now;
        inode.changed = self.now;
        self.put_inode(target, &inode)
    }
}
