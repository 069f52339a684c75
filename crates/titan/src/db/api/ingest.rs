//! Adding files made elsewhere to the database, as one write.
//!
//! The files are read, checked and brought into the directory while other writers go on. Then this
//! thread leads the commit queue:
//!
//! | step | why |
//! |---|---|
//! | sync the WAL | the files are durable: after a crash no write survives one before them |
//! | start a WAL file, flush the memtables of the families | readers search them first, and would find older entries |
//! | choose levels, under the locks that keep the trees as they are | a file may not be below anything that has a key of its range |
//! | one step of edits adds the tables, each with the next sequence number | a crash before it leaves files that no version names |
//! | tell the commit hook, publish | as for a batch |

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::column_family::ColumnFamily;
use super::handle::Db;
use crate::commit_hook::BypassedRange;
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::db::jobs::bypass::{UnlistedFiles, key_after};
use crate::db::jobs::ingestion::{FamilyFiles, Ingestion, NewTable, needs_number};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::internal_key::{seek_key, user_key};
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::ingest::external_file::{ExternalFile, ForFamily, verify};
use crate::ingest::{FileTransfer, IngestOptions, is_in_a_database};
use crate::iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::stats::notify;
use crate::vfs::{Vfs, copy};
use crate::write::queue::Lead;

impl ColumnFamily {
    /// Adds files that an [`SstFileWriter`](crate::SstFileWriter), or RocksDB's, has written. It is
    /// one write: readers, snapshots, conditions and transactions see all files or none, and all
    /// writes before. Of files that overlap each other, the later ones hide the earlier ones.
    ///
    /// A file goes to the lowest level at which it hides nothing newer, so an import of sorted
    /// files that do not overlap needs no compaction. Large values stay in the file until a
    /// compaction rewrites it. All is durable on return, with all logged writes before it. An error
    /// leaves the database and the files as they were. Without files, nothing happens.
    ///
    /// Cost: a few reads of each file, the [check](IngestOptions::verify_checksums) and the
    /// [transfer](IngestOptions::transfer), while others write; then other writers wait for a flush
    /// of their own writes to the family meanwhile, and for a sync of the WAL and of the MANIFEST.
    ///
    /// A [commit hook](crate::CommitHook) is told of a bypass of the range of each file; a
    /// [compaction filter](crate::ColumnFamilyOptions::compaction_filter) is asked later.
    ///
    /// # Errors
    /// `InvalidArgument` for a file that was not made for ingestion, is empty, or is of another
    /// family, for merge operands without a merge operator, for the database's own files, for the
    /// same file twice, where `allow_global_seqno` is off and a number is needed, and where the
    /// commit hook [refuses](crate::CommitHook::refuses_files) files; `InvalidOption` for another
    /// order of keys; `Unsupported`; `Corruption` for damage and for a file that is cut off;
    /// `NotFound`; `Busy` if an option forbids a step that is needed; `NoSpace`; those of
    /// [`ColumnFamily::flush`]; `Closed` if the database is closed meanwhile.
    pub fn ingest<P: AsRef<Path>>(&self, files: &[P], options: &IngestOptions) -> Result<()> {
        let files = files.iter().map(|file| file.as_ref().to_owned());
        let wanted = (Arc::clone(&self.family), files.collect());
        self.core.shared.ingest(vec![wanted], options)
    }
}

impl Db {
    /// Adds files to several families, in one step: see [`ColumnFamily::ingest`].
    ///
    /// # Errors
    /// As [`ColumnFamily::ingest`]; `InvalidArgument` if a family is named twice, or is of another
    /// database.
    pub fn ingest_all<P: AsRef<Path>>(
        &self,
        files: &[(&ColumnFamily, &[P])],
        options: &IngestOptions,
    ) -> Result<()> {
        let mut wanted: Vec<(Arc<Family>, Vec<PathBuf>)> = Vec::new();
        for (family, files) in files {
            if !Arc::ptr_eq(&family.core, &self.core) {
                let text = "files are to be ingested into a family of another database";
                return Err(Error::invalid_argument(text));
            }
            if wanted.iter().any(|(other, _)| other.id == family.family.id) {
                let text = format!("column family {} is named twice", family.name());
                return Err(Error::invalid_argument(text));
            }
            let files = files.iter().map(|file| file.as_ref().to_owned());
            wanted.push((Arc::clone(&family.family), files.collect()));
        }
        self.core.shared.ingest(wanted, options)
    }
}

