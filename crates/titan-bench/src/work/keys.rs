//! Keys, and the choice of the next one.

use anyhow::{Result, anyhow};
use rand_distr::{Distribution, Zipf};

use super::{Choice, KeyOrder};

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 16;

/// A key as engines see it.
pub(crate) type Key = [u8; KEY_BYTES];

/// The key of this number: 16 hexadecimal digits, so that it is readable in every engine's tools.
pub(crate) fn key(number: u64, order: KeyOrder) -> Key {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let sorted = match order {
        KeyOrder::Numbered => number,
        KeyOrder::Hashed => scatter(number),
    };
    let mut key = [0; KEY_BYTES];
    for (at, digit) in key.iter_mut().enumerate() {
        *digit = DIGITS[(sorted >> (60 - 4 * at) & 15) as usize];
    }
    key
}

/// The number of a key, if it is one of these keys.
pub(crate) fn number(key: &[u8], order: KeyOrder) -> Option<u64> {
    let text = std::str::from_utf8(key)
        .ok()
        .filter(|text| text.len() == KEY_BYTES)?;
    let sorted = u64::from_str_radix(text, 16).ok()?;
    Some(match order {
        KeyOrder::Numbered => sorted,
        KeyOrder::Hashed => gather(sorted),
    })
}

/// A permutation of numbers without visible order (the finaliser of MurmurHash 3, which is
/// invertible).
pub(crate) fn scatter(number: u64) -> u64 {
    let mixed = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

/// Inverts [`scatter`]: the factors are the inverses of its own.
fn gather(number: u64) -> u64 {
    let mixed = (number ^ (number >> 33)).wrapping_mul(0x9cb4_b2f8_1293_37db);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0x4f74_430c_22a5_4005);
    mixed ^ (mixed >> 33)
}

/// Draws the numbers of keys. Each thread has its own.
pub(crate) struct Chooser {
    choice: Choice,
    /// Draws ranks, over the number of keys at the start: so popular keys stay popular while keys
    /// are added, and nothing has to be recomputed.
    ranks: Option<Zipf<f64>>,
    records: u64,
}

impl Chooser {
    /// For `records` existing keys.
    pub(crate) fn new(choice: Choice, records: u64) -> Result<Self> {
        let ranks = match choice {
            Choice::Uniform => None,
            Choice::Zipf(skew) | Choice::Latest(skew) => {
                Some(Zipf::new(records.max(1) as f64, skew).map_err(|e| anyhow!("{e}"))?)
            }
        };
        Ok(Chooser {
            choice,
            ranks,
            records: records.max(1),
        })
    }

    /// The next number below `records`, the present number of keys.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng, records: u64) -> u64 {
        let records = records.max(1);
        let rank = |random: &mut fastrand::Rng| {
            let rank = self
                .ranks
                .map_or(1.0, |ranks| ranks.sample(&mut Source(random)));
            rank as u64 - 1
        };
        match self.choice {
            Choice::Uniform => random.u64(..records),
            Choice::Zipf(_) => scatter(rank(random)) % self.records,
            Choice::Latest(_) => records - 1 - rank(random).min(records - 1),
        }
    }
}

/// The fast generator, for distributions that need one of `rand`'s.
struct Source<'a>(&'a mut fastrand::Rng);

impl rand::TryRng for Source<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0.u32(..))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.u64(..))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_they_should() {
        let numbered: Vec<Key> = (0..1000).map(|n| key(n * n, KeyOrder::Numbered)).collect();
        assert!(numbered.is_sorted());
        assert_eq!(&key(0xabc, KeyOrder::Numbered), b"0000000000000abc");
        let mut hashed: Vec<Key> = (0..10_000).map(|n| key(n, KeyOrder::Hashed)).collect();
        assert!(!hashed.is_sorted());
        hashed.sort_unstable();
        hashed.dedup();
        assert_eq!(hashed.len(), 10_000);
        for order in [KeyOrder::Numbered, KeyOrder::Hashed] {
            for expected in [0, 1, 77, u64::MAX / 3, u64::MAX] {
                assert_eq!(number(&key(expected, order), order), Some(expected));
            }
            assert_eq!(number(b"00000000000000zz", order), None);
            assert_eq!(number(b"0", order), None);
        }
    }

    /// How many of 100,000 draws are the most popular of 1,000 keys, and which key that is.
    fn favourite(choice: Choice) -> (usize, usize) {
        let chooser = Chooser::new(choice, 1000).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut counts = vec![0; 1000];
        for _ in 0..100_000 {
            counts[chooser.draw(&mut random, 1000) as usize] += 1;
        }
        let most = (0..1000).max_by_key(|at| counts[*at]).unwrap();
        (most, counts[most])
    }

    #[test]
    fn draws_are_as_skewed_as_was_asked() {
        let (_, uniform) = favourite(Choice::Uniform);
        assert!(uniform < 160, "{uniform}");
        // The sum of 1 / k^0.99 for k up to 1,000 is 7.73.
        let (at, zipf) = favourite(Choice::Zipf(0.99));
        assert!((12_000..14_000).contains(&zipf), "{zipf}");
        assert_eq!(at as u64, scatter(0) % 1000);
        assert_eq!(favourite(Choice::Latest(0.99)).0, 999);
    }
}
