//! Repairs a database: creates a new MANIFEST for the files that survive.
//!
//! Whole files stay as they are; damaged ones are read as far as possible and rewritten; lost data
//! is reported. The directory does not change: the repaired database is built in another one, with
//! hard links to the whole files. In place, everything is prepared in a subdirectory, CURRENT is
//! switched last, and files that the repaired database does not use move to `lost/`: they are
//! linked there before the switch, and unlinked from the database after it.
//!
//! | file | step |
//! |---|---|
//! | `state`, `table`, `family`, `blob_file` | hold what was found and written so far |
//! | `hint` | reads the MANIFESTs that are left, damaged or not |
//! | `survey`, `walk` | reads every table |
//! | `wals` | replays WAL files into new tables, also after damage |
//! | `families` | finds the column families; decides whether the MANIFEST is trusted |
//! | `orphans` | assigns tables of unknown column family |
//! | `blobs` | compares pointers and blob records |
//! | `rewrite` | rewrites readable entries of damaged tables, and values of damaged blob files |
//! | `arrange` | finds the order of tables if no MANIFEST has it |
//! | `unfinished` | deals with the files of an interrupted repair |
//! | `install` | links, writes MANIFEST and OPTIONS, switches CURRENT |
//!
//! # What is trusted
//!
//! A MANIFEST that can be read to its end says which tables are at which level, and all others are
//! unlisted files, unless they have entries that nothing else has. Without such a MANIFEST, every
//! table counts that no readable edit removed. Their levels are unknown then; but a table whose
//! entries are all newer than those of the tables it overlaps can be placed above them, and tables
//! that overlap no other can be placed at the last level. The rest are merged. Every entry carries
//! its sequence number, so nothing older shadows anything newer. Only a MANIFEST has that of an
//! ingested table: without it, the table counts as newer than those with smaller file numbers, and
//! as older than all later writes; writes before it that a later table has can hide it. Deleted
//! keys can come back in one case: their tombstones were dropped together with all that they
//! deleted, but an obsolete table with them had not been deleted yet.
//!
//! Tables that may be of any column family get one of their own, `recovered-ID`: no family shows a
//! value that may not be its own.
//!
//! # Promises
//!
//! 1. Every entry of the result was in a surviving file, under a checksum that holds; every pointer
//!    leads to its record. `check` finds no problems.
//! 2. What is not in the result and could have been is covered by an entry of
//!    [`RepairReport::lost`]. There is one exception, which cannot be detected: the newest WAL may
//!    have been longer.
//! 3. Failures to read are failures, never taken for damage.
//! 4. A crash leaves the directory either as it was or repaired; a repair can be run again, with
//!    the same result.
//!
//! Cost: reads every file once, damaged ones up to three times. Memory: 32 bytes for each pointer
//! into blob files.

mod arrange;
mod blob_file;
mod blobs;
mod families;
mod family;
mod hint;
mod install;
mod orphans;
mod report;
mod rewrite;
mod state;
mod survey;
mod table;
#[cfg(test)]
mod tests;
mod unfinished;
mod walk;
mod wals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::internals::clock::{SteadyClock, session_id};
use titan::internals::compaction::JobEnv;
use titan::internals::db::{LOST_DIR, create_dir_durably, files_of, has_directory, with_layout};
use titan::internals::format::FileKind;
use titan::internals::version::Counters;
use titan::internals::vfs::in_locked;
use titan::{Error, ErrorKind, FileNumber, Options, Result};

use crate::progress::Progress;
use hint::Hint;
pub use report::{Loss, RepairReport, Salvaged};
use state::{Damaged, FoundTables, Repair, RepairProgress, ReplayedWals};
use unfinished::WORK_DIR;

/// Where to put the repaired database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairTo {
    /// Into this directory, which must be empty or not exist, or be the result of an interrupted
    /// repair. The damaged database is not changed, and may be on a read-only medium.
    Directory(PathBuf),
    /// In place of the damaged one. Files that are not used any more move to `lost/` in it.
    InPlace,
}