/// A file that is to be ingested.
struct Source {
    /// Its path as the caller gave it.
    given: PathBuf,
    /// The path of the file itself, without symbolic links.
    path: PathBuf,
}

/// The files for a family.
type Wanted = (Arc<Family>, Vec<Source>);

impl Shared {
    fn ingest(
        &self,
        wanted: Vec<(Arc<Family>, Vec<PathBuf>)>,
        options: &IngestOptions,
    ) -> Result<()> {
        self.check_may_ingest(&wanted)?;
        let wanted = self.sources(wanted, options)?;
        let Some((first, _)) = wanted.first() else {
            return Ok(());
        };
        let made = self.ingest_sources(first, &wanted, options);
        // Deletes the files that a failed ingestion has left.
        self.purge();
        made.map_err(|e| e.context("ingesting files"))?;
        if options.transfer == FileTransfer::Move {
            for source in wanted.iter().flat_map(|(_, files)| files) {
                self.remove_moved(source);
            }
        }
        Ok(())
    }

    fn ingest_sources(
        &self,
        first: &Arc<Family>,
        wanted: &[Wanted],
        options: &IngestOptions,
    ) -> Result<()> {
        let mut unlisted = UnlistedFiles::new(self);
        let mut families = Vec::new();
        let mut age = 0;
        for (family, files) in wanted {
            let brought = self.bring(&mut unlisted, family, files, &mut age, options)?;
            families.push(brought);
        }
        self.step_of_ingestion(first, || self.sync_ingested_names())?;
        self.wait_out_stall_of_value(0, false)?;
        let ids: Vec<ColumnFamilyId> = wanted.iter().map(|(family, _)| family.id).collect();
        self.check_memtables(&families, options)?;
        self.flush(&ids)?;
        gate!("ingestion: files brought");
        self.alone_between_checkpoints(|lead| {
            let first_sequence = self.prepare_for_files(lead, &families, age, options)?;
            // ORDER: until the files are published.
            let _before = self.snapshot_before_bypass();
            let ranges = ranges(&families);
            let ingestion = Ingestion {
                family: Arc::clone(first),
                families,
                first: first_sequence,
                options: *options,
                unlisted,
            };
            self.install_files(lead, ingestion)?;
            self.publish_files(lead, &ranges, first_sequence, age);
            Ok(())
        })
    }

