//! Writes one blob file from front to back.
//!
//! Records are collected in a buffer and appended to the file in pieces of [`BUFFER_SIZE`] at
//! multiples of it, so the kernel never gets a part of a page twice. The middle of a longer value
//! is written directly from the caller's slice.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::blob::layout::{BlobChecksum, FileFooter, FileHeader, RecordHeader};
use crate::blob::reader::RawRecord;
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::compression::compress;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, CompressionType};
use crate::vfs::{Vfs, WritableFile};

/// Bytes collected before they are appended to the file: few enough to stay in a core's cache, and
/// enough that the cost of the call is negligible.
const BUFFER_SIZE: usize = 256 << 10;

/// The writer does not keep the buffer of a compressed value longer than this.
const KEPT_SCRATCH: usize = 1 << 20;

/// A blob file being written. After an error every later call reports that same error. If it is
/// dropped without [`BlobFileWriter::finish`], it leaves a file without a footer, which the caller
/// must remove.
pub(crate) struct BlobFileWriter {
    output: Output,
    number: BlobFileNumber,
    compression: CompressionType,
    /// The compressed form of the value being added.
    scratch: Vec<u8>,
    count: u64,
    failed: Option<Error>,
}

/// Contents of a finished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobFileSummary {
    /// The number in the file's name.
    pub number: BlobFileNumber,
    /// Records.
    pub count: u64,
    /// Bytes of all records with their headers, without the file's header and footer: the total
    /// that the MANIFEST states and that garbage is compared with.
    pub total_bytes: u64,
    /// Bytes of the file.
    pub(crate) file_size: u64,
}

impl BlobFileWriter {
    /// Creates the file of this number in `dir`, with direct I/O if requested.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        dir: &Path,
        number: BlobFileNumber,
        cf: ColumnFamilyId,
        compression: CompressionType,
        direct_io: bool,
    ) -> Result<Self> {
        let path = FileKind::Blob(number).path(dir);
        let mut output = Output::new(vfs.create_bulk(&path, direct_io)?, path);
        output.put(
            &FileHeader {
                column_family: cf,
                compression,
            }
            .encode(),
        )?;
        #[cfg(test)]
        output.leave_gap()?;
        Ok(BlobFileWriter {
            output,
            number,
            compression,
            scratch: Vec::new(),
            count: 0,
            failed: None,
        })
    }

    /// Appends a record and returns the pointer to its value. The value is readable only once the
    /// file is finished.
    pub(crate) fn add(&mut self, user_key: &[u8], value: &[u8]) -> Result<BlobIndex> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        self.try_add(user_key, value)
            .inspect_err(|e| self.failed = Some(e.clone()))
    }

    fn try_add(&mut self, user_key: &[u8], value: &[u8]) -> Result<BlobIndex> {
        // RocksDB's limit, and that of the size before compressed values.
        if u32::try_from(value.len()).is_err() {
            let message = "a value is limited to 4 GiB less a byte";
            return Err(Error::invalid_argument(message));
        }
        let stored = match self.compression {
            CompressionType::None => value,
            kind => {
                if self.scratch.capacity() > KEPT_SCRATCH {
                    self.scratch = Vec::new();
                }
                self.scratch.clear();
                compress(kind, value, &mut self.scratch)
                    .map_err(|e| e.in_file(&self.output.path))?;
                &self.scratch
            }
        };
        self.output
            .put(&RecordHeader::of(user_key, stored).encode())?;
        self.output.put(user_key)?;
        let mut index = BlobIndex {
            file: self.number,
            offset: self.output.position(),
            size: stored.len() as u64,
            compression: self.compression,
        };
        if mutant!(pointer_to_the_header) {
            index.offset -= user_key.len() as u64;
        }
        if mutant!(pointer_of_32_bits) {
            index.offset = u64::from(index.offset as u32);
        }
        self.output.put(stored)?;
        self.count += 1;
        Ok(index)
    }

    /// Appends a record of another file unchanged and returns the offset of its value.
    pub(crate) fn add_raw(&mut self, record: &RawRecord) -> Result<u64> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let value_offset = self.output.position() + record.front();
        self.output
            .put(record.bytes())
            .inspect_err(|e| self.failed = Some(e.clone()))?;
        self.count += 1;
        Ok(value_offset)
    }

    /// Copies a record of another file that is too long for memory, unchanged, and returns the
    /// offset of its value. `front` has its header and its key; `pieces` returns the next bytes of
    /// its stored value, of which there are `size`, and `None` after the last.
    ///
    /// # Errors
    /// `Corruption` if the record does not match its checksums or is not of this size: this file is
    /// of no use then.
    pub(crate) fn copy(
        &mut self,
        front: &[u8],
        size: u64,
        pieces: impl FnMut() -> Result<Option<Bytes>>,
    ) -> Result<u64> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        self.try_copy(front, size, pieces)
            .inspect_err(|e| self.failed = Some(e.clone()))
    }

    fn try_copy(
        &mut self,
        front: &[u8],
        size: u64,
        mut pieces: impl FnMut() -> Result<Option<Bytes>>,
    ) -> Result<u64> {
        let header = RecordHeader::decode(front)?;
        let key = front.get(RecordHeader::LEN..).unwrap_or_default();
        if (header.key_len, header.value_len) != (key.len() as u64, size) {
            return Err(Error::corruption(
                "blob record has other lengths than its pointer",
            ));
        }
        let value_offset = self.output.position() + front.len() as u64;
        self.output.put(front)?;
        let mut checksum = BlobChecksum::of_key(key);
        while let Some(piece) = pieces()? {
            checksum.add(&piece);
            self.output.put(&piece)?;
        }
        if !mutant!(long_record_copied_unverified) {
            header.verify_checksum(checksum)?;
        }
        invariant!(
            self.output.position() == value_offset + size,
            "a record of {size} bytes was copied, and ends at {}",
            self.output.position()
        );
        self.count += 1;
        Ok(value_offset)
    }

    /// Bytes of the file so far, with buffered ones, without the footer.
    pub(crate) fn file_size(&self) -> u64 {
        self.output.position()
    }

    /// Seals the file. On success its content is durable; its name is not until the directory is
    /// synced.
    pub(crate) fn finish(mut self) -> Result<BlobFileSummary> {
        if let Some(e) = self.failed {
            return Err(e);
        }
        let total_bytes = self.output.position() - FileHeader::LEN as u64;
        invariant!(
            total_bytes >= self.count * RecordHeader::LEN as u64,
            "{} blob records take {total_bytes} bytes",
            self.count
        );
        self.output
            .put(&FileFooter { count: self.count }.encode())?;
        self.output.flush()?;
        // ORDER: records are durable before the caller installs a table that points to them.
        if !mutant!(blob_file_sync_left_out) {
            self.output.sync()?;
        }
        Ok(BlobFileSummary {
            number: self.number,
            count: self.count,
            total_bytes,
            file_size: self.output.position(),
        })
    }
}

