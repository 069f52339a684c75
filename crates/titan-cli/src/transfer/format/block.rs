//! Blocks of pairs.

use bytes::Bytes;
use titan::{Error, Result};

use super::Fields;
use crate::transfer::pairs::Pair;

/// The first byte of a block.
pub(super) const TAG: u8 = b'B';
/// Bytes of the head, with its tag and the checksum.
pub(super) const HEAD: usize = 18;
/// A block is full once it has this many plain bytes.
const FULL: usize = 1 << 20;
/// The most plain bytes of a block.
const LARGEST: usize = 1 << 30;
/// The most bytes of a pair.
const LARGEST_PAIR: usize = LARGEST / 2;

const PLAIN: u8 = 0;
const LZ4: u8 = 1;

/// A block that is being filled.
#[derive(Default)]
pub(super) struct BlockBuilder {
    plain: Vec<u8>,
    pairs: u32,
}

impl BlockBuilder {
    /// Adds a pair.
    ///
    /// # Errors
    /// `Unsupported` for a pair of more than 512 MiB.
    pub(super) fn add(&mut self, pair: &Pair) -> Result<()> {
        if pair.bytes() > LARGEST_PAIR as u64 {
            return Err(Error::unsupported(format!(
                "a pair of {} bytes is too large for an export",
                pair.bytes()
            )));
        }
        self.plain.extend_from_slice(&pair.lengths());
        self.plain.extend_from_slice(&pair.key);
        self.plain.extend_from_slice(&pair.value);
        self.pairs += 1;
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    /// Whether the block is to be written before the next pair.
    pub(super) fn is_full(&self) -> bool {
        self.plain.len() >= FULL
    }

    /// The bytes of the block in the file. Empties the builder.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let compressed = lz4_flex::block::compress(&self.plain);
        let (codec, stored) = match compressed.len() < self.plain.len() {
            true => (LZ4, &compressed),
            false => (PLAIN, &self.plain),
        };
        let mut out = Vec::with_capacity(HEAD + stored.len());
        out.extend_from_slice(&[TAG, codec]);
        for number in [stored.len() as u32, self.plain.len() as u32, self.pairs] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&out), stored);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(stored);
        self.plain.clear();
        self.pairs = 0;
        out
    }
}

/// The head of a block.
pub(super) struct BlockHead {
    codec: u8,
    pub(super) stored: usize,
    plain: usize,
    pairs: u32,
    checksum: u32,
    /// The checksum of the head alone.
    of_head: u32,
}

impl BlockHead {
    /// Decodes a head with its tag. Its numbers are trusted only when [`BlockHead::open`] has seen
    /// the checksum.
    pub(super) fn decode(bytes: &[u8; HEAD]) -> Option<BlockHead> {
        let mut fields = Fields(&bytes[1..]);
        Some(BlockHead {
            codec: fields.byte()?,
            stored: usize::try_from(fields.u32()?).ok()?,
            plain: usize::try_from(fields.u32()?).ok()?,
            pairs: fields.u32()?,
            checksum: fields.u32()?,
            of_head: crc32c::crc32c(&bytes[..HEAD - 4]),
        })
    }

    /// The pairs of a block, from its stored bytes. `None` if anything is damaged.
    pub(super) fn open(&self, stored: Vec<u8>) -> Option<Vec<Pair>> {
        let checksum = crc32c::crc32c_append(self.of_head, &stored);
        if checksum != self.checksum || self.plain > LARGEST {
            return None;
        }
        let plain = match self.codec {
            PLAIN => stored,
            LZ4 => {
                let mut plain = vec![0; self.plain];
                let len = lz4_flex::block::decompress_into(&stored, &mut plain).ok()?;
                plain.truncate(len);
                plain
            }
            _ => return None,
        };
        if plain.len() != self.plain {
            return None;
        }
        pairs_of(Bytes::from(plain), self.pairs)
    }
}

/// The pairs of a plain block, whose keys must ascend.
fn pairs_of(plain: Bytes, count: u32) -> Option<Vec<Pair>> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut fields = Fields(&plain);
    while !fields.0.is_empty() {
        let (key, value) = (fields.u32()?, fields.u32()?);
        let pair = Pair {
            key: plain.slice_ref(fields.take(usize::try_from(key).ok()?)?),
            value: plain.slice_ref(fields.take(usize::try_from(value).ok()?)?),
        };
        if pairs.last().is_some_and(|last| last.key >= pair.key) {
            return None;
        }
        pairs.push(pair);
    }
    (pairs.len() as u64 == u64::from(count) && count > 0).then_some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(bytes: &[u8]) -> Option<Vec<Pair>> {
        let head = BlockHead::decode(bytes.first_chunk()?)?;
        let stored = bytes[HEAD..].to_vec();
        (stored.len() == head.stored).then(|| head.open(stored))?
    }

    #[test]
    fn blocks_are_read_as_they_were_written_or_refused() {
        let random: Vec<u8> = (0..200_u64).map(|n| (n * n * 31 % 251) as u8).collect();
        for value in [&b""[..], &[7; 300], &random] {
            let mut builder = BlockBuilder::default();
            let pairs: Vec<Pair> = (0..3_u8)
                .map(|n| Pair {
                    key: vec![n; usize::from(n)].into(),
                    value: Bytes::copy_from_slice(value),
                })
                .collect();
            pairs.iter().for_each(|pair| builder.add(pair).unwrap());
            let bytes = builder.take();
            assert!(builder.is_empty());
            assert_eq!(opened(&bytes).unwrap(), pairs);
            for at in 1..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    assert_eq!(opened(&damaged), None, "{at}");
                }
                assert_eq!(opened(&bytes[..at]), None, "{at}");
            }
        }
    }

    #[test]
    fn keys_that_do_not_ascend_are_refused() {
        let pair = |key: &'static str| Pair {
            key: key.into(),
            value: "v".into(),
        };
        for keys in [["b", "a"], ["a", "a"]] {
            let mut builder = BlockBuilder::default();
            for key in keys {
                builder.add(&pair(key)).unwrap();
            }
            assert_eq!(opened(&builder.take()), None);
        }
    }
}
