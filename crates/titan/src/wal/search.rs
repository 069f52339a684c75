//! Finds records after damage.

use super::blocks::Blocks;
use super::reader::{LogEnd, LogReader, header_size, is_recyclable};
use super::{HEADER_SIZE, RECYCLABLE, TYPE_FULL, TYPE_LAST, record_crc};
use crate::error::Result;

/// Where records after damage are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Where the length of the damaged record leads, then at the starts of later blocks. A record
    /// that is found there was written as one.
    Certain,
    /// At each byte of the damaged block too. A record that is found may be part of a value that
    /// looks like one.
    Everywhere,
}

impl LogReader {
    /// Continues after the damage that ended the log; false if nothing more can follow. The records
    /// are then no longer a prefix of those written.
    ///
    /// The stale end of a recycled log was damage only if records of this log follow; the rest of
    /// the file is searched for one, at the starts of its blocks.
    ///
    /// # Errors
    /// Failures to read.
    pub fn resume(&mut self, search: Search) -> Result<bool> {
        let found = match &self.outcome {
            Some(Ok(LogEnd::Corrupt { .. })) => match self.record_in_this_block(search, false) {
                Some(position) => {
                    self.blocks.position = position;
                    true
                }
                None => self.blocks.next_block()?,
            },
            Some(Ok(LogEnd::Stale { .. })) => self.find_own_record(search)?,
            _ => false,
        };
        if found {
            self.fragments.clear();
            self.fragments_start = None;
            self.resumed = true;
            self.outcome = None;
        }
        Ok(found)
    }

    /// Where in the buffered block the first whole record of this log starts, the current position
    /// included: a record there is whole if it was only out of place. If `recyclable`, a record
    /// without a log number does not count.
    fn record_in_this_block(&self, search: Search, recyclable: bool) -> Option<usize> {
        let block = self.blocks.rest();
        let is_own = |at: &usize| {
            let Some((record_type, body)) = block.get(*at..).and_then(whole_record) else {
                return false;
            };
            match is_recyclable(record_type) {
                true => self.is_of_this_log(body),
                false => !recyclable,
            }
        };
        let found = match search {
            Search::Certain => [Some(0), record_size(block)]
                .into_iter()
                .flatten()
                .find(is_own),
            Search::Everywhere => (0..block.len())
                .filter(|at| block.get(*at..).is_some_and(may_be_fragment))
                .find(is_own),
        };
        found.map(|at| self.blocks.position + at)
    }

    /// Moves to the next position where a whole record of this log starts.
    fn find_own_record(&mut self, search: Search) -> Result<bool> {
        let mut found = self.record_in_this_block(search, true);
        while found.is_none() {
            if !self.blocks.next_block()? {
                return Ok(false);
            }
            let first = whole_record(self.blocks.rest());
            let own = first.is_some_and(|(t, body)| is_recyclable(t) && self.is_of_this_log(body));
            found = own.then_some(self.blocks.position);
        }
        self.blocks.position = found.unwrap_or(self.blocks.position);
        Ok(true)
    }
}

impl Blocks {
    /// Whether the block of `offset` has a whole record that starts after it.
    pub(super) fn has_record_after(&self, offset: u64) -> bool {
        let block = self.rest_from(offset.saturating_sub(self.start) as usize);
        (1..block.len()).any(|at| {
            let rest = block.get(at..).unwrap_or_default();
            may_be_fragment(rest)
                && whole_record(rest).is_some_and(|(kind, _)| !is_recyclable(kind))
        })
    }
}

/// Whether the byte of the type is that of a full, first, middle or last fragment: so that a
/// checksum is computed for few of the places that are searched.
fn may_be_fragment(bytes: &[u8]) -> bool {
    let kind = bytes.get(HEADER_SIZE - 1).copied().unwrap_or_default();
    (TYPE_FULL..=TYPE_LAST + RECYCLABLE).contains(&kind)
}

/// The type of the record at the start of `bytes`, and the bytes after the first seven of its
/// header, if the record is complete and its checksum is right.
fn whole_record(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [c0, c1, c2, c3, _, _, record_type] = *bytes.first_chunk::<HEADER_SIZE>()?;
    let body = bytes.get(HEADER_SIZE..record_size(bytes)?)?;
    let whole = record_crc(record_type, body) == u32::from_le_bytes([c0, c1, c2, c3]);
    whole.then_some((record_type, body))
}

/// The size of the record at the start of `bytes`, according to its header.
fn record_size(bytes: &[u8]) -> Option<usize> {
    let [_, _, _, _, l0, l1, record_type] = *bytes.first_chunk::<HEADER_SIZE>()?;
    Some(header_size(record_type) + usize::from(u16::from_le_bytes([l0, l1])))
}
