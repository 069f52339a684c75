//! Chunks of relocation maps: the new offsets of up to 256 records of one logical file.
//!
//! A map file has them packed ([`encode`], [`decode`]; the format is in `relocation.rs`), so that
//! it is small. In memory they are a [`MovedChunk`], in fixed width, so that a lookup is a binary
//! search without decoding.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_signed_varint, put_varint};

/// The most records that a chunk describes.
pub(super) const CHUNK_RECORDS: usize = 256;

/// A relocated record: where its value was first written, and where it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MovedRecord {
    /// The offset in the pointers to it.
    pub offset: u64,
    /// The offset in the physical file.
    pub to: u64,
}

/// Appends the packed form of a chunk, without its checksum. Returns its first offset.
pub(super) fn encode(records: &[MovedRecord], out: &mut Vec<u8>) -> u64 {
    let first = records
        .first()
        .copied()
        .unwrap_or(MovedRecord { offset: 0, to: 0 });
    invariant!(
        (1..=CHUNK_RECORDS).contains(&records.len()),
        "a chunk of a relocation map has {} records",
        records.len()
    );
    put_varint(out, records.len() as u64);
    put_varint(out, first.offset);
    put_varint(out, first.to);
    for pair in records.windows(2) {
        if let [before, record] = pair {
            put_varint(out, record.offset - before.offset);
            put_signed_varint(out, record.to.wrapping_sub(before.to) as i64);
        }
    }
    first.offset
}

/// Reads the packed form, without its checksum: at least one record, ascending by offset.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<MovedRecord>> {
    let bad = || Error::corruption("a chunk of a relocation map contradicts itself");
    let mut d = Decoder::new(bytes);
    let count = d.varint()?;
    if count == 0 || count > CHUNK_RECORDS as u64 {
        return Err(bad());
    }
    let mut record = MovedRecord {
        offset: d.varint()?,
        to: d.varint()?,
    };
    let mut records = Vec::with_capacity(count as usize);
    records.push(record);
    for _ in 1..count {
        let delta = d.varint()?;
        let offset = record.offset.checked_add(delta).filter(|_| delta > 0);
        let to = record.to.checked_add_signed(d.signed_varint()?);
        record = MovedRecord {
            offset: offset.ok_or_else(bad)?,
            to: to.ok_or_else(bad)?,
        };
        records.push(record);
    }
    match d.is_empty() {
        true => Ok(records),
        false => Err(bad()),
    }
}

/// A chunk in memory, as the block cache keeps it.
///
/// ```text
/// first offset u64 | least new offset u64 | width u8 |
/// n * { offset - first offset, new offset - least new offset }             little-endian
/// ```
///
/// Differences are 4 bytes wide, or 8 if one of them needs it. A full chunk usually takes 2 KiB.
pub(super) struct MovedChunk(Bytes);

impl MovedChunk {
    const HEADER: usize = 17;

    /// `records` ascend by offset.
    pub(super) fn new(records: &[MovedRecord]) -> Self {
        let first = records.first().map_or(0, |record| record.offset);
        let least = records.iter().map(|record| record.to).min().unwrap_or(0);
        let pairs = || records.iter().map(|r| (r.offset - first, r.to - least));
        let wide = pairs().any(|(offset, to)| offset.max(to) > u32::MAX.into())
            && !mutant!(relocation_of_32_bits);
        let width = if wide { 8 } else { 4 };
        let mut out = Vec::with_capacity(Self::HEADER + records.len() * 2 * width);
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&least.to_le_bytes());
        out.push(width as u8);
        for (offset, to) in pairs() {
            for difference in [offset, to] {
                match wide {
                    true => out.extend_from_slice(&difference.to_le_bytes()),
                    false => out.extend_from_slice(&(difference as u32).to_le_bytes()),
                }
            }
        }
        MovedChunk(Bytes::from(out))
    }

    /// The chunk that [`MovedChunk::into_bytes`] converted to bytes.
    pub(super) fn from_bytes(bytes: Bytes) -> Self {
        MovedChunk(bytes)
    }

    /// Its memory, for the block cache.
    pub(super) fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The new offset of the record with this offset, if the chunk has it.
    pub(super) fn lookup(&self, offset: u64) -> Option<u64> {
        let (first, least, width, pairs) = self.parts()?;
        let wanted = offset.checked_sub(first)?;
        let to = match width {
            4 => search::<8>(pairs, wanted, narrow),
            _ => search::<16>(pairs, wanted, wide),
        };
        to.map(|to| least + to)
    }

    /// Every record, by ascending offset.
    pub(super) fn records(&self) -> Vec<MovedRecord> {
        let Some((first, least, width, pairs)) = self.parts() else {
            return Vec::new();
        };
        let record = |(offset, to)| MovedRecord {
            offset: first + offset,
            to: least + to,
        };
        match width {
            4 => pairs.as_chunks().0.iter().map(narrow).map(record).collect(),
            _ => pairs.as_chunks().0.iter().map(wide).map(record).collect(),
        }
    }

    fn parts(&self) -> Option<(u64, u64, u8, &[u8])> {
        let (first, rest) = self.0.split_first_chunk()?;
        let (least, rest) = rest.split_first_chunk()?;
        let (width, pairs) = rest.split_first()?;
        let (first, least) = (u64::from_le_bytes(*first), u64::from_le_bytes(*least));
        Some((first, least, *width, pairs))
    }
}

