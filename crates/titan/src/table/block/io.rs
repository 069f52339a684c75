//! Blocks on disk: `payload | compression type u8 | checksum u32`.
//!
//! Reading checks the handle against the file, the checksum against the bytes, and decompresses
//! with a bound, so that nothing stored can cause a large allocation.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::error::{Error, Result};
use crate::format::CompressionType;
use crate::format::checksum::ChecksumType;
use crate::format::compression::{Dictionary, compress, decompress_with};
use crate::table::footer::{BLOCK_TRAILER_LEN, BlockHandle, Footer, context_modifier};
use crate::vfs::ReadableFile;

/// Allowance for payloads too small for the ratio to hold.
const MIN_UNCOMPRESSED_LIMIT: usize = 256 << 10;

/// The kind of a block, as far as decompression depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Entries. Only these use the table's dictionary, if it has one.
    Data,
    /// Anything else.
    Meta,
}

/// Where a table's blocks are read from. Errors name the file and the block's offset.
pub struct BlockSource {
    pub file: Arc<dyn ReadableFile>,
    pub path: PathBuf,
    /// Where the footer starts: the end of all blocks.
    pub limit: u64,
    pub checksum: ChecksumType,
    pub base_context_checksum: u32,
    pub format_version: u32,
    /// Dictionary with which data blocks were compressed.
    pub dictionary: Option<Dictionary>,
}