/// Repairs the database in `path` and reports progress to `progress`. The database is locked
/// meanwhile, unless its directory cannot be written to.
///
/// `options` say how tables are written, and name the comparators of families that have their own.
/// Lost data is listed in the report and is no error.
///
/// # Errors
/// `NotFound` if there are no files of a database; `InvalidArgument` if `path` is not a directory;
/// `Locked` if it is in use; `AlreadyExists` if the directory to repair into is not empty;
/// `Unsupported` if the database has unknown features or comparators: what cannot be read could not
/// be kept. Failures to read and write. After an error the database is as it was, except for
/// further names of its files in `lost/`.
pub fn repair(
    path: &Path,
    to: &RepairTo,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<RepairReport> {
    options.validate()?;
    let options = &with_layout(path, options, *to != RepairTo::InPlace)?;
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
    let lock = match vfs.lock(&FileKind::Lock.path(path)) {
        Err(e) if is_read_only(&e) && *to != RepairTo::InPlace => {
            let note = format!("the database is not locked, as it cannot be written to: {e}");
            report.notes.push(note);
            None
        }
        lock => Some(lock?),
    };
    let vfs = match &lock {
        Some(lock) => in_locked(vfs, path, &**lock),
        None => vfs,
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
            // ORDER: before the mark is removed that tells these files from the database's.
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
    let env = JobEnv {
        vfs: Arc::clone(&vfs),
        dir: work,
        counters,
        direct_io: options.db.tools_write_direct(),
        db_id: String::new(),
        session_id: session_id(&*options.db.clock),
        clock: SteadyClock::new(Arc::clone(&options.db.clock)),
    };
    let mut repair = Repair {
        from: Damaged {
            vfs,
            dir: path,
            options,
            files,
            hint,
        },
        env,
        families: BTreeMap::new(),
        found: FoundTables::default(),
        wals: ReplayedWals::default(),
        placed: Vec::new(),
        new_blob_files: Vec::new(),
        blob_files: BTreeMap::new(),
        report,
        progress: RepairProgress {
            report: progress,
            done_bytes: 0,
            total_bytes,
        },
    };
    repair.run(to == &RepairTo::InPlace)?;
    Ok(repair.report)
}

/// Whether a write failed because the medium or the directory is read-only.
fn is_read_only(e: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(e.io_kind(), Some(PermissionDenied | ReadOnlyFilesystem))
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
        self.progress.finish();
        Ok(())
    }

    /// Creates a directory for new files, and reserves the file numbers in use.
    fn prepare(&mut self, in_place: bool) -> Result<()> {
        let counters = Arc::clone(&self.env.counters);
        let before_next = self.from.hint.next_file.0.saturating_sub(1);
        counters.mark_named_number_used(FileNumber(before_next));
        counters.mark_names_used(self.from.dir, &self.from.files)?;
        let lost = self.from.dir.join(LOST_DIR);
        if self.from.vfs.exists(&lost)? {
            counters.mark_names_used(&lost, &files_of(&*self.from.vfs, &lost)?)?;
        }
        // Also the number of a missing MANIFEST: CURRENT must not name a new one too early.
        counters
            .mark_named_number_used(unfinished::named_manifest(&*self.from.vfs, self.from.dir)?);
        counters.publish_sequence(self.from.hint.last_sequence);

        let work = self.env.dir.clone();
        if in_place && self.from.vfs.exists(&work)? {
            // The files that an interrupted repair left there were never used.
            for name in self.from.vfs.read_dir(&work)? {
                self.from.vfs.remove(&work.join(name))?;
            }
        }
        create_dir_durably(&*self.from.vfs, &work)?;
        unfinished::mark(
            &*self.from.vfs,
            &work,
            self.from.dir,
            counters.new_file_number(),
        )
    }

    /// Reads all tables except those that a readable edit removed.
    fn survey_tables(&mut self) -> Result<()> {
        let there: Vec<FileNumber> = self
            .from
            .files
            .iter()
            .filter_map(|file| match file {
                FileKind::Table(number) => Some(*number),
                _ => None,
            })
            .collect();
        self.found.missing = self.from.hint.tables.keys().copied().collect();
        self.found.missing.retain(|number| !there.contains(number));
        for number in there {
            let hinted = self.from.hint.tables.get(&number).cloned();
            if self.from.hint.obsolete.contains(&number) {
                continue;
            }
            let Some(table) = self.survey(number, hinted.as_ref())? else {
                continue;
            };
            self.found.newest = self.found.newest.max(table.meta.largest_seq);
            for blob_file in table.files.keys() {
                // This number must not be given to another file, even if this one is lost.
                let counters = &self.env.counters;
                counters.mark_named_number_used(FileNumber(blob_file.0));
            }
            if self.found.db_id.is_none() {
                self.found.db_id.clone_from(&table.db_id);
            }
            match hinted {
                Some(_) => self.found.listed.insert(number, table),
                None => self.found.unlisted.insert(number, table),
            };
        }
        Ok(())
    }
}
