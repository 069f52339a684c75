//! Counts the entries of a range of keys and the bytes that they point to.

use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::{ParsedInternalKey, seek_key};
use crate::format::pointers::referenced_bytes;
use crate::table::read::reader::TableReader;

/// Sums over the entries of a range of keys.
#[derive(Clone, Copy, Default)]
pub(crate) struct RangeSum {
    pub(crate) entries: u64,
    /// Bytes of the blob records that they point to: header, key and stored value.
    pub(crate) blob_bytes: u64,
}

impl RangeSum {
    /// The sums of the whole, given that these are the sums of a part.
    fn scaled(self, (whole, part): (usize, usize)) -> Self {
        let scale = |sum: u64| {
            let scaled = u128::from(sum) * whole as u128 / part.max(1) as u128;
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        RangeSum {
            entries: scale(self.entries),
            blob_bytes: scale(self.blob_bytes),
        }
    }
}

impl TableReader {
    /// Sums up the entries from `start` to before `end`: exactly if they are in at most
    /// `max_blocks` data blocks, else as an estimate from at most that many blocks. Cost: reads
    /// these blocks.
    pub(crate) fn sum_between(
        &self,
        start: &[u8],
        end: &[u8],
        max_blocks: usize,
    ) -> Result<RangeSum> {
        let (mut sum, mut read) = (RangeSum::default(), 0);
        let blocks = self.blocks_between(start, end);
        let step = blocks.len().div_ceil(max_blocks.max(1)).max(1);
        for at in blocks.clone().skip(step / 2).step_by(step) {
            self.add_block(&mut sum, at, start, end)?;
            read += 1;
        }
        Ok(sum.scaled((blocks.len(), read)))
    }

    /// The share of the data blocks that may have entries from `start` to before `end`, from 0 to
    /// 1. No I/O.
    pub(crate) fn share_between(&self, start: &[u8], end: &[u8]) -> f64 {
        self.blocks_between(start, end).len() as f64 / self.index.len().max(1) as f64
    }

    /// A user key that no entry of the data block at a file offset is after, and no entry of the
    /// next one before; `None` if no data block is there. No I/O.
    pub(crate) fn end_of_block(&self, offset: u64) -> Option<&[u8]> {
        let at = self.index.at_offset(offset)?;
        Some(self.index.user_key(at))
    }

    fn blocks_between(&self, start: &[u8], end: &[u8]) -> std::ops::Range<usize> {
        let find = |key| {
            let seek_key = seek_key(key, SequenceNumber::MAX);
            self.index.find(&self.options.comparator, &seek_key)
        };
        find(start)..find(end).saturating_add(1).min(self.index.len())
    }

    fn add_block(&self, sum: &mut RangeSum, at: usize, start: &[u8], end: &[u8]) -> Result<()> {
        let Some(handle) = self.index.handle(at) else {
            return Ok(());
        };
        let order = &self.options.comparator;
        let mut iter = self.block_iter(handle, false)?;
        iter.seek_to_first().map_err(|e| self.at(e, handle))?;
        while iter.valid() {
            let key = ParsedInternalKey::parse(iter.key()).map_err(|e| self.at(e, handle))?;
            let within = order.compare_user(key.user_key, start).is_ge()
                && order.compare_user(key.user_key, end).is_lt();
            sum.entries += u64::from(within);
            if within {
                let records = referenced_bytes(key.user_key, key.value_type, iter.value());
                let records = records.map_err(|e| self.at(e, handle))?;
                sum.blob_bytes = sum.blob_bytes.saturating_add(records);
            }
            iter.next().map_err(|e| self.at(e, handle))?;
        }
        Ok(())
    }
}
