//! Reads the live records of one physical file from front to back.
//!
//! A source keeps no file open: it gets the reader again for each read. It has in memory its list
//! of records and one read of at most a window.

use std::path::Path;

use bytes::Bytes;

use super::live::LiveRecord;
use crate::blob::{BlobFileWriter, BlobReaders, RawRecord};
use crate::error::Result;
use crate::format::blob_index::BLOB_RECORD_HEADER_LEN;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, total};
use crate::open_files::OpenFiles;

/// Bytes that the windows of all sources of a collection take together.
const WINDOWS: u64 = 32 << 20;
/// The most that one source reads at once.
const MAX_WINDOW: u64 = 1 << 20;
/// The most dead bytes between two records of a window.
const MAX_GAP: u64 = 64 << 10;

/// Bytes that each of so many sources reads at once.
pub(super) fn window_of(sources: usize) -> u64 {
    (WINDOWS / sources.max(1) as u64).clamp(1, MAX_WINDOW)
}

/// A cursor over the live records of a physical file, in the order in which they lie there: that is
/// the order of their keys, if a flush or a collection wrote the file.
pub(super) struct Source<'a> {
    open_files: &'a OpenFiles,
    number: BlobFileNumber,
    /// By ascending offset.
    records: Vec<LiveRecord>,
    next: usize,
    window_size: u64,
    window: Bytes,
    window_start: u64,
    current: Option<Current>,
    bytes_read: u64,
}

/// A record that was copied.
pub(super) struct CopiedRecord {
    pub(super) record: LiveRecord,
    /// The offset of its value in the new file.
    pub(super) to: u64,
    /// Bytes of it for which the rate was limited already.
    pub(super) limited: u64,
}

/// The record that a source is at.
enum Current {
    /// Verified.
    Whole(LiveRecord, RawRecord),
    /// It exceeds a window, and is yet to be read: its header and key, as stored.
    Long(LiveRecord, Bytes),
}

impl<'a> Source<'a> {
    /// A cursor at the first record, which reads so many bytes at once.
    pub(super) fn new(
        open_files: &'a OpenFiles,
        number: BlobFileNumber,
        mut records: Vec<LiveRecord>,
        window_size: u64,
    ) -> Result<Self> {
        records.sort_unstable_by_key(|record| record.at);
        let mut source = Source {
            open_files,
            number,
            records,
            next: 0,
            window_size,
            window: Bytes::new(),
            window_start: 0,
            current: None,
            bytes_read: 0,
        };
        source.advance()?;
        Ok(source)
    }

    /// The key of the record that the cursor is at; `None` after the last.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self.current.as_ref()? {
            Current::Whole(_, raw) => Some(raw.key()),
            Current::Long(_, front) => front.get(BLOB_RECORD_HEADER_LEN as usize..),
        }
    }

    /// Copies the record that the cursor is at to `writer`, verified, and goes to the next; `None`
    /// after the last. A record that exceeds a window is copied in pieces, and `limit_rate` is
    /// called for each, with the bytes that were read and written.
    ///
    /// # Errors
    /// `Corruption` with file and offset if a record is not as its pointers say (BLOB-1): `writer`
    /// is of no use then.
    pub(super) fn copy_to(
        &mut self,
        writer: &mut BlobFileWriter,
        limit_rate: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Option<CopiedRecord>> {
        let copied = match self.current.take() {
            None => return Ok(None),
            Some(Current::Whole(record, raw)) => CopiedRecord {
                record,
                to: writer.add_raw(&raw)?,
                limited: 0,
            },
            Some(Current::Long(record, front)) => CopiedRecord {
                record,
                to: self.copy_long(&record, &front, writer, limit_rate)?,
                // Its header and key were read with the records before it.
                limited: record.reference.size,
            },
        };
        self.advance()?;
        Ok(Some(copied))
    }

    fn copy_long(
        &mut self,
        record: &LiveRecord,
        front: &[u8],
        writer: &mut BlobFileWriter,
        limit_rate: &dyn Fn(u64) -> Result<()>,
    ) -> Result<u64> {
        let mut at = record.at;
        let pieces = || {
            let end = record.end().min(at + MAX_WINDOW);
            if at >= end {
                return Ok(None);
            }
            let piece = self.read(at, end)?;
            limit_rate(2 * (end - at))?;
            at = end;
            Ok(Some(piece))
        };
        let copied = writer.copy(front, record.reference.size, pieces);
        copied.map_err(|e| match e.is_corruption() {
            true => e.at(
                Path::new(&FileKind::Blob(self.number).name()),
                record.start(),
            ),
            false => e,
        })
    }

    /// The physical file.
    pub(super) fn file(&self) -> BlobFileNumber {
        self.number
    }

    /// The number of its records, and their bytes.
    pub(super) fn live(&self) -> (usize, u64) {
        let bytes = self.records.iter().map(LiveRecord::len);
        (self.records.len(), total(bytes))
    }

    /// Bytes read from the file so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    fn advance(&mut self) -> Result<()> {
        self.current = None;
        let Some(record) = self.records.get(self.next).copied() else {
            self.window = Bytes::new();
            return Ok(());
        };
        let current = if record.len() > self.window_size {
            Current::Long(record, self.read(record.start(), record.at)?)
        } else {
            let window_end = self.window_start + self.window.len() as u64;
            if record.start() < self.window_start || record.end() > window_end {
                let end = self.window_end(&record);
                self.window = Bytes::new();
                self.window = self.read(record.start(), end)?;
                self.window_start = record.start();
            }
            let from = (record.start() - self.window_start) as usize;
            let to = (record.end() - self.window_start) as usize;
            let bytes = self.window.slice(from..to);
            Current::Whole(record, self.verified(&record, bytes)?)
        };
        self.current = Some(current);
        self.next += 1;
        Ok(())
    }

    fn read(&mut self, start: u64, end: u64) -> Result<Bytes> {
        let bytes = self
            .open_files
            .reader(self.number)?
            .read_range(start, end)?;
        self.bytes_read += end - start;
        Ok(bytes)
    }

    /// End of a read that begins with a record: over those after it, as long as little between is
    /// dead.
    fn window_end(&self, first: &LiveRecord) -> u64 {
        let mut end = first.end();
        for record in self.records.get(self.next + 1..).unwrap_or_default() {
            let near = record.start() <= end.saturating_add(MAX_GAP);
            if !near || record.end() > first.start() + self.window_size {
                break;
            }
            end = end.max(record.end());
        }
        end
    }

    fn verified(&self, record: &LiveRecord, bytes: Bytes) -> Result<RawRecord> {
        let raw = RawRecord::verified(bytes, record.reference.key_len as usize);
        let name = FileKind::Blob(self.number).name();
        raw.map_err(|e| e.at(Path::new(&name), record.start()))
    }
}
