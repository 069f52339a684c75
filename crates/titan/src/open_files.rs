//! The SST and blob files kept open between uses.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::blob::{BlobFileReader, BlobReaders, RelocationMap};
use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, FileNumber};
use crate::options::DbOptions;
use crate::table::{TableIdentity, TableReader, TableReaderOptions};
use crate::vfs::{Access, Vfs, open_live};

#[derive(Clone)]
enum OpenFile {
    Table(Arc<TableReader>),
    Blob(Arc<BlobFileReader>),
    Map(Arc<RelocationMap>),
}

/// A file as the cache has it.
#[derive(Clone)]
struct Kept {
    file: OpenFile,
    /// Its memory or the share that each file has, whichever is more. The cache adds and subtracts it,
    /// so it stays as long as the file is kept.
    weight: u64,
}

impl OpenFile {
    /// Bytes of memory. Does not change while the file is open.
    fn memory_usage(&self) -> usize {
        match self {
            OpenFile::Table(table) => table.memory_usage(),
            OpenFile::Blob(file) => file.memory_usage(),
            OpenFile::Map(map) => map.memory_usage(),
        }
    }
}

/// How many files may be kept open, and how much memory they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFilesLimits {
    /// At least one.
    pub(crate) files: u64,
    /// Bytes.
    pub(crate) memory: u64,
}

impl OpenFilesLimits {
    /// The number of files if the process's limit of open files is not known.
    const FILES: u64 = 1000;
    /// The memory if the process's memory is not known.
    const MEMORY: u64 = 1 << 30;
    /// The lowest limits that are derived from those of the process.
    const LEAST: OpenFilesLimits = OpenFilesLimits {
        files: 16,
        memory: 16 << 20,
    };

    /// The limits that the options state, or that follow from those of the process.
    pub(crate) fn new(options: &DbOptions) -> Self {
        let process = options.vfs.resources();
        OpenFilesLimits {
            files: match options.max_open_files {
                // The other quarter is for jobs, for WAL files, and for the application.
                0 => process.open_files.map_or(Self::FILES, |n| n - n / 4),
                files => files as u64,
            }
            .max(Self::LEAST.files),
            memory: match (options.max_open_files_memory, process.memory) {
                (0, None) => Self::MEMORY,
                (0, Some(memory)) => (memory.total / 4).max(Self::LEAST.memory),
                (bytes, _) => bytes,
            },
        }
    }

    /// The memory that each file counts for at least, so that files which add up to no more than
    /// `memory` are no more than `files`.
    fn share(self) -> u64 {
        self.memory.div_ceil(self.files.max(1)).max(1)
    }
}

/// Weighs a file by its memory or by its share, whichever is more: so one sum enforces both limits.
#[derive(Clone)]
struct ByMemory;

impl Weighter<u64, Kept> for ByMemory {
    fn weight(&self, _: &u64, kept: &Kept) -> u64 {
        kept.weight
    }
}

/// The expected memory of a file, from which the cache sizes its shards: a file heavier than a shard
/// is not kept.
const MEMORY_PER_FILE: u64 = 1 << 20;

/// Opens files on demand and keeps some open within [`OpenFilesLimits`], tables, blob files and
/// their relocation maps together; the least useful are closed first. A reader in use keeps its
/// file open beyond that.
///
/// File numbers are unique over all kinds and never reused, so entries never go stale.
pub(crate) struct OpenFiles {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    block_cache: Arc<BlockCache>,
    /// How many files may be kept.
    max_files: AtomicU64,
    /// Bytes of memory that they may take.
    max_memory: u64,
    files: Cache<u64, Kept, ByMemory>,
}

impl OpenFiles {
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        limits: OpenFilesLimits,
        block_cache: Arc<BlockCache>,
    ) -> Self {
        let expected = limits.files.min(limits.memory / MEMORY_PER_FILE).max(1);
        OpenFiles {
            vfs,
            dir,
            block_cache,
            max_files: AtomicU64::new(limits.files),
            max_memory: limits.memory,
            files: Cache::with_weighter(expected as usize, limits.memory, ByMemory),
        }
    }

    /// Changes how many files may be kept. If they are more, the least useful are closed. Cost: visits
    /// each of them.
    pub(crate) fn set_max_files(&self, files: u64) {
        self.max_files.store(files, Ordering::Relaxed);
        let kept: Vec<_> = self.files.iter().collect();
        for (number, kept) in kept {
            // Only what is still there: another file of this number may have been deleted meanwhile.
            let _ = self.files.replace(number, self.kept(kept.file), true);
        }
    }

    fn kept(&self, file: OpenFile) -> Kept {
        let weight = self.limits().share().max(file.memory_usage() as u64);
        Kept { file, weight }
    }

    pub(crate) fn block_cache(&self) -> &Arc<BlockCache> {
        &self.block_cache
    }

    /// The limits of what is kept open.
    pub(crate) fn limits(&self) -> OpenFilesLimits {
        OpenFilesLimits {
            files: self.max_files.load(Ordering::Relaxed),
            memory: self.max_memory,
        }
    }

    /// How many files are kept open now.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Bytes of memory that open tables take, cached blocks not included.
    pub(crate) fn table_memory(&self) -> usize {
        let memory = |(_, kept): (u64, Kept)| match kept.file {
            OpenFile::Table(table) => table.memory_usage(),
            OpenFile::Blob(_) | OpenFile::Map(_) => 0,
        };
        self.files.iter().map(memory).sum()
    }

    /// Bytes of memory that all open files take, cached blocks not included.
    pub(crate) fn memory(&self) -> u64 {
        let files = self.files.iter();
        files.map(|(_, kept)| kept.file.memory_usage() as u64).sum()
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

    /// The open file `number`. If several threads ask for one that is not open, one of them opens it.
    #[cfg(not(any(loom, shuttle)))]
    fn get_or_open(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<OpenFile>,
    ) -> Result<OpenFile> {
        let open = || Ok(self.kept(open()?));
        Ok(self.files.get_or_insert_with(&number, open)?.file)
    }

    /// Here each thread opens it: the others would wait inside the cache, unseen by the scheduler.
    #[cfg(any(loom, shuttle))]
    fn get_or_open(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<OpenFile>,
    ) -> Result<OpenFile> {
        if let Some(kept) = self.files.get(&number) {
            return Ok(kept.file);
        }
        let file = open()?;
        self.files.insert(number, self.kept(file.clone()));
        Ok(file)
    }

    /// Deletes an obsolete file, and closes it.
    pub(crate) fn delete(&self, file: FileKind) -> Result<()> {
        let deleted = self.vfs.remove(&file.path(&self.dir));
        // After the removal: a reader with an older location may open the file up to then, and it
        // would stay open.
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
