//! Reads single values out of one blob file, each with one read of its whole record.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::blob::layout::{
    BLOB_FILE_FRAME_LEN, BlobChecksum, FileFooter, FileHeader, RecordHeader,
};
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::compression::decompress;
use crate::format::{BlobFileNumber, ColumnFamilyId, CompressionType};
use crate::vfs::ReadableFile;

/// Number of unused bytes that a value may keep alive, however small it is.
const SMALL_WASTE: u64 = 4 << 10;

/// The most bytes of a value that are read at once to verify it.
const PIECE: u64 = 1 << 20;

/// An open blob file. Immutable: shared by all threads through an `Arc`.
pub struct BlobFileReader {
    file: Arc<dyn ReadableFile>,
    path: PathBuf,
    number: BlobFileNumber,
    header: FileHeader,
    /// The file's size when it was opened; pointers beyond it are refused before any allocation.
    size: u64,
}

/// The bytes of a record within its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Where the record's header starts.
    pub(super) start: u64,
    /// One past the value's last byte.
    pub(super) end: u64,
}

impl Extent {
    pub(super) fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl BlobFileReader {
    /// Takes over an open file after verifying its header. The footer is not read, because an
    /// unsealed file is readable; see [`BlobFileReader::verify_footer`].
    ///
    /// # Errors
    /// `Unsupported` for files with expiry times and for compressions that this build does not
    /// have.
    pub fn open(
        file: Arc<dyn ReadableFile>,
        path: &Path,
        number: BlobFileNumber,
    ) -> Result<Arc<Self>> {
        let size = file.size()?;
        let header = file
            .read_exact_at(0, FileHeader::LEN)
            .and_then(|bytes| FileHeader::decode(&bytes))
            .map_err(|e| e.at(path, 0))?;
        Ok(Arc::new(BlobFileReader {
            file,
            path: path.to_owned(),
            number,
            header,
            size,
        }))
    }

    /// The family that the file's header names, even if the rest of the header is damaged.
    pub fn named_family(file: &dyn ReadableFile) -> Result<ColumnFamilyId> {
        let header = file.read_exact_at(0, FileHeader::LEN)?;
        FileHeader::family_alone(&header)
    }

    /// Takes over an open file whose header is damaged, given the header that it must have had.
    pub fn without_header(
        file: Arc<dyn ReadableFile>,
        path: &Path,
        number: BlobFileNumber,
        column_family: ColumnFamilyId,
        compression: CompressionType,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(BlobFileReader {
            size: file.size()?,
            file,
            path: path.to_owned(),
            number,
            header: FileHeader {
                column_family,
                compression,
            },
        }))
    }

    /// Verifies that the file's size is that of records of `total_bytes` bytes.
    ///
    /// # Errors
    /// `Corruption` with the file and the offset from which it is too long or too short.
    pub fn check_records(&self, total_bytes: u64) -> Result<()> {
        let expected = total_bytes.saturating_add(BLOB_FILE_FRAME_LEN);
        if self.size == expected {
            return Ok(());
        }
        let text = format!(
            "the blob file has {} bytes, {expected} are expected",
            self.size
        );
        Err(Error::corruption(text).at(&self.path, self.size.min(expected)))
    }

    /// Verifies that the file was sealed and returns how many records it claims to hold.
    pub fn verify_footer(&self) -> Result<u64> {
        let start = self.footer_start();
        self.read(Extent {
            start,
            end: self.size,
        })
        .and_then(|bytes| FileFooter::decode(&bytes))
        .map(|footer| footer.count)
        .map_err(|e| e.at(&self.path, start))
    }

    /// The value that `index` points to, decompressed. `index.offset` is an offset in this file;
    /// `index.file` is ignored, because it names a logical file.
    ///
    /// Costs one read of the record. A stored value that needs no decompression shares the memory
    /// it was read into, unless that would keep much more alive than itself.
    ///
    /// # Errors
    /// `Corruption`, naming this file and the record's offset, if the record is not one of
    /// `user_key` and of this size or fails its checksums (BLOB-1).
    pub fn get(&self, user_key: &[u8], index: &BlobIndex) -> Result<Bytes> {
        let extent = self.extent(user_key.len(), index)?;
        let record = self.read(extent)?;
        let shared = worth_sharing(index.size, extent.len());
        self.value_in(&record, extent, user_key, index, shared)
    }

