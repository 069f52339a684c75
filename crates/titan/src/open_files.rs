//! The open SST and blob files of a database.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use crate::blob::{BlobFileReader, BlobReaders, RelocationMap};
use crate::block_cache::BlockCache;
use crate::env::{KeptFile, KeptFiles, Key};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, FileNumber, OpeningId};
use crate::options::DbOptions;
use crate::table::{TableIdentity, TableReader, TableReaderOptions};
use crate::vfs::{Access, Vfs, open_live};

pub use crate::env::OpenFilesLimits;

impl OpenFilesLimits {
    /// Those of a database that shares none: as its options state, or as follows from the limits of
    /// the process.
    pub fn of_database(options: &DbOptions) -> Self {
        OpenFilesLimits::new(&options.of_own_env(), &options.vfs.resources())
    }
}

impl KeptFile for TableReader {
    fn memory_usage(&self) -> usize {
        self.memory_usage()
    }
}

impl KeptFile for BlobFileReader {
    fn memory_usage(&self) -> usize {
        self.memory_usage()
    }
}

impl KeptFile for RelocationMap {
    fn memory_usage(&self) -> usize {
        self.memory_usage()
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

/// Opens the files of a database on demand, tables, blob files and their relocation maps together.
/// Some are [kept](KeptFiles) open, among those of the databases of the same `Env`.
///
/// File numbers are unique over all kinds and never reused, so entries never go stale.
pub struct OpenFiles {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    block_cache: Arc<BlockCache>,
    kept: Arc<KeptFiles>,
    /// Tells its files from those of others.
    database: OpeningId,
}

impl OpenFiles {
    /// Files that are kept within limits of their own.
    pub fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        limits: OpenFilesLimits,
        block_cache: Arc<BlockCache>,
    ) -> Self {
        OpenFiles::among(&Arc::new(KeptFiles::new(limits)), vfs, dir, block_cache)
    }

    /// Files that are kept among those of other databases, for the database of `block_cache`.
    pub(crate) fn among(
        kept: &Arc<KeptFiles>,
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        block_cache: Arc<BlockCache>,
    ) -> Self {
        OpenFiles {
            vfs,
            dir,
            database: block_cache.database(),
            block_cache,
            kept: Arc::clone(kept),
        }
    }

    pub(crate) fn block_cache(&self) -> &Arc<BlockCache> {
        &self.block_cache
    }

    /// The limits of the files kept open, of all databases that share them.
    pub(crate) fn limits(&self) -> OpenFilesLimits {
        self.kept.limits()
    }

    /// Number of files of the database that are kept open now. Cost: visits all that are kept, as
    /// do the sums of their memory.
    pub(crate) fn len(&self) -> usize {
        self.kept.of(self.database).count()
    }

    /// Bytes of memory that open tables take, cached blocks not included.
    pub(crate) fn table_memory(&self) -> usize {
        let tables = self
            .kept
            .of(self.database)
            .filter_map(as_kind::<TableReader>);
        tables.map(|table| table.memory_usage()).sum()
    }

    /// Bytes of memory that all open files take, cached blocks not included.
    pub(crate) fn memory(&self) -> u64 {
        let files = self.kept.of(self.database);
        files.map(|file| file.memory_usage() as u64).sum()
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
        let table = self.get_or_open(number.0, || {
            is_new = true;
            let path = FileKind::Table(number).path(&self.dir);
            let file = open_live(&*self.vfs, &path, Access::Random)?;
            let options = TableReaderOptions {
                identity,
                comparator: comparator.clone(),
                block_cache: Arc::clone(&self.block_cache),
            };
            TableReader::open(file, &path, options)
        })?;
        invariant!(
            table.number() == number,
            "table {} is kept as table {number}",
            table.number()
        );
        if is_new {
            self.kept.opened();
        }
        Ok((table, is_new))
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
        let held = self.limits().held;
        let Some(held) = held.filter(|_| is_new && holder == Holder::User) else {
            return Ok(table);
        };
        let excess = (self.kept.len() as u64).saturating_sub(held) as usize;
        if excess > 0 && self.close_unused(excess) < excess {
            let open = self.kept.len();
            drop(table);
            self.kept.remove_unused(self.key(number.0));
            let message = format!(
                "{open} files are in use, and the process may not open more for iterators: drop \
                 some iterators, or raise the limit (`ulimit -n`)"
            );
            let path = FileKind::Table(number).path(&self.dir);
            return Err(Error::new(ErrorKind::TooManyOpenFiles, message).in_file(&path));
        }
        Ok(table)
    }

    /// Closes the files that were kept beyond the limits because they were in use; see
    /// [`KeptFiles::released`].
    pub(crate) fn released(&self) {
        self.kept.released();
    }

    /// Closes some files that nothing uses; see [`KeptFiles::close_unused`].
    pub(crate) fn close_unused(&self, least: usize) -> usize {
        self.kept.close_unused(least)
    }

    fn key(&self, file: u64) -> Key {
        Key {
            database: self.database,
            file,
        }
    }

    /// The open file `number`, which `open` opens if it is not open.
    #[inline]
    fn get_or_open<T: KeptFile>(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        let opening = || Ok(open()? as Arc<dyn KeptFile>);
        let file = self.kept.get_or_open(self.key(number), opening)?;
        as_kind(file).ok_or_else(|| two_kinds(number))
    }

    /// Deletes an obsolete file, and closes it.
    pub(crate) fn delete(&self, file: FileKind) -> Result<()> {
        let deleted = self.vfs.remove(&file.path(&self.dir));
        // After the removal: a reader with an older location may open the file up to then, and it
        // would stay open.
        if let Some(number) = file.number() {
            self.kept.remove(self.key(number));
        }
        deleted
    }
}

impl BlobReaders for OpenFiles {
    fn reader(&self, number: BlobFileNumber) -> Result<Arc<BlobFileReader>> {
        let reader = self.get_or_open(number.0, || {
            let path = FileKind::Blob(number).path(&self.dir);
            let file = open_live(&*self.vfs, &path, Access::Random)?;
            BlobFileReader::open(file, &path, number)
        })?;
        invariant!(
            reader.number() == number,
            "blob file {} is kept as blob file {number}",
            reader.number()
        );
        Ok(reader)
    }

    fn map(&self, number: FileNumber) -> Result<Arc<RelocationMap>> {
        let map = self.get_or_open(number.0, || {
            let path = FileKind::BlobMap(number).path(&self.dir);
            let file = open_live(&*self.vfs, &path, Access::Random)?;
            RelocationMap::open(file, &path, number, Arc::clone(&self.block_cache))
        })?;
        invariant!(
            map.number() == number,
            "relocation map {} is kept as relocation map {number}",
            map.number()
        );
        Ok(map)
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        self.kept.remove_all_of(self.database);
        invariant!(
            self.len() == 0,
            "{} files of a closed database are kept open",
            self.len()
        );
    }
}

/// The file as its own type, if that is `T`.
fn as_kind<T: KeptFile>(file: Arc<dyn KeptFile>) -> Option<Arc<T>> {
    let file: Arc<dyn Any + Send + Sync> = file;
    file.downcast().ok()
}

fn two_kinds(number: u64) -> Error {
    Error::corruption(format!(
        "file number {number} is used by files of two kinds"
    ))
}
