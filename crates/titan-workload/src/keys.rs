//! Keys, and the choice of the next one.

use rand_distr::{Distribution, Zipf};
use titan::{Error, Result};

use crate::step::{Choice, KeyOrder};

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// A key as engines see it.
pub type Key = [u8; KEY_BYTES];

/// Bytes after the number in db_bench's keys.
const DB_BENCH_TAIL: &[u8; 8] = b"00000000";

/// The key of this number: 16 hexadecimal digits, so that it is readable in every engine's tools;
/// or db_bench's form.
pub fn key(number: u64, order: KeyOrder) -> Key {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let sorted = match order {
        KeyOrder::Numbered => number,
        KeyOrder::Hashed => scatter(number),
        KeyOrder::DbBench => {
            let mut key = [0; KEY_BYTES];
            key[..8].copy_from_slice(&number.to_be_bytes());
            key[8..].copy_from_slice(DB_BENCH_TAIL);
            return key;
        }
    };
    let mut key = [0; KEY_BYTES];
    for (at, digit) in key.iter_mut().enumerate() {
        *digit = DIGITS[(sorted >> (60 - 4 * at) & 15) as usize];
    }
    key
}

/// The number of a key, if it is one of these keys.
pub fn number(key: &[u8], order: KeyOrder) -> Option<u64> {
    if order == KeyOrder::DbBench {
        let (number, tail) = key.split_first_chunk::<8>()?;
        return (tail == DB_BENCH_TAIL).then(|| u64::from_be_bytes(*number));
    }
    let text = std::str::from_utf8(key)
        .ok()
        .filter(|text| text.len() == KEY_BYTES)?;
    let sorted = u64::from_str_radix(text, 16).ok()?;
    Some(match order {
        KeyOrder::Hashed => gather(sorted),
        KeyOrder::Numbered | KeyOrder::DbBench => sorted,
    })
}

/// A permutation of numbers without visible order (the finaliser of MurmurHash 3, which is
/// invertible).
pub fn scatter(number: u64) -> u64 {
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
pub struct Chooser {
    choice: Choice,
    /// Draws ranks, over the number of keys at the start: so popular keys stay popular while keys
    /// are added, and nothing has to be recomputed.
    ranks: Option<Zipf<f64>>,
    records: u64,
    /// The distance between the keys of consecutive ranks, for [`Choice::ZipfOfEach`]: it has no
    /// divisor in common with the number of keys.
    distance: u64,
}

impl Chooser {
    /// For `records` existing keys.
    pub fn new(choice: Choice, records: u64) -> Result<Self> {
        let ranks = match choice {
            Choice::Uniform => None,
            Choice::Zipf(skew) | Choice::ZipfOfEach(skew) | Choice::Latest(skew) => {
                let ranks = Zipf::new(records.max(1) as f64, skew);
                let wrong = |e| Error::invalid_argument(format!("a Zipf exponent of {skew}: {e}"));
                Some(ranks.map_err(wrong)?)
            }
        };
        let records = records.max(1);
        let golden = (records as f64 * 0.618_033_988_749_895) as u64;
        let mut distances = golden..=records;
        let distance = distances.find(|distance| greatest_common_divisor(*distance, records) == 1);
        Ok(Chooser {
            choice,
            ranks,
            records,
            distance: distance.unwrap_or(1),
        })
    }

    /// The key of a rank from 0 on, if every key has one.
    fn of_rank(&self, rank: u64) -> u64 {
        let at = u128::from(rank + 1) * u128::from(self.distance) % u128::from(self.records);
        at as u64
    }

    /// The next number below `records`, the present number of keys.
    pub fn draw(&self, random: &mut fastrand::Rng, records: u64) -> u64 {
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
            Choice::ZipfOfEach(_) => self.of_rank(rank(random)),
            Choice::Latest(_) => records - 1 - rank(random).min(records - 1),
        }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => greatest_common_divisor(b, a % b),
    }
}

/// The fast generator, for distributions that need one of `rand`'s.
struct Source<'a>(&'a mut fastrand::Rng);

impl rand::TryRng for Source<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> std::result::Result<u32, Self::Error> {
        Ok(self.0.u32(..))
    }

    fn try_next_u64(&mut self) -> std::result::Result<u64, Self::Error> {
        Ok(self.0.u64(..))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> std::result::Result<(), Self::Error> {
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
        assert_eq!(
            &key(258, KeyOrder::DbBench),
            b"\0\0\0\0\0\0\x01\x0200000000"
        );
        for order in [KeyOrder::Numbered, KeyOrder::Hashed, KeyOrder::DbBench] {
            for expected in [0, 1, 77, u64::MAX / 3, u64::MAX] {
                assert_eq!(number(&key(expected, order), order), Some(expected));
            }
            assert_eq!(number(b"00000000000000zz", order), None);
            for foreign in [&b""[..], b"0", b"12345678", b"12345678000000000"] {
                assert_eq!(number(foreign, order), None, "{foreign:?}");
            }
        }
    }

    /// Number of 100,000 draws that are the most popular of 1,000 keys, and that key.
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

    #[test]
    fn every_key_has_a_rank_and_few_are_drawn_often() {
        for keys in [1, 2, 64, 1000, 4096, 99_991] {
            let chooser = Chooser::new(Choice::ZipfOfEach(0.99), keys).unwrap();
            let distinct: std::collections::BTreeSet<u64> =
                (0..keys).map(|rank| chooser.of_rank(rank)).collect();
            assert_eq!(distinct.len() as u64, keys);
            let mut random = fastrand::Rng::with_seed(1);
            let mut drawn = vec![0u32; keys as usize];
            (0..10_000).for_each(|_| drawn[chooser.draw(&mut random, keys) as usize] += 1);
            drawn.sort_unstable();
            let most: u32 = drawn.iter().rev().take(keys.div_ceil(10) as usize).sum();
            assert!(keys < 10 || most > 5_000, "{keys}: {most}");
        }
    }
}
