//! Values that describe themselves, for readers that do not know what was written.
//!
//! ```text
//! seed u64 | length u64 | length of the key u8 | key | family's name | checksum u64 | filler
//! ```
//!
//! Checksum and filler are determined by the rest: a value of another key or write is recognised as
//! such, and a torn or damaged one is not a value at all.

use std::fmt::Write as _;

use super::{Key, Value};

/// Bytes before the key.
const FRONT: usize = 17;

/// The length of the shortest value of a key.
pub fn shortest(family: &str, key: &[u8]) -> usize {
    FRONT + key.len() + family.len() + size_of::<u64>()
}

/// The bytes of a value of a key; its length is at least [`shortest`].
pub fn bytes(family: &str, key: &[u8], value: Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len);
    bytes.extend_from_slice(&value.seed.to_le_bytes());
    bytes.extend_from_slice(&(value.len as u64).to_le_bytes());
    bytes.push(key.len() as u8);
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(family.as_bytes());
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    let mut rng = fastrand::Rng::with_seed(checksum);
    let filled = bytes.len();
    bytes.resize(value.len.max(filled), 0);
    let filler = bytes.get_mut(filled..).unwrap_or_default();
    match rng.bool() {
        true => rng.fill(filler),
        // Compressible bytes.
        false => {
            let letter = rng.u8(b'a'..=b'y');
            for (i, byte) in filler.iter_mut().enumerate() {
                *byte = letter + (i % 32 == 0) as u8;
            }
        }
    }
    bytes
}

/// The value that `bytes`, read at a key, are.
///
/// # Errors
/// Why they are not a value that was ever written there.
pub fn read(family: &str, key: &[u8], bytes: &[u8]) -> Result<Value, String> {
    let mut wrong = format!("{family} {} ({} bytes) holds ", Key(key), bytes.len());
    let number = |at: usize| -> Option<u64> {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let (Some(seed), Some(len)) = (number(0), number(8)) else {
        return Err(wrong + "a value cut short");
    };
    let value = Value {
        seed,
        len: len as usize,
    };
    let name_len = bytes.get(FRONT - 1).map_or(0, |len| usize::from(*len));
    let name = bytes.get(FRONT..FRONT + name_len).unwrap_or_default();
    let _ = if name != key {
        write!(wrong, "a value of key {}, seed {seed}", Key(name))
    } else if value.len != bytes.len() {
        write!(wrong, "a value that claims {len} bytes, seed {seed}")
    } else {
        let expected = self::bytes(family, key, value);
        if expected == bytes {
            return Ok(value);
        }
        let same = expected.iter().zip(bytes).take_while(|(a, b)| a == b);
        write!(wrong, "not the value {value} from byte {} on", same.count())
    };
    Err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_recognised_and_anything_else_is_not() {
        let key = b"02.0000007";
        for seed in 0..300 {
            let value = Value {
                seed,
                len: shortest("blobs", key) + seed as usize * 13,
            };
            let mut bytes = bytes("blobs", key, value);
            assert_eq!(read("blobs", key, &bytes), Ok(value));
            let other = read("blobs", b"02.0000008", &bytes).unwrap_err();
            assert!(other.contains("of key 02.0000007"), "{other}");
            read("inline", key, &bytes).unwrap_err();
            let at = seed as usize * 97 % bytes.len();
            bytes[at] ^= 4;
            read("blobs", key, &bytes).expect_err(&format!("seed {seed}, byte {at}"));
            bytes[at] ^= 4;
            bytes.pop();
            read("blobs", key, &bytes).unwrap_err();
        }
    }
}
