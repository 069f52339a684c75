//! Which sequence numbers had been written by which time.
//!
//! A pair `(sequence, time)` says that everything up to `sequence` had been written by `time`, in
//! seconds since 1970. So the time of the first pair at or after an entry is not before the entry
//! was written. Leaving a pair out makes entries look younger, never older.
//!
//! Tables have pairs as RocksDB's property `rocksdb.seqno.time.map`, whose pairs say the same:
//!
//! ```text
//! count | count * { sequence - the one before | time - the one before }      all varints
//! ```

use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::format::coding::{Decoder, put_varint};

/// The most pairs of one list.
const MAX_PAIRS: usize = 512;

/// One pair.
pub(crate) type SequenceTime = (SequenceNumber, u64);

/// Pairs, in which both numbers ascend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceTimes {
    pairs: Vec<SequenceTime>,
    /// For the sequence number zero, which RocksDB gives to old entries. Not encoded.
    zero: Option<u64>,
}

impl SequenceTimes {
    /// The pairs among these that say something, in any order. If clocks disagree, the earlier time
    /// of a later number counts for the numbers before it too: they were written before.
    pub(crate) fn of(mut pairs: Vec<SequenceTime>) -> Self {
        pairs.sort_unstable();
        let mut useful: Vec<SequenceTime> = Vec::with_capacity(pairs.len());
        for (sequence, time) in pairs.into_iter().rev() {
            match useful.last_mut() {
                Some((_, earliest)) if time >= *earliest => {}
                Some(same) if same.0 == sequence => same.1 = time,
                _ => useful.push((sequence, time)),
            }
        }
        useful.reverse();
        SequenceTimes {
            pairs: useful,
            zero: None,
        }
    }

    /// With a time by which everything with the sequence number zero had been written.
    pub(crate) fn with_zero(self, zero: Option<u64>) -> Self {
        SequenceTimes { zero, ..self }
    }

    /// A time by which the entry had been written, if one is known.
    pub(crate) fn written_by(&self, sequence: SequenceNumber) -> Option<u64> {
        if sequence == SequenceNumber::ZERO {
            return self.zero;
        }
        let early = mutant!(written_before_it_was);
        let at = self.pairs.partition_point(|pair| pair.0 < sequence);
        let pair = self.pairs.get(at.saturating_sub(usize::from(early)))?;
        Some(pair.1)
    }

    /// The pairs that matter for entries from `smallest` to `largest`.
    pub(crate) fn between(&self, smallest: SequenceNumber, largest: SequenceNumber) -> Self {
        let first = self.pairs.partition_point(|pair| pair.0 < smallest);
        let last = self.pairs.partition_point(|pair| pair.0 < largest);
        let pairs = self.pairs.get(first..self.pairs.len().min(last + 1));
        SequenceTimes {
            pairs: pairs.unwrap_or_default().to_vec(),
            zero: None,
        }
    }

    /// One pair for each `spacing` seconds, and not too many.
    pub(crate) fn thinned(mut self, spacing: u64) -> Self {
        let mut spacing = spacing.max(1);
        loop {
            let mut kept: Vec<SequenceTime> = Vec::new();
            for pair in self.pairs {
                match kept.last_mut() {
                    Some(last) if last.1 / spacing == pair.1 / spacing => *last = pair,
                    _ => kept.push(pair),
                }
            }
            self.pairs = kept;
            if self.pairs.len() <= MAX_PAIRS {
                return self;
            }
            spacing = spacing.saturating_mul(2);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    pub(crate) fn pairs(&self) -> &[SequenceTime] {
        &self.pairs
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.pairs.len() as u64);
        let mut before = (0, 0);
        for (sequence, time) in &self.pairs {
            put_varint(&mut out, sequence.0.wrapping_sub(before.0));
            put_varint(&mut out, time.wrapping_sub(before.1));
            before = (sequence.0, *time);
        }
        out
    }

    /// Reads the encoding.
    ///
    /// # Errors
    /// `Corruption`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut d = Decoder::new(bytes);
        let too_large = || Error::corruption("a sequence number or time that is too large");
        let mut pairs = Vec::new();
        let mut before = (0_u64, 0_u64);
        for _ in 0..d.varint()? {
            let sequence = before.0.checked_add(d.varint()?);
            let time = before.1.checked_add(d.varint()?);
            before = sequence.zip(time).ok_or_else(too_large)?;
            if before.0 > SequenceNumber::MAX.0 {
                return Err(too_large());
            }
            pairs.push((SequenceNumber(before.0), before.1));
        }
        match d.is_empty() {
            true => Ok(SequenceTimes::of(pairs)),
            false => Err(Error::corruption("bytes after the times of writes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pairs: &[(u64, u64)]) -> SequenceTimes {
        let pairs = pairs.iter().map(|(s, t)| (SequenceNumber(*s), *t));
        SequenceTimes::of(pairs.collect())
    }

    #[test]
    fn the_encoding_is_that_of_rocksdb_and_comes_back() {
        let times = times(&[(10, 500), (20, 600), (300, 90_000)]);
        let encoded = times.encode();
        let expected = [3, 10, 0xf4, 3, 10, 100, 0x98, 2, 0xb8, 0xba, 5];
        assert_eq!(encoded, expected);
        assert_eq!(SequenceTimes::decode(&encoded).unwrap(), times);
        for cut in 0..encoded.len() {
            assert!(
                SequenceTimes::decode(&encoded[..cut])
                    .unwrap_err()
                    .is_corruption()
            );
        }
        assert!(SequenceTimes::decode(&[encoded, vec![0]].concat()).is_err());
        assert!(
            SequenceTimes::decode(&[1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).is_err()
        );
    }

    #[test]
    fn an_entry_is_never_older_than_any_pair_allows() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..300 {
            let pairs: Vec<(u64, u64)> = (0..random.usize(0..40))
                .map(|_| (random.u64(1..60), random.u64(1..60)))
                .collect();
            let earliest = |s: u64| pairs.iter().filter(|p| p.0 >= s).map(|p| p.1).min();
            let all = times(&pairs);
            let (low, high) = (random.u64(1..30), random.u64(30..60));
            let part = all.between(SequenceNumber(low), SequenceNumber(high));
            let spacing = random.u64(1..20);
            let thinned = all.clone().thinned(spacing);
            for s in 1..60 {
                let (sequence, expected) = (SequenceNumber(s), earliest(s));
                assert_eq!(all.written_by(sequence), expected, "{pairs:?} at {s}");
                if (low..=high).contains(&s) {
                    assert_eq!(part.written_by(sequence), expected, "{pairs:?} at {s}");
                }
                let thin = thinned.written_by(sequence);
                assert_eq!(thin.is_some(), expected.is_some());
                let (thin, expected) = (thin.unwrap_or(0), expected.unwrap_or(0));
                assert!(
                    (expected..expected + spacing).contains(&thin),
                    "{pairs:?} at {s}"
                );
            }
            assert_eq!(all.written_by(SequenceNumber::ZERO), None);
            let all = all.with_zero(Some(70));
            assert_eq!(all.written_by(SequenceNumber::ZERO), Some(70));
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_thinned() {
        let pairs: Vec<(u64, u64)> = (1..5000).map(|n| (n, n)).collect();
        let thinned = times(&pairs).thinned(1);
        assert!(thinned.pairs().len() <= MAX_PAIRS);
        assert_eq!(thinned.written_by(SequenceNumber(4999)), Some(4999));
    }
}
