//! The part of a log file that is being read: whole blocks of it, in memory.

use std::sync::Arc;

use super::BLOCK_SIZE;
use crate::error::Result;
use crate::vfs::ReadableFile;

/// Bytes read at once: whole blocks, so that a physical record is always in one piece.
const READ_SIZE: usize = 8 * BLOCK_SIZE;

/// Blocks of a file, and a position in them.
pub(super) struct Blocks {
    pub(super) file: Arc<dyn ReadableFile>,
    /// Whole blocks of the file from `start`; the last one is cut off at the file's end.
    pub(super) bytes: Vec<u8>,
    pub(super) start: u64,
    /// Where in `bytes` the next physical record starts.
    pub(super) position: usize,
    /// Whether the file ends with these blocks.
    pub(super) last: bool,
}

impl Blocks {
    pub(super) fn new(file: Arc<dyn ReadableFile>) -> Self {
        Blocks {
            file,
            bytes: Vec::new(),
            start: 0,
            position: 0,
            last: false,
        }
    }

    /// The bytes from the current position to the end of that block.
    pub(super) fn rest(&self) -> &[u8] {
        self.rest_from(self.position)
    }

    /// The bytes from `position` to the end of that block.
    pub(super) fn rest_from(&self, position: usize) -> &[u8] {
        let end = (position / BLOCK_SIZE + 1) * BLOCK_SIZE;
        let bytes = self.bytes.get(position..end.min(self.bytes.len()));
        bytes.unwrap_or_default()
    }

    /// Reads the blocks that follow.
    pub(super) fn fill(&mut self) -> Result<()> {
        self.start += self.bytes.len() as u64;
        self.position = 0;
        self.bytes.resize(READ_SIZE, 0);
        let n = self.file.read_at(self.start, &mut self.bytes)?;
        self.bytes.truncate(n);
        self.last = n < READ_SIZE;
        Ok(())
    }

    /// Moves to the start of the next block; returns false, and stays, if there is none.
    pub(super) fn next_block(&mut self) -> Result<bool> {
        let next = (self.position / BLOCK_SIZE + 1) * BLOCK_SIZE;
        if next < self.bytes.len() {
            self.position = next;
        } else if self.last {
            return Ok(false);
        } else {
            self.fill()?;
        }
        Ok(true)
    }

    /// Whether any byte of the file from `offset` on is not zero.
    pub(super) fn nonzero_from(&self, mut offset: u64) -> Result<bool> {
        let mut chunk = vec![0; BLOCK_SIZE];
        loop {
            let n = self.file.read_at(offset, &mut chunk)?;
            if chunk.get(..n).unwrap_or_default().iter().any(|&b| b != 0) {
                return Ok(true);
            }
            if n < chunk.len() {
                return Ok(false);
            }
            offset += n as u64;
        }
    }
}
