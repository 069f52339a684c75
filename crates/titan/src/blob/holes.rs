//! Holes in blob files: blocks of dead records that were given back to the file system.
//!
//! A hole is made of whole blocks, each of which reads as zeros, or, after a crash, as what was
//! there before. Nothing in the file or the MANIFEST says where holes are: a damaged record to which
//! nothing refers and in whose place a whole block is zeros is taken for one. Who finds one goes on
//! where the next record starts that something refers to; that and everything else alive is read by
//! pointers, which never lead into a hole.

use std::ops::Range;

use super::layout::{FileHeader, RecordHeader};
use super::reader::{BlobFileReader, Extent};
use super::records::Records;
use crate::error::{Error, Result};

/// What is punched is a multiple of this at a multiple of this: the block of common file systems.
pub(crate) const BLOCK: u64 = 4096;

/// Bytes that are searched for a hole at a time.
const WINDOW: u64 = 64 * BLOCK;

/// The whole blocks in a range of bytes; empty if there is none.
pub(crate) fn whole_blocks(bytes: Range<u64>) -> Range<u64> {
    let start = bytes.start.next_multiple_of(BLOCK);
    let end = bytes.end - bytes.end % BLOCK;
    start..end.max(start)
}

/// Where the block starts that a record starts in: the record before may end in zeros.
fn block_of(start: u64) -> u64 {
    (start - start % BLOCK).max(FileHeader::LEN as u64)
}

/// The first run of blocks of zeros among the whole blocks of a range. Cost: reads up to its end,
/// or to that of the range.
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
    /// To be called after the error `e` in the record at `start`, to which nothing refers. Where a
    /// hole explains it, the walk goes on at `next`, where the next record starts to which something
    /// does, or ends if there is none. False if there is no hole.
    pub(crate) fn skip_hole(&mut self, e: &Error, start: u64, next: Option<u64>) -> Result<bool> {
        if !e.is_corruption() {
            return Ok(false);
        }
        let next = next.unwrap_or(self.end()).min(self.end());
        let reach = match Records::position(self) > start {
            // The header is whole: the record's end is known.
            true => Records::position(self).next_multiple_of(BLOCK).min(next),
            false => next,
        };
        let found = reach > start && find_hole(self.reader(), block_of(start)..reach)?.is_some();
        if found {
            self.resume_at(next);
        }
        Ok(found)
    }

    /// To be called after the error `e` in the record at `start`, by who does not know what is
    /// referred to. If it is a hole, the walk goes on at the next place that looks like a record, and
    /// the hole is returned. Cost: a checksum for each byte up to there.
    pub(crate) fn skip_any_hole(&mut self, e: &Error, start: u64) -> Result<Option<Range<u64>>> {
        if !e.is_corruption() {
            return Ok(None);
        }
        // A header that was lost says nothing about the length; the hole starts in it or is it.
        let header_end = start + RecordHeader::LEN as u64;
        let behind = Records::position(self).max(header_end);
        let reach = behind.next_multiple_of(BLOCK);
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
