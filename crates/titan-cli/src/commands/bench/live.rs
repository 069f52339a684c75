//! Which of the keys that steps write are there: what space amplification is measured against.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;
use titan::{Db, Result};

use super::values::{self, KEY_BYTES};
use crate::progress;
use crate::usage;

/// How the keys that a database held at first are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KnownBy {
    /// There were none.
    Tracking,
    /// They were counted.
    Scan,
    /// All keys were taken as present.
    Assumption,
}

/// A bit a key, kept by all threads that write.
pub(super) struct LiveKeys {
    bits: Vec<AtomicU64>,
    present: AtomicU64,
    entry_bytes: u64,
    /// Live bytes of keys that are not the steps'.
    foreign_bytes: u64,
    known_by: KnownBy,
}

impl LiveKeys {
    /// Of an empty database.
    pub(super) fn none(num: u64, value_size: u32) -> Self {
        let words = usize::try_from(num.div_ceil(64)).unwrap_or(usize::MAX);
        LiveKeys {
            bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            present: AtomicU64::new(0),
            entry_bytes: KEY_BYTES as u64 + u64::from(value_size),
            foreign_bytes: 0,
            known_by: KnownBy::Tracking,
        }
    }

    /// Of a database that is taken to have all of them.
    pub(super) fn all(num: u64, value_size: u32) -> Self {
        let live = Self::none(num, value_size);
        (0..num).for_each(|number| live.add(number));
        LiveKeys {
            known_by: KnownBy::Assumption,
            ..live
        }
    }

    /// Of the database as it is, by walking its keys.
    pub(super) fn scan(db: &Db, num: u64, value_size: u32) -> Result<Self> {
        let mut live = LiveKeys {
            known_by: KnownBy::Scan,
            ..Self::none(num, value_size)
        };
        let progress = progress::operations("counting keys", None);
        let mut foreign = 0;
        usage::for_each_key(db, |key, stored| {
            match values::number(key) {
                Some(number) if number < num => live.add(number),
                _ => foreign += key.len() as u64 + stored,
            }
            progress.inc(1);
        })?;
        progress.finish_and_clear();
        live.foreign_bytes = foreign;
        Ok(live)
    }

    fn word(&self, number: u64) -> Option<(&AtomicU64, u64)> {
        self.bits
            .get(usize::try_from(number / 64).ok()?)
            .map(|word| (word, 1 << (number % 64)))
    }

    /// The key was written.
    pub(super) fn add(&self, number: u64) {
        if let Some((word, bit)) = self.word(number)
            && word.fetch_or(bit, Relaxed) & bit == 0
        {
            self.present.fetch_add(1, Relaxed);
        }
    }

    /// The key was deleted.
    pub(super) fn remove(&self, number: u64) {
        if let Some((word, bit)) = self.word(number)
            && word.fetch_and(!bit, Relaxed) & bit != 0
        {
            self.present.fetch_sub(1, Relaxed);
        }
    }

    /// How many of the steps' keys are there.
    pub(super) fn keys(&self) -> u64 {
        self.present.load(Relaxed)
    }

    /// Bytes of all keys and values that are there.
    pub(super) fn bytes(&self) -> u64 {
        self.keys() * self.entry_bytes + self.foreign_bytes
    }

    pub(super) fn known_by(&self) -> KnownBy {
        self.known_by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_once() {
        let live = LiveKeys::none(100, 84);
        for number in [3, 3, 99, 64] {
            live.add(number);
        }
        assert_eq!((live.keys(), live.bytes()), (3, 300));
        live.remove(3);
        live.remove(3);
        live.remove(5);
        assert_eq!(live.keys(), 2);
        assert_eq!(LiveKeys::all(100, 84).keys(), 100);
    }
}
