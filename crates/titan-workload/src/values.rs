//! Sizes and bytes of values.
//!
//! ```text
//! number of the key (8 bytes, little-endian) | bytes of a fixed random buffer
//! number of the key | place (20 bits) and check (44), little-endian | bytes from place + 16 on
//! ```
//!
//! So values cost almost nothing to make (they are slices of the buffer, into which the head is
//! copied temporarily), and show whether an engine returned the right one. The first form repeats
//! only after millions, and may be compressible. Of the second, [`Contents::Checked`], every byte
//! can be checked from the key alone, in another process too: the buffer is the same in every
//! process, and the check is a hash of number and place.
//!
//! Values shorter than their head are a prefix of it.

use titan::{Error, Result};

use crate::keys::scatter;
use crate::step::ValueSizes;

/// Bytes of the number of the key.
const NUMBER_BYTES: usize = 8;
/// Bytes of number, place and check.
const CHECKED_BYTES: usize = 16;
/// Offsets in the buffer at which values begin. It is a prime, so that sizes with common divisors
/// do not always meet the same few offsets.
const PLACES: u64 = 4_194_301;
/// The same for checked values: a power of two, since a place is a part of a word.
const CHECKED_PLACES: u64 = 1 << 20;
/// The unit in which processors read memory.
const CACHE_LINE: usize = 64;
/// The seed of the buffer. Values on disk depend on it: it never changes.
const BUFFER_SEED: u64 = 0x7469_7461_6e62_6e63;

/// The bytes of values after the number of their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Random ones.
    Random,
    /// Such that values shrink to about half: half of each 64 bytes is random.
    Compressible,
    /// Random ones that [`Values::check`] can check.
    Checked,
}

