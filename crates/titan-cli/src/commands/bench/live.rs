//! Tracks which of the keys that steps write exist: the base of space amplification.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;
use titan::{Db, Result};

use super::values::{self, KEY_BYTES};
use crate::progress;
use crate::usage;

/// How the initial keys of a database were determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KnownBy {
    /// There were none.
    Tracking,
    /// They were counted.
    Scan,
    /// All keys were assumed to exist.
    Assumption,
}

/// One bit per key, shared by all threads that write.
pub(super) struct LiveKeys {
    bits: Vec<AtomicU64>,
    present: AtomicU64,
    entry_bytes: u64,
    /// Live bytes of keys that no step writes.
    foreign_bytes: u64,
    known_by: KnownBy,
}

impl LiveKeys {
    /// For an empty database.
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

    /// For a database that is assumed to have all keys.
    pub(super) fn all(num: u64, value_size: u32) -> Self {
        let live = Self::none(num, value_size);
        (0..num).for_each(|number| live.add(number));
        LiveKeys {
            known_by: KnownBy::Assumption,
            ..live
        }
    }

    /// For the database as it is: scans its keys.
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

    /// Notes that the key was written.
    pub(super) fn add(&self, number: u64) {
        if let Some((word, bit)) = self.word(number)
            && word.fetch_or(bit, Relaxed) & bit == 0
        {
            self.present.fetch_add(1, Relaxed);
        }
    }

    /// Notes that the key was deleted.
    pub(super) fn remove(&self, number: u64) {
        if let Some((word, bit)) = self.word(number)
            && word.fetch_and(!bit, Relaxed) & bit != 0
        {
            self.present.fetch_sub(1, Relaxed);
        }
    }

    /// The number of the steps' keys that exist.
    pub(super) fn keys(&self) -> u64 {
        self.present.load(Relaxed)
    }

    /// Bytes of all existing keys and values.
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
