//! The SST and blob files kept open between uses.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use crate::blob::{BlobFileReader, BlobReaders, RelocationMap};
use crate::block_cache::BlockCache;
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, FileNumber};
use crate::options::DbOptions;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Its memory or the share that each file has, whichever is more. The cache adds and subtracts
    /// it, so it stays as long as the file is kept.
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

    /// Whether anything beside the cache has it. Exact under the lock of the cache, which alone
    /// hands it out.
    fn is_in_use(&self) -> bool {
        let holders = match self {
            OpenFile::Table(table) => Arc::strong_count(table),
            OpenFile::Blob(file) => Arc::strong_count(file),
            OpenFile::Map(map) => Arc::strong_count(map),
        };
        holders > 1
    }
}

/// Number of files that may be kept open, and the memory that they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFilesLimits {
    /// At least one.
    pub(crate) files: u64,
    /// Bytes.
    pub(crate) memory: u64,
    /// Number of files that may be open while iterators of users hold some of them, whatever
    /// `files` says; `None` if nothing limits it. The rest of the process's descriptors is for
    /// jobs.
    pub(crate) held: Option<u64>,
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
        held: Some(16),
    };
    /// Files that are open already: keeping them takes no descriptor, so only memory limits it.
    pub(crate) fn of_open_files(options: &DbOptions) -> Self {
        OpenFilesLimits {
            files: u64::MAX,
            held: None,
            ..Self::new(options)
        }
    }

    /// The limits that the options state, or that follow from those of the process.
    pub fn new(options: &DbOptions) -> Self {
        let process = options.vfs.resources();
        // The other quarter is for jobs, for WAL files, and for the application.
        let share = process.open_files.map(|n| n - n / 4);
        OpenFilesLimits {
            files: match options.max_open_files {
                0 => share.unwrap_or(Self::FILES),
                files => files as u64,
            }
            .max(Self::LEAST.files),
            held: share.max(Self::LEAST.held.filter(|_| share.is_some())),
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

/// Keeps files that are in use in the cache: closing its handle would not close such a file, and
/// the next use would open it a second time.
#[derive(Clone)]
struct KeepsUsed;

impl Lifecycle<u64, Kept> for KeepsUsed {
    /// Evicted files, to be closed when the cache is not locked any more.
    type RequestState = Vec<Kept>;

    fn is_pinned(&self, _: &u64, kept: &Kept) -> bool {
        kept.file.is_in_use()
    }

    fn on_evict(&self, evicted: &mut Vec<Kept>, _: u64, kept: Kept) {
        evicted.push(kept);
    }
}

/// For whom a table is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// An iterator of a user, which may hold it for any time.
    User,
    /// A job, or a read that ends soon.
    Engine,
}

/// The expected memory of a file, from which the cache sizes its shards: a file heavier than a
/// shard is not kept.
const MEMORY_PER_FILE: u64 = 1 << 20;

/// Opens files on demand and keeps some open within [`OpenFilesLimits`], tables, blob files and
/// their relocation maps together; the least useful are closed first. A reader in use keeps its
/// file open beyond that, so the cache has every open file.
///
/// File numbers are unique over all kinds and never reused, so entries never go stale.
pub struct OpenFiles {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    block_cache: Arc<BlockCache>,
    /// Number of files that may be kept.
    max_files: AtomicU64,
    /// Bytes of memory that they may take.
    max_memory: u64,
    /// See [`OpenFilesLimits::held`].
    max_held: Option<u64>,
    files: Cache<u64, Kept, ByMemory, DefaultHashBuilder, KeepsUsed>,
    /// Files in use have made the cache exceed its limits.
    exceeded: AtomicBool,
}

impl OpenFiles {
    pub fn new(
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
            max_held: limits.held,
            files: Cache::with(
                expected as usize,
                limits.memory,
                ByMemory,
                DefaultHashBuilder::default(),
                KeepsUsed,
            ),
            exceeded: AtomicBool::new(false),
        }
    }

    /// Changes how many files may be kept. If they are more, some that nothing uses are closed.
    /// Cost: visits each of them.
    pub(crate) fn set_max_files(&self, files: u64) {
        self.max_files.store(files, Ordering::Relaxed);
        let kept: Vec<_> = self.files.iter().collect();
        for (number, kept) in kept {
            // Only what is still there: another file of this number may have been deleted
            // meanwhile.
            let _ = self.files.replace(number, self.kept(kept.file), true);
        }
        // All of them were in use here.
        self.exceeded.store(true, Ordering::Relaxed);
        self.released();
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
            held: self.max_held,
        }
    }

    /// Number of files that are kept open now.
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
    pub fn table(
        &self,
        identity: TableIdentity,
        comparator: &InternalKeyComparator,
    ) -> Result<Arc<TableReader>> {
        self.open_table(identity, comparator)
            .map(|(table, _)| table)
    }

    /// The reader of an SST, and whether it has been opened for this call.
    fn open_table(
        &self,
        identity: TableIdentity,
        comparator: &InternalKeyComparator,
    ) -> Result<(Arc<TableReader>, bool)> {
        let number = identity.number;
        let mut is_new = false;
        let file = self.get_or_open(number.0, || {
            is_new = true;
            let path = FileKind::Table(number).path(&self.dir);
            let file = open_live(&*self.vfs, &path, Access::Random)?;
            let options = TableReaderOptions {
                identity,
                comparator: comparator.clone(),
                block_cache: Arc::clone(&self.block_cache),
            };
            Ok(OpenFile::Table(TableReader::open(file, &path, options)?))
        })?;
        if is_new && self.files.weight() > self.max_memory {
            self.exceeded.store(true, Ordering::Relaxed);
        }
        match file {
            OpenFile::Table(reader) => Ok((reader, is_new)),
            _ => Err(two_kinds(number.0)),
        }
    }

    /// The reader of an SST for a holder. As [`OpenFiles::table`], but a table that users would
    /// hold beyond the limit is not opened.
    ///
    /// # Errors
    /// Those of [`OpenFiles::table`]; `TooManyOpenFiles` at that limit.
    pub(crate) fn table_for(
        &self,
        holder: Holder,
        identity: TableIdentity,
        comparator: &InternalKeyComparator,
    ) -> Result<Arc<TableReader>> {
        let number = identity.number;
        let (table, is_new) = self.open_table(identity, comparator)?;
        let held = self.max_held;
        let Some(held) = held.filter(|_| is_new && holder == Holder::User) else {
            return Ok(table);
        };
        let excess = (self.files.len() as u64).saturating_sub(held) as usize;
        if excess > 0 && self.close_unused(excess) < excess {
            let open = self.files.len();
            drop(table);
            self.files
                .remove_if(&number.0, |kept| !kept.file.is_in_use());
            let message = format!(
                "{open} files are in use, and the process may not open more for iterators: drop \
                 some iterators, or raise the limit (`ulimit -n`)"
            );
            let path = FileKind::Table(number).path(&self.dir);
            return Err(Error::new(ErrorKind::TooManyOpenFiles, message).in_file(&path));
        }
        Ok(table)
    }

    /// Closes what was kept beyond the limits because it was in use. To be called when an iterator
    /// has released a table. Cost: nothing while the limits are kept.
    pub(crate) fn released(&self) {
        if self.exceeded.load(Ordering::Relaxed) {
            while self.files.weight() > self.max_memory {
                if self.close_unused(1) == 0 {
                    return;
                }
            }
            self.exceeded.store(false, Ordering::Relaxed);
        }
    }

    /// Closes some files that nothing uses, a small part of all but at least `least` of them, if
    /// there are that many. Returns how many. Cost: proportional to the number of open files.
    pub(crate) fn close_unused(&self, least: usize) -> usize {
        let aim = least.max(self.files.len() / 16);
        let closed = Cell::new(0);
        self.files.retain(|_, kept| {
            let closes = closed.get() < aim && !kept.file.is_in_use();
            closed.set(closed.get() + usize::from(closes));
            !closes
        });
        closed.get()
    }

    /// The open file `number`. If several threads ask for one that is not open, one of them opens
    /// it.
    #[cfg(not(any(loom, shuttle)))]
    fn get_or_open(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<OpenFile>,
    ) -> Result<OpenFile> {
        let open = || open().map(|file| self.kept(file));
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
