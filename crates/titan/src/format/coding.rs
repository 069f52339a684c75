//! Fixed-width and variable-length integers, and length-prefixed byte strings, as RocksDB writes
//! them: little-endian, LEB128 with the low group first, zigzag for signed numbers.

use crate::error::{Error, Result};

/// The longest encoding of a 64-bit varint, in bytes.
pub(crate) const MAX_VARINT64_LEN: usize = 10;

/// Appends `value` as LEB128.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` zigzag-encoded.
pub(crate) fn put_signed_varint(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends the length of `bytes` as a varint, then `bytes`.
pub(crate) fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The number of bytes `put_varint` would append.
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads encoded fields from a byte slice; every read checks bounds and fails with
/// [`ErrorKind::Corruption`](crate::ErrorKind::Corruption).
#[derive(Clone)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { bytes, position: 0 }
    }

    /// Bytes consumed so far.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The bytes that are left to read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.position >= self.bytes.len()
    }

    /// The next `n` bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let rest = self.rest();
        match rest.get(..n) {
            Some(taken) => {
                self.position += n;
                Ok(taken)
            }
            None => Err(cut_off(n, rest.len())),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A LEB128 number of at most 64 bits.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let rest = self.rest();
        let mut value = 0u64;
        for (i, &byte) in rest.iter().take(MAX_VARINT64_LEN).enumerate() {
            let group = u64::from(byte & 0x7f);
            if i == MAX_VARINT64_LEN - 1 && group > 1 {
                break;
            }
            value |= group << (7 * i);
            if byte < 0x80 {
                self.position += i + 1;
                return Ok(value);
            }
        }
        Err(Error::corruption("varint is cut off or too long"))
    }

    /// A LEB128 number that must fit 32 bits.
    #[inline]
    pub(crate) fn varint32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| Error::corruption("varint exceeds 32 bits"))
    }

    /// A zigzag-encoded signed number.
    pub(crate) fn signed_varint(&mut self) -> Result<i64> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    /// A varint length, then that many bytes.
    #[inline]
    pub(crate) fn length_prefixed(&mut self) -> Result<&'a [u8]> {
        let n = self.varint32()?;
        self.bytes(n as usize)
    }
}

#[cold]
fn cut_off(expected: usize, left: usize) -> Error {
    Error::corruption(format!("{expected} bytes expected, {left} left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value));
                put_signed_varint(&mut out, (value as i64).wrapping_neg());
                let mut d = Decoder::new(&out);
                assert_eq!(d.varint().unwrap(), value);
                assert_eq!(d.signed_varint().unwrap(), (value as i64).wrapping_neg());
                assert!(d.is_empty());
            }
        }
    }

    #[test]
    fn cut_off_and_overlong_input_is_corruption() {
        for bad in [&[0x80u8][..], &[0xff; 11], &[0x05, b'a'][..]] {
            assert!(
                Decoder::new(bad)
                    .length_prefixed()
                    .unwrap_err()
                    .is_corruption()
            );
        }
        assert!(Decoder::new(&[1, 2, 3]).u32().unwrap_err().is_corruption());
    }
}
