//! Sizes and bytes of values.
//!
//! ```text
//! number of the key (8 bytes, little-endian) | bytes of a fixed random buffer
//! ```
//!
//! So values cost almost nothing to make, repeat only after millions, and show whether an engine
//! returned the right one.

use anyhow::{Result, ensure};

use super::ValueSizes;
use super::keys::scatter;

const HEAD_BYTES: usize = 8;
/// Offsets in the buffer at which values begin. It is a prime, so that sizes with common divisors
/// do not always meet the same few offsets.
const PLACES: usize = 4_194_301;
/// The unit in which processors read memory.
const CACHE_LINE: usize = 64;

impl ValueSizes {
    /// The size of all values of this key.
    pub(crate) fn of(self, number: u64) -> u32 {
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
pub(crate) struct Values {
    buffer: Vec<u8>,
    sizes: ValueSizes,
    place: usize,
}

impl Values {
    /// Compressible values shrink to about half.
    pub(crate) fn new(sizes: ValueSizes, compressible: bool, seed: u64) -> Self {
        let mut buffer = vec![0; PLACES + sizes.largest() as usize + HEAD_BYTES];
        let mut random = fastrand::Rng::with_seed(0x7469_7461_6e62_6e63);
        for piece in buffer.chunks_mut(CACHE_LINE) {
            let random_bytes = if compressible {
                piece.len() / 2
            } else {
                piece.len()
            };
            random.fill(&mut piece[..random_bytes]);
        }
        Values {
            buffer,
            sizes,
            place: seed as usize % PLACES,
        }
    }

    /// Calls `f` with a new value for the key of this number.
    pub(crate) fn with<R>(&mut self, number: u64, f: impl FnOnce(&[u8]) -> R) -> R {
        let size = self.sizes.of(number) as usize;
        let place = self.place;
        self.place = (place + size.max(1)) % PLACES;
        let head = place..place + HEAD_BYTES.min(size);
        let mut kept = [0; HEAD_BYTES];
        let kept = &mut kept[..head.len()];
        kept.copy_from_slice(&self.buffer[head.clone()]);
        self.buffer[head.clone()].copy_from_slice(&number.to_le_bytes()[..head.len()]);
        let result = f(&self.buffer[place..place + size]);
        self.buffer[head].copy_from_slice(kept);
        result
    }
}

/// Reads every cache line of a value, and fails if it is not one of the key of this number.
pub(crate) fn read(value: &[u8], number: u64, sizes: ValueSizes) -> Result<()> {
    let sum = value.iter().step_by(CACHE_LINE).fold(0_u8, |a, b| a ^ b);
    std::hint::black_box(sum);
    let head = &number.to_le_bytes()[..HEAD_BYTES.min(value.len())];
    ensure!(
        value.len() == sizes.of(number) as usize && value.starts_with(head),
        "the value of key {number} is that of another key: {} bytes that begin with {:02x?}",
        value.len(),
        &value[..value.len().min(HEAD_BYTES)]
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_whose_they_are() {
        let sizes = ValueSizes::Fixed(100);
        let mut values = Values::new(sizes, false, u64::MAX);
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
        let mut values = Values::new(sizes, true, 3);
        for number in 0..100 {
            let value = values.with(number, <[u8]>::to_vec);
            assert!(read(&value, number, sizes).is_ok());
        }
    }
}
