//! Relocation maps: where collections put the records of logical files. One map file belongs to
//! each physical file that a collection wrote.
//!
//! ```text
//! file     chunk ... | index | footer
//!
//! chunk    n varint | offset varint | new offset varint           the first record's
//!          | (n - 1) * { offset - offset before varint, new offset - that before svarint }
//!          | checksum u32                                         masked CRC-32C of the chunk
//!
//! index    physical file varint | logical files varint            ascending
//!          per logical file: number varint | chunks varint
//!            per chunk: first offset varint | chunk's offset varint | length varint
//!          | checksum u32                                         masked CRC-32C of the index
//!
//! footer   index offset u64 | index length u32 | format 1 u32 | magic u64       little-endian
//! 24 B
//! ```
//!
//! Offsets are those of values, as in pointers. Both offsets of a chunk's records mostly ascend, so
//! a record takes about five bytes. The index stays in memory while the file is open; chunks are
//! read through the block cache, which stores them in a form that can be searched directly
//! ([`MovedChunk`]). RocksDB does not know these files and refuses a MANIFEST that names one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::moved_chunk::{self, CHUNK_RECORDS, MovedChunk, MovedRecord};
use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::checksum::{crc32c, mask};
use crate::format::coding::{Decoder, put_varint};
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, FileNumber};
use crate::number_map::NumberMap;
use crate::vfs::{ReadableFile, Vfs};

const MAGIC: u64 = 0x7469_7461_6e6d_6170;
const FORMAT: u32 = 1;
const FOOTER_LEN: usize = 24;
const CHECKSUM_LEN: usize = 4;
/// The most bytes of a chunk. Limits the size that a damaged index can claim.
const MAX_CHUNK_LEN: u64 = 8 << 10;
/// The fewest bytes that a logical file or a chunk takes in the index.
const MIN_INDEX_ENTRY: usize = 2;

/// Collects the new offsets of records, and writes the map.
#[derive(Default)]
pub(crate) struct RelocationBuilder {
    files: NumberMap<BlobFileNumber, Vec<MovedRecord>>,
}

impl RelocationBuilder {
    /// Adds a record of a logical file.
    pub(crate) fn add(&mut self, logical: BlobFileNumber, record: MovedRecord) {
        self.files.get_or_default(logical).push(record);
    }

