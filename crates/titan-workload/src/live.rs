//! Tracks the existing keys: the base of space amplification, and where inserts continue.
//!
//! It can be kept in a file between the processes of a workload's steps.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use titan::{Error, Result};

use crate::keys::KEY_BYTES;
use crate::step::ValueSizes;

/// Keys that steps with [`Operation::Insert`](crate::step::Operation::Insert) may add beyond the
/// records of a workload.
pub const ROOM: u64 = 1 << 25;

/// One bit per key, shared by all threads that write.
pub struct LiveKeys {
    bits: Vec<AtomicU64>,
    sizes: ValueSizes,
    /// Numbers below it have been inserted.
    next: AtomicU64,
    /// Numbers below it have been expired.
    first: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
}

impl LiveKeys {
    /// For an empty database, and numbers below `room`.
    pub fn none(room: u64, sizes: ValueSizes) -> Self {
        let words = room.div_ceil(64);
        LiveKeys {
            bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            sizes,
            next: AtomicU64::new(0),
            first: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// The state written by [`store`](Self::store).
    pub fn load(path: &Path, room: u64, sizes: ValueSizes) -> Result<Self> {
        let stored = fs::read(path).map_err(|e| Error::io(e, "read", path))?;
        let live = Self::none(room, sizes);
        let words: Vec<u64> = stored
            .chunks_exact(8)
            .filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
            .collect();
        if words.len() != live.bits.len() + 2 {
            return Err(Error::invalid_argument("it is of another workload").in_file(path));
        }
        live.next.store(words[0], Relaxed);
        live.first.store(words[1], Relaxed);
        for (at, word) in words[2..].iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                live.add(at as u64 * 64 + u64::from(left.trailing_zeros()));
                left &= left - 1;
            }
        }
        Ok(live)
    }

    /// Writes the state for [`load`](Self::load).
    pub fn store(&self, path: &Path) -> Result<()> {
        let head = [&self.next, &self.first];
        let words = head.into_iter().chain(&self.bits);
        let bytes: Vec<u8> = words
            .flat_map(|word| word.load(Relaxed).to_le_bytes())
            .collect();
        fs::write(path, bytes).map_err(|e| Error::io(e, "write", path))
    }

    fn word(&self, number: u64) -> Option<(&AtomicU64, u64)> {
        let word = self.bits.get(usize::try_from(number / 64).ok()?)?;
        Some((word, 1 << (number % 64)))
    }

    fn entry_bytes(&self, number: u64) -> u64 {
        KEY_BYTES as u64 + u64::from(self.sizes.of(number))
    }

    /// Notes that the key was written.
    pub fn add(&self, number: u64) {
        if let Some((word, bit)) = self.word(number)
            && word.fetch_or(bit, Relaxed) & bit == 0
        {
            self.entries.fetch_add(1, Relaxed);
            self.bytes.fetch_add(self.entry_bytes(number), Relaxed);
        }
    }

    /// Notes that the key was deleted.
    pub fn remove(&self, number: u64) {
        if let Some((word, bit)) = self.word(number)
            && word.fetch_and(!bit, Relaxed) & bit != 0
        {
            self.entries.fetch_sub(1, Relaxed);
            self.bytes.fetch_sub(self.entry_bytes(number), Relaxed);
        }
    }

    /// Counts an entry that no step writes, and that steps leave as it is.
    pub fn add_foreign(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Whether the key exists.
    pub fn contains(&self, number: u64) -> bool {
        let word = self.word(number);
        word.is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// The number of the next new key; `None` if no more fit.
    pub fn insert(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Relaxed);
        (number < self.bits.len() as u64 * 64).then_some(number)
    }

    /// Numbers below this have been inserted, or are being inserted.
    pub fn inserted(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Counts numbers up to `records` as inserted: called at the end of steps that write keys in
    /// any order.
    pub fn inserted_up_to(&self, records: u64) {
        self.next.fetch_max(records, Relaxed);
    }

    /// The oldest numbers beyond the `left` newest; `None` if there are none. The caller removes
    /// them from the database; they count as deleted.
    pub fn expire(&self, left: u64) -> Option<Range<u64>> {
        let end = self.inserted().saturating_sub(left);
        let start = self.first.fetch_max(end, Relaxed);
        (start < end).then(|| {
            (start..end).for_each(|number| self.remove(number));
            start..end
        })
    }

    /// The number of existing keys that steps write.
    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Bytes of all existing keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_once_and_comes_back_from_the_file() {
        let sizes = ValueSizes::Fixed(84);
        let live = LiveKeys::none(200, sizes);
        for number in [3, 3, 99, 64] {
            live.add(number);
        }
        live.inserted_up_to(100);
        assert_eq!((live.entries(), live.bytes()), (3, 300));
        assert_eq!(live.insert(), Some(100));
        live.add(100);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("live");
        live.store(&file).unwrap();
        let again = LiveKeys::load(&file, 200, sizes).unwrap();
        assert!(LiveKeys::load(&file, 10_000, sizes).is_err());
        assert_eq!(
            (again.entries(), again.bytes(), again.inserted()),
            (4, 400, 101)
        );
        assert_eq!(again.expire(37), Some(0..64));
        assert_eq!(again.expire(37), None);
        assert_eq!(again.entries(), 3);
        again.remove(64);
        again.remove(64);
        assert_eq!(again.bytes(), 200);
        again.add_foreign(7);
        assert_eq!((again.entries(), again.bytes()), (2, 207));
    }
}
