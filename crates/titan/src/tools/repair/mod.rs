//! Repairing a database: a new MANIFEST from what files survive.
//!
//! What is whole stays as it is; what is damaged is read as far as it can be and written anew;
//! what is gone is told. The directory is left as it was: the repaired database is built in
//! another one, out of hard links to the files that are whole. In place, everything is prepared
//! beside, CURRENT is switched last, and what the repaired database does not use moves to `lost/`:
//! it has a further name there before the switch, and only loses the one in the database behind it.
//!
//! | file | step |
//! |---|---|
//! | [`hint`] | reads what MANIFESTs are left, damaged or not |
//! | [`survey`], [`walk`] | reads every table |
//! | [`wals`] | replays WAL files into new tables, also behind damage |
//! | [`families`] | which column families there are, and whether the MANIFEST can be believed |
//! | [`orphans`] | of which family tables are that nothing tells it of |
//! | [`blobs`] | holds pointers and blob records against each other |
//! | [`rewrite`] | writes anew what damaged tables still hold, and values of damaged blob files |
//! | [`arrange`] | finds the order of tables where no MANIFEST says it |
//! | [`unfinished`] | what a repair that was interrupted left behind |
//! | [`install`] | links, writes MANIFEST and OPTIONS, switches CURRENT |
//!
//! # What is believed
//!
//! A MANIFEST that can be read to its end says which tables are where, and the others are
//! leftovers, unless they hold what nothing else does. Without it, every table counts that no
//! readable edit gave up. Their levels are unknown then; but a table all of whose entries are newer
//! than those of the tables it meets can lie above them, and tables that meet no other can lie at
//! the last level. The rest are merged. Every entry carries its sequence number, so nothing
//! newer is hidden by something older; what can come back are keys whose deletion had been dropped
//! with all that it deleted, but for a table that was still waiting to be removed.
//!
//! What may be of any column family becomes one of its own, `recovered-ID`: no family shows a value
//! that may not be its.
//!
//! # Promises
//!
//! 1. Every entry of the result was in a surviving file, under a checksum that holds; every pointer
//!    leads to its record. `check` finds nothing wrong.
//! 2. What is not in the result and could have been is covered by an entry of
//!    [`RepairReport::lost`]. One exception is beyond telling: the newest WAL may have been longer.
//! 3. Failures to read are failures, never taken for damage.
//! 4. A crash leaves the directory as it was or repaired; a repair can be run again, and comes to
//!    the same result.
//!
//! Cost: reads every file once, damaged ones up to three times. Memory: 32 bytes a pointer into
//! blob files.

mod arrange;
mod blobs;
mod families;
mod hint;
mod install;
mod orphans;
mod report;
mod rewrite;
mod survey;
#[cfg(test)]
mod tests;
mod unfinished;
mod walk;
mod wals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Progress;
use crate::blob::BlobFileSummary;
use crate::compaction::factory::FileFactory;
use crate::db::{create_dir_durably, files_of, has_directory, session_id, with_wal_dir};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber};
use crate::options::Options;
use crate::version::Counters;
use crate::vfs::Vfs;

use arrange::Placed;
use families::Family;
use hint::Hint;
pub use report::{Loss, RepairReport, Salvaged};
use survey::Table;

/// Where new files are prepared, within a database repaired in place.
const WORK_DIR: &str = "repairing";
/// Where what a database repaired in place does not use any more goes.
const LOST_DIR: &str = "lost";

/// Where the repaired database is put.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairTo {
    /// Into this directory, which must be empty or not exist, or have been left by a repair that
    /// did not come to its end. The damaged database is not changed, and may be on a read-only
    /// medium.
    Directory(PathBuf),
    /// In the place of the damaged one. Files that are not used any more move to `lost/` in it.
    InPlace,
}