    /// Records added.
    pub(crate) fn len(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    /// The logical files added, ascending.
    pub(crate) fn logical_files(&self) -> Vec<BlobFileNumber> {
        self.files.keys().copied().collect()
    }

    /// Writes the map of the physical file. On success its content is durable; its name is not
    /// until the directory is synced. Returns the file's size.
    pub(crate) fn write(
        mut self,
        vfs: &dyn Vfs,
        dir: &Path,
        number: FileNumber,
        physical: BlobFileNumber,
    ) -> Result<u64> {
        let mut content = Vec::new();
        let mut index = Vec::new();
        put_varint(&mut index, physical.0);
        put_varint(&mut index, self.files.len() as u64);
        self.files
            .values_mut()
            .for_each(|records| records.sort_unstable());
        for (logical, records) in &self.files {
            invariant!(
                durable: records.is_sorted_by(|a, b| a.offset < b.offset),
                "two records of blob file {logical} that were moved have one offset"
            )?;
            put_varint(&mut index, logical.0);
            put_varint(&mut index, records.len().div_ceil(CHUNK_RECORDS) as u64);
            for chunk in records.chunks(CHUNK_RECORDS) {
                let at = content.len();
                let first = moved_chunk::encode(chunk, &mut content);
                put_checksum(&mut content, at);
                put_varint(&mut index, first);
                put_varint(&mut index, at as u64);
                put_varint(&mut index, (content.len() - at) as u64);
            }
        }
        let index_offset = content.len() as u64;
        content.extend_from_slice(&index);
        put_checksum(&mut content, index_offset as usize);
        let index_len = u32::try_from(content.len() as u64 - index_offset)
            .map_err(|_| Error::unsupported("a relocation map of too many records"))?;
        content.extend_from_slice(&index_offset.to_le_bytes());
        content.extend_from_slice(&index_len.to_le_bytes());
        content.extend_from_slice(&FORMAT.to_le_bytes());
        content.extend_from_slice(&MAGIC.to_le_bytes());
        let path = FileKind::BlobMap(number).path(dir);
        let mut file = vfs.create(&path)?;
        let written = file.append(&content).and_then(|()| {
            // ORDER: the map is durable before an edit names it (BLOB-1).
            if mutant!(relocation_map_not_synced) {
                return Ok(());
            }
            file.sync()
        });
        written.map_err(|e| e.in_file(&path))?;
        Ok(content.len() as u64)
    }
}

fn put_checksum(out: &mut Vec<u8>, from: usize) {
    let checksum = mask(crc32c(out.get(from..).unwrap_or_default()));
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// The content, if the checksum at its end matches.
fn checked(bytes: &[u8]) -> Result<&[u8]> {
    match bytes.split_last_chunk::<CHECKSUM_LEN>() {
        Some((content, stored)) if mask(crc32c(content)) == u32::from_le_bytes(*stored) => {
            Ok(content)
        }
        _ => Err(Error::corruption(
            "relocation map: a checksum does not match",
        )),
    }
}

/// A chunk's entry in the index.
#[derive(Clone, Copy, Debug)]
struct ChunkAt {
    first: u64,
    offset: u64,
    len: u64,
}

/// An open map. Immutable; share it by `Arc`.
pub struct RelocationMap {
    file: Arc<dyn ReadableFile>,
    path: PathBuf,
    number: FileNumber,
    physical: BlobFileNumber,
    logical: NumberMap<BlobFileNumber, Vec<ChunkAt>>,
    cache: Arc<BlockCache>,
}

impl RelocationMap {
    /// Opens a map: reads its footer and index.
    ///
    /// # Errors
    /// `Corruption` with file and offset; `Unsupported` for a later format.
    pub fn open(
        file: Arc<dyn ReadableFile>,
        path: &Path,
        number: FileNumber,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let size = file.size()?;
        let bad = |what: &str, at: u64| Error::corruption(what).at(path, at);
        let footer_at = size
            .checked_sub(FOOTER_LEN as u64)
            .ok_or_else(|| bad("file too short for a relocation map", 0))?;
        let footer = file
            .read_exact_at(footer_at, FOOTER_LEN)
            .map_err(|e| e.at(path, footer_at))?;
        let mut d = Decoder::new(&footer);
        let (offset, len, format, magic) = (d.u64()?, d.u32()?, d.u32()?, d.u64()?);
        if magic != MAGIC {
            return Err(bad("this is not a relocation map", footer_at));
        }
        if format != FORMAT {
            let text = format!("relocation map of format {format}");
            return Err(Error::unsupported(text).at(path, footer_at));
        }
        if offset.checked_add(len.into()) != Some(footer_at) {
            return Err(bad("the index of a relocation map does not fit", footer_at));
        }
        let index = file
            .read_exact_at(offset, len as usize)
            .and_then(|index| decode_index(checked(&index)?, offset))
            .map_err(|e| e.at(path, offset))?;
        let (physical, logical) = index;
        Ok(Arc::new(RelocationMap {
            file,
            path: path.to_owned(),
            number,
            physical,
            logical,
            cache,
        }))
    }

    /// The number in the map file's name.
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The map's own file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The physical file into which the map leads.
    pub fn physical(&self) -> BlobFileNumber {
        self.physical
    }

    /// The logical files whose records it has.
    pub fn logical_files(&self) -> impl Iterator<Item = BlobFileNumber> + '_ {
        self.logical.keys().copied()
    }

    /// Bytes of memory that the open map uses, cached chunks not included.
    pub(crate) fn memory_usage(&self) -> usize {
        let chunks: usize = self.logical.values().map(Vec::len).sum();
        size_of::<Self>()
            + self.path.as_os_str().len()
            + self.logical.len() * size_of::<(BlobFileNumber, Vec<ChunkAt>)>()
            + chunks * size_of::<ChunkAt>()
    }

    /// The present offset of the value that was written at `offset` of `logical`. Cost: a chunk
    /// from the cache or the file.
    ///
    /// # Errors
    /// `Corruption` naming the map if it does not have the record: a record to which something
    /// points is relocated with its file (BLOB-1).
    pub fn lookup(&self, logical: BlobFileNumber, offset: u64) -> Result<u64> {
        let chunks = self.chunks(logical);
        let at = chunks.partition_point(|chunk| chunk.first <= offset);
        let chunk = at.checked_sub(1).and_then(|at| chunks.get(at));
        let missing = || {
            let text = format!("no record at {offset} of blob file {logical} has been moved");
            Error::corruption(text).in_file(&self.path)
        };
        let chunk = self.chunk(chunk.ok_or_else(missing)?)?;
        chunk.lookup(offset).ok_or_else(missing)
    }

    /// Every record of a logical file, by ascending offset.
    pub fn records(
        &self,
        logical: BlobFileNumber,
    ) -> impl Iterator<Item = Result<MovedRecord>> + '_ {
        self.chunks(logical).iter().flat_map(|chunk| {
            let (records, error) = match self.chunk(chunk) {
                Ok(chunk) => (chunk.records(), None),
                Err(e) => (Vec::new(), Some(Err(e))),
            };
            records.into_iter().map(Ok).chain(error)
        })
    }

