//! Data blocks that store values separately from keys, as RocksDB 11 writes them with
//! `separate_key_value_in_data_block`.
//!
//! ```text
//! key      shared varint32 | fresh varint32 | value_len varint32 | [value offset varint32]
//!          | key bytes[fresh]
//! block    key * | value * | restart u32 * n | [hash index] | where values start u32 | packed u32
//! ```
//!
//! The offset is relative to the start of the values and is stored at restart points only. Values
//! follow each other without gaps in the order of keys.
//!
//! Such a block is converted to the usual layout when it is read, before it is cached, so that
//! cursors know only one layout. That costs one copy, which is never longer than the block.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};
use crate::table::block::Block;

impl Block {
    /// The same entries in the usual layout. The block is as stored: its entries are keys up to
    /// `values_at`, then values.
    pub(super) fn joined(&self, values_at: usize) -> Result<Bytes> {
        let impossible = || Error::corruption("block with impossible values after its keys");
        let entries = self.entries();
        let (keys, values) = entries.split_at_checked(values_at).ok_or_else(impossible)?;
        let mut values_left = Decoder::new(values);
        let mut keys_left = Decoder::new(keys);
        let mut out = Vec::with_capacity(self.data().len());
        let mut restarts = Vec::with_capacity(self.num_restarts());
        loop {
            let at = keys_left.position();
            let is_restart =
                restarts.len() < self.num_restarts() && self.restart(restarts.len()) == at;
            if is_restart {
                restarts.push(out.len() as u32);
            }
            if keys_left.is_empty() {
                break;
            }
            let shared = keys_left.varint32()?;
            let fresh = keys_left.varint32()?;
            let value_len = keys_left.varint32()?;
            if is_restart && keys_left.varint32()? as usize != values_left.position() {
                return Err(impossible());
            }
            for length in [shared, fresh, value_len] {
                put_varint(&mut out, length.into());
            }
            out.extend_from_slice(keys_left.bytes(fresh as usize)?);
            out.extend_from_slice(values_left.bytes(value_len as usize)?);
        }
        if !values_left.is_empty() || restarts.len() != self.num_restarts() {
            return Err(impossible());
        }
        for restart in &restarts {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        out.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        Ok(Bytes::from(out))
    }
}

/// The opposite of [`Block::joined`], as RocksDB writes it. The block's restart points must be
/// entries.
#[cfg(any(test, fuzzing))]
pub(in crate::table) fn separated(block: &Block) -> Result<Bytes> {
    let (mut keys, mut values, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    let data = block.data();
    let mut at = 0;
    loop {
        let is_restart =
            restarts.len() < block.num_restarts() && block.restart(restarts.len()) == at;
        if is_restart {
            restarts.push(keys.len() as u32);
        }
        if at >= block.entries_end() {
            break;
        }
        let entry = block.entry(at)?;
        for length in [entry.shared, entry.key.len(), entry.value.len()] {
            put_varint(&mut keys, length as u64);
        }
        if is_restart {
            put_varint(&mut keys, values.len() as u64);
        }
        at = entry.value.end;
        keys.extend_from_slice(data.get(entry.key).unwrap_or_default());
        values.extend_from_slice(data.get(entry.value).unwrap_or_default());
    }
    let values_at = keys.len() as u32;
    let mut out = [keys, values].concat();
    for restart in &restarts {
        out.extend_from_slice(&restart.to_le_bytes());
    }
    out.extend_from_slice(&values_at.to_le_bytes());
    let packed = restarts.len() as u32 | crate::table::block::SEPARATED_VALUES;
    out.extend_from_slice(&packed.to_le_bytes());
    Ok(Bytes::from(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::block::builder::BlockBuilder;

    fn block(entries: usize, interval: usize) -> Block {
        let mut builder = BlockBuilder::new(interval);
        for i in 0..entries {
            let value = vec![i as u8; 7 * i % 40];
            builder.add(format!("a key {i:05}").as_bytes(), &value);
        }
        Block::new(Bytes::copy_from_slice(builder.finish())).unwrap()
    }

    #[test]
    fn what_is_taken_apart_is_put_together() {
        for (entries, interval) in [(0, 16), (1, 16), (2, 1), (50, 1), (50, 4), (200, 16)] {
            let block = block(entries, interval);
            let apart = separated(&block).unwrap();
            assert_ne!(apart, block.data());
            assert_eq!(Block::new(apart).unwrap().data(), block.data());
        }
    }

    #[test]
    fn every_contradiction_is_corruption() {
        let whole = separated(&block(50, 4)).unwrap();
        let keys = u32::from_le_bytes(*whole[whole.len() - 8..].first_chunk().unwrap()) as usize;
        let damaged = |at: usize, by: u8| {
            let mut bytes = whole.to_vec();
            bytes[at] = bytes[at].wrapping_add(by);
            Block::new(Bytes::from(bytes)).map(|block| block.data().clone())
        };
        // Where values start, in the tail and at the first restart point; a length; a restart
        // point.
        let restarts = whole.len() - 8 - 4 * 13;
        for at in [whole.len() - 8, 3, 2, restarts + 4] {
            assert!(damaged(at, 1).unwrap_err().is_corruption(), "byte {at}");
        }
        for at in 0..whole.len() {
            match damaged(at, 1) {
                Ok(data) => assert!(data.len() <= whole.len()),
                Err(e) => assert!(e.is_corruption(), "byte {at}: {e}"),
            }
        }
        assert!(keys < restarts);
    }
}