    /// Removes the names of a file that was moved. The ingestion has succeeded: a name that cannot
    /// be removed stays.
    fn remove_moved(&self, source: &Source) {
        for path in [&source.path, &source.given] {
            match self.files.vfs.remove(path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    notify!(self.opening.listeners, deletion_failed(&e));
                }
                _ => {}
            }
        }
    }

    /// Fails before anything is read, if nothing could be ingested.
    fn check_may_ingest(&self, wanted: &[(Arc<Family>, Vec<PathBuf>)]) -> Result<()> {
        self.check_may_bypass(wanted.iter().map(|(family, _)| &**family))?;
        if let Some(owner) = self.pipeline.hook().and_then(|hook| hook.refuses_files()) {
            let text = format!("the database has {owner}: files made elsewhere would damage it");
            return Err(Error::invalid_argument(text));
        }
        Ok(())
    }

    /// Finds the files themselves; families without files are left out.
    fn sources(
        &self,
        wanted: Vec<(Arc<Family>, Vec<PathBuf>)>,
        options: &IngestOptions,
    ) -> Result<Vec<Wanted>> {
        let takes = options.transfer == FileTransfer::Move;
        let vfs = &*self.files.vfs;
        let own = vfs.canonicalize(&self.files.dir)?;
        let mut paths = BTreeSet::new();
        let mut all = Vec::new();
        for (family, files) in wanted {
            let mut sources = Vec::new();
            for given in files {
                let path = vfs.canonicalize(&given)?;
                if path.parent() == Some(&*own) {
                    let text = "the file is in the directory of the database itself";
                    return Err(Error::invalid_argument(text).in_file(&given));
                }
                if takes && is_in_a_database(vfs, &path)? {
                    let text = "the file is in the directory of another database, which may use it";
                    return Err(Error::invalid_argument(text).in_file(&given));
                }
                if !paths.insert(path.clone()) {
                    let text = "the same file is to be ingested twice";
                    return Err(Error::invalid_argument(text).in_file(&given));
                }
                sources.push(Source { given, path });
            }
            if !sources.is_empty() {
                all.push((family, sources));
            }
        }
        Ok(all)
    }

    /// Checks the files of a family and brings them into the directory.
    fn bring(
        &self,
        unlisted: &mut UnlistedFiles<'_>,
        family: &Arc<Family>,
        files: &[Source],
        age: &mut u64,
        options: &IngestOptions,
    ) -> Result<FamilyFiles> {
        let of_family = ForFamily {
            id: family.id,
            name: &family.name,
            comparator: &family.comparator,
            takes_merges: family.merge_operator().is_ok(),
        };
        let vfs = &*self.files.vfs;
        let mut brought = FamilyFiles {
            family: Arc::clone(family),
            tables: Vec::new(),
        };
        for source in files {
            let path = &*source.path;
            let read = || ExternalFile::read(vfs, path, of_family);
            let file = self.step_of_ingestion(family, read)?;
            let number = unlisted.new_table();
            let to = FileKind::Table(number).path(&self.files.dir);
            self.transfer(family, path, &to, file.size, options.transfer)?;
            gate!("ingestion: file transferred");
            self.step_of_ingestion(family, || {
                // The checks of the file hold for the copy.
                if ExternalFile::read(vfs, &to, of_family)? != file {
                    let text = "the file changed while it was ingested";
                    return Err(Error::corruption(text).in_file(path));
                }
                match options.verify_checksums {
                    true => verify(vfs, &to, path, &family.comparator),
                    false => Ok(()),
                }
            })?;
            brought.tables.push(NewTable {
                number,
                file,
                age: *age,
            });
            gate!("ingestion: file brought");
            *age += 1;
        }
        Ok(brought)
    }

    /// Gives the content of a file, of `size` bytes, a name in the directory. The content is
    /// durable on return.
    fn transfer(
        &self,
        family: &Family,
        from: &Path,
        to: &Path,
        size: u64,
        how: FileTransfer,
    ) -> Result<()> {
        let vfs = &*self.files.vfs;
        if how != FileTransfer::Copy
            && self.step_of_ingestion(family, || link_durably(vfs, from, to))?
        {
            return Ok(());
        }
        let doing = format!("ingesting files into column family {}", family.name);
        self.check_room(&doing, size)?;
        self.step_of_ingestion(family, || copy(vfs, from, to, &|| self.check_open()))
    }

    fn sync_ingested_names(&self) -> Result<()> {
        // ORDER: the names of all files are durable before an edit names them. The sync of the name
        // of the WAL file that begins under the lead would do, and costs less after this one.
        self.files.vfs.sync_dir(&self.files.dir)
    }

    /// Fails with `Busy` if memtables would have to be flushed and may not.
    fn check_memtables(&self, families: &[FamilyFiles], options: &IngestOptions) -> Result<()> {
        if options.allow_blocking_flush && options.allow_global_seqno {
            return Ok(());
        }
        for files in families {
            let super_version = files.family.super_version.load();
            let overlap = |memtable: &Arc<Memtable>| {
                let mut tables = files.tables.iter();
                tables.any(|table| has_keys(memtable, table.file.begin(), table.file.end()))
            };
            if !super_version.memtables().any(overlap) {
                continue;
            }
            let name = &files.family.name;
            if !options.allow_global_seqno {
                return Err(needs_number(name));
            }
            let text = format!(
                "memtables of column family {name} have keys of the range of a file, and \
                 allow_blocking_flush is off"
            );
            return Err(Error::new(ErrorKind::Busy, text));
        }
        Ok(())
    }

    /// Makes all earlier writes durable, and the memtables of the families empty. Returns the
    /// sequence number of the oldest file.
    fn prepare_for_files(
        &self,
        lead: &Lead<'_>,
        families: &[FamilyFiles],
        files: u64,
        options: &IngestOptions,
    ) -> Result<SequenceNumber> {
        let may_be_ingested = || {
            self.check_memtables(families, options)?;
            let has_snapshots = self.pins.snapshots.len() > 0;
            match has_snapshots && !options.allow_global_seqno {
                true => Err(needs_number(
                    families.first().map_or("", |files| &files.family.name),
                )),
                false => Ok(()),
            }
        };
        let all: Vec<&Family> = families.iter().map(|files| &*files.family).collect();
        self.prepare_bypass(lead, &all, files, may_be_ingested)
    }

    /// Shows installed files to the commit hook and to readers.
    fn publish_files(
        &self,
        lead: &Lead<'_>,
        ranges: &[IngestedRange],
        first: SequenceNumber,
        files: u64,
    ) {
        let last = SequenceNumber(first.0 + files - 1);
        let told = ranges.iter().map(|range| {
            range.family.dead.write_unnamed(last);
            let bypassed = BypassedRange {
                column_family: range.family.id,
                begin: Some(&range.begin),
                end: range.end.as_deref(),
            };
            (bypassed, first.plus(range.age))
        });
        self.publish_bypass(lead, &told.collect::<Vec<_>>(), last);
    }
}

