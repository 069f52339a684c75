//! The SST and blob files kept open between uses.

use std::path::PathBuf;
use std::sync::Arc;

use quick_cache::sync::Cache;

use super::BlockCache;
use crate::blob::{BlobFileReader, BlobReaders, RelocationMap};
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, FileNumber};
use crate::table::{TableIdentity, TableReader, TableReaderOptions};
use crate::vfs::{Access, Vfs, open_live};

#[derive(Clone)]
enum OpenFile {
    Table(Arc<TableReader>),
    Blob(Arc<BlobFileReader>),
    Map(Arc<RelocationMap>),
}

/// Opens files on demand and keeps at most `max_open_files` of them, tables, blob files and their
/// maps together; the least useful are closed first. Whoever uses a reader keeps it open beyond
/// that.
///
/// File numbers are unique over all kinds and never reused, so entries never go stale.
pub(crate) struct OpenFiles {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    block_cache: Arc<BlockCache>,
    files: Cache<u64, OpenFile>,
}

impl OpenFiles {
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        max_open_files: usize,
        block_cache: Arc<BlockCache>,
    ) -> Self {
        OpenFiles {
            vfs,
            dir,
            block_cache,
            files: Cache::new(max_open_files),
        }
    }

    pub(crate) fn block_cache(&self) -> &Arc<BlockCache> {
        &self.block_cache
    }

    /// How many files are kept open now.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Bytes of memory that open tables hold, cached blocks not included.
    pub(crate) fn table_memory(&self) -> usize {
        let memory = |(_, file): (u64, OpenFile)| match file {
            OpenFile::Table(table) => table.memory_usage(),
            OpenFile::Blob(_) | OpenFile::Map(_) => 0,
        };
        self.files.iter().map(memory).sum()
    }

    /// The reader of an SST. Cost when not open: one open and a few reads.
    ///
    /// # Errors
    /// `Corruption` if the file is missing, or is not the one the MANIFEST describes.
    pub(crate) fn table(
        &self,
        identity: TableIdentity,
        comparator: &InternalKeyComparator,
    ) -> Result<Arc<TableReader>> {
        let number = identity.number;
        let file = self.get_or_open(number.0, || {
            let path = FileKind::Table(number).path(&self.dir);
            let file = open_live(&*self.vfs, &path, Access::Random)?;
            let options = TableReaderOptions {
                identity,
                comparator: comparator.clone(),
                block_cache: Arc::clone(&self.block_cache),
            };
            Ok(OpenFile::Table(TableReader::open(file, &path, options)?))
        })?;
        match file {
            OpenFile::Table(reader) => Ok(reader),
            _ => Err(two_kinds(number.0)),
        }
    }

    /// The open file `number`. Of several threads that ask for one that is not open, one opens it.
    #[cfg(not(any(loom, shuttle)))]
    fn get_or_open(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<OpenFile>,
    ) -> Result<OpenFile> {
        self.files.get_or_insert_with(&number, open)
    }

    /// Here each opens it: the others would wait inside the cache, unseen by the scheduler.
    #[cfg(any(loom, shuttle))]
    fn get_or_open(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<OpenFile>,
    ) -> Result<OpenFile> {
        if let Some(file) = self.files.get(&number) {
            return Ok(file);
        }
        let file = open()?;
        self.files.insert(number, file.clone());
        Ok(file)
    }

    /// Deletes a file that nobody needs any more, and closes it.
    pub(crate) fn delete(&self, file: FileKind) -> Result<()> {
        let deleted = self.vfs.remove(&file.path(&self.dir));
        // Behind the removal: a reader that garbage collection has overtaken may open the file up
        // to then, and it would stay open.
        if let Some(number) = file.number() {
            self.files.remove(&number);
        }
        deleted
    }
}

impl BlobReaders for OpenFiles {
    fn reader(&self, number: BlobFileNumber) -> Result<Arc<BlobFileReader>> {
        let file = self.get_or_open(number.0, || {
            let path = FileKind::Blob(number).path(&self.dir);
            let file = open_live(&*self.vfs, &path, Access::Random)?;
            Ok(OpenFile::Blob(BlobFileReader::open(file, &path, number)?))
        })?;
        match file {
            OpenFile::Blob(reader) => Ok(reader),
            _ => Err(two_kinds(number.0)),
        }
    }

    fn map(&self, number: FileNumber) -> Result<Arc<RelocationMap>> {
        let file = self.get_or_open(number.0, || {
            let path = FileKind::BlobMap(number).path(&self.dir);
            let file = open_live(&*self.vfs, &path, Access::Random)?;
            let map = RelocationMap::open(file, &path, number, Arc::clone(&self.block_cache))?;
            Ok(OpenFile::Map(map))
        })?;
        match file {
            OpenFile::Map(map) => Ok(map),
            _ => Err(two_kinds(number.0)),
        }
    }
}

fn two_kinds(number: u64) -> Error {
    Error::corruption(format!(
        "file number {number} is used by files of two kinds"
    ))
}
