//! Writes log records.

use std::path::{Path, PathBuf};

use super::{BLOCK_SIZE, HEADER_SIZE, TYPE_FIRST, TYPE_FULL, TYPE_LAST, TYPE_MIDDLE, record_crc};
use crate::error::{Error, Result};
use crate::vfs::WritableFile;

/// The framing buffer is freed after a record that needed more than this.
const BUFFER_KEPT: usize = 4 << 20;

/// Appends records to a new log file.
///
/// A record is appended to the file in one call: it is readable once `add_record` returned, and
/// durable once a later `sync` did. The first error of either is final: all later calls return it.
pub struct LogWriter {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    /// The bytes of records with their headers, to be appended to the file.
    buffer: Vec<u8>,
    /// Where in its block the next byte goes.
    block_offset: usize,
    file_size: u64,
    failure: Option<Failure>,
}

/// The first failure of a log.
struct Failure {
    error: Error,
    left: Left,
}

/// Traces that a failure has left in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// All complete records, and perhaps a part of one after them: an append failed.
    PartOfRecord,
    /// All complete records, durably: the part was cut off.
    Records,
    /// Nothing is known: a sync failed.
    Unknown,
}

impl LogWriter {
    /// Takes over `file`, which must be empty. `path` is for messages.
    pub fn new(file: Box<dyn WritableFile>, path: &Path) -> Self {
        LogWriter {
            file,
            path: path.to_owned(),
            buffer: Vec::new(),
            block_offset: 0,
            file_size: 0,
            failure: None,
        }
    }

    /// Appends one record.
    pub fn add_record(&mut self, payload: &[u8]) -> Result<()> {
        self.add_record_parts(&[payload])
    }

    /// Prepares a record that the next one brings along: both are appended in one call.
    pub(crate) fn prepare_record(&mut self, payload: &[u8]) {
        self.frame(&[payload]);
    }

    /// Where the next record will start: bytes of the file.
    pub(crate) fn next_offset(&self) -> u64 {
        let left = BLOCK_SIZE - self.block_offset;
        let trailer = if left < HEADER_SIZE { left } else { 0 };
        self.file_size + (self.buffer.len() + trailer) as u64
    }

    /// Appends one record whose payload is the concatenation of `parts`. Copies each byte once.
    pub(crate) fn add_record_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.check()?;
        self.frame(parts);
        self.append_prepared()
    }

    /// Appends the records that were prepared.
    pub(crate) fn append_prepared(&mut self) -> Result<()> {
        self.check()?;
        let result = self.file.append(&self.buffer);
        let framed = self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT);
        result.map_err(|e| self.fail(e, Left::PartOfRecord))?;
        self.file_size += framed;
        invariant!(
            self.file_size % BLOCK_SIZE as u64 == (self.block_offset % BLOCK_SIZE) as u64,
            "a log of {} bytes continues at {} of a block",
            self.file_size,
            self.block_offset
        );
        Ok(())
    }

    /// Makes all records durable.
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        invariant!(
            self.buffer.is_empty(),
            "a sync leaves out {} bytes of records that were prepared",
            self.buffer.len()
        );
        // ORDER: a failed sync is never retried on the same file; the kernel may have dropped
        // the pages, so a second one would succeed without having written them.
        self.file.sync().map_err(|e| {
            if mutant!(failed_sync_retried) {
                return e.in_file(&self.path);
            }
            self.fail(e, Left::Unknown)
        })
    }

    /// Ends a log whose last append failed: makes its complete records durable and cuts off the
    /// bytes after them. Without a failure, does nothing. Nothing can be appended afterwards.
    ///
    /// # Errors
    /// The failure, if it was one of a sync, after which nothing is known about the records.
    /// Failures to cut or to sync; a later call fails too.
    pub(crate) fn end_after_failed_append(&mut self) -> Result<()> {
        let Some(failure) = &mut self.failure else {
            return Ok(());
        };
        match std::mem::replace(&mut failure.left, Left::Unknown) {
            Left::PartOfRecord => {}
            Left::Records => {
                failure.left = Left::Records;
                return Ok(());
            }
            Left::Unknown => return Err(failure.error.clone()),
        }
        // ORDER: before the next log is started, whose first record says where this one ends.
        let stays = mutant!(failed_append_not_cut);
        if !stays {
            self.file.cut_failed_append()?;
        }
        self.file.sync()?;
        failure.left = Left::Records;
        Ok(())
    }

    /// Whether every append and sync succeeded.
    pub(crate) fn is_intact(&self) -> bool {
        self.failure.is_none()
    }

    /// Bytes appended so far.
    pub(crate) fn file_size(&self) -> u64 {
        self.file_size
    }

    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.error.clone()),
            None => Ok(()),
        }
    }

    fn fail(&mut self, error: Error, left: Left) -> Error {
        let error = error.in_file(&self.path);
        invariant!(
            self.failure.is_none(),
            "a log that has failed was written to: {error}"
        );
        self.failure = Some(Failure {
            error: error.clone(),
            left,
        });
        error
    }

    /// Adds the physical records of one logical record to the buffer.
    fn frame(&mut self, parts: &[&[u8]]) {
        let mut remaining: usize = parts.iter().map(|part| part.len()).sum();
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        let blocks = remaining / (BLOCK_SIZE - HEADER_SIZE) + 2;
        self.buffer.reserve(remaining + blocks * HEADER_SIZE);

        let mut first = true;
        loop {
            let left = BLOCK_SIZE - self.block_offset;
            if left < HEADER_SIZE {
                self.buffer.resize(self.buffer.len() + left, 0);
                self.block_offset = 0;
            }
            let room = BLOCK_SIZE - self.block_offset - HEADER_SIZE;
            let length = room.min(remaining);
            let last = length == remaining;
            let record_type = match (first, last) {
                (true, true) => TYPE_FULL,
                (true, false) => TYPE_FIRST,
                (false, false) => TYPE_MIDDLE,
                (false, true) => TYPE_LAST,
            };

            let header = self.buffer.len();
            self.buffer.resize(header + HEADER_SIZE, 0);
            let body = self.buffer.len();
            let mut wanted = length;
            while wanted > 0 {
                if part.is_empty() {
                    part = parts.next().unwrap_or_default();
                    continue;
                }
                let (taken, rest) = part.split_at(wanted.min(part.len()));
                self.buffer.extend_from_slice(taken);
                wanted -= taken.len();
                part = rest;
            }
            let crc = record_crc(record_type, &self.buffer[body..]);
            self.buffer[header..header + 4].copy_from_slice(&crc.to_le_bytes());
            // A block is 32 KiB, so its content's length fits 16 bits.
            self.buffer[header + 4..header + 6].copy_from_slice(&(length as u16).to_le_bytes());
            self.buffer[header + 6] = record_type;

            self.block_offset += HEADER_SIZE + length;
            remaining -= length;
            first = false;
            invariant!(
                self.block_offset <= BLOCK_SIZE,
                "a record goes to {} of a block",
                self.block_offset
            );
            if last {
                invariant!(
                    part.is_empty() && parts.all(<[u8]>::is_empty),
                    "a record lacks its end"
                );
                return;
            }
        }
    }
}
