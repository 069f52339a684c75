//! Blocks of files.

use bytes::Bytes;

use super::{Check, Problem};
use crate::error::Result;
use crate::kv::Space;
use crate::schema::{FileKind, InodeNumber, block_of_key, content_of};

impl Check<'_> {
    pub(super) fn read_blocks(&mut self, read_content: bool) -> Result<()> {
        self.each(Space::Data, b"B", !read_content, |check, page| {
            let lengths = if read_content {
                page.iter().map(|(_, value)| Some(value.len())).collect()
            } else {
                let keys: Vec<Vec<u8>> = page.iter().map(|(key, _)| key.to_vec()).collect();
                check.snapshot.value_lengths(Space::Data, &keys)?
            };
            for ((key, value), length) in page.iter().zip(lengths) {
                let Some((number, block)) = block_of_key(key) else {
                    check.found(Problem::UnknownKey, None, format!("{key:?}"));
                    continue;
                };
                if read_content && let Err(e) = content_of(value) {
                    check.found(Problem::Damaged, Some(number), e.context());
                }
                // Without the number of the format.
                let length = length.unwrap_or(0).saturating_sub(1) as u64;
                check.read_block(number, block, length);
            }
            Ok(())
        })?;
        self.each(Space::Data, b"", true, |check, page| {
            let unknown = |(key, _): &&(Bytes, Bytes)| block_of_key(key).is_none();
            for (key, _) in page.iter().filter(unknown) {
                check.found(Problem::UnknownKey, None, format!("{key:?}"));
            }
            Ok(())
        })
    }

    fn read_block(&mut self, number: InodeNumber, block: u64, length: u64) {
        self.report.blocks += 1;
        self.report.bytes += length;
        let Some(seen) = self.inodes.get_mut(&number) else {
            let detail = format!("block {block} is there, but the inode is not");
            return self.found(Problem::UnknownInode, Some(number), detail);
        };
        let inode = seen.inode;
        let start = block.saturating_mul(inode.block_size());
        let is_stale = start >= inode.size;
        if !is_stale {
            seen.units += length.div_ceil(512);
        }
        let valid = match inode.kind {
            FileKind::File if inode.is_inline() => false,
            FileKind::File if is_stale => block < inode.stale_end,
            FileKind::File => {
                length > 0 && length <= inode.block_size() && start + length <= inode.size
            }
            _ => false,
        };
        if !valid {
            let detail = format!(
                "block {block} has {length} bytes; the file has {} and blocks of {}",
                inode.size,
                inode.block_size()
            );
            self.found(Problem::Content, Some(number), detail);
        }
    }
}
