//! The liveness block: which blob records a table's entries point to.
//!
//! ```text
//! format u8 = 1 | number of files varint
//! per file, ascending:
//!   file - file before varint | number of pointers varint
//!   per pointer, by ascending value offset:
//!     key_len - key_len before svarint | gap svarint | size varint
//! ```
//!
//! `gap` is the offset minus the offset it would have if the record directly followed the one
//! before it (32 bytes of header and the key are between two values), so neighbours in a sorted
//! blob file take about three bytes. Each file starts from key length 0 and a value that ended at
//! 0.
//!
//! It makes garbage collection exact without looking up keys: the union over all live tables is the
//! set of records that must be kept (BLOB-3). RocksDB neither reads nor keeps it. So a table
//! without one is scanned, and one that is there is verified by the totals in the properties.

use crate::error::{Error, Result};
use crate::format::BlobFileNumber;
use crate::format::blob_index::{BLOB_RECORD_HEADER_LEN, BlobIndex, BlobRefs};
use crate::format::coding::{Decoder, put_signed_varint, put_varint};
use crate::number_map::NumberMap;

const FORMAT: u8 = 1;
/// The fewest bytes that a pointer takes; bounds the number that a count may claim.
const MIN_ENCODED: usize = 3;

/// A pointer to one blob record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobRef {
    /// Where the value's bytes start.
    pub(crate) offset: u64,
    /// Bytes of the user key in the record.
    pub(crate) key_len: u32,
    /// Stored bytes of the value.
    pub(crate) size: u64,
}

impl BlobRef {
    /// Bytes of the whole record.
    pub(crate) fn record_len(&self) -> u64 {
        BLOB_RECORD_HEADER_LEN + u64::from(self.key_len) + self.size
    }

    /// Where the record starts.
    pub(crate) fn record_offset(&self) -> u64 {
        self.offset
            .saturating_sub(BLOB_RECORD_HEADER_LEN + u64::from(self.key_len))
    }
}

/// All pointers of a table, by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LivenessBlock {
    files: NumberMap<BlobFileNumber, Vec<BlobRef>>,
}

impl LivenessBlock {
    /// Adds a pointer that belongs to a user key of `key_len` bytes. Call [`LivenessBlock::sort`]
    /// after the last one.
    pub(crate) fn add(&mut self, key_len: usize, index: &BlobIndex) -> Result<()> {
        let key_len =
            u32::try_from(key_len).map_err(|_| Error::corruption("key of a blob exceeds 4 GiB"))?;
        let reference = BlobRef {
            offset: index.offset,
            key_len,
            size: index.size,
        };
        let front = BLOB_RECORD_HEADER_LEN + u64::from(key_len);
        if index.offset < front || index.offset.checked_add(index.size).is_none() {
            return Err(Error::corruption("blob index points to no record"));
        }
        self.files.get_or_default(index.file).push(reference);
        Ok(())
    }

