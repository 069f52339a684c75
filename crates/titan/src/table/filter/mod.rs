//! The full Bloom filter, RocksDB's `FastLocalBloom`.
//!
//! ```text
//! [cache line of 64 bytes] * n  | ff | 00 | probes and block size u8 | 00 00
//! ```
//!
//! The low half of a key's hash picks the line (multiply and shift, `h1 * n >> 32`), the high half
//! the bits in it: each probe takes the top 9 bits and multiplies by a constant. All probes of a
//! key touch one cache line. The hash is over the whole user key; see
//! [`crate::table::filter::hash`].
//!
//! A filter is optional: a block in any other format (Ribbon, legacy Bloom, foreign) is ignored,
//! and then every key may be present.

mod hash;

use bytes::Bytes;

use crate::table::filter::hash::hash64;

/// The metaindex entry of a filter in this format.
pub(in crate::table) const META_KEY: &[u8] = b"fullfilter.rocksdb.BuiltinBloomFilter";
/// The value of `rocksdb.filter.policy`.
pub(in crate::table) const POLICY_NAME: &str = "rocksdb.BuiltinBloomFilter";

const LINE: usize = 64;
const METADATA: usize = 5;
const MARKER_NEW_BLOOM: u8 = 0xff;
const FAST_LOCAL_BLOOM: u8 = 0;
const GOLDEN: u32 = 0x9e37_79b9;
/// Lengths must fit 32 bits in RocksDB.
const MAX_LINES: u64 = (u32::MAX as u64 / LINE as u64) - 1;

/// The number of probes for a given density. As in RocksDB, the values that measured best for
/// one-line filters.
fn probes_for(millibits_per_key: u64) -> u32 {
    const UP_TO: [u64; 12] = [
        2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501,
    ];
    match UP_TO.iter().position(|&limit| millibits_per_key <= limit) {
        Some(i) => i as u32 + 1,
        None if millibits_per_key > 50_000 => 24,
        None => ((millibits_per_key - 1) / 2000 - 1) as u32,
    }
}

#[inline]
fn line_of(hash: u64, lines: u64) -> usize {
    (((hash & 0xffff_ffff) * lines) >> 32) as usize
}

/// Collects the hashes of a table's keys.
pub(in crate::table) struct FilterBuilder {
    millibits_per_key: u64,
    hashes: Vec<u64>,
}

impl FilterBuilder {
    /// `None` if the density asks for no filter. As in RocksDB, less than half a bit counts as
    /// none, and anything else as at least one bit.
    pub(in crate::table) fn new(bits_per_key: f64) -> Option<Self> {
        if bits_per_key.is_nan() || bits_per_key < 0.5 {
            return None;
        }
        let millibits_per_key = (bits_per_key.clamp(1.0, 100.0) * 1000.0).round() as u64;
        Some(FilterBuilder {
            millibits_per_key,
            hashes: Vec::new(),
        })
    }

    /// Adds a user key. The caller leaves out repeated ones.
    #[inline]
    pub(in crate::table) fn add(&mut self, user_key: &[u8]) {
        self.hashes.push(hash64(user_key));
    }

    /// Adds a prefix, after the key that has it. The caller leaves out repeated ones.
    pub(in crate::table) fn add_prefix(&mut self, prefix: &[u8]) {
        let hash = hash64(prefix);
        // A key can be its own prefix.
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Keys added.
    pub(in crate::table) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The block; `None` without keys.
    pub(in crate::table) fn finish(self) -> Option<Vec<u8>> {
        if self.hashes.is_empty() {
            return None;
        }
        let bits = self.hashes.len() as u64 * self.millibits_per_key / 1000;
        let lines = bits.div_ceil(8 * LINE as u64).clamp(1, MAX_LINES);
        let probes = probes_for(self.millibits_per_key);
        let mut block = vec![0u8; lines as usize * LINE + METADATA];
        let missing = u32::from(mutant!(filter_says_no));
        for hash in self.hashes {
            let start = line_of(hash, lines) * LINE;
            if let Some(line) = block.get_mut(start..start + LINE) {
                let mut h = (hash >> 32) as u32;
                for _ in 0..probes - missing {
                    let bit = (h >> 23) as usize;
                    line[bit / 8] |= 1 << (bit % 8);
                    h = h.wrapping_mul(GOLDEN);
                }
            }
        }
        let tail = [MARKER_NEW_BLOOM, FAST_LOCAL_BLOOM, probes as u8, 0, 0];
        let end = block.len() - METADATA;
        if let Some(metadata) = block.get_mut(end..) {
            metadata.copy_from_slice(&tail);
        }
        Some(block)
    }
}

/// A filter block in use.
#[derive(Debug)]
pub(in crate::table) struct Filter {
    block: Bytes,
    lines: u64,
    probes: u32,
}

impl Filter {
    /// `None` if the block is not a filter of this format. The caller then uses no filter.
    pub(in crate::table) fn new(block: Bytes) -> Option<Self> {
        let (bits, metadata) = block.split_last_chunk::<METADATA>()?;
        let [MARKER_NEW_BLOOM, FAST_LOCAL_BLOOM, block_and_probes, 0, 0] = *metadata else {
            return None;
        };
        let log2_lines_per_block = block_and_probes >> 5;
        let probes = u32::from(block_and_probes & 31);
        if log2_lines_per_block != 0
            || !(1..=30).contains(&probes)
            || bits.is_empty()
            || bits.len() % LINE != 0
        {
            return None;
        }
        let lines = (bits.len() / LINE) as u64;
        Some(Filter {
            lines,
            probes,
            block,
        })
    }

    /// Whether a key with this user key may be in the table; `false` is certain.
    #[inline]
    pub(in crate::table) fn may_contain(&self, user_key: &[u8]) -> bool {
        let hash = hash64(user_key);
        let start = line_of(hash, self.lines) * LINE;
        let line = self
            .block
            .get(start..)
            .and_then(|rest| rest.first_chunk::<LINE>());
        let Some(line) = line else { return true };
        let mut h = (hash >> 32) as u32;
        for _ in 0..self.probes {
            let bit = (h >> 23) as usize;
            if line[bit / 8] >> (bit % 8) & 1 == 0 {
                return false;
            }
            h = h.wrapping_mul(GOLDEN);
        }
        true
    }

    /// The block as stored.
    #[cfg(test)]
    pub(in crate::table) fn block(&self) -> &[u8] {
        &self.block
    }

    /// Bytes held in memory.
    pub(in crate::table) fn memory_usage(&self) -> usize {
        self.block.len()
    }
}