/// Repairs the database in `path`, telling `progress` on the way. The database is locked meanwhile,
/// unless it cannot be written to at all.
///
/// `options` say how tables are written, and the comparators of families that have one of their
/// own. What was lost is in the report, which is no error.
///
/// # Errors
/// `NotFound` if there is nothing of a database; `InvalidArgument` if `path` is no directory;
/// `Locked` if it is in use; `AlreadyExists` if the directory to repair into has something in it;
/// `Unsupported` if it has features or comparators that are not known: what cannot be read could
/// not be kept. Failures to read and write. In all cases the database is as it was, but for further
/// names of its files in `lost/`.
pub fn repair(
    path: &Path,
    to: &RepairTo,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<RepairReport> {
    options.validate()?;
    let options = &with_wal_dir(path, options, *to != RepairTo::InPlace)?;
    let vfs = Arc::clone(&options.db.vfs);
    let not_found = || Error::new(ErrorKind::NotFound, "no database exists here").in_file(path);
    if !has_directory(&*vfs, path)? {
        return Err(not_found());
    }
    let is_data =
        |f: &FileKind| !matches!(f, FileKind::Lock | FileKind::Identity | FileKind::Temp(_));
    let mut files = files_of(&*vfs, path)?;
    if !files.iter().any(is_data) {
        return Err(not_found());
    }
    let mut report = RepairReport::default();
    let _lock = match vfs.lock(&FileKind::Lock.path(path)) {
        Err(e) if is_read_only(&e) && *to != RepairTo::InPlace => {
            let note = format!("the database is not locked, as it cannot be written to: {e}");
            report.notes.push(note);
            None
        }
        lock => Some(lock?),
    };
    let unfinished = unfinished::in_place(&*vfs, path)?;
    files.retain(|file| !unfinished.contains(file));
    let work = match to {
        RepairTo::Directory(target) => {
            unfinished::clear_target(&*vfs, target)?;
            target.clone()
        }
        RepairTo::InPlace => {
            for file in &unfinished {
                vfs.remove(&file.path(path))?;
            }
            // ORDER: before the mark goes that tells these files from the database's.
            vfs.sync_dir(path)?;
            path.join(WORK_DIR)
        }
    };
    let hint = Hint::read(&*vfs, path, &files, &mut report.lost, &mut report.notes)?;
    let counters = Arc::new(Counters::default());
    let total_bytes = files
        .iter()
        .filter(|f| matches!(f, FileKind::Table(_) | FileKind::Blob(_) | FileKind::Wal(_)))
        .map(|f| vfs.size(&f.path(path)).unwrap_or(0))
        .sum();
    let mut repair = Repair {
        dir: path,
        options,
        factory: FileFactory {
            vfs: Arc::clone(&vfs),
            dir: work,
            counters,
            direct_io: options.db.tools_write_direct(),
            db_id: String::new(),
            session_id: session_id(&*options.db.clock),
            clock: Arc::clone(&options.db.clock),
        },
        vfs,
        files,
        hint,
        families: BTreeMap::new(),
        tables: BTreeMap::new(),
        unlisted: BTreeMap::new(),
        missing: Vec::new(),
        replayed: BTreeMap::new(),
        first_replayed: None,
        wals_damaged: false,
        db_id_of_tables: None,
        placed: Vec::new(),
        new_blob_files: Vec::new(),
        blob_files: BTreeMap::new(),
        report,
        progress,
        done_bytes: 0,
        total_bytes,
    };
    repair.run(to == &RepairTo::InPlace)?;
    Ok(repair.report)
}

/// Whether something cannot be written for where it is: a medium or a directory that is read-only.
fn is_read_only(e: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(e.io_kind(), Some(PermissionDenied | ReadOnlyFilesystem))
}

/// A repair in progress.
struct Repair<'r> {
    vfs: Arc<dyn Vfs>,
    dir: &'r Path,
    options: &'r Options,
    /// Writes new files, where they are prepared.
    factory: FileFactory,
    /// All that is in the directory, those of a kind by number.
    files: Vec<FileKind>,
    hint: Hint,
    families: BTreeMap<ColumnFamilyId, Family>,
    /// Tables that are taken for the database's.
    tables: BTreeMap<FileNumber, Table>,
    /// Tables that the MANIFEST does not name.
    unlisted: BTreeMap<FileNumber, Table>,
    /// Tables that are named and not there.
    missing: Vec<FileNumber>,
    /// The newest operation replayed from WAL files, by family.
    replayed: BTreeMap<ColumnFamilyId, SequenceNumber>,
    /// The oldest operation in those files, of whatever family.
    first_replayed: Option<SequenceNumber>,
    wals_damaged: bool,
    /// The identity of the database that wrote the tables.
    db_id_of_tables: Option<String>,
    /// The tables of the repaired database.
    placed: Vec<Placed>,
    /// Blob files written by the repair.
    new_blob_files: Vec<(ColumnFamilyId, BlobFileSummary)>,
    /// The blob files that are there, once surveyed.
    blob_files: BTreeMap<BlobFileNumber, blobs::Blobs>,
    report: RepairReport,
    progress: &'r mut dyn FnMut(Progress),
    done_bytes: u64,
    total_bytes: u64,
}

