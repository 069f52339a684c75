//! Holes in blob files: blocks of garbage that were given back to the file system.
//!
//! A hole consists of whole blocks. Each reads as zeros or, after a crash, as the old data. Neither
//! the file nor the MANIFEST says where holes are: a damaged record counts as a hole if nothing
//! points to it and a whole block in its place is zeros. A walk that finds a hole continues at the
//! next record that something points to. That one and all other live records are read by pointers,
//! which never lead into a hole.

use std::ops::Range;

use super::layout::{FileHeader, RecordHeader};
use super::reader::{BlobFileReader, Extent};
use super::records::Records;
use crate::error::{Error, Result};

/// Holes start and end at multiples of this, the block size of common file systems.
pub(crate) const BLOCK: u64 = 4096;

/// Bytes that are searched for a hole at a time.
const WINDOW: u64 = 64 * BLOCK;

/// The whole blocks in a range of bytes; empty if there is none.
pub(crate) fn whole_blocks(bytes: Range<u64>) -> Range<u64> {
    let start = bytes.start.next_multiple_of(BLOCK);
    let end = bytes.end - bytes.end % BLOCK;
    start..end.max(start)
}

/// The start of the block in which a record starts, but not in the file header: the record before
/// may end in zeros.
fn block_of(start: u64) -> u64 {
    (start - start % BLOCK).max(FileHeader::LEN as u64)
}

/// The first run of zeroed blocks among the whole blocks of a range. Cost: reads up to the end of
/// the run, or of the range.
fn find_hole(reader: &BlobFileReader, within: Range<u64>) -> Result<Option<Range<u64>>> {
    let blocks = whole_blocks(within);
    let mut hole: Option<Range<u64>> = None;
    let mut start = blocks.start;
    while start < blocks.end {
        let end = blocks.end.min(start + WINDOW);
        let bytes = reader.read(Extent { start, end })?;
        for (block, at) in bytes
            .chunks(BLOCK as usize)
            .zip((start..).step_by(BLOCK as usize))
        {
            let empty = block.iter().all(|byte| *byte == 0);
            match &mut hole {
                Some(hole) if empty => hole.end = at + BLOCK,
                Some(_) => return Ok(hole),
                None if empty => hole = Some(at..at + BLOCK),
                None => {}
            }
        }
        start = end;
    }
    Ok(hole)
}

impl Records<'_> {
    /// Skips a hole that explains the error `e` in the record at `start`, to which nothing points.
    /// The walk continues at `next`, the start of the next record to which something points, or
    /// ends if there is none. False if there is no hole.
    pub fn skip_hole(&mut self, e: &Error, start: u64, next: Option<u64>) -> Result<bool> {
        if !e.is_corruption() {
            return Ok(false);
        }
        let next = next.unwrap_or(self.end()).min(self.end());
        let reach = match Records::position(self) > start {
            // The header is intact, so the record's end is known.
            true => Records::position(self).next_multiple_of(BLOCK).min(next),
            false => next,
        };
        let found = reach > start && find_hole(self.reader(), block_of(start)..reach)?.is_some();
        if found {
            self.resume_at(next);
        }
        Ok(found)
    }

    /// Skips a hole that explains the error `e` in the record at `start`, for callers without the
    /// set of live records. If it is a hole, the walk continues at the next offset that looks like
    /// a record, and the hole is returned. Cost: a checksum for each byte up to there.
    pub fn skip_any_hole(&mut self, e: &Error, start: u64) -> Result<Option<Range<u64>>> {
        if !e.is_corruption() {
            return Ok(None);
        }
        // A lost header does not give the length. The hole starts in the header or covers it.
        let header_end = start + RecordHeader::LEN as u64;
        let end = Records::position(self).max(header_end);
        let reach = end.next_multiple_of(BLOCK);
        let from = block_of(start);
        let Some(hole) = find_hole(self.reader(), from..reach.min(self.end()))? else {
            return Ok(None);
        };
        let all = find_hole(self.reader(), hole.start..self.end())?.unwrap_or(hole);
        let mut at = all.end;
        while at < self.end() {
            let end = self.end().min(at + WINDOW + RecordHeader::LEN as u64);
            let bytes = self.reader().read(Extent { start: at, end })?;
            let headers = bytes.windows(RecordHeader::LEN);
            let found = headers.enumerate().find(|(n, bytes)| {
                let header = RecordHeader::decode(bytes).ok();
                let len = header.and_then(|header| header.record_len());
                len.is_some_and(|len| len <= self.end() - (at + *n as u64))
            });
            if let Some((n, _)) = found {
                at += n as u64;
                break;
            }
            at = match end == self.end() {
                true => end,
                false => at + WINDOW,
            };
        }
        self.resume_at(at);
        Ok(Some(all))
    }
}
