//! Garbage of a table over time: each amount counts from its moment on.

use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};
use crate::format::total;

/// Number of moments that are left when neighbours are joined.
const MAX_MOMENTS: usize = 64;

/// Bytes that are garbage from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GarbageFrom {
    /// A number whose meaning is the application's: a timestamp, a version, a day.
    pub moment: u64,
    /// Bytes that become garbage then.
    pub bytes: u64,
}

/// Bytes of a table that are garbage, by moment.
///
/// At most 128 moments are kept apart. Beyond that, neighbours are joined at the later moment:
/// bytes count as garbage too late rather than too early.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GarbageByMoment {
    /// By ascending moment, each moment once. So few that a search in one piece of memory is faster
    /// than a tree.
    sums: Vec<GarbageFrom>,
}

impl GarbageByMoment {
    /// Adds bytes that are garbage from `moment` on; from 0 on, they are garbage already. Cost:
    /// a search in at most 128 moments, and a move of some of them.
    pub fn add(&mut self, moment: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        match self.sums.binary_search_by_key(&moment, |sum| sum.moment) {
            Ok(at) => {
                if let Some(sum) = self.sums.get_mut(at) {
                    sum.bytes = sum.bytes.saturating_add(bytes);
                }
            }
            Err(at) => self.sums.insert(at, GarbageFrom { moment, bytes }),
        }
        // Twice as many are let in before they are joined, so that joining is rare.
        if self.sums.len() > 2 * MAX_MOMENTS {
            self.join();
        }
    }

    /// Everything, by ascending moment.
    pub fn iter(&self) -> impl Iterator<Item = GarbageFrom> + '_ {
        self.sums.iter().copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// The bytes that become garbage after `seen` and not after `moment`.
    pub(crate) fn between(&self, seen: Option<u64>, moment: u64) -> u64 {
        let again = mutant!(reported_garbage_for_ever);
        let moment = match mutant!(reported_garbage_too_early) {
            true => u64::MAX,
            false => moment,
        };
        let until = self.sums.iter().take_while(|sum| sum.moment <= moment);
        let unseen = until.filter(|sum| again || seen.is_none_or(|seen| sum.moment > seen));
        total(unseen.map(|sum| sum.bytes))
    }

    pub(crate) fn absorb(&mut self, other: &Self) {
        for sum in &other.sums {
            self.add(sum.moment, sum.bytes);
        }
    }

    /// Joins neighbours until there are at most [`MAX_MOMENTS`].
    fn join(&mut self) {
        while self.sums.len() > MAX_MOMENTS {
            let pairs = self.sums.chunks(2).filter_map(|pair| {
                let bytes = pair.iter().map(|sum| sum.bytes);
                let last = pair.last()?;
                Some(GarbageFrom {
                    moment: last.moment,
                    bytes: bytes.fold(0, u64::saturating_add),
                })
            });
            self.sums = pairs.collect();
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.sums.len() as u64);
        for sum in &self.sums {
            put_varint(out, sum.moment);
            put_varint(out, sum.bytes);
        }
    }

    pub(super) fn decode(d: &mut Decoder<'_>) -> Result<Self> {
        let mut found = GarbageByMoment::default();
        let n = d.varint()?;
        if n > 2 * MAX_MOMENTS as u64 {
            return Err(Error::corruption("garbage of too many moments"));
        }
        for _ in 0..n {
            let (moment, bytes) = (d.varint()?, d.varint()?);
            found.add(moment, bytes);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_between_two_moments() {
        let mut garbage = GarbageByMoment::default();
        for (moment, bytes) in [(0, 1), (5, 10), (5, 20), (9, 100), (7, 0)] {
            garbage.add(moment, bytes);
        }
        assert_eq!(garbage.between(None, 0), 1);
        assert_eq!(garbage.between(None, 4), 1);
        assert_eq!(garbage.between(None, 5), 31);
        assert_eq!(garbage.between(Some(0), 5), 30);
        assert_eq!(garbage.between(Some(5), 9), 100);
        assert_eq!(garbage.between(Some(9), 9), 0);
        assert_eq!(garbage.between(None, u64::MAX), 131);
        assert_eq!(garbage.iter().count(), 3);
    }

    #[test]
    fn many_moments_are_joined_at_the_later_ones() {
        let mut garbage = GarbageByMoment::default();
        let mut all = Vec::new();
        for n in 0..10_000_u64 {
            let moment = n * 7919 % 10_007;
            garbage.add(moment, 1);
            all.push(moment);
            assert!(garbage.iter().count() <= 2 * MAX_MOMENTS);
        }
        assert_eq!(garbage.between(None, u64::MAX), 10_000);
        for moment in [0, 1, 17, 5_000, 9_999, 20_000] {
            let true_bytes = all.iter().filter(|from| **from <= moment).count() as u64;
            assert!(garbage.between(None, moment) <= true_bytes, "too early");
        }
        let mut bytes = Vec::new();
        garbage.encode(&mut bytes);
        let mut d = Decoder::new(&bytes);
        assert_eq!(GarbageByMoment::decode(&mut d).unwrap(), garbage);
        assert!(d.is_empty());
    }
}
