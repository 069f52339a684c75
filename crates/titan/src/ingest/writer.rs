//! Writing a file for ingestion, without a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::{SystemClock, session_id};
use crate::collector::{CollectorContext, Collectors};
use crate::error::{Error, ErrorKind, Result};
use crate::format::entity::encode_columns;
use crate::format::file_name::FileKind;
use crate::format::internal_key::{InternalKeyComparator, ValueType, append_internal_key};
use crate::format::key_text::KeyText;
use crate::format::range_tombstone::RangeTombstone;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::options::{ColumnFamilyOptions, Options};
use crate::table::{TableFamily, TableWriter, TableWriterOptions};
use crate::vfs::Vfs;

/// The family of a file that is written for whichever family ingests it. RocksDB's number for an
/// unknown family.
const ANY_FAMILY: ColumnFamilyId = ColumnFamilyId(i32::MAX as u32);

/// Stands for the identity of a database, as in files of RocksDB's writer.
const NO_DATABASE: &str = "SST Writer";

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SstFileInfo {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub file_size: u64,
    /// Puts, operands and deletions of keys.
    pub entries: u64,
    /// Deletions of ranges.
    pub range_deletions: u64,
    /// The first key; empty if there are deletions of ranges only.
    pub smallest_key: Vec<u8>,
    /// The last key; empty if there are deletions of ranges only.
    pub largest_key: Vec<u8>,
}

/// A file to be written.
pub(crate) struct NewSstFile<'a> {
    pub(crate) path: PathBuf,
    /// The only family that takes it; empty for any.
    pub(crate) column_family_name: &'a str,
    pub(crate) family: &'a ColumnFamilyOptions,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) clock: &'a dyn SystemClock,
    /// Whether it is written with direct I/O.
    pub(crate) direct: bool,
}

/// Writes a table that a database can [ingest](crate::ColumnFamily::ingest), of Titan or of
/// RocksDB.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// use titan::{Db, IngestOptions, Options, SstFileWriter};
///
/// let options = Options::default();
/// let mut file = SstFileWriter::create(&path, &options)?;
/// file.put("apple", "3")?;
/// file.put("banana", "1")?;
/// file.finish()?;
///
/// let db = Db::open(dir.path().join("db"), &options)?;
/// db.ingest(&[&path], &IngestOptions::default())?;
/// assert_eq!(db.get("banana")?.as_deref(), Some(&b"1"[..]));
/// # Ok(())
/// # }
/// ```
///
/// Keys come in the order of the family's comparator, each once. Large values are in the file
/// itself. The file counts once [`SstFileWriter::finish`] has returned: a writer that is dropped
/// before removes it.
pub struct SstFileWriter {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    order: InternalKeyComparator,
    /// `None` once it is finished, or after an error.
    table: Option<TableWriter>,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    entries: u64,
    range_deletions: u64,
    /// Reused.
    key: Vec<u8>,
    finished: bool,
}