    fn chunks(&self, logical: BlobFileNumber) -> &[ChunkAt] {
        self.logical.get(&logical).map_or(&[], Vec::as_slice)
    }

    fn chunk(&self, at: &ChunkAt) -> Result<MovedChunk> {
        if let Some(cached) = self.cache.get(self.number, at.offset) {
            return Ok(MovedChunk::from_bytes(cached));
        }
        let read = || -> Result<MovedChunk> {
            let bytes = self.file.read_exact_at(at.offset, at.len as usize)?;
            Ok(MovedChunk::new(&moved_chunk::decode(checked(&bytes)?)?))
        };
        let chunk = read()
            .map_err(|e| e.at(&self.path, at.offset))?
            .into_bytes();
        self.cache.insert(self.number, at.offset, chunk.clone());
        Ok(MovedChunk::from_bytes(chunk))
    }
}

type Index = (BlobFileNumber, NumberMap<BlobFileNumber, Vec<ChunkAt>>);

/// Reads the index of a map whose chunks end at `end`.
fn decode_index(bytes: &[u8], end: u64) -> Result<Index> {
    let bad = || Error::corruption("the index of a relocation map contradicts itself");
    let mut d = Decoder::new(bytes);
    let physical = BlobFileNumber(d.varint()?);
    let mut logical = NumberMap::new();
    let fits = |n: u64, d: &Decoder<'_>| n <= (d.rest().len() / MIN_INDEX_ENTRY) as u64;
    let files = d.varint()?;
    if !fits(files, &d) {
        return Err(bad());
    }
    let mut last = None;
    for _ in 0..files {
        let number = BlobFileNumber(d.varint()?);
        let count = d.varint()?;
        if last >= Some(number) || !fits(count, &d) {
            return Err(bad());
        }
        last = Some(number);
        let mut chunks: Vec<ChunkAt> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let chunk = ChunkAt {
                first: d.varint()?,
                offset: d.varint()?,
                len: d.varint()?,
            };
            let ascends = chunks
                .last()
                .is_none_or(|before| before.first < chunk.first);
            let fits = chunk
                .offset
                .checked_add(chunk.len)
                .is_some_and(|to| to <= end);
            if !ascends || !fits || chunk.len > MAX_CHUNK_LEN {
                return Err(bad());
            }
            chunks.push(chunk);
        }
        logical.insert(number, chunks);
    }
    match d.is_empty() {
        true => Ok((physical, logical)),
        false => Err(bad()),
    }
}