impl Repair<'_> {
    fn run(&mut self, in_place: bool) -> Result<()> {
        self.prepare(in_place)?;
        self.survey_tables()?;
        self.find_families()?;
        self.replay_wals()?;
        self.choose_tables()?;
        self.survey_blob_files()?;
        self.rewrite_damaged()?;
        self.arrange()?;
        self.install(in_place)?;
        (self.progress)(Progress {
            done_bytes: self.total_bytes,
            total_bytes: self.total_bytes,
            file: String::new(),
        });
        Ok(())
    }

    /// A directory for new files, and numbers that no file ever had.
    fn prepare(&mut self, in_place: bool) -> Result<()> {
        let counters = Arc::clone(&self.factory.counters);
        let before_next = self.hint.next_file.0.saturating_sub(1);
        counters.mark_file_number_used(FileNumber(before_next));
        counters.mark_names_used(self.dir, &self.files)?;
        let lost = self.dir.join(LOST_DIR);
        if self.vfs.exists(&lost)? {
            counters.mark_names_used(&lost, &files_of(&*self.vfs, &lost)?)?;
        }
        // A MANIFEST that is gone, too, lest CURRENT name a new one before its time.
        counters.mark_file_number_used(unfinished::named_manifest(&*self.vfs, self.dir)?);
        counters.publish_sequence(self.hint.last_sequence);

        let work = self.factory.dir.clone();
        if in_place && self.vfs.exists(&work)? {
            // What an interrupted repair left there was never put to use.
            for name in self.vfs.read_dir(&work)? {
                self.vfs.remove(&work.join(name))?;
            }
        }
        create_dir_durably(&*self.vfs, &work)?;
        unfinished::mark(&*self.vfs, &work, self.dir, counters.new_file_number())
    }

    /// Reads all tables but those that a readable edit gave up.
    fn survey_tables(&mut self) -> Result<()> {
        let there: Vec<FileNumber> = self
            .files
            .iter()
            .filter_map(|file| match file {
                FileKind::Table(number) => Some(*number),
                _ => None,
            })
            .collect();
        self.missing = self.hint.tables.keys().copied().collect();
        self.missing.retain(|number| !there.contains(number));
        for number in there {
            let hinted = self.hint.tables.get(&number).cloned();
            if self.hint.obsolete.contains(&number) {
                continue;
            }
            let Some(table) = self.survey(number, hinted.as_ref())? else {
                continue;
            };
            for blob_file in table.files.keys() {
                // Not to be given to another file, even if this one is lost.
                let counters = &self.factory.counters;
                counters.mark_file_number_used(FileNumber(blob_file.0));
            }
            if self.db_id_of_tables.is_none() {
                self.db_id_of_tables.clone_from(&table.db_id);
            }
            match hinted {
                Some(_) => self.tables.insert(number, table),
                None => self.unlisted.insert(number, table),
            };
        }
        Ok(())
    }

    /// A file is done.
    fn tell(&mut self, file: FileKind, size: u64) {
        self.done_bytes += size;
        (self.progress)(Progress {
            done_bytes: self.done_bytes.min(self.total_bytes),
            total_bytes: self.total_bytes,
            file: file.name(),
        });
    }
}