impl ValueSizes {
    /// The size of all values of this key.
    pub fn of(self, number: u64) -> u32 {
        match self {
            ValueSizes::Fixed(size) => size,
            ValueSizes::Pareto { mean, shape, max } => {
                // A number in (0, 1] determined by the key.
                let drawn = ((scatter(!number) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                let scale = mean * (1.0 - shape);
                let size = scale / shape * (drawn.powf(-shape) - 1.0);
                (size as u32).clamp(1, max)
            }
        }
    }

    fn largest(self) -> u32 {
        match self {
            ValueSizes::Fixed(size) => size,
            ValueSizes::Pareto { max, .. } => max,
        }
    }
}

/// Makes values. Each thread has its own.
pub struct Values {
    buffer: Vec<u8>,
    sizes: ValueSizes,
    checked: bool,
    places: u64,
    /// The offset at which the next value begins, below `places`.
    place: u64,
}

impl Values {
    /// The seed determines where in the buffer the first value begins.
    pub fn new(sizes: ValueSizes, contents: Contents, seed: u64) -> Self {
        let (checked, places, head) = match contents {
            Contents::Checked => (true, CHECKED_PLACES, CHECKED_BYTES),
            Contents::Random | Contents::Compressible => (false, PLACES, NUMBER_BYTES),
        };
        let mut buffer = vec![0; places as usize + sizes.largest() as usize + head];
        let mut random = fastrand::Rng::with_seed(BUFFER_SEED);
        for piece in buffer.chunks_mut(CACHE_LINE) {
            let random_bytes = match contents {
                Contents::Compressible => piece.len() / 2,
                Contents::Random | Contents::Checked => piece.len(),
            };
            random.fill(&mut piece[..random_bytes]);
        }
        Values {
            buffer,
            sizes,
            checked,
            places,
            place: seed % places,
        }
    }

    /// Calls `f` with a new value for the key of this number.
    pub fn with<R>(&mut self, number: u64, f: impl FnOnce(&[u8]) -> R) -> R {
        let size = self.sizes.of(number) as usize;
        let place = self.place;
        self.place = (place + size.max(1) as u64) % self.places;
        let bytes = head(number, place);
        let length = match self.checked {
            true => CHECKED_BYTES.min(size),
            false => NUMBER_BYTES.min(size),
        };
        let start = place as usize;
        let mut kept = [0; CHECKED_BYTES];
        kept[..length].copy_from_slice(&self.buffer[start..start + length]);
        self.buffer[start..start + length].copy_from_slice(&bytes[..length]);
        let result = f(&self.buffer[start..start + size]);
        self.buffer[start..start + length].copy_from_slice(&kept[..length]);
        result
    }

    /// Checks that `value` is one that [`Values::with`] makes for the key of this number if its
    /// contents are [`Contents::Checked`]; if not, says why.
    pub fn check(&self, number: u64, value: &[u8]) -> std::result::Result<(), String> {
        let size = self.sizes.of(number) as usize;
        if value.len() != size {
            return Err(format!("it has {} bytes instead of {size}", value.len()));
        }
        let word = value.get(NUMBER_BYTES..CHECKED_BYTES);
        let word = word.and_then(|bytes| bytes.try_into().ok());
        let place = word.map_or(0, u64::from_le_bytes) % CHECKED_PLACES;
        // If the value is too short to have a whole place, only the number can be compared with
        // the key.
        let known = match word {
            Some(_) => CHECKED_BYTES,
            None => size.min(NUMBER_BYTES),
        };
        if value[..known] != head(number, place)[..known] {
            return Err("it does not begin as a value of this key".to_owned());
        }
        let rest = value.get(CHECKED_BYTES..).unwrap_or_default();
        let expected = &self.buffer[place as usize + CHECKED_BYTES..];
        match rest.iter().zip(expected).position(|(a, b)| a != b) {
            Some(at) => Err(format!(
                "byte {} differs from the written one",
                at + CHECKED_BYTES
            )),
            None => Ok(()),
        }
    }
}

/// Number, place and check.
fn head(number: u64, place: u64) -> [u8; CHECKED_BYTES] {
    let hash = (number ^ place.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let word = place | (hash ^ (hash >> 32)) & !(CHECKED_PLACES - 1);
    let mut head = [0; CHECKED_BYTES];
    head[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
    head[NUMBER_BYTES..].copy_from_slice(&word.to_le_bytes());
    head
}

/// Reads every cache line of a value, and fails if its size or its number are not those of the key
/// of this number.
pub fn read(value: &[u8], number: u64, sizes: ValueSizes) -> Result<()> {
    let sum = value.iter().step_by(CACHE_LINE).fold(0_u8, |a, b| a ^ b);
    std::hint::black_box(sum);
    let head = &number.to_le_bytes()[..NUMBER_BYTES.min(value.len())];
    if value.len() == sizes.of(number) as usize && value.starts_with(head) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "the value of key {number} is that of another key: {} bytes that begin with {:02x?}",
        value.len(),
        &value[..value.len().min(NUMBER_BYTES)]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_whose_they_are() {
        let sizes = ValueSizes::Fixed(100);
        let mut values = Values::new(sizes, Contents::Random, u64::MAX);
        let first = values.with(5, <[u8]>::to_vec);
        let second = values.with(5, <[u8]>::to_vec);
        assert_ne!(first, second, "an overwrite changes the value");
        assert!(read(&first, 5, sizes).is_ok() && read(&second, 5, sizes).is_ok());
        assert!(read(&first, 6, sizes).is_err());
        assert!(read(&first[..99], 5, sizes).is_err());
    }

    #[test]
    fn sizes_have_the_mean_and_the_bounds_that_were_asked_for() {
        let sizes = ValueSizes::Pareto {
            mean: 1024.0,
            shape: 0.5,
            max: 1 << 20,
        };
        let all: Vec<u32> = (0..200_000).map(|n| sizes.of(n)).collect();
        let mean = all.iter().map(|n| f64::from(*n)).sum::<f64>() / all.len() as f64;
        assert!((950.0..1100.0).contains(&mean), "{mean}");
        assert!(all.iter().all(|n| (1..=1 << 20).contains(n)));
        assert_eq!(sizes.of(17), sizes.of(17));
        let mut values = Values::new(sizes, Contents::Compressible, 3);
        for number in 0..100 {
            let value = values.with(number, <[u8]>::to_vec);
            assert!(read(&value, number, sizes).is_ok());
        }
    }

    #[test]
    fn values_are_recognised_and_every_wrong_byte_is_found() {
        for length in [0, 1, 7, 8, 15, 16, 17, 100, 5000] {
            let sizes = ValueSizes::Fixed(length);
            let mut writer = Values::new(sizes, Contents::Checked, u64::MAX - 3);
            let reader = Values::new(sizes, Contents::Checked, 0);
            for number in [0, 1, u64::MAX] {
                let mut value = writer.with(number, <[u8]>::to_vec);
                assert_eq!(reader.check(number, &value), Ok(()), "{length} {number}");
                for at in 0..value.len() {
                    value[at] ^= 1;
                    // Only a changed byte of a truncated place goes unnoticed.
                    let hidden = length < 16 && at >= 8;
                    let unnoticed = reader.check(number, &value).is_ok();
                    assert_eq!(unnoticed, hidden, "{length} {at}");
                    value[at] ^= 1;
                }
                assert!(reader.check(number ^ 1, &value).is_err() || length == 0);
                value.push(0);
                assert!(reader.check(number, &value).is_err(), "{length}");
            }
        }
    }

    /// Databases that earlier versions wrote must pass the check: these bytes never change.
    #[test]
    fn checked_values_have_the_bytes_that_they_always_had() {
        let place = CHECKED_PLACES - 1;
        let mut values = Values::new(ValueSizes::Fixed(5000), Contents::Checked, place);
        let value = values.with(3, <[u8]>::to_vec);
        let mut random = fastrand::Rng::with_seed(BUFFER_SEED);
        let words = (0..).flat_map(|_| random.u64(..).to_le_bytes());
        let rest: Vec<u8> = words.skip(place as usize + 16).take(5000 - 16).collect();
        assert_eq!(value[..8], 3_u64.to_le_bytes());
        assert!(value[16..] == rest, "the buffer is the generator's words");
        let word = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| value[8 + at]));
        assert_eq!(word % CHECKED_PLACES, place);
        assert_eq!(values.check(3, &value), Ok(()));
    }
}
