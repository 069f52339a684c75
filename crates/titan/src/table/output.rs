//! The file of a table that is being written: appends blocks, through a buffer.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::format::CompressionType;
use crate::format::checksum::ChecksumType;
use crate::table::block::io::append_block;
use crate::table::footer::BlockHandle;
use crate::vfs::WritableFile;

/// Bytes collected before they are appended to the file.
const WRITE_BUFFER: usize = 512 << 10;
pub(super) const CHECKSUM: ChecksumType = ChecksumType::Xxh3;

/// The file, with a write buffer.
pub(super) struct Output {
    file: Box<dyn WritableFile>,
    pub(super) path: PathBuf,
    pub(super) buffer: Vec<u8>,
    /// Bytes appended to the file, without the buffer.
    appended: u64,
    scratch: Vec<u8>,
}

impl Output {
    /// The output to `file`, which must be empty; `path` is for errors.
    pub(super) fn new(file: Box<dyn WritableFile>, path: &Path, block_size: usize) -> Self {
        #[cfg(test)]
        let appended = file.gap();
        #[cfg(not(test))]
        let appended = 0;
        Output {
            file,
            path: path.to_owned(),
            buffer: Vec::with_capacity(WRITE_BUFFER + block_size),
            appended,
            scratch: Vec::new(),
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.appended + self.buffer.len() as u64
    }

    pub(super) fn block(
        &mut self,
        payload: &[u8],
        compression: CompressionType,
    ) -> Result<BlockHandle> {
        let offset = self.position();
        let size = append_block(
            &mut self.buffer,
            &mut self.scratch,
            payload,
            compression,
            CHECKSUM,
        )
        .map_err(|e| e.at(&self.path, offset))?;
        if self.buffer.len() >= WRITE_BUFFER {
            self.drain()?;
        }
        if mutant!(block_handle_of_32_bits) {
            let offset = u64::from(offset as u32);
            return Ok(BlockHandle { offset, size });
        }
        Ok(BlockHandle { offset, size })
    }

    pub(super) fn drain(&mut self) -> Result<()> {
        let len = self.buffer.len() as u64;
        self.file
            .append(&self.buffer)
            .map_err(|e| e.in_file(&self.path))?;
        self.buffer.clear();
        self.appended += len;
        Ok(())
    }

    /// Makes the bytes written durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.file.sync().map_err(|e| e.in_file(&self.path))
    }
}
