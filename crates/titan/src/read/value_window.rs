//! Looking ahead while an iterator is used sequentially.
//!
//! Values in blob files lie in the order they were flushed, not in key order, so reading them one
//! by one makes the device idle between reads. While the user goes forward and takes values, the
//! window runs ahead over the keys and asks the device for the values of many at once.

use std::collections::VecDeque;

use crate::blob::ValueFetcher;
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::internal_key::ValueType;
use crate::read::visible::VisibleIterator;

/// Entries a window starts with.
const FIRST: usize = 8;

/// Stored bytes of values a window asks for at most, beyond its first entries.
const MAX_BYTES: u64 = 4 << 20;

/// An entry taken from the iterator ahead of its use.
pub(crate) struct Ahead {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) value_type: ValueType,
    /// Decoded, if the value is a pointer.
    pub(crate) pointer: Option<BlobIndex>,
}

/// Entries taken ahead, in order, and how many to keep.
pub(crate) struct ValueWindow {
    entries: VecDeque<Ahead>,
    /// Entries no longer used, for their allocations.
    spare: Vec<Ahead>,
    bytes: u64,
    target: usize,
    max: usize,
    /// Entries used since the window last grew.
    used: usize,
}

impl ValueWindow {
    /// A window of at most `max` entries; with 0 it never fills.
    pub(crate) fn new(max: usize) -> Self {
        ValueWindow {
            entries: VecDeque::new(),
            spare: Vec::new(),
            bytes: 0,
            target: FIRST.min(max),
            max,
            used: 0,
        }
    }

    pub(crate) fn front(&self) -> Option<&Ahead> {
        self.entries.front()
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.max > 0
    }

    /// Forgets everything taken ahead, and starts small again.
    pub(crate) fn reset(&mut self) {
        self.spare.extend(self.entries.drain(..));
        self.bytes = 0;
        self.target = FIRST.min(self.max);
        self.used = 0;
    }

    /// Drops the front entry.
    pub(crate) fn pop(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.pointer.map_or(0, |p| p.size);
            self.spare.push(entry);
            self.used += 1;
            if self.used >= self.target {
                self.used = 0;
                self.target = (self.target * 2).min(self.max);
            }
        }
    }

    /// Takes entries from where `ahead` stands until the window is full again, and asks for their
    /// values. Does nothing while more than half of it is left.
    pub(crate) fn fill(
        &mut self,
        ahead: &mut VisibleIterator,
        fetcher: &ValueFetcher,
    ) -> Result<()> {
        if self.entries.len() * 2 > self.target {
            return Ok(());
        }
        let first_new = self.entries.len();
        while self.entries.len() < self.target
            && (self.bytes < MAX_BYTES || self.entries.is_empty())
            && ahead.valid()
        {
            let mut entry = self.spare.pop().unwrap_or_else(|| Ahead {
                key: Vec::new(),
                value: Vec::new(),
                value_type: ValueType::Value,
                pointer: None,
            });
            entry.key.clear();
            entry.key.extend_from_slice(ahead.key());
            entry.value.clear();
            entry.value.extend_from_slice(ahead.value());
            entry.value_type = ahead.value_type();
            entry.pointer = match entry.value_type {
                ValueType::BlobIndex => Some(BlobIndex::decode(&entry.value)?),
                _ => None,
            };
            self.bytes += entry.pointer.map_or(0, |p| p.size);
            self.entries.push_back(entry);
            ahead.next()?;
        }
        let requests: Vec<(&[u8], BlobIndex)> = self
            .entries
            .iter()
            .skip(first_new)
            .filter_map(|e| e.pointer.map(|p| (e.key.as_slice(), p)))
            .collect();
        if !requests.is_empty() {
            fetcher.prefetch_many(&requests);
        }
        Ok(())
    }
}