/// The buffered file.
pub(super) struct Output {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Bytes handed to the file: a multiple of `BUFFER_SIZE` until the final flush.
    appended: u64,
}

impl Output {
    /// An empty file.
    pub(super) fn new(file: Box<dyn WritableFile>, path: PathBuf) -> Self {
        Output {
            file,
            path,
            buffer: Vec::with_capacity(BUFFER_SIZE),
            appended: 0,
        }
    }

    /// The offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.appended + self.buffer.len() as u64
    }

    /// Replaces the first bytes of the file: whole blocks of 4 KiB, or all that there are.
    pub(super) fn overwrite_start(&mut self, start: &[u8]) -> Result<()> {
        if self.appended > 0 {
            let overwritten = self.file.overwrite_start(start);
            return overwritten.map_err(|e| e.in_file(&self.path));
        }
        if let Some(buffered) = self.buffer.get_mut(..start.len()) {
            buffered.copy_from_slice(start);
        }
        Ok(())
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let room = BUFFER_SIZE.saturating_sub(self.buffer.len());
        let Some((head, rest)) = bytes.split_at_checked(room) else {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        };
        self.buffer.extend_from_slice(head);
        self.flush()?;
        let (direct, tail) = rest.split_at(rest.len() - rest.len() % BUFFER_SIZE);
        if !direct.is_empty() {
            self.append(direct)?;
        }
        self.buffer.extend_from_slice(tail);
        Ok(())
    }

    #[cfg(test)]
    fn leave_gap(&mut self) -> Result<()> {
        let gap = self.file.gap();
        if gap > 0 {
            self.flush()?;
            self.appended += gap;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self.append(&buffer);
        buffer.clear();
        self.buffer = buffer;
        outcome
    }

    /// Makes the flushed bytes durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.file.sync().map_err(|e| e.in_file(&self.path))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes).map_err(|e| e.in_file(&self.path))?;
        self.appended += bytes.len() as u64;
        Ok(())
    }
}