    /// Verifies the record of a value that is not compressed, as [`BlobFileReader::get`] does, in
    /// pieces of at most 1 MiB.
    ///
    /// # Errors
    /// Those of [`BlobFileReader::get`].
    pub(super) fn verify(&self, user_key: &[u8], index: &BlobIndex) -> Result<()> {
        let extent = self.extent(user_key.len(), index)?;
        self.verify_in_pieces(extent, user_key, index)
            .map_err(|e| e.at(&self.path, extent.start))
    }

    fn verify_in_pieces(&self, extent: Extent, user_key: &[u8], index: &BlobIndex) -> Result<()> {
        let front = RecordHeader::LEN + user_key.len();
        let front = self.file.read_exact_at(extent.start, front)?;
        let header = RecordHeader::decode(&front)?;
        check_lengths(&header, user_key, index.size)?;
        let key = front.get(RecordHeader::LEN..).unwrap_or_default();
        let mut checksum = BlobChecksum::of_key(key);
        let mut piece = vec![0; PIECE.min(index.size) as usize];
        let mut at = index.offset;
        while at < extent.end {
            let len = PIECE.min(extent.end - at);
            let piece = piece.get_mut(..len as usize).unwrap_or_default();
            self.file.fill_at(at, piece)?;
            checksum.add(piece);
            at += len;
        }
        header.verify_checksum(checksum)?;
        check_key(key, user_key)
    }

    /// Fills `buf` with a part of the stored value that `index` points to, from `offset` on. The
    /// part is not verified: see [`BlobFileReader::verify`].
    pub(super) fn read_part(
        &self,
        user_key_len: usize,
        index: &BlobIndex,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<()> {
        let extent = self.extent(user_key_len, index)?;
        let start = index.offset.saturating_add(offset);
        if start.saturating_add(buf.len() as u64) > extent.end {
            let text = "a part of a value is not within it";
            return Err(Error::internal(text).at(&self.path, start));
        }
        let filled = self.file.fill_at(start, buf);
        filled.map_err(|e| e.at(&self.path, start))
    }

    /// The number in the file's name.
    pub(crate) fn number(&self) -> BlobFileNumber {
        self.number
    }

    /// The family the file says its values belong to. Not protected by a checksum.
    pub fn column_family(&self) -> ColumnFamilyId {
        self.header.column_family
    }

    /// Fails with `Corruption` if the file says that its values belong to another family.
    pub fn check_family(&self, expected: ColumnFamilyId) -> Result<()> {
        let found = self.header.column_family;
        if found == expected {
            return Ok(());
        }
        let text = format!("the blob file is of column family {found}, not of {expected}");
        Err(Error::corruption(text).at(&self.path, FileHeader::COLUMN_FAMILY_OFFSET))
    }

    /// Compression of every value of the file.
    pub fn compression(&self) -> CompressionType {
        self.header.compression
    }

    /// The file's size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of memory that the open file holds.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.path.as_os_str().len()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the footer of a sealed file starts.
    pub fn footer_start(&self) -> u64 {
        self.size
            .saturating_sub(FileFooter::LEN as u64)
            .max(FileHeader::LEN as u64)
    }

    /// The extent of the record that `index` points to, given the length of its key, if it is
    /// within the file.
    pub(super) fn extent(&self, user_key_len: usize, index: &BlobIndex) -> Result<Extent> {
        let wrong = |what: String| Err(Error::corruption(what).at(&self.path, index.offset));
        if index.compression != self.header.compression {
            return wrong(format!(
                "pointer says {:?} compression, the blob file says {:?}",
                index.compression, self.header.compression
            ));
        }
        let in_front = RecordHeader::LEN as u64 + user_key_len as u64;
        match (
            index.offset.checked_sub(in_front),
            index.offset.checked_add(index.size),
        ) {
            (Some(start), Some(end)) if start >= FileHeader::LEN as u64 && end <= self.size => {
                Ok(Extent { start, end })
            }
            _ => wrong(format!(
                "pointer to a value of {} bytes is not within the blob file of {} bytes",
                index.size, self.size
            )),
        }
    }

    /// Reads an extent that lies within the file.
    pub(super) fn read(&self, extent: Extent) -> Result<Bytes> {
        let len = usize::try_from(extent.len())
            .map_err(|_| Error::unsupported("record exceeds the address space"))?;
        self.file
            .read_exact_at(extent.start, len)
            .map_err(|e| e.at(&self.path, extent.start))
    }

    /// Bytes of the file, for [`RawRecord::verified`].
    pub(crate) fn read_range(&self, start: u64, end: u64) -> Result<Bytes> {
        if start < FileHeader::LEN as u64 || end > self.size || start > end {
            let text = format!("records up to {end} in a blob file of {} bytes", self.size);
            return Err(Error::corruption(text).at(&self.path, start));
        }
        self.read(Extent { start, end })
    }

    pub(super) fn prefetch_extent(&self, extent: Extent) {
        self.file.prefetch(
            extent.start,
            usize::try_from(extent.len()).unwrap_or(usize::MAX),
        );
    }

    /// Verifies the record read from `extent` and returns its value: decompressed, or if it is not
    /// compressed, sharing the memory of `record` or copied.
    pub(super) fn value_in(
        &self,
        record: &Bytes,
        extent: Extent,
        user_key: &[u8],
        index: &BlobIndex,
        shared: bool,
    ) -> Result<Bytes> {
        verified_value(record, user_key, index.size)
            .and_then(|stored| match (self.header.compression, shared) {
                (CompressionType::None, true) => Ok(record.slice_ref(stored)),
                (CompressionType::None, false) => Ok(Bytes::copy_from_slice(stored)),
                _ => self.decompressed(stored),
            })
            .map_err(|e| e.at(&self.path, extent.start))
    }

    /// The value with this stored form.
    pub(super) fn decompressed(&self, stored: &[u8]) -> Result<Bytes> {
        let kind = self.header.compression;
        decompress(kind, stored, largest_original(kind, stored.len())).map(Bytes::from)
    }
}

/// A record as it is stored, whole and verified.
#[derive(Clone, Debug)]
pub(crate) struct RawRecord {
    bytes: Bytes,
    key_len: usize,
}

impl RawRecord {
    /// Takes the bytes of one record and verifies them.
    ///
    /// # Errors
    /// `Corruption` if they are not a whole record with a key of this length.
    pub(crate) fn verified(bytes: Bytes, key_len: usize) -> Result<Self> {
        let front = RecordHeader::LEN + key_len;
        let key = bytes.get(RecordHeader::LEN..front).unwrap_or_default();
        let size = (bytes.len() as u64).saturating_sub(front as u64);
        verified_value(&bytes, key, size)?;
        Ok(RawRecord { bytes, key_len })
    }

