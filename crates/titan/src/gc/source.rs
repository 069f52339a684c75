//! Reads the live records of one physical file from front to back.

use std::sync::Arc;

use bytes::Bytes;

use super::live::LiveRecord;
use crate::blob::{BlobFileReader, RawRecord};
use crate::error::Result;
use crate::format::BlobFileNumber;

/// Bytes read at once, where records are not longer.
const WINDOW: u64 = 1 << 20;
/// The most of a window that may be dead between two records.
const MAX_GAP: u64 = 64 << 10;

/// A cursor over the live records of a physical file, in the order in which they lie there: that
/// of their keys, wherever a flush or a collection wrote the file.
pub(super) struct Source {
    reader: Arc<BlobFileReader>,
    /// By ascending place.
    records: Vec<LiveRecord>,
    next: usize,
    window: Bytes,
    window_start: u64,
    current: Option<(LiveRecord, RawRecord)>,
    bytes_read: u64,
}

impl Source {
    /// A cursor at the first record.
    pub(super) fn new(reader: Arc<BlobFileReader>, mut records: Vec<LiveRecord>) -> Result<Self> {
        records.sort_unstable_by_key(|record| record.at);
        let mut source = Source {
            reader,
            records,
            next: 0,
            window: Bytes::new(),
            window_start: 0,
            current: None,
            bytes_read: 0,
        };
        source.advance()?;
        Ok(source)
    }

    /// The record that the cursor is at, verified; `None` behind the last.
    pub(super) fn current(&self) -> Option<&(LiveRecord, RawRecord)> {
        self.current.as_ref()
    }

    /// The physical file.
    pub(super) fn file(&self) -> BlobFileNumber {
        self.reader.number()
    }

    /// Bytes read from the file so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Goes to the next record.
    ///
    /// # Errors
    /// `Corruption` with file and offset if the record is not as its references say (BLOB-1).
    pub(super) fn advance(&mut self) -> Result<()> {
        self.current = None;
        let Some(record) = self.records.get(self.next).copied() else {
            return Ok(());
        };
        let window_end = self.window_start + self.window.len() as u64;
        if record.start() < self.window_start || record.end() > window_end {
            let end = self.window_end(&record);
            self.window = self.reader.read_range(record.start(), end)?;
            self.window_start = record.start();
            self.bytes_read += end - record.start();
        }
        let from = (record.start() - self.window_start) as usize;
        let to = (record.end() - self.window_start) as usize;
        let raw = self.reader.raw_record(
            self.window.slice(from..to),
            record.start(),
            record.reference.key_len as usize,
        )?;
        self.current = Some((record, raw));
        self.next += 1;
        Ok(())
    }

    /// How far to read from a record on: over those behind it, as long as little between is dead.
    fn window_end(&self, first: &LiveRecord) -> u64 {
        let mut end = first.end();
        for record in self.records.get(self.next + 1..).unwrap_or_default() {
            let near = record.start() <= end.saturating_add(MAX_GAP);
            if !near || record.end() > first.start() + WINDOW {
                break;
            }
            end = end.max(record.end());
        }
        end
    }
}
