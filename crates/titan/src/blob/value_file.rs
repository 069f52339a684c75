//! Writes a blob file of one value, which arrives in pieces and is never in memory as a whole.
//!
//! The length and the checksum of a record stand before its value, and are known only after it. So
//! the start of the file is written twice: at first with a header of zeros, which no reader takes
//! for a record, and again once the value has ended. The value is not compressed, since the format
//! compresses a value as a whole.

use std::path::Path;

use super::layout::{BlobChecksum, FileFooter, FileHeader, RecordHeader};
use super::writer::{BlobFileSummary, Output};
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, CompressionType};
use crate::vfs::Vfs;

/// Bytes at the start of the file that are written twice: the unit of direct I/O. They have the
/// header of the record.
const START: usize = 4 << 10;

/// The most bytes of a value: RocksDB's limit.
pub(crate) const MAX_VALUE: u64 = u32::MAX as u64;

/// A blob file that gets one value. After an error it must be dropped; it leaves a file without a
/// footer then, which the caller must remove.
pub(crate) struct ValueFile {
    output: Output,
    number: BlobFileNumber,
    key_len: usize,
    /// Of the key and of the value so far.
    checksum: BlobChecksum,
    /// Bytes of the value so far.
    len: u64,
    /// The first bytes of the file, as they were written.
    start: Vec<u8>,
}

impl ValueFile {
    /// Creates the file of this number in `dir`, with direct I/O if requested.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        dir: &Path,
        number: BlobFileNumber,
        cf: ColumnFamilyId,
        user_key: &[u8],
        direct_io: bool,
    ) -> Result<Self> {
        let path = FileKind::Blob(number).path(dir);
        let file = vfs.create_bulk(&path, direct_io)?;
        let header = FileHeader {
            column_family: cf,
            compression: CompressionType::None,
        };
        let mut this = ValueFile {
            output: Output::new(file, path),
            number,
            key_len: user_key.len(),
            checksum: BlobChecksum::of_key(user_key),
            len: 0,
            start: Vec::with_capacity(START),
        };
        this.put(&header.encode())?;
        this.put(&[0; RecordHeader::LEN])?;
        this.put(user_key)?;
        Ok(this)
    }

    /// Appends a piece of the value.
    ///
    /// # Errors
    /// `InvalidArgument` if the value becomes longer than 4 GiB less a byte.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<()> {
        let len = self.len.saturating_add(piece.len() as u64);
        if len > MAX_VALUE {
            return Err(Error::invalid_argument(
                "a value is limited to 4 GiB less a byte",
            ));
        }
        self.checksum.add(piece);
        self.len = len;
        self.put(piece)
    }

    /// Bytes of the value so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let lacking = START.saturating_sub(self.start.len()).min(bytes.len());
        self.start
            .extend_from_slice(bytes.get(..lacking).unwrap_or_default());
        self.output.put(bytes)
    }

    /// Ends the value and seals the file. On success its content is durable; its name is not until
    /// the directory is synced. Returns the pointer to the value.
    pub(crate) fn finish(mut self) -> Result<(BlobIndex, BlobFileSummary)> {
        let header = RecordHeader::with(self.key_len, self.len, self.checksum);
        let front = FileHeader::LEN + RecordHeader::LEN + self.key_len;
        invariant!(
            durable: self.output.position() == front as u64 + self.len,
            "a value of {} bytes ends at {} of its file",
            self.len,
            self.output.position()
        )?;
        let total_bytes = self.output.position() - FileHeader::LEN as u64;
        self.output.put(&FileFooter { count: 1 }.encode())?;
        let record_header = FileHeader::LEN..FileHeader::LEN + RecordHeader::LEN;
        if let Some(zeros) = self.start.get_mut(record_header) {
            zeros.copy_from_slice(&header.encode());
        }
        if !mutant!(value_file_keeps_its_first_header) {
            self.output.overwrite_start(&self.start)?;
        }
        self.output.flush()?;
        // ORDER: header and value are durable before the caller installs a table that points to
        // them.
        if !mutant!(value_file_not_synced) {
            self.output.sync()?;
        }
        let index = BlobIndex {
            file: self.number,
            offset: front as u64,
            size: self.len,
            compression: CompressionType::None,
        };
        let summary = BlobFileSummary {
            number: self.number,
            count: 1,
            total_bytes,
            file_size: self.output.position(),
        };
        Ok((index, summary))
    }
}