    /// The user key.
    pub(crate) fn key(&self) -> &[u8] {
        let key = RecordHeader::LEN..RecordHeader::LEN + self.key_len;
        self.bytes.get(key).unwrap_or_default()
    }

    /// Header, key and stored value.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes in front of the value.
    pub(super) fn front(&self) -> u64 {
        (RecordHeader::LEN + self.key_len) as u64
    }
}

/// Whether a value of `value` bytes should share the memory of a read of `read` bytes.
pub(super) fn worth_sharing(value: u64, read: u64) -> bool {
    read.saturating_sub(value) <= value.max(SMALL_WASTE)
}

/// The stored value of a record that is whole, of this key and of this size.
fn verified_value<'a>(record: &'a [u8], user_key: &[u8], size: u64) -> Result<&'a [u8]> {
    let header = RecordHeader::decode(record)?;
    check_lengths(&header, user_key, size)?;
    let body = record.get(RecordHeader::LEN..).unwrap_or_default();
    let (key, stored) = body
        .split_at_checked(user_key.len())
        .filter(|(_, stored)| stored.len() as u64 == size)
        .ok_or_else(|| Error::corruption("blob record is cut off"))?;
    header.verify_blob(key, stored)?;
    check_key(key, user_key)?;
    Ok(stored)
}

fn check_lengths(header: &RecordHeader, user_key: &[u8], size: u64) -> Result<()> {
    if (header.key_len, header.value_len) == (user_key.len() as u64, size) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "blob record has a key of {} and a value of {} bytes, its pointer says {} and {size}",
        header.key_len,
        header.value_len,
        user_key.len()
    )))
}

fn check_key(key: &[u8], user_key: &[u8]) -> Result<()> {
    match key == user_key {
        true => Ok(()),
        false => Err(Error::corruption(
            "blob record belongs to another key than its pointer",
        )),
    }
}

/// The longest value that `stored` compressed bytes can decompress to. Prevents a false size from
/// reserving memory.
fn largest_original(kind: CompressionType, stored: usize) -> usize {
    stored
        .saturating_mul(kind.max_expansion())
        .saturating_add(64)
        .min(u32::MAX as usize)
}
