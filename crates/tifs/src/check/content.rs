//! Blocks of files.

use bytes::Bytes;

use super::{Check, Problem};
use crate::error::Result;
use crate::kv::Space;
use crate::schema::{FileKind, InodeNumber, block_of_key, content_of};

/// Blocks read at once.
const AT_ONCE: usize = 64;

impl Check<'_> {
    pub(super) fn read_blocks(&mut self, read_content: bool) -> Result<()> {
        self.each(Space::Data, b"B", true, |check, page| {
            let keys: Vec<Vec<u8>> = page.iter().map(|(key, _)| key.to_vec()).collect();
            let lost = check.lost_blocks(&keys)?;
            if read_content {
                let there = keys.iter().zip(lost).filter(|(_, lost)| !lost);
                let there: Vec<Vec<u8>> = there.map(|(key, _)| key.clone()).collect();
                for keys in there.chunks(AT_ONCE) {
                    check.verify_blocks(keys)?;
                }
            }
            for (key, length) in keys.iter().zip(check.lengths(&keys)?) {
                let Some((number, block)) = block_of_key(key) else {
                    check.found(Problem::UnknownKey, None, format!("{key:?}"));
                    continue;
                };
                let Some(length) = length else { continue };
                // Without the number of the format.
                check.read_block(number, block, length.saturating_sub(1) as u64);
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

    /// The lengths of blocks. A block that cannot be read is noted, and has none.
    fn lengths(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        let lengths = |keys| self.snapshot.value_lengths(Space::Data, keys);
        match lengths(keys) {
            Err(e) if e.is_damage() => {}
            lengths => return lengths,
        }
        let mut found = Vec::with_capacity(keys.len());
        for key in keys.chunks(1) {
            match self.snapshot.value_lengths(Space::Data, key) {
                Ok(lengths) => found.extend(lengths),
                Err(e) if e.is_damage() => {
                    let number = key.first().and_then(|key| block_of_key(key));
                    let number = number.map(|(number, _)| number);
                    self.found(Problem::Damaged, number, e.to_string());
                    self.unreadable.add_key(Space::Data, key.concat());
                    found.push(None);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }

    /// Reads blocks. Damage that the store finds is noted, and the other blocks are read.
    fn verify_blocks(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        let values = match self.snapshot.multi_get(Space::Data, keys) {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(e) if e.is_damage() => {
                let get = |key: &Vec<u8>| self.snapshot.get(Space::Data, key);
                keys.iter().map(get).collect::<Vec<_>>()
            }
            Err(e) => return Err(e),
        };
        for (key, value) in keys.iter().zip(values) {
            let number = block_of_key(key).map(|(number, _)| number);
            match value {
                Err(e) if !e.is_damage() => return Err(e),
                Err(e) => self.found(Problem::Damaged, number, e.to_string()),
                Ok(Some(value)) => {
                    if let Err(e) = content_of(&value) {
                        self.found(Problem::Damaged, number, e.context());
                    }
                }
                // The snapshot has the key, so it has a value.
                Ok(None) => {}
            }
        }
        Ok(())
    }

    fn read_block(&mut self, number: InodeNumber, block: u64, length: u64) {
        self.report.blocks += 1;
        self.report.bytes += length;
        if !self.inodes.contains_key(&number) && self.may_exist(number) {
            return;
        }
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