impl SstFileWriter {
    /// Starts a file for any family whose keys have the order of those of `options.default`, and
    /// which is written with these options. A file of this name loses the name; a database that has
    /// ingested it by a link keeps its content.
    ///
    /// # Errors
    /// `InvalidOption`; `Io`.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::made_for(path.as_ref(), "", &options.default, options)
    }

    /// The same for the family `name`, and no other, with its options.
    ///
    /// # Errors
    /// As [`SstFileWriter::create`].
    pub fn create_for(path: impl AsRef<Path>, name: &str, options: &Options) -> Result<Self> {
        Self::made_for(path.as_ref(), name, options.family(name), options)
    }

    fn made_for(
        path: &Path,
        name: &str,
        family: &ColumnFamilyOptions,
        options: &Options,
    ) -> Result<Self> {
        options.validate()?;
        Self::start(NewSstFile {
            path: path.to_owned(),
            column_family_name: name,
            family,
            vfs: Arc::clone(&options.db.vfs),
            clock: &*options.db.clock,
            direct: options.db.use_direct_io_for_flush_and_compaction,
        })
    }

    pub(crate) fn start(new: NewSstFile<'_>) -> Result<Self> {
        let NewSstFile {
            path,
            column_family_name: name,
            family,
            vfs,
            clock,
            direct,
        } = new;
        if is_in_a_database(vfs.as_ref(), &path)? {
            let text = "this is in a database's directory, which has only its own files";
            return Err(Error::invalid_argument(text).in_file(&path));
        }
        // The file of this name may be a table of a database, which has it by another name since an
        // ingestion by a link: its content stays.
        match vfs.remove(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = vfs.create_bulk(&path, direct)?;
        let order = InternalKeyComparator::new(Arc::clone(&family.comparator));
        let operator = family.merge_operator.as_deref();
        let mut table = TableWriter::new(
            file,
            &path,
            TableWriterOptions {
                comparator: order.clone(),
                block_size: family.block_size,
                restart_interval: family.block_restart_interval,
                bloom_bits_per_key: family.bloom_bits_per_key,
                prefix_extractor: family.given_prefix_extractor(),
                compression: family.compression,
                family: TableFamily {
                    id: ANY_FAMILY,
                    name: name.to_owned(),
                    merge_operator: operator.map(|operator| operator.name().to_owned()),
                },
                db_id: NO_DATABASE.to_owned(),
                db_session_id: session_id(clock),
                file_number: FileNumber(1),
                creation_time: clock.unix_time().as_secs(),
            },
        );
        table.make_external();
        if !family.table_properties_collectors.is_empty() {
            let context = CollectorContext {
                column_family: ANY_FAMILY,
                column_family_name: name,
            };
            let factories = &family.table_properties_collectors;
            table.show_to(Collectors::create(factories, &context, None));
        }
        Ok(SstFileWriter {
            vfs,
            path,
            order,
            table: Some(table),
            smallest: Vec::new(),
            largest: Vec::new(),
            entries: 0,
            range_deletions: 0,
            key: Vec::new(),
            finished: false,
        })
    }

    /// Adds a value.
    ///
    /// # Errors
    /// `InvalidArgument` if the key does not come after the one before, or the entry is too large;
    /// nothing is added then. Others end the file: every later call fails.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), ValueType::Value, value.as_ref())
    }

    /// Adds an entity: a value that consists of columns.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`]; `InvalidArgument` if two columns have the same name.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_encoded_entity(key.as_ref(), &encode_columns(columns)?)
    }

    /// The same with the columns encoded.
    pub(crate) fn put_encoded_entity(&mut self, key: &[u8], entity: &[u8]) -> Result<()> {
        self.add(key, ValueType::WideColumnEntity, entity)
    }

    /// Adds an operand for the merge operator of the family that ingests the file.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), ValueType::Merge, operand.as_ref())
    }

    /// Adds the deletion of a key that the database has when it ingests the file.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), ValueType::Deletion, &[])
    }

    /// Adds the deletion of the keys from `begin` to before `end` that the database has when it
    /// ingests the file; those of the file itself stay. May come at any time, in any order. An
    /// empty range adds nothing.
    ///
    /// # Errors
    /// `InvalidArgument` if `end` comes before `begin`.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        let order = self.order.compare_user(begin, end);
        let table = open_table(&mut self.table)?;
        if order.is_gt() {
            let text = "a range to be deleted ends before it begins";
            return Err(Error::invalid_argument(text).in_file(&self.path));
        }
        if order.is_eq() {
            return Ok(());
        }
        table.add_range_tombstone(&RangeTombstone {
            start: begin.to_vec().into(),
            end: end.to_vec().into(),
            sequence: SequenceNumber::ZERO,
        })?;
        self.range_deletions += 1;
        Ok(())
    }

    fn add(&mut self, key: &[u8], value_type: ValueType, value: &[u8]) -> Result<()> {
        let table = open_table(&mut self.table)?;
        if self.entries > 0 && self.order.compare_user(&self.largest, key).is_ge() {
            let (last, key) = (KeyText(&self.largest), KeyText(key));
            let text = format!(
                "key {key} is added after key {last}: keys come in ascending order, each once"
            );
            return Err(Error::invalid_argument(text).in_file(&self.path));
        }
        self.key.clear();
        append_internal_key(&mut self.key, key, SequenceNumber::ZERO, value_type as u8);
        let added = table.add(&self.key, value);
        if let Err(e) = added {
            if e.kind() != ErrorKind::InvalidArgument {
                self.table = None;
            }
            return Err(e.in_file(&self.path));
        }
        if self.entries == 0 {
            self.smallest.extend_from_slice(key);
        }
        self.largest.clear();
        self.largest.extend_from_slice(key);
        self.entries += 1;
        Ok(())
    }

    /// Bytes so far, approximately.
    pub fn file_size(&self) -> u64 {
        self.table.as_ref().map_or(0, TableWriter::file_size)
    }

    /// Writes the rest. File and name are durable on return.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing was added; `Io`. The file is removed then.
    pub fn finish(mut self) -> Result<SstFileInfo> {
        open_table(&mut self.table)?;
        let Some(mut table) = self.table.take() else {
            return Err(ended());
        };
        table.collect();
        let summary = table.finish()?;
        // ORDER: the content (synced as it was finished), then the name, before the caller may
        // count on the file.
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        self.vfs.sync_dir(dir.unwrap_or(Path::new(".")))?;
        self.finished = true;
        Ok(SstFileInfo {
            path: self.path.clone(),
            file_size: summary.file_size,
            entries: self.entries,
            range_deletions: self.range_deletions,
            smallest_key: std::mem::take(&mut self.smallest),
            largest_key: std::mem::take(&mut self.largest),
        })
    }
}

fn open_table(table: &mut Option<TableWriter>) -> Result<&mut TableWriter> {
    table.as_mut().ok_or_else(ended)
}

fn ended() -> Error {
    Error::invalid_argument("the file has ended with an error")
}

impl Drop for SstFileWriter {
    fn drop(&mut self) {
        if !self.finished {
            self.table = None;
            // A file that cannot be removed is no table: it has no end.
            let _ = self.vfs.remove(&self.path);
        }
    }
}

impl std::fmt::Debug for SstFileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SstFileWriter({})", self.path.display())
    }
}

/// Whether a file is in the directory of a database.
pub(crate) fn is_in_a_database(vfs: &dyn Vfs, file: &Path) -> Result<bool> {
    let directory = file.parent().unwrap_or(Path::new(""));
    vfs.exists(&FileKind::Current.path(directory))
}