/// Links a file. Its content is durable on return. Returns false where that cannot be; no name is
/// left then.
fn link_durably(vfs: &dyn Vfs, from: &Path, to: &Path) -> Result<bool> {
    match vfs.link(from, to) {
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(false),
        linked => linked?,
    }
    // ORDER: the content is durable before an edit names the file. Its writer need not have synced
    // it.
    if mutant!(ingested_file_not_synced) {
        return Ok(true);
    }
    match vfs.sync_closed(to) {
        Err(e) if e.kind() == ErrorKind::Unsupported => vfs.remove(to).map(|()| false),
        synced => synced.map(|()| true),
    }
}

/// Keys of a table that was ingested.
struct IngestedRange {
    family: Arc<Family>,
    begin: Vec<u8>,
    /// The first key after it, if that is known.
    end: Option<Vec<u8>>,
    age: u64,
}

fn ranges(families: &[FamilyFiles]) -> Vec<IngestedRange> {
    let of_family = |files: &FamilyFiles| {
        let family = Arc::clone(&files.family);
        let of_table = move |table: &NewTable| IngestedRange {
            family: Arc::clone(&family),
            begin: table.file.begin().to_vec(),
            end: match table.file.end() {
                Bound::Excluded(end) => Some(end.to_vec()),
                Bound::Included(last) => key_after(&family, last),
                Bound::Unbounded => None,
            },
            age: table.age,
        };
        files.tables.iter().map(of_table).collect::<Vec<_>>()
    };
    families.iter().flat_map(of_family).collect()
}

/// Whether a memtable has a key of a range, or the deletion of a range that overlaps it.
fn has_keys(memtable: &Arc<Memtable>, begin: &[u8], end: Bound<&[u8]>) -> bool {
    let order = memtable.comparator();
    let is_within = |key: &[u8]| !order.is_beyond(key, end);
    let mut entries = memtable.iter();
    let found = entries.seek(&seek_key(begin, SequenceNumber::MAX));
    let has_point = found.is_ok() && entries.valid() && is_within(user_key(entries.key()));
    let has_range = || {
        let tombstones = memtable.range_tombstones();
        let mut tombstones = tombstones.iter_tombstones();
        tombstones.any(|t| is_within(&t.start) && order.compare_user(&t.end, begin).is_gt())
    };
    has_point || memtable.has_range_tombstones() && has_range()
}