    /// Sorts the pointers into the order in which they are stored.
    pub(crate) fn sort(&mut self) {
        for references in self.files.values_mut() {
            references.sort_unstable();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The pointers by ascending file, each file's by ascending offset.
    pub fn files(&self) -> impl Iterator<Item = (BlobFileNumber, &[BlobRef])> {
        self.files
            .iter()
            .map(|(file, references)| (*file, &references[..]))
    }

    /// Totals by ascending file.
    pub fn totals(&self) -> Vec<BlobRefs> {
        let total = |(file, references): (BlobFileNumber, &[BlobRef])| BlobRefs {
            file,
            count: references.len() as u64,
            bytes: references
                .iter()
                .fold(0, |sum: u64, r| sum.saturating_add(r.record_len())),
        };
        self.files().map(total).collect()
    }

    /// The sorted block's encoding.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_varint(&mut out, self.files.len() as u64);
        let mut last_file = 0;
        for (file, references) in self.files() {
            put_varint(&mut out, file.0 - last_file);
            put_varint(&mut out, references.len() as u64);
            last_file = file.0;
            let (mut key_len, mut end) = (0u32, 0u64);
            for r in references {
                put_signed_varint(&mut out, i64::from(r.key_len) - i64::from(key_len));
                put_signed_varint(&mut out, r.record_offset().wrapping_sub(end) as i64);
                put_varint(&mut out, r.size);
                (key_len, end) = (r.key_len, r.offset + r.size);
            }
        }
        out
    }

    /// Reads an encoding. Checks order and ranges.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = || Error::corruption("liveness block contradicts itself");
        let mut d = Decoder::new(bytes);
        let format = d.u8()?;
        if format != FORMAT {
            return Err(Error::unsupported(format!(
                "liveness block of format {format}"
            )));
        }
        let mut files = NumberMap::new();
        let mut file = 0u64;
        for i in 0..d.varint()? {
            let delta = d.varint()?;
            file = file
                .checked_add(delta)
                .filter(|_| i == 0 || delta > 0)
                .ok_or_else(bad)?;
            let count = d.varint()?;
            if count == 0 || count > (d.rest().len() / MIN_ENCODED) as u64 {
                return Err(bad());
            }
            let mut references: Vec<BlobRef> = Vec::with_capacity(count as usize);
            let (mut key_len, mut end) = (0i64, 0u64);
            for _ in 0..count {
                key_len = key_len.checked_add(d.signed_varint()?).ok_or_else(bad)?;
                let start = end.wrapping_add(d.signed_varint()? as u64);
                let size = d.varint()?;
                let key_len = u32::try_from(key_len).map_err(|_| bad())?;
                let front = BLOB_RECORD_HEADER_LEN + u64::from(key_len);
                let offset = start.checked_add(front).ok_or_else(bad)?;
                end = offset.checked_add(size).ok_or_else(bad)?;
                let reference = BlobRef {
                    offset,
                    key_len,
                    size,
                };
                if references.last().is_some_and(|last| *last > reference) {
                    return Err(bad());
                }
                references.push(reference);
            }
            files.insert(BlobFileNumber(file), references);
        }
        match d.is_empty() {
            true => Ok(LivenessBlock { files }),
            false => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::CompressionType;

    fn random(rng: &mut fastrand::Rng) -> LivenessBlock {
        let mut block = LivenessBlock::default();
        for _ in 0..rng.usize(..200) {
            let key_len = rng.usize(..40);
            let index = BlobIndex {
                file: BlobFileNumber(rng.u64(1..5) * rng.u64(1..1 << 30)),
                offset: 72 + (rng.u64(..) >> rng.u32(4..63)),
                size: rng.u64(..) >> rng.u32(24..63),
                compression: CompressionType::None,
            };
            block.add(key_len, &index).unwrap();
        }
        block.sort();
        block
    }

    #[test]
    fn it_comes_back_and_adds_up() {
        for seed in 0..200 {
            let block = random(&mut fastrand::Rng::with_seed(seed));
            let back = LivenessBlock::decode(&block.encode()).unwrap();
            assert_eq!(back, block, "seed {seed}");
            let total: u64 = block.totals().iter().map(|t| t.bytes).sum();
            let sum: u64 = block
                .files()
                .flat_map(|(_, refs)| refs)
                .map(BlobRef::record_len)
                .sum();
            assert_eq!(total, sum);
        }
    }

    #[test]
    fn neighbours_are_small() {
        let mut block = LivenessBlock::default();
        let mut offset = 30;
        for _ in 0..1000 {
            let index = BlobIndex {
                file: BlobFileNumber(9),
                offset: offset + 32 + 16,
                size: 100,
                compression: CompressionType::None,
            };
            block.add(16, &index).unwrap();
            offset += 32 + 16 + 100;
        }
        block.sort();
        assert!(block.encode().len() <= 3010);
        assert_eq!(
            block.totals(),
            [BlobRefs {
                file: BlobFileNumber(9),
                count: 1000,
                bytes: 148_000
            }]
        );
    }

    #[test]
    fn damage_is_an_error_or_another_block_and_never_a_panic() {
        let mut rng = fastrand::Rng::with_seed(3);
        let bytes = random(&mut rng).encode();
        for cut in 0..bytes.len() {
            assert!(LivenessBlock::decode(&bytes[..cut]).is_err());
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << rng.u8(..8);
            let _ = LivenessBlock::decode(&flipped);
        }
    }

    #[test]
    fn a_pointer_to_where_no_record_can_be_is_refused() {
        let index = BlobIndex {
            file: BlobFileNumber(1),
            offset: 35,
            size: 1,
            compression: CompressionType::None,
        };
        assert!(
            LivenessBlock::default()
                .add(4, &index)
                .unwrap_err()
                .is_corruption()
        );
    }
}
