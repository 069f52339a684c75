//! Finds the blocks of a table whose index or metaindex is lost.
//!
//! Blocks follow each other, and each ends in a compression type and a checksum. So the end of a
//! block is the first position at which the checksum matches the bytes since the block's start. By
//! chance it matches once in 2^32 tries, and then the bytes must still decode as a block.

use bytes::Bytes;
use titan::internals::format::{
    ChecksumType, InternalKeyComparator, ParsedInternalKey, RangeTombstone, ValueType,
};
use titan::internals::table::{
    BLOCK_TRAILER_LEN, Block, BlockHandle, BlockIter, BlockKind, BlockSource, TableProperties,
    context_modifier, range_tombstones_in,
};
use titan::{CompressionType, Result, SequenceNumber};

use crate::forensics::entry::sound_entry;

/// The largest block that is searched for, with its trailer. The time of a search that finds no end
/// is quadratic in it.
const MAX_BLOCK: usize = 1 << 20;
/// Bytes of a first, cheap attempt.
const USUAL_BLOCK: usize = 64 << 10;
/// Keys with larger sequence numbers are taken for other data: no database has written so much.
const PLAUSIBLE_SEQUENCE: u64 = 1 << 48;

/// Result of a scan.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) properties: Option<TableProperties>,
    data: Vec<DataBlock>,
    range_deletions: Vec<Block>,
}

/// A block of point entries.
struct DataBlock {
    handle: BlockHandle,
    /// Internal keys.
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Found {
    /// The blocks that are in the order of keys, from the first. One that is not is another kind of
    /// block that happens to look like data.
    pub(crate) fn data_in_order(self, order: &InternalKeyComparator) -> Vec<BlockHandle> {
        let mut handles = Vec::new();
        let mut last: Vec<u8> = Vec::new();
        for block in self.data {
            if !last.is_empty() && order.compare(&last, &block.first).is_ge() {
                break;
            }
            last = block.last;
            handles.push(block.handle);
        }
        handles
    }

    pub(crate) fn tombstones(
        &self,
        sequence: Option<SequenceNumber>,
    ) -> Result<Vec<RangeTombstone>> {
        let mut tombstones = Vec::new();
        for block in &self.range_deletions {
            tombstones.extend(range_tombstones_in(block.clone(), sequence)?);
        }
        Ok(tombstones)
    }
}

/// A search for blocks.
pub(crate) struct Scan<'s> {
    /// If the footer is lost, its checksum type is set to that of the first block found.
    source: &'s mut BlockSource,
    is_checksum_known: bool,
}

impl<'s> Scan<'s> {
    pub(crate) fn new(source: &'s mut BlockSource) -> Self {
        Scan {
            source,
            is_checksum_known: false,
        }
    }

    /// Goes from block to block, from `start` until no other one can be found.
    pub(crate) fn run(mut self, start: u64) -> Result<Found> {
        let mut found = Found::default();
        let mut at = start;
        while let Some((handle, data)) = self.block_at(at)? {
            at = handle.offset + handle.size + BLOCK_TRAILER_LEN as u64;
            let Some(data) = data else {
                continue;
            };
            let Ok(block) = Block::new(data.clone()) else {
                continue;
            };
            match contents_of(&block) {
                Some((_, _, true)) => found.range_deletions.push(block),
                Some((first, last, false)) => found.data.push(DataBlock {
                    handle,
                    first,
                    last,
                }),
                None => {
                    let decoded = TableProperties::decode(data);
                    if let Ok((properties, _)) = decoded
                        && properties.names_a_table()
                    {
                        found.properties = Some(properties);
                    }
                }
            }
        }
        Ok(found)
    }

    /// The block that starts at `offset`, with its content if that decompresses.
    fn block_at(&mut self, offset: u64) -> Result<Option<(BlockHandle, Option<Bytes>)>> {
        let left = self.source.limit.saturating_sub(offset);
        for limit in [USUAL_BLOCK, MAX_BLOCK] {
            let len = left.min(limit as u64) as usize;
            let bytes = self.source.file.read_exact_at(offset, len)?;
            if let Some(size) = self.end_in(&bytes, offset) {
                let handle = BlockHandle { offset, size };
                let stored = bytes.slice(..size as usize + BLOCK_TRAILER_LEN);
                return match self.source.open(BlockKind::Data, handle, stored) {
                    Err(e) if e.lacks_codec() => Err(e),
                    opened => Ok(Some((handle, opened.ok()))),
                };
            }
            if len < limit {
                break;
            }
        }
        Ok(None)
    }

    /// The size without trailer of the block that starts at the front of `bytes`.
    fn end_in(&mut self, bytes: &[u8], offset: u64) -> Option<u64> {
        let likely = [
            self.source.checksum,
            ChecksumType::Xxh3,
            ChecksumType::Crc32c,
        ];
        let candidates = match self.is_checksum_known {
            true => &likely[..1],
            false => &likely[..],
        };
        let modifier = context_modifier(self.source.base_context_checksum, offset);
        for &checksum in candidates {
            // Without checksums anything is a block.
            if checksum == ChecksumType::None {
                continue;
            }
            let fits = |size: usize| {
                let (Some(payload), Some(&kind)) = (bytes.get(..size), bytes.get(size)) else {
                    return false;
                };
                let stored = bytes
                    .get(size + 1..)
                    .and_then(|rest| rest.first_chunk::<4>());
                CompressionType::from_u8(kind).is_ok()
                    && stored.is_some_and(|stored| {
                        let sum = checksum.block_checksum(payload, kind);
                        u32::from_le_bytes(*stored) == sum.wrapping_add(modifier)
                    })
            };
            let last = bytes.len().checked_sub(BLOCK_TRAILER_LEN)?;
            if let Some(size) = (1..=last).find(|size| fits(*size)) {
                (self.source.checksum, self.is_checksum_known) = (checksum, true);
                return Some(size as u64);
            }
        }
        None
    }
}

/// The first and the last key of a block of entries, and whether these are range deletions; `None`
/// for other blocks.
fn contents_of(block: &Block) -> Option<(Vec<u8>, Vec<u8>, bool)> {
    let mut iter = BlockIter::over_data(block.clone(), None).untimed();
    iter.seek_to_first().ok()?;
    let mut found: Option<(Vec<u8>, Vec<u8>, bool)> = None;
    while iter.valid() {
        let key = ParsedInternalKey::parse(iter.key()).ok()?;
        let is_range = key.value_type == ValueType::RangeDeletion;
        if key.sequence.0 > PLAUSIBLE_SEQUENCE {
            return None;
        }
        if !is_range {
            sound_entry(iter.key(), iter.value()).ok()?;
        }
        match &mut found {
            None => found = Some((iter.key().to_vec(), iter.key().to_vec(), is_range)),
            Some((_, last, ranges)) if *ranges == is_range => {
                last.clear();
                last.extend_from_slice(iter.key());
            }
            Some(_) => return None,
        }
        iter.next().ok()?;
    }
    found
}
