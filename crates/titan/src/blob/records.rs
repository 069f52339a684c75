//! Walks a blob file from front to back, for checks and inspection. Reads never use this: they use
//! pointers.

use bytes::Bytes;

use crate::blob::layout::{FileHeader, RecordHeader};
use crate::blob::reader::{BlobFileReader, Extent};
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;

/// Bytes read at a time, if records are not longer.
const WINDOW: u64 = 256 << 10;

/// A record whose checksums match. Its bytes share the memory of a read of up to 256 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRecord {
    /// Where the record starts.
    pub offset: u64,
    /// The user key.
    pub key: Bytes,
    /// Where the stored value starts: the offset in the pointers to it.
    pub value_offset: u64,
    /// The value as stored; see [`BlobRecord::value`].
    pub stored: Bytes,
}

impl BlobRecord {
    /// Bytes of the stored value.
    pub fn stored_size(&self) -> u64 {
        self.stored.len() as u64
    }

    /// The pointer to this record, which must come from `reader`.
    pub fn index(&self, reader: &BlobFileReader) -> BlobIndex {
        BlobIndex {
            file: reader.number(),
            offset: self.value_offset,
            size: self.stored_size(),
            compression: reader.compression(),
        }
    }

    /// The value, decompressed. The record must come from `reader`.
    pub fn value(&self, reader: &BlobFileReader) -> Result<Bytes> {
        reader
            .decompressed(&self.stored)
            .map_err(|e| e.at(reader.path(), self.offset))
    }
}

/// Every record of a file, then its end.
///
/// Each damage is one `Err`. A missing or damaged footer comes first (the records may still be
/// intact), a record whose checksum fails comes in its order, and a wrong count comes last. The
/// walk continues after a damaged key or value, because the lengths have a checksum of their own,
/// and ends at a damaged record header or a failed read. No error at all means that the whole file
/// is as it was sealed.
pub struct Records<'r> {
    reader: &'r BlobFileReader,
    position: u64,
    /// Where the records end.
    end: u64,
    window: Bytes,
    window_start: u64,
    seen: u64,
    footer: Footer,
    done: bool,
}

enum Footer {
    Unreported(Error),
    Missing,
    Count(u64),
}

impl<'r> Records<'r> {
    /// All records of a file from the front, each verified, then the footer and its count.
    pub fn of(reader: &'r BlobFileReader) -> Self {
        let (end, footer) = match reader.verify_footer() {
            Ok(count) => (reader.footer_start(), Footer::Count(count)),
            Err(e) => (reader.size(), Footer::Unreported(e)),
        };
        Records {
            reader,
            position: FileHeader::LEN as u64,
            end,
            window: Bytes::new(),
            window_start: 0,
            seen: 0,
            footer,
            done: false,
        }
    }

    pub(super) fn reader(&self) -> &'r BlobFileReader {
        self.reader
    }

    /// Where the records end.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Where the next record starts, or where the walk ended.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Continues at `offset`, where a record is known to start, after damage ended the walk. The
    /// number of skipped records is unknown, so the footer's count is no longer checked.
    pub fn resume_at(&mut self, offset: u64) {
        self.position = offset;
        self.footer = Footer::Missing;
        self.done = false;
    }

    /// The record at the current position. The position moves past the record once its header is
    /// verified. Errors before that end the walk.
    fn read_record(&mut self) -> Result<BlobRecord> {
        let offset = self.position;
        self.done = true;
        let header = RecordHeader::decode(&self.bytes(RecordHeader::LEN as u64)?)?;
        let record = match header.record_len() {
            Some(len) => self.bytes(len)?,
            None => return Err(Error::corruption("blob record is longer than any file")),
        };
        self.done = false;
        self.position += record.len() as u64;
        self.seen += 1;

        // Both lengths are within the record just read.
        let body = record.slice(RecordHeader::LEN..);
        let key = body.slice(..header.key_len as usize);
        let stored = body.slice(header.key_len as usize..);
        header.verify_blob(&key, &stored)?;
        let value_offset = self.position - header.value_len;
        Ok(BlobRecord {
            offset,
            key,
            value_offset,
            stored,
        })
    }

    /// `len` bytes at the current position.
    fn bytes(&mut self, len: u64) -> Result<Bytes> {
        let left = self.end.saturating_sub(self.position);
        if len > left {
            return Err(Error::corruption(format!(
                "blob record needs {len} bytes where {left} are left"
            )));
        }
        let held = self.window_start..=self.window_start + self.window.len() as u64;
        if !(held.contains(&self.position) && held.contains(&(self.position + len))) {
            let extent = Extent {
                start: self.position,
                end: self.position + len.max(WINDOW.min(left)),
            };
            self.window = self.reader.read(extent)?;
            self.window_start = self.position;
        }
        let from = (self.position - self.window_start) as usize;
        Ok(self.window.slice(from..from + len as usize))
    }

    fn check_end(&self) -> Result<()> {
        match self.footer {
            Footer::Count(count) if count != self.seen => Err(Error::corruption(format!(
                "blob file has {} records, its footer says {count}",
                self.seen
            ))),
            _ => Ok(()),
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<BlobRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match std::mem::replace(&mut self.footer, Footer::Missing) {
            Footer::Unreported(e) => return Some(Err(e)),
            known => self.footer = known,
        }
        let offset = self.position;
        let item = if offset < self.end {
            Some(self.read_record())
        } else {
            self.done = true;
            self.check_end().err().map(Err)
        };
        item.map(|r| r.map_err(|e| e.at(self.reader.path(), offset)))
    }
}
