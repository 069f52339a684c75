//! Reading content.

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;

use crate::error::Result;
use crate::kv::Space;
use crate::schema::{FileKind, Inode, InodeNumber, Key, block_key, content_of};
use crate::volume::content::blocks::blocks_of_range;
use crate::volume::state::volume::Volume;

impl Volume {
    pub(in crate::volume) fn read_link(&self, inode: InodeNumber) -> Result<Bytes> {
        let stored = self.stored(inode)?.inode;
        if stored.kind != FileKind::Symlink {
            return Err(Errno::INVAL.into());
        }
        self.content(inode, &stored, 0, stored.size as usize)
    }

    pub(in crate::volume) fn read(
        &self,
        number: InodeNumber,
        offset: u64,
        size: usize,
    ) -> Result<Bytes> {
        let lock = self.locks.shared(number);
        let inode = self.attributes(number)?.inode;
        let content = self.content(number, &inode, offset, size)?;
        drop(lock);
        // The read succeeds, also if the disk is full or the store takes no changes.
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
}

/// `size` bytes of the stored value, followed by zeros.
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
