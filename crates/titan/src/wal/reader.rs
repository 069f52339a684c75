//! Reads log records, and decides on the meaning of a log's end.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blocks::Blocks;
use super::{
    BLOCK_SIZE, HEADER_SIZE, RECYCLABLE, RECYCLABLE_HEADER_SIZE, TYPE_COMPRESSION, TYPE_FIRST,
    TYPE_FULL, TYPE_IGNORABLE, TYPE_LAST, TYPE_MIDDLE, TYPE_RECYCLABLE_PREDECESSOR,
    TYPE_RECYCLABLE_TIMESTAMP_SIZES, TYPE_TIMESTAMP_SIZES, compressed, record_crc,
};
use crate::error::{Error, Result};
use crate::format::CompressionType;
use crate::format::numbers::FileNumber;
use crate::vfs::ReadableFile;

/// Treatment of a place where a log cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailMode {
    /// For a WAL: the log ends before the first bytes that are not a whole record, regardless of
    /// their content and of the bytes after them.
    PointInTime,
    /// For a MANIFEST: damage at the very end is a write that a crash cut short and ends the log;
    /// damage that anything follows is an error.
    Strict,
}

/// Why a log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// After a whole record: at the end of the file or at preallocated zeros.
    Clean,
    /// In the middle of a record. Valid records end at `offset`.
    Truncated { offset: u64 },
    /// At bytes that differ from those written. Valid records end at `offset`. `followed` says
    /// whether more than zeros follow, so that this is not merely the end of the last append.
    Corrupt {
        offset: u64,
        reason: &'static str,
        followed: bool,
    },
    /// In a recycled file, at bytes that are not of this log: the previous content, which is
    /// how such a log normally ends, or damage: they cannot be distinguished here. A log that
    /// follows must continue the sequence numbers. Valid records end at `offset`.
    Stale { offset: u64 },
}

impl LogEnd {
    /// Why the log ended, as text.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            LogEnd::Clean => "it ends",
            LogEnd::Truncated { .. } => "a record is cut short",
            LogEnd::Corrupt { reason, .. } => reason,
            LogEnd::Stale { .. } => "records of an earlier use of the file follow",
        }
    }
}

/// One logical record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The bytes given to the writer.
    pub payload: &'a [u8],
    /// Where in the file its first physical record starts.
    pub offset: u64,
}

/// Reads the records of a log from front to back. Needs the memory of the largest record and 256
/// KiB.
pub struct LogReader {
    pub(super) blocks: Blocks,
    path: PathBuf,
    pub(super) log_number: FileNumber,
    mode: TailMode,
    /// The offset at which the records read so far end and the bytes after them begin.
    records_end: u64,
    /// Whether this log is known to overwrite an older one.
    recycled: bool,
    /// The fragments of the current logical record, and where its first one started.
    pub(super) fragments: Vec<u8>,
    pub(super) fragments_start: Option<u64>,
    /// Whether fragments of a record whose start was skipped may follow.
    pub(super) resumed: bool,
    /// Whether records are compressed, and the last one decompressed.
    compressed: bool,
    decompressed: Vec<u8>,
    /// Set once there is nothing more to read.
    pub(super) outcome: Option<Result<LogEnd>>,
}

/// A physical record of type full, first, middle or last.
struct Fragment {
    /// One of the four legacy types.
    kind: u8,
    offset: u64,
    /// Where in the buffer the payload is.
    payload: Range<usize>,
}

/// Next piece of the file.
enum Physical {
    Fragment(Fragment),
    End(LogEnd),
}

/// The next logical record, with the offset of its start, or the end of the log.
enum Logical {
    InBuffer(u64, Range<usize>),
    InFragments(u64),
    End(LogEnd),
}

impl LogReader {
    /// Reads `file` from its start. `log_number` is the one in the file's name, which records of
    /// recycled files carry; `path` is for messages.
    pub fn new(
        file: Arc<dyn ReadableFile>,
        path: &Path,
        log_number: FileNumber,
        mode: TailMode,
    ) -> Self {
        LogReader {
            blocks: Blocks::new(file),
            path: path.to_owned(),
            log_number,
            mode,
            records_end: 0,
            recycled: false,
            fragments: Vec::new(),
            fragments_start: None,
            resumed: false,
            compressed: false,
            decompressed: Vec::new(),
            outcome: None,
        }
    }

