//! Readahead of values while an iterator is used sequentially.
//!
//! Values in blob files lie in the order in which they were flushed, not in key order, so reading
//! them one by one leaves the device idle between reads. While the user goes forward and takes
//! values, the window runs ahead over the keys and requests the values of many at once; those that
//! lie together are read together.
//!
//! Bytes read ahead and not used cost the device as much as others. So the window runs ahead by
//! half of the bytes used since the last seek; but first by as much as the last two scans of this
//! iterator both used, since later scans are mostly alike; or, if it is new, the last two of its
//! family.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::blob::{BlobLocations, ValueAhead, ValueFetcher};
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::entity::{ColumnValue, default_value};
use crate::merge::Operands;
use crate::read::resolve::Stored;
use crate::read::visible::VisibleIterator;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The most stored bytes of values and operands in a window, beyond its first entry.
const MAX_BYTES: u64 = 4 << 20;

/// An entry taken from the iterator ahead of its use.
pub(crate) struct Ahead {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The form of the value that the key has below its operands, or without any, if it has one.
    pub(crate) stored: Option<Stored>,
    /// Operands that change that value, oldest first.
    pub(crate) operands: Operands,
    /// Decoded, if the value is a pointer, or the default column of an entity is one.
    pub(crate) pointer: Option<BlobIndex>,
    /// The value's read, if it could be prepared.
    pub(crate) read: Option<ValueAhead>,
}

impl Ahead {
    /// Stored bytes of the value and of its operands.
    fn bytes(&self) -> u64 {
        let value = self.pointer.map_or(self.value.len() as u64, |p| p.size);
        value.saturating_add(self.operands.size_bytes() as u64)
    }
}

/// Number of values that the last two scans of a family used, over all iterators: a new iterator
/// expects as many as both of them did.
#[derive(Default)]
pub(crate) struct ScanHistory {
    /// The last scan in the lower half, the one before it in the upper half.
    used: AtomicU64,
}

impl ScanHistory {
    fn note(&self, used: usize) {
        let used = used.min(u32::MAX as usize) as u64;
        // Scans that end at the same time may overwrite each other: it is a guess.
        let last = self.used.load(Ordering::Relaxed) << 32;
        self.used.store(last | used, Ordering::Relaxed);
    }

    fn expected(&self) -> usize {
        let used = self.used.load(Ordering::Relaxed);
        (used >> 32).min(used & u64::from(u32::MAX)) as usize
    }
}

/// Entries taken ahead, in order, and how many to keep.
pub(crate) struct ValueWindow {
    history: Arc<ScanHistory>,
    entries: VecDeque<Ahead>,
    /// Entries no longer used, for their allocations.
    spare: Vec<Ahead>,
    bytes: u64,
    max: usize,
    /// Entries since the last seek that were followed by another after their value was taken.
    used: usize,
    /// The same of the previous scan of this iterator, if there was one.
    used_before: Option<usize>,
    /// Number of values that this scan will probably use.
    expected: usize,
    /// Whether this scan has taken a value.
    scanning: Cell<bool>,
}

impl ValueWindow {
    /// A window of at most `max` entries; with 0 it never fills.
    pub(crate) fn new(max: usize, history: Arc<ScanHistory>) -> Self {
        ValueWindow {
            expected: history.expected(),
            history,
            entries: VecDeque::new(),
            spare: Vec::new(),
            bytes: 0,
            max,
            used: 0,
            used_before: None,
            scanning: Cell::new(false),
        }
    }

    pub(crate) fn front(&self) -> Option<&Ahead> {
        self.entries.front()
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.max > 0
    }

    /// Forgets everything taken ahead: a scan ends.
    pub(crate) fn reset(&mut self) {
        while !self.entries.is_empty() {
            self.pop();
        }
        if self.end_scan() {
            self.expected = match self.used_before {
                Some(before) => self.used.min(before),
                None => self.history.expected(),
            };
            self.used_before = Some(self.used);
        }
        self.used = 0;
    }

    /// Notes a scan that took values; returns whether there was one.
    fn end_scan(&self) -> bool {
        let scanned = self.scanning.take();
        if scanned {
            self.history.note(self.used);
        }
        scanned
    }

    /// Notes that the value of the current entry is taken.
    pub(crate) fn take_value(&self) {
        self.scanning.set(true);
    }