fn narrow(pair: &[u8; 8]) -> (u64, u64) {
    let pair = u64::from_le_bytes(*pair);
    (pair & u64::from(u32::MAX), pair >> 32)
}

fn wide(pair: &[u8; 16]) -> (u64, u64) {
    let pair = u128::from_le_bytes(*pair);
    (pair as u64, (pair >> 64) as u64)
}

/// The second half of the pair whose first half is `wanted`.
fn search<const PAIR: usize>(
    pairs: &[u8],
    wanted: u64,
    halves: impl Fn(&[u8; PAIR]) -> (u64, u64),
) -> Option<u64> {
    let (pairs, _) = pairs.as_chunks::<PAIR>();
    let at = pairs.binary_search_by_key(&wanted, |pair| halves(pair).0);
    pairs.get(at.ok()?).map(|pair| halves(pair).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up to a chunk of records whose offsets span at most `span`, and their new offsets `to_span`.
    fn random(rng: &mut fastrand::Rng, span: u64, to_span: u64) -> Vec<MovedRecord> {
        let base = rng.u64(..1 << 40);
        let mut offsets: Vec<u64> = (0..rng.usize(1..=CHUNK_RECORDS))
            .map(|_| base + rng.u64(..=span))
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        let record = |offset| MovedRecord {
            offset,
            to: rng.u64(..=to_span),
        };
        offsets.into_iter().map(record).collect()
    }

    #[test]
    fn both_widths_answer_as_the_packed_form_does() {
        let narrow = u64::from(u32::MAX);
        let mut rng = fastrand::Rng::with_seed(16);
        for (span, to_span) in [
            (5000, 5000),
            (narrow, narrow),
            (narrow + 1, 9),
            (9, narrow + 1),
            (1 << 62, 1 << 62),
        ] {
            for _ in 0..20 {
                let mut records = random(&mut rng, span, to_span);
                if let (Some(last), true) = (records.last().copied(), rng.bool()) {
                    // The limits of the numbers that a width can represent.
                    records.pop();
                    let first = records.first().map_or(last.offset, |first| first.offset);
                    records.push(MovedRecord {
                        offset: first + span.max(last.offset - first),
                        to: to_span,
                    });
                }
                let mut packed = Vec::new();
                encode(&records, &mut packed);
                let chunk = MovedChunk::new(&decode(&packed).unwrap());
                assert_eq!(chunk.records(), records);
                let chunk = MovedChunk::from_bytes(chunk.into_bytes());
                for record in &records {
                    assert_eq!(chunk.lookup(record.offset), Some(record.to));
                    for other in [record.offset.wrapping_sub(1), record.offset + 1] {
                        let there = records.iter().find(|r| r.offset == other);
                        assert_eq!(chunk.lookup(other), there.map(|r| r.to));
                    }
                }
                // An offset that is equal in the low half only.
                let first = records.first().unwrap().offset;
                let far = first + narrow + 1;
                let there = records.iter().find(|r| r.offset == far);
                assert_eq!(chunk.lookup(far), there.map(|r| r.to));
            }
        }
    }

    #[test]
    fn a_full_chunk_takes_two_kib_where_files_are_not_huge() {
        let record = |n: u64| MovedRecord {
            offset: (1 << 40) + n * 5000,
            to: (1 << 35) + (255 - n) * 4000,
        };
        let records: Vec<_> = (0..CHUNK_RECORDS as u64).map(record).collect();
        let bytes = MovedChunk::new(&records).into_bytes();
        assert_eq!(bytes.len(), MovedChunk::HEADER + 2048);
    }
}