    /// The next record, or `None` at the end of the log, which [`LogReader::end`] explains.
    ///
    /// # Errors
    /// `Unsupported` for a record type of a later version, in both modes, and for compression by
    /// another method than Zstandard.
    /// `Corruption` in [`TailMode::Strict`]. Later calls return the same error.
    #[expect(clippy::should_implement_trait, reason = "a step of a cursor may fail")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        match &self.outcome {
            Some(Ok(_)) => return Ok(None),
            Some(Err(error)) => return Err(error.clone()),
            None => {}
        }
        let (offset, stored) = match self.next_logical() {
            Ok(Logical::InBuffer(offset, range)) => (offset, Some(range)),
            Ok(Logical::InFragments(offset)) => (offset, None),
            Ok(Logical::End(end)) => {
                self.outcome = Some(Ok(end));
                return Ok(None);
            }
            Err(error) => {
                let error = error.in_file(&self.path);
                self.outcome = Some(Err(error.clone()));
                return Err(error);
            }
        };
        let mut payload = match stored {
            Some(range) => self.blocks.bytes.get(range).unwrap_or_default(),
            None => &self.fragments,
        };
        if self.compressed {
            if !compressed::decompress(payload, &mut self.decompressed) {
                let reason = "a compressed record does not decompress";
                // The checksum is right, so this is not a write that a crash cut short.
                if self.mode == TailMode::Strict {
                    let error = Error::corruption(reason).at(&self.path, offset);
                    self.outcome = Some(Err(error.clone()));
                    return Err(error);
                }
                self.outcome = Some(Ok(LogEnd::Corrupt {
                    offset,
                    reason,
                    followed: true,
                }));
                return Ok(None);
            }
            payload = &self.decompressed;
        }
        self.records_end = self.blocks.start + self.blocks.position as u64;
        Ok(Some(Record { payload, offset }))
    }

    /// End of the log; `None` before `next` returned `None`.
    pub fn end(&self) -> Option<&LogEnd> {
        match &self.outcome {
            Some(Ok(end)) => Some(end),
            _ => None,
        }
    }

    /// Where the last record that was returned ends: bytes of the file.
    pub fn records_end(&self) -> u64 {
        self.records_end
    }

    /// Whether a recyclable record is of this log and not of an earlier use of the file.
    pub(super) fn is_of_this_log(&self, body: &[u8]) -> bool {
        let number = body.first_chunk::<4>().map(|n| u32::from_le_bytes(*n));
        number == Some(self.log_number.0 as u32)
    }

    /// Joins fragments into the next logical record, or finds the end.
    fn next_logical(&mut self) -> Result<Logical> {
        loop {
            let Fragment {
                kind,
                offset,
                payload,
            } = match self.next_physical()? {
                Physical::Fragment(fragment) => fragment,
                Physical::End(end) => return Ok(Logical::End(self.cut_at_fragments(end))),
            };
            match (kind, self.fragments_start) {
                (TYPE_FULL | TYPE_FIRST, Some(_)) if !self.fragments.is_empty() => {
                    let reason = "a record starts before the last one ended";
                    self.blocks.position = (offset - self.blocks.start) as usize;
                    return self.damage(offset, Some(offset), reason).map(Logical::End);
                }
                (TYPE_FULL, _) => {
                    self.fragments_start = None;
                    self.resumed = false;
                    return Ok(Logical::InBuffer(offset, payload));
                }
                (TYPE_FIRST, _) => {
                    self.resumed = false;
                    self.fragments_start = Some(offset);
                    self.fragments.clear();
                    self.fragments
                        .extend_from_slice(self.blocks.bytes.get(payload).unwrap_or_default());
                }
                (_, None) if self.resumed => {}
                (_, None) => {
                    let reason = "the continuation of a record without its start";
                    return self.damage(offset, Some(offset), reason).map(Logical::End);
                }
                (_, Some(start)) => {
                    self.fragments
                        .extend_from_slice(self.blocks.bytes.get(payload).unwrap_or_default());
                    if kind == TYPE_LAST {
                        self.fragments_start = None;
                        return Ok(Logical::InFragments(start));
                    }
                }
            }
        }
    }

    /// Moves an end in the middle of a fragmented record to the start of that record.
    fn cut_at_fragments(&self, end: LogEnd) -> LogEnd {
        let Some(start) = self.fragments_start else {
            return end;
        };
        match end {
            LogEnd::Clean | LogEnd::Truncated { .. } => LogEnd::Truncated { offset: start },
            LogEnd::Corrupt {
                reason, followed, ..
            } => LogEnd::Corrupt {
                offset: start,
                reason,
                followed,
            },
            LogEnd::Stale { .. } => LogEnd::Stale { offset: start },
        }
    }

    /// Finds and checks the next fragment.
    fn next_physical(&mut self) -> Result<Physical> {
        loop {
            if self.blocks.position >= self.blocks.bytes.len() {
                if self.blocks.last {
                    return Ok(Physical::End(LogEnd::Clean));
                }
                self.blocks.fill()?;
                continue;
            }
            let block_left = BLOCK_SIZE - self.blocks.position % BLOCK_SIZE;
            if block_left < HEADER_SIZE {
                self.blocks.position += block_left;
                continue;
            }
            let offset = self.blocks.start + self.blocks.position as u64;
            let rest = self.blocks.rest();
            let available = rest.len();
            let Some(header) = rest.first_chunk::<HEADER_SIZE>() else {
                // Only at the end of the file can a block end within a header.
                if rest.iter().all(|&b| b == 0) {
                    return Ok(Physical::End(LogEnd::Clean));
                }
                return self
                    .damage(offset, None, "half a header")
                    .map(Physical::End);
            };
            if header.iter().all(|&b| b == 0) {
                if self.recycled && block_left < RECYCLABLE_HEADER_SIZE {
                    self.blocks.position += block_left;
                    continue;
                }
                return self.zeros(offset).map(Physical::End);
            }
            let [c0, c1, c2, c3, l0, l1, record_type] = *header;
            let stored_crc = u32::from_le_bytes([c0, c1, c2, c3]);
            let recyclable = is_recyclable(record_type);
            let header_size = header_size(record_type);
            let size = header_size + usize::from(u16::from_le_bytes([l0, l1]));
            if size > block_left {
                let reason = "a record runs over the end of its block";
                return self.damage(offset, None, reason).map(Physical::End);
            }
            let claimed_end = offset + size as u64;
            if size > available {
                let reason = "a record runs over the end of the file";
                return self
                    .damage(offset, Some(claimed_end), reason)
                    .map(Physical::End);
            }
            let body = rest.get(HEADER_SIZE..size).unwrap_or_default();
            if record_crc(record_type, body) != stored_crc {
                let reason = "a record fails its checksum";
                return self
                    .damage(offset, Some(claimed_end), reason)
                    .map(Physical::End);
            }
            if recyclable {
                if !self.is_of_this_log(body) {
                    if self.mode == TailMode::PointInTime {
                        return Ok(Physical::End(LogEnd::Stale { offset }));
                    }
                    let reason = "a record of another log";
                    return self
                        .damage(offset, Some(claimed_end), reason)
                        .map(Physical::End);
                }
                self.recycled = self.mode == TailMode::PointInTime;
            }
            let payload = self.blocks.position + header_size..self.blocks.position + size;
            self.blocks.position += size;
            let kind = match record_type {
                TYPE_FULL | TYPE_FIRST | TYPE_MIDDLE | TYPE_LAST => record_type,
                5..=8 => record_type - RECYCLABLE,
                // Sizes of user-defined timestamps are skipped: a family that has timestamps is
                // refused because of the name of its comparator.
                TYPE_TIMESTAMP_SIZES | TYPE_RECYCLABLE_TIMESTAMP_SIZES => continue,
                TYPE_COMPRESSION => {
                    let method = self.blocks.bytes.get(payload).unwrap_or_default();
                    match method.first_chunk().map(|m| u32::from_le_bytes(*m)) {
                        Some(compressed::ZSTD) => {
                            let codec = CompressionType::Zstd.require();
                            codec.map_err(|e| e.context("a compressed log").at_offset(offset))?;
                            self.compressed = true;
                        }
                        _ => {
                            let message = "a log that is compressed by another method than ZSTD";
                            return Err(Error::unsupported(message).at_offset(offset));
                        }
                    }
                    continue;
                }
                t if t & TYPE_IGNORABLE != 0 => continue,
                t => {
                    return Err(Error::unsupported(format!(
                        "the log uses a feature this version does not know: record type {t}"
                    ))
                    .at_offset(offset));
                }
            };
            return Ok(Physical::Fragment(Fragment {
                kind,
                offset,
                payload,
            }));
        }
    }

    /// Classifies a header of zeros: preallocated space, unless other bytes follow.
    fn zeros(&mut self, offset: u64) -> Result<LogEnd> {
        if !self.blocks.nonzero_from(offset)? {
            return Ok(LogEnd::Clean);
        }
        self.damage(offset, Some(offset), "zeros between records")
    }

    /// Classifies bytes at `offset` that are no record: the end of the log, or an error.
    /// `claimed_end` is where the record would end if its length were right, if that is known.
    fn damage(
        &mut self,
        offset: u64,
        claimed_end: Option<u64>,
        reason: &'static str,
    ) -> Result<LogEnd> {
        if self.recycled {
            return Ok(self.cut_at_fragments(LogEnd::Stale { offset }));
        }
        let size = self.blocks.file.size()?;
        let block_end = (offset / BLOCK_SIZE as u64 + 1) * BLOCK_SIZE as u64;
        // The length itself may be damaged, so a whole record anywhere after it counts, too: else
        // one flipped bit could make the rest of a short log look like a record cut short.
        let more_behind = self.blocks.has_record_after(offset)
            || self.blocks.nonzero_from(claimed_end.unwrap_or(block_end))?;
        if more_behind && self.mode == TailMode::Strict {
            return Err(Error::corruption(reason).at_offset(offset));
        }
        let cut_short = claimed_end.is_some_and(|end| end > size)
            || size.saturating_sub(offset) < HEADER_SIZE as u64;
        let end = if cut_short && !more_behind {
            LogEnd::Truncated { offset }
        } else {
            LogEnd::Corrupt {
                offset,
                reason,
                followed: more_behind,
            }
        };
        Ok(self.cut_at_fragments(end))
    }
}

pub(super) fn header_size(record_type: u8) -> usize {
    match is_recyclable(record_type) {
        true => RECYCLABLE_HEADER_SIZE,
        false => HEADER_SIZE,
    }
}

pub(super) fn is_recyclable(record_type: u8) -> bool {
    (TYPE_FULL + RECYCLABLE..=TYPE_LAST + RECYCLABLE).contains(&record_type)
        || record_type == TYPE_RECYCLABLE_TIMESTAMP_SIZES
        || record_type == TYPE_RECYCLABLE_PREDECESSOR
}