impl BlockSource {
    /// The blocks of a table of `size` bytes, without a dictionary yet.
    pub fn of(file: Arc<dyn ReadableFile>, path: &Path, size: u64, footer: &Footer) -> Self {
        BlockSource {
            file,
            path: path.to_owned(),
            limit: size.saturating_sub(footer.encoded_len() as u64),
            checksum: footer.checksum,
            base_context_checksum: footer.base_context_checksum,
            format_version: footer.format_version,
            dictionary: None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads, verifies and decompresses a block.
    pub fn read(&self, kind: BlockKind, handle: BlockHandle) -> Result<Bytes> {
        self.read_stored(handle)
            .and_then(|stored| self.open(kind, handle, stored))
            .map_err(|e| e.at(&self.path, handle.offset))
    }

    /// [`BlockSource::read`] for a walk through neighbouring blocks.
    pub(in crate::table) fn read_through(
        &self,
        window: &mut Window,
        kind: BlockKind,
        handle: BlockHandle,
        backward: bool,
    ) -> Result<Bytes> {
        handle
            .stored_len(self.limit)
            .and_then(|len| window.read(self, handle.offset, len, backward))
            .and_then(|stored| self.open(kind, handle, stored))
            .map_err(|e| e.at(&self.path, handle.offset))
    }

    /// Reads a block with its trailer, unverified.
    pub fn read_stored(&self, handle: BlockHandle) -> Result<Bytes> {
        let len = handle.stored_len(self.limit)?;
        self.file.read_exact_at(handle.offset, len)
    }

    /// Verifies and decompresses a block that [`BlockSource::read_stored`] returned.
    pub fn open(&self, kind: BlockKind, handle: BlockHandle, stored: Bytes) -> Result<Bytes> {
        self.verify(handle, &stored)?;
        let Some((rest, _)) = stored.split_last_chunk::<4>() else {
            return Err(Error::corruption("block shorter than its trailer"));
        };
        let Some((&type_byte, payload)) = rest.split_last() else {
            return Err(Error::corruption("block shorter than its trailer"));
        };
        match CompressionType::from_u8(type_byte)? {
            CompressionType::None => Ok(stored.slice(..payload.len())),
            // The meaning of other numbers, and the form of the size, depend on the program.
            packing if self.format_version == 0 && packing != CompressionType::Snappy => {
                let text = format!("a block of format version 0 with compression {type_byte}");
                Err(Error::unsupported(text))
            }
            packing => {
                let limit = payload.len().saturating_mul(packing.max_expansion());
                let limit = limit.clamp(MIN_UNCOMPRESSED_LIMIT, u32::MAX as usize);
                let dictionary = self.dictionary.as_ref().filter(|_| kind == BlockKind::Data);
                decompress_with(packing, dictionary, payload, limit).map(Bytes::from)
            }
        }
    }

    /// Compares the checksum of a block with its trailer.
    pub(in crate::table) fn verify(&self, handle: BlockHandle, stored: &[u8]) -> Result<()> {
        let (Some((rest, sum)), true) = (
            stored.split_last_chunk::<4>(),
            stored.len() >= BLOCK_TRAILER_LEN,
        ) else {
            return Err(Error::corruption("block shorter than its trailer"));
        };
        if self.checksum == ChecksumType::None {
            return Ok(());
        }
        let (type_byte, payload) = rest.split_last().unwrap_or((&0, &[]));
        let modifier = context_modifier(self.base_context_checksum, handle.offset);
        let expected = self
            .checksum
            .block_checksum(payload, *type_byte)
            .wrapping_add(modifier);
        let stored = u32::from_le_bytes(*sum);
        if stored != expected {
            return Err(Error::corruption(format!(
                "block checksum mismatch: stored {stored:#010x}, computed {expected:#010x}"
            )));
        }
        Ok(())
    }
}

/// A stretch of the file that is read at once, for cursors that walk from block to block.
pub(in crate::table) struct Window {
    /// Bytes to read at once.
    size: usize,
    start: u64,
    data: Bytes,
}

impl Window {
    pub(in crate::table) fn new(size: usize) -> Self {
        Window {
            size,
            start: 0,
            data: Bytes::new(),
        }
    }

    fn read(
        &mut self,
        source: &BlockSource,
        offset: u64,
        len: usize,
        backward: bool,
    ) -> Result<Bytes> {
        let held = offset.checked_sub(self.start).map(|at| at as usize);
        if let Some(at) = held
            && at
                .checked_add(len)
                .is_some_and(|end| end <= self.data.len())
        {
            return Ok(self.data.slice(at..at + len));
        }
        let want = len.max(self.size) as u64;
        let block_end = offset + len as u64;
        let start = if backward {
            block_end.saturating_sub(want)
        } else {
            offset
        };
        let end = (start + want).min(source.limit).max(block_end);
        let stretch_len = (end - start) as usize;
        // Reuses the memory unless its size does not fit or a block in it is still in use. New
        // memory of this size is zeroed first, and is allocated and freed among small pieces that
        // live long.
        let fits = |memory: &BytesMut| {
            (stretch_len..=2 * stretch_len.max(self.size)).contains(&memory.capacity())
        };
        let memory = mem::take(&mut self.data).try_into_mut().ok().filter(fits);
        let mut stretch = memory.unwrap_or_else(|| BytesMut::zeroed(stretch_len));
        stretch.resize(stretch_len, 0);
        source.file.fill_at(start, &mut stretch)?;
        self.data = stretch.freeze();
        self.start = start;
        // Prefetches the stretch that the walk needs next, while this one is processed.
        if backward {
            let next = start.saturating_sub(want);
            source.file.prefetch(next, (start - next) as usize);
        } else if end < source.limit {
            source
                .file
                .prefetch(end, want.min(source.limit - end) as usize);
        }
        let at = (offset - start) as usize;
        Ok(self.data.slice(at..at + len))
    }
}

/// Appends `payload`, compressed if that saves an eighth, with its trailer to `out`; returns the
/// size without the trailer. `scratch` is overwritten.
pub(in crate::table) fn append_block(
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    payload: &[u8],
    compression: CompressionType,
    checksum: ChecksumType,
) -> Result<u64> {
    let mut stored = payload;
    let mut kind = CompressionType::None;
    if compression != CompressionType::None {
        scratch.clear();
        compress(compression, payload, scratch)?;
        if scratch.len() < payload.len() - payload.len() / 8 {
            (stored, kind) = (scratch, compression);
        }
    }
    out.extend_from_slice(stored);
    out.push(kind as u8);
    out.extend_from_slice(&checksum.block_checksum(stored, kind as u8).to_le_bytes());
    Ok(stored.len() as u64)
}
