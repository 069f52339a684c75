//! Checksums of logs, blocks and blob records.
//!
//! RocksDB stores CRC-32C *masked* (rotated and offset), so that a checksum over bytes that
//! themselves contain checksums keeps its strength.

use crate::error::{Error, Result};

const MASK_DELTA: u32 = 0xa282_ead8;

/// CRC-32C (Castagnoli) of `data`, not masked.
pub(crate) fn crc32c(data: &[u8]) -> u32 {
    ::crc32c::crc32c(data)
}

/// Continues a CRC-32C over more data: `extend(crc32c(a), b) == crc32c(a ++ b)`.
pub(crate) fn crc32c_extend(crc: u32, data: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, data)
}

/// The stored form of a CRC-32C.
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The checksum that protects the blocks of an SST; the number is the one in the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChecksumType {
    None = 0,
    Crc32c = 1,
    XxHash32 = 2,
    XxHash64 = 3,
    Xxh3 = 4,
}

impl ChecksumType {
    pub(crate) fn from_u8(v: u8) -> Result<Self> {
        Ok(match v {
            0 => ChecksumType::None,
            1 => ChecksumType::Crc32c,
            2 => ChecksumType::XxHash32,
            3 => ChecksumType::XxHash64,
            4 => ChecksumType::Xxh3,
            _ => return Err(Error::corruption(format!("unknown checksum type {v}"))),
        })
    }

    /// The checksum of a block: its payload followed by its compression-type byte.
    /// [`ChecksumType::None`] gives 0, which RocksDB stores and ignores.
    pub fn block_checksum(self, payload: &[u8], type_byte: u8) -> u32 {
        match self {
            ChecksumType::None => 0,
            ChecksumType::Crc32c => mask(crc32c_extend(crc32c(payload), &[type_byte])),
            ChecksumType::XxHash32 => {
                let mut h = xxhash_rust::xxh32::Xxh32::new(0);
                h.update(payload);
                h.update(&[type_byte]);
                h.digest()
            }
            ChecksumType::XxHash64 => {
                let mut h = xxhash_rust::xxh64::Xxh64::new(0);
                h.update(payload);
                h.update(&[type_byte]);
                h.digest() as u32
            }
            ChecksumType::Xxh3 => {
                let payload_hash = xxhash_rust::xxh3::xxh3_64(payload) as u32;
                payload_hash ^ u32::from(type_byte).wrapping_mul(0x6b90_83d9)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vector() {
        // RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(
            crc32c_extend(crc32c(b"hello "), b"world"),
            crc32c(b"hello world")
        );
    }

    #[test]
    fn every_type_notices_a_flipped_bit_and_the_type_byte() {
        for t in 1..=4 {
            let t = ChecksumType::from_u8(t).unwrap();
            let sum = t.block_checksum(b"some block", 0);
            assert_ne!(sum, t.block_checksum(b"some clock", 0));
            assert_ne!(sum, t.block_checksum(b"some block", 1));
        }
        assert!(ChecksumType::from_u8(5).is_err());
    }
}
