//! Files that are kept open between uses, for all databases of an `Env`.
//!
//! Owns: the open files by database and number, and the bounds on them. Promises: the files kept
//! stay within the bounds, except for files in use, which are closed once they are released.
//! Assumes nothing of their kinds: a file is a reader that takes memory.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use super::options::EnvOptions;
use crate::error::Result;
use crate::format::OpeningId;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::vfs::Resources;

/// The reader of an open file.
pub(crate) trait KeptFile: Any + Send + Sync {
    /// Bytes of memory. Does not change while the file is open.
    fn memory_usage(&self) -> usize;
}

/// The database, and the number of its file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) database: OpeningId,
    pub(crate) file: u64,
}

/// A file as the cache has it.
#[derive(Clone)]
struct Kept {
    file: Arc<dyn KeptFile>,
    /// Its memory or the share that each file has, the larger one. The cache adds and subtracts
    /// it, so it stays as long as the file is kept.
    weight: u64,
}

impl Kept {
    /// Whether anything beside the cache has it. Exact under the lock of the cache, which alone
    /// hands it out.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.file) > 1
    }
}

/// Number of files that may be kept open, and the memory that they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFilesLimits {
    /// At least one.
    pub(crate) files: u64,
    /// Bytes.
    pub(crate) memory: u64,
    /// Number of files that may be open while iterators of users hold some of them, even if
    /// `files` is larger; `None` if nothing limits it. The rest of the process's descriptors is for
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

    /// Those of files that are open already: keeping them takes no descriptor, so only memory
    /// limits it.
    pub(crate) fn of_open_files(self) -> Self {
        OpenFilesLimits {
            files: u64::MAX,
            held: None,
            ..self
        }
    }

    /// The limits that the options state, or that follow from those of the process.
    pub(crate) fn new(options: &EnvOptions, process: &Resources) -> Self {
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

/// Weighs a file by its memory or by its share, the larger one: so one sum enforces both limits.
#[derive(Clone)]
struct ByMemory;

impl Weighter<Key, Kept> for ByMemory {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        kept.weight
    }
}

/// Keeps files that are in use in the cache: closing its handle would not close such a file, and
/// the next use would open it a second time.
#[derive(Clone)]
struct KeepsUsed;

impl Lifecycle<Key, Kept> for KeepsUsed {
    /// Evicted files, to be closed when the cache is not locked any more.
    type RequestState = Vec<Kept>;

    fn is_pinned(&self, _: &Key, kept: &Kept) -> bool {
        kept.is_in_use()
    }

    fn on_evict(&self, evicted: &mut Vec<Kept>, _: Key, kept: Kept) {
        evicted.push(kept);
    }
}

/// The expected memory of a file, from which the cache sizes its shards: a file heavier than a
/// shard is not kept.
const MEMORY_PER_FILE: u64 = 1 << 20;

/// See the module. Within [`OpenFilesLimits`], the least useful files are closed first. A reader in
/// use keeps its file open beyond that, so the cache has every open file.
pub(crate) struct KeptFiles {
    /// Number of files that may be kept.
    max_files: AtomicU64,
    /// Bytes of memory that they may take.
    max_memory: u64,
    /// See [`OpenFilesLimits::held`].
    max_held: Option<u64>,
    files: Cache<Key, Kept, ByMemory, DefaultHashBuilder, KeepsUsed>,
    /// Files in use have made the cache exceed its limits.
    exceeded: AtomicBool,
}

impl KeptFiles {
    pub(crate) fn new(limits: OpenFilesLimits) -> Self {
        let expected = limits.files.min(limits.memory / MEMORY_PER_FILE).max(1);
        KeptFiles {
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
        for (key, kept) in kept {
            // Only files that are still there: another file of this number may have been deleted
            // meanwhile.
            let _ = self.files.replace(key, self.kept(kept.file), true);
        }
        // All of them were in use here.
        self.exceeded.store(true, Ordering::Relaxed);
        self.released();
    }

    fn kept(&self, file: Arc<dyn KeptFile>) -> Kept {
        let weight = self.limits().share().max(file.memory_usage() as u64);
        Kept { file, weight }
    }

    /// The limits of the files kept open.
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

    /// Bytes of memory that they take, cached blocks not included.
    pub(crate) fn memory(&self) -> u64 {
        let files = self.files.iter();
        files.map(|(_, kept)| kept.file.memory_usage() as u64).sum()
    }

    /// The files of a database.
    pub(crate) fn of(&self, database: OpeningId) -> impl Iterator<Item = Arc<dyn KeptFile>> {
        let all = self.files.iter();
        let own = all.filter(move |(key, _)| key.database == database);
        own.map(|(_, kept)| kept.file)
    }

    /// The open file of this key. If several threads ask for one that is not open, one of them
    /// opens it.
    #[cfg(not(any(loom, shuttle)))]
    #[inline]
    pub(crate) fn get_or_open(
        &self,
        key: Key,
        open: impl FnOnce() -> Result<Arc<dyn KeptFile>>,
    ) -> Result<Arc<dyn KeptFile>> {
        let open = || open().map(|file| self.kept(file));
        Ok(self.files.get_or_insert_with(&key, open)?.file)
    }

    /// Here each thread opens it: the others would wait inside the cache, unseen by the scheduler.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn get_or_open(
        &self,
        key: Key,
        open: impl FnOnce() -> Result<Arc<dyn KeptFile>>,
    ) -> Result<Arc<dyn KeptFile>> {
        if let Some(kept) = self.files.get(&key) {
            return Ok(kept.file);
        }
        let file = open()?;
        self.files.insert(key, self.kept(Arc::clone(&file)));
        Ok(file)
    }

    /// To be called when a file has been opened, which its caller uses.
    pub(crate) fn opened(&self) {
        if self.files.weight() > self.max_memory {
            self.exceeded.store(true, Ordering::Relaxed);
        }
    }

    /// Closes the files that were kept beyond the limits because they were in use. To be called
    /// when an iterator has released a table. Cost: nothing while the limits are kept.
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
            let closes = closed.get() < aim && !kept.is_in_use();
            closed.set(closed.get() + usize::from(closes));
            !closes
        });
        closed.get()
    }

    /// Closes a file, once nothing uses it.
    pub(crate) fn remove(&self, key: Key) {
        self.files.remove(&key);
    }

    /// Closes a file if nothing uses it.
    pub(crate) fn remove_unused(&self, key: Key) {
        self.files.remove_if(&key, |kept| !kept.is_in_use());
    }

    /// Closes all files of a database, which has no further use for them. Cost: proportional to the
    /// number of open files.
    pub(crate) fn remove_all_of(&self, database: OpeningId) {
        self.files.retain(|key, _| key.database != database);
    }
}
