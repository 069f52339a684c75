//! Writes the large values of flushes and compactions to blob files.
//!
//! The separator turns values into pointers, starting a new blob file whenever the current one is
//! large enough. Its contract about failures matters: an error in creating, appending to or syncing
//! any of its files is returned, is remembered, and keeps [`BlobSeparator::finish`] from ever
//! succeeding. A job that ignored one error still cannot install pointers to values that were not
//! written.

use std::path::PathBuf;
use std::sync::Arc;

use crate::blob::writer::{BlobFileSummary, BlobFileWriter};
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::{BlobFileNumber, ColumnFamilyId, CompressionType};
use crate::vfs::Vfs;

/// Takes numbers for new blob files from the database's counter.
pub(crate) type AllocateBlobFile = Arc<dyn Fn() -> BlobFileNumber + Send + Sync>;

/// Settings of a job that separates values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeparatorOptions {
    /// The family all values belong to.
    pub(crate) cf: ColumnFamilyId,
    /// The shortest value that is separated, in bytes before compression.
    pub(crate) min_blob_size: u64,
    /// Whether any value is separated.
    pub(crate) enabled: bool,
    /// Size in bytes at which a file is sealed; the last record may exceed it.
    pub(crate) blob_file_size: u64,
    /// Compression of all files.
    pub(crate) compression: CompressionType,
    /// Whether files are written with direct I/O, bypassing the kernel's cache.
    pub(crate) direct_io: bool,
}

/// Writes the separated values of one job. Has at most one file open, and creates a file only when
/// there is a value for it.
pub(crate) struct BlobSeparator {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    options: SeparatorOptions,
    allocate: AllocateBlobFile,
    current: Option<BlobFileWriter>,
    finished: Vec<BlobFileSummary>,
    created: Vec<BlobFileNumber>,
    failed: Option<Error>,
}

impl BlobSeparator {
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        options: SeparatorOptions,
        allocate: AllocateBlobFile,
    ) -> Self {
        BlobSeparator {
            vfs,
            dir,
            options,
            allocate,
            current: None,
            finished: Vec::new(),
            created: Vec::new(),
            failed: None,
        }
    }

    /// Starts a new file at this size from now on.
    pub(crate) fn set_blob_file_size(&mut self, bytes: u64) {
        self.options.blob_file_size = bytes;
    }

    /// Whether a value of `len` bytes goes to a blob file.
    pub(crate) fn separates(&self, len: usize) -> bool {
        let off = u64::from(mutant!(threshold_off_by_one));
        self.options.enabled && len as u64 >= self.options.min_blob_size.saturating_add(off)
    }

    /// Writes a value of any size, and returns the pointer that replaces it.
    pub(crate) fn add(&mut self, user_key: &[u8], value: &[u8]) -> Result<BlobIndex> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        self.try_add(user_key, value)
            .inspect_err(|e| self.failed = Some(e.clone()))
    }

    fn try_add(&mut self, user_key: &[u8], value: &[u8]) -> Result<BlobIndex> {
        let writer = match &mut self.current {
            Some(writer) => writer,
            None => {
                let number = (self.allocate)();
                // Recorded before the attempt: a failed creation may leave the name.
                self.created.push(number);
                let o = &self.options;
                self.current.insert(BlobFileWriter::create(
                    &*self.vfs,
                    &self.dir,
                    number,
                    o.cf,
                    o.compression,
                    o.direct_io,
                )?)
            }
        };
        let index = writer.add(user_key, value)?;
        if writer.file_size() >= self.options.blob_file_size {
            self.seal()?;
        }
        Ok(index)
    }

    fn seal(&mut self) -> Result<()> {
        if let Some(writer) = self.current.take() {
            self.finished.push(writer.finish()?);
        }
        Ok(())
    }

    /// Seals the last file and returns all, in the order of their creation. They are durable once
    /// the caller has synced the directory. Fails if anything failed before. The files of a failed
    /// job are those of [`BlobSeparator::created`], which must be called before: finishing creates
    /// none.
    pub(crate) fn finish(mut self) -> Result<Vec<BlobFileSummary>> {
        if let Some(e) = self.failed {
            return Err(e);
        }
        self.seal()?;
        Ok(self.finished)
    }

    /// The files that this separator created or tried to create, so that those of a failed job can
    /// be removed.
    pub(crate) fn created(&self) -> &[BlobFileNumber] {
        &self.created
    }
}
