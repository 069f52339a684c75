//! The keys and values that steps write.
//!
//! ```text
//! key    number (8 bytes, most significant first) | '0' * 8          db_bench's form
//! value  number (8 bytes, little-endian) | place (20 bits) and check (44), little-endian
//!        | random bytes
//! ```
//!
//! The random bytes are those of a fixed buffer from `place + 16` on, the same in every process;
//! the check is a hash of number and place. So values do not compress, cost nothing to make (they
//! are slices of the buffer, into which the 16 bytes are copied temporarily), and can be checked
//! from the key alone. Values shorter than 16 bytes are a prefix of this.

use std::ops::Range;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;
/// Bytes before the random ones.
const HEAD_BYTES: usize = 16;
/// Offsets in the buffer at which values begin.
const PLACES: u64 = 1 << 20;
/// The seed of the buffer. Values on disk depend on it: it never changes.
const BUFFER_SEED: u64 = 0x7469_7461_6e62_6e63;

/// A key as the steps write it.
pub(super) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of a key, if a step can have written the key.
pub(super) fn number(key: &[u8]) -> Option<u64> {
    let (number, rest) = key.split_first_chunk::<8>()?;
    (rest == b"00000000").then(|| u64::from_be_bytes(*number))
}

/// Makes and checks values. Each thread has its own.
pub(super) struct Values {
    buffer: Vec<u8>,
    length: usize,
    /// Offset at which the next value begins, below [`PLACES`].
    place: u64,
}

/// Place and check in one word.
fn place_word(number: u64, place: u64) -> u64 {
    let hash = (number ^ place.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    place | (hash ^ (hash >> 32)) & !(PLACES - 1)
}

impl Values {
    /// For values of `length` bytes, the first of them at `place`.
    pub(super) fn new(length: u32, place: u64) -> Self {
        let length = length as usize;
        let mut random = fastrand::Rng::with_seed(BUFFER_SEED);
        let bytes = PLACES as usize + length.max(HEAD_BYTES);
        // Word by word, so that a shorter buffer is a prefix of a longer one.
        let words = (0..bytes.div_ceil(8)).flat_map(|_| random.u64(..).to_le_bytes());
        Values {
            buffer: words.take(bytes).collect(),
            length,
            place: place % PLACES,
        }
    }

    /// Calls `f` with a new value for the key of this number.
    pub(super) fn with<R>(&mut self, number: u64, f: impl FnOnce(&[u8]) -> R) -> R {
        let (place, range) = (self.place, self.range(self.place));
        self.place = (place + self.length.max(1) as u64) % PLACES;
        let head = range.start..range.start + HEAD_BYTES;
        let mut kept = [0; HEAD_BYTES];
        kept.copy_from_slice(&self.buffer[head.clone()]);
        self.buffer[head.clone()].copy_from_slice(&head_of(number, place));
        let result = f(&self.buffer[range]);
        self.buffer[head].copy_from_slice(&kept);
        result
    }

    fn range(&self, place: u64) -> Range<usize> {
        let start = place as usize;
        start..start + self.length
    }

    /// Checks that `value` is one that [`Values::with`] makes for the key of this number; if not,
    /// says why.
    pub(super) fn check(&self, number: u64, value: &[u8]) -> Result<(), String> {
        if value.len() != self.length {
            return Err(format!(
                "it has {} bytes instead of {}",
                value.len(),
                self.length
            ));
        }
        let word = value
            .get(8..HEAD_BYTES)
            .and_then(|bytes| bytes.try_into().ok());
        let place = word.map_or(0, u64::from_le_bytes) % PLACES;
        let (head, rest) = value.split_at(self.length.min(HEAD_BYTES));
        // If the value is too short to have a whole place, only the number can be compared with
        // the key.
        let known = if self.length < HEAD_BYTES {
            head.len().min(8)
        } else {
            head.len()
        };
        if head[..known] != head_of(number, place)[..known] {
            return Err("it does not begin as a value of this key".to_owned());
        }
        let expected = &self.buffer[self.range(place)][head.len()..];
        match rest.iter().zip(expected).position(|(a, b)| a != b) {
            Some(at) => Err(format!("byte {} is not what was written", at + head.len())),
            None => Ok(()),
        }
    }
}

fn head_of(number: u64, place: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..].copy_from_slice(&place_word(number, place).to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_foreign_ones_do_not() {
        assert_eq!(key(258), *b"\0\0\0\0\0\0\x01\x0200000000");
        assert_eq!(number(&key(u64::MAX)), Some(u64::MAX));
        for foreign in [
            &b""[..],
            b"12345678",
            b"1234567800000001",
            b"12345678000000000",
        ] {
            assert_eq!(number(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn values_are_recognised_and_every_wrong_byte_is_found() {
        for length in [0, 1, 7, 8, 15, 16, 17, 100, 5000] {
            let mut writer = Values::new(length, u64::MAX - 3);
            let reader = Values::new(length, 0);
            for number in [0, 1, u64::MAX] {
                let mut value = writer.with(number, <[u8]>::to_vec);
                assert_eq!(reader.check(number, &value), Ok(()), "{length} {number}");
                for at in 0..value.len() {
                    value[at] ^= 1;
                    // Only a changed byte of a truncated place goes unnoticed.
                    let hidden = length < 16 && at >= 8;
                    assert_eq!(
                        reader.check(number, &value).is_ok(),
                        hidden,
                        "{length} {at}"
                    );
                    value[at] ^= 1;
                }
                assert!(reader.check(number ^ 1, &value).is_err() || length == 0);
                value.push(0);
                assert!(reader.check(number, &value).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn places_at_the_end_of_the_buffer_are_inside_it() {
        let mut values = Values::new(5000, PLACES - 1);
        let value = values.with(3, <[u8]>::to_vec);
        assert_eq!(values.check(3, &value), Ok(()));
    }
}