    /// Drops the front entry.
    pub(crate) fn pop(&mut self) {
        if let Some(mut entry) = self.entries.pop_front() {
            self.bytes -= entry.bytes();
            entry.read = None;
            entry.operands.clear();
            self.spare.push(entry);
        }
    }

    /// Notes that the iterator goes on from an entry whose value was taken.
    pub(crate) fn count_used(&mut self) {
        self.used += 1;
    }

    /// Entries that the window should have: the one that is next, and those ahead of it.
    fn target(&self) -> usize {
        let left = self.expected.checked_sub(self.used);
        let ahead = left.unwrap_or(self.used / 2);
        (1 + ahead).min(self.max)
    }

    /// Takes entries from the position of `ahead` on until the window is full again, and requests
    /// their values. Does nothing while more than half of it is left.
    pub(crate) fn fill(
        &mut self,
        ahead: &mut VisibleIterator,
        fetcher: &ValueFetcher,
        locations: &dyn BlobLocations,
    ) -> Result<()> {
        let target = self.target();
        if self.entries.len() * 2 > target {
            return Ok(());
        }
        let first_new = self.entries.len();
        while self.entries.len() < target
            && (self.bytes < MAX_BYTES || self.entries.is_empty())
            && ahead.valid()
        {
            let mut entry = self.spare.pop().unwrap_or_else(|| Ahead {
                key: Vec::new(),
                value: Vec::new(),
                stored: None,
                operands: Operands::default(),
                pointer: None,
                read: None,
            });
            entry.key.clear();
            entry.key.extend_from_slice(ahead.key());
            entry.value.clear();
            entry.value.extend_from_slice(ahead.value());
            entry.stored = ahead.stored();
            entry.operands.clone_from(ahead.operands());
            entry.pointer = match entry.stored {
                Some(Stored::Pointer) => Some(BlobIndex::decode(&entry.value)?),
                // Damage of an entity is an error when its value is asked for.
                Some(Stored::Entity) => match default_value(&entry.value) {
                    Ok(ColumnValue::Pointer(index)) => Some(index),
                    _ => None,
                },
                Some(Stored::Inline) | None => None,
            };
            self.bytes += entry.bytes();
            self.entries.push_back(entry);
            ahead.next()?;
        }
        let requests: Vec<(&[u8], BlobIndex)> = self
            .entries
            .iter()
            .skip(first_new)
            .filter_map(|e| e.pointer.map(|p| (e.key.as_slice(), p)))
            .collect();
        if requests.is_empty() {
            return Ok(());
        }
        // If the window was empty, the user asks for the first of these next.
        let reads = fetcher.read_ahead(locations, &requests, first_new == 0);
        let new = self.entries.iter_mut().skip(first_new);
        let pointers = new.filter(|entry| entry.pointer.is_some());
        for (entry, read) in pointers.zip(reads) {
            entry.read = read;
        }
        Ok(())
    }
}

impl Drop for ValueWindow {
    fn drop(&mut self) {
        self.end_scan();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(history: &Arc<ScanHistory>, values: usize) -> usize {
        let mut window = ValueWindow::new(1024, Arc::clone(history));
        let first = window.target();
        for _ in 0..values {
            window.take_value();
            window.count_used();
        }
        first
    }

    #[test]
    fn a_new_iterator_expects_what_the_last_two_scans_both_used() {
        let history = Arc::default();
        assert_eq!(scan(&history, 100), 1);
        assert_eq!(scan(&history, 100), 1, "one scan is no habit");
        assert_eq!(scan(&history, 3), 101);
        assert_eq!(scan(&history, 50), 4);
        // An iterator whose values nobody takes says nothing.
        assert_eq!(scan(&history, 0), 4);
        assert_eq!(scan(&history, 0), 4);
    }

    #[test]
    fn an_iterator_goes_by_its_own_scans_once_it_had_two() {
        let history = Arc::default();
        let mut window = ValueWindow::new(1024, Arc::clone(&history));
        for _ in 0..2 {
            window.take_value();
            (0..10).for_each(|_| window.count_used());
            window.reset();
        }
        scan(&history, 500);
        scan(&history, 500);
        assert_eq!(window.target(), 11);
        // A seek without a value changes nothing.
        window.reset();
        assert_eq!(window.target(), 11);
    }
}
