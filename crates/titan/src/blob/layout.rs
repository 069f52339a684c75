//! The three fixed-size structures of a blob file, encoded and decoded. No I/O.

use crate::error::{Error, Result};
use crate::format::checksum::{crc32c, crc32c_extend, mask};
use crate::format::coding::Decoder;
use crate::format::{ColumnFamilyId, CompressionType};

/// The number that a blob file starts with, little-endian.
pub const BLOB_FILE_MAGIC: u32 = 0x0024_8f37;
const VERSION: u32 = 1;
const FLAG_TTL: u8 = 1;

/// The start of a file. It has no checksum: a wrong compression is noticed by comparing it with
/// that of each pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// The family whose values the file holds.
    pub(crate) column_family: ColumnFamilyId,
    /// Compression of every value of the file.
    pub(crate) compression: CompressionType,
}

impl FileHeader {
    /// Encoded size in bytes.
    pub(crate) const LEN: usize = 30;
    /// The offset of the family in the file.
    pub(crate) const COLUMN_FAMILY_OFFSET: u64 = 8;

    /// The family that a header names, even if the rest of the header is damaged.
    pub(crate) fn family_alone(bytes: &[u8]) -> Result<ColumnFamilyId> {
        let mut d = Decoder::new(bytes);
        d.bytes(Self::COLUMN_FAMILY_OFFSET as usize)?;
        Ok(ColumnFamilyId(d.u32()?))
    }

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&BLOB_FILE_MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&VERSION.to_le_bytes());
        out[8..12].copy_from_slice(&self.column_family.0.to_le_bytes());
        out[13] = self.compression as u8;
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut d = Decoder::new(bytes);
        let magic = d.u32()?;
        if magic != BLOB_FILE_MAGIC {
            return Err(Error::corruption(format!(
                "not a blob file: magic number {magic:#010x}"
            )));
        }
        let version = d.u32()?;
        if version != VERSION {
            return Err(Error::unsupported(format!("blob file version {version}")));
        }
        let column_family = ColumnFamilyId(d.u32()?);
        let flags = d.u8()?;
        if flags & FLAG_TTL != 0 {
            return Err(Error::unsupported("blob file with expiry times"));
        }
        if flags != 0 {
            return Err(Error::unsupported(format!("blob file flags {flags:#04x}")));
        }
        let compression = CompressionType::from_u8(d.u8()?)?;
        if (d.u64()?, d.u64()?) != (0, 0) {
            return Err(Error::corruption(
                "blob file without expiry names a range of it",
            ));
        }
        Ok(FileHeader {
            column_family,
            compression,
        })
    }
}

/// Header before the key and the stored value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// Length of the user key in bytes.
    pub(crate) key_len: u64,
    /// Length of the stored value in bytes.
    pub(crate) value_len: u64,
    /// Masked checksum of key and stored value.
    pub(crate) blob_checksum: u32,
}

impl RecordHeader {
    /// Encoded size in bytes.
    pub(crate) const LEN: usize = 32;

    /// The header of a record with this key and stored value.
    pub(crate) fn of(key: &[u8], stored: &[u8]) -> Self {
        Self::with(
            key.len(),
            stored.len() as u64,
            BlobChecksum::of(key, stored),
        )
    }

    /// The header of a record with a key and a stored value of these lengths and this checksum.
    pub(crate) fn with(key_len: usize, value_len: u64, checksum: BlobChecksum) -> Self {
        RecordHeader {
            key_len: key_len as u64,
            value_len,
            blob_checksum: checksum.masked(),
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..8].copy_from_slice(&self.key_len.to_le_bytes());
        out[8..16].copy_from_slice(&self.value_len.to_le_bytes());
        let header_checksum = mask(crc32c(&out[..24]));
        out[24..28].copy_from_slice(&header_checksum.to_le_bytes());
        out[28..].copy_from_slice(&self.blob_checksum.to_le_bytes());
        out
    }

    /// Reads a header and verifies its own checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let covered = Decoder::new(bytes).bytes(24)?;
        let mut d = Decoder::new(bytes);
        let (key_len, value_len, expiration) = (d.u64()?, d.u64()?, d.u64()?);
        if d.u32()? != mask(crc32c(covered)) {
            return Err(Error::corruption(
                "blob record header does not match its checksum",
            ));
        }
        if expiration != 0 {
            return Err(Error::unsupported("blob record with an expiry time"));
        }
        Ok(RecordHeader {
            key_len,
            value_len,
            blob_checksum: d.u32()?,
        })
    }

    /// Bytes of the whole record; `None` for lengths that no file can have.
    pub(crate) fn record_len(&self) -> Option<u64> {
        (Self::LEN as u64)
            .checked_add(self.key_len)?
            .checked_add(self.value_len)
    }

    /// Fails unless the checksum of key and stored value matches.
    pub(crate) fn verify_blob(&self, key: &[u8], stored: &[u8]) -> Result<()> {
        self.verify_checksum(BlobChecksum::of(key, stored))
    }

    /// Fails unless the checksum is that of the record.
    pub(crate) fn verify_checksum(&self, found: BlobChecksum) -> Result<()> {
        if self.blob_checksum != found.masked() {
            return Err(Error::corruption("blob record does not match its checksum"));
        }
        Ok(())
    }
}

/// The checksum of a key and of as much of its stored value as was added.
#[derive(Clone, Copy)]
pub(crate) struct BlobChecksum(u32);

impl BlobChecksum {
    pub(crate) fn of_key(key: &[u8]) -> Self {
        BlobChecksum(crc32c(key))
    }

    fn of(key: &[u8], stored: &[u8]) -> Self {
        let mut checksum = BlobChecksum::of_key(key);
        checksum.add(stored);
        checksum
    }

    /// Adds the next bytes of the stored value.
    pub(crate) fn add(&mut self, stored: &[u8]) {
        self.0 = crc32c_extend(self.0, stored);
    }

    /// As a record stores it.
    fn masked(self) -> u32 {
        mask(self.0)
    }
}

/// The end of a sealed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFooter {
    /// Records in the file.
    pub(crate) count: u64,
}

/// Bytes in front of the records.
pub const BLOB_FILE_HEADER_LEN: u64 = FileHeader::LEN as u64;
/// Bytes of a sealed file that are not records.
pub const BLOB_FILE_FRAME_LEN: u64 = (FileHeader::LEN + FileFooter::LEN) as u64;

impl FileFooter {
    /// Encoded size in bytes.
    pub(crate) const LEN: usize = 32;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&BLOB_FILE_MAGIC.to_le_bytes());
        out[4..12].copy_from_slice(&self.count.to_le_bytes());
        let checksum = mask(crc32c(&out[..28]));
        out[28..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let covered = Decoder::new(bytes).bytes(28)?;
        let mut d = Decoder::new(bytes);
        if d.u32()? != BLOB_FILE_MAGIC {
            return Err(Error::corruption(
                "blob file has no footer: it was not sealed or is cut",
            ));
        }
        let count = d.u64()?;
        let expiration = (d.u64()?, d.u64()?);
        if d.u32()? != mask(crc32c(covered)) {
            return Err(Error::corruption(
                "blob file footer does not match its checksum",
            ));
        }
        if expiration != (0, 0) {
            return Err(Error::corruption(
                "blob file without expiry names a range of it",
            ));
        }
        Ok(FileFooter { count })
    }
}
