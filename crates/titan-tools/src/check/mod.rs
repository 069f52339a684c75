//! Checks a database: every file on its own, and all of them against each other.
//!
//! * each table: size, checksums of all blocks, order of keys, index, filter, range deletions,
//!   counts; smallest and largest keys and sequence numbers as in the MANIFEST; agreement of the
//!   liveness block, the entries and the MANIFEST's facts; the order within levels;
//! * each blob file: header, every record, footer; counts as in the MANIFEST; its family;
//! * every pointer in a live table leads to a record of its key (BLOB-1), and the records without a
//!   pointer are what the MANIFEST counts as garbage (BLOB-3). RocksDB deletes files in ranges
//!   without counting the garbage, so where a family has tables that Titan did not write, the
//!   MANIFEST may know of less garbage than there is, but never of more;
//! * the order of level 0: of two tables that share keys the newer comes first;
//! * each WAL that recovery would read: its records and their batches, the families these name, the
//!   order of their sequence numbers, and that no number is missing between two files;
//! * the next file number, above those of all live files;
//! * IDENTITY; the newest OPTIONS, and that it agrees with the families; files to which nothing
//!   refers.
//!
//! Not checked: that the entries of a key are newer the higher their level. Within level 0 this is
//! checked.
//!
//! Cost: reads each file once from front to back (the tail of a table and the MANIFEST twice).
//! Memory: what the largest table needs to be open, and 32 bytes for each pointer of one column
//! family at a time, which is 32 MB for a million separated values.

mod blobs;
mod tables;
#[cfg(test)]
mod tests;
mod wals;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use titan::internals::db::{
    Follower, Wals, refuse_tables_elsewhere, refuse_unreadable_tables, require_database,
    with_layout,
};
use titan::internals::format::FileKind;
use titan::internals::options::OptionsFile;
use titan::internals::version::{ManifestReader, RecoveredState, VersionSet, read_current};
use titan::internals::vfs::{in_locked, lock_to_read, read_file};
use titan::vfs::{Access, Vfs};
use titan::{Error, ErrorKind, FileNumber, Moment, Options, Result, SequenceNumber, Statistics};

use crate::progress::Progress;

/// The problems listed for one file; further ones are only counted.
const MAX_PROBLEMS_PER_FILE: u64 = 100;
/// Number of checks of a database in use, each time at another moment, as long as the files with
/// problems are gone afterwards.
const MAX_MOMENTS: usize = 3;
/// The bytes of a file between two reports of progress.
const PROGRESS_STEP: u64 = 4 << 20;

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckReport {
    /// The moment that was checked, if another process has the database open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moment: Option<Moment>,
    /// Live tables.
    pub tables: usize,
    /// Live blob files.
    pub blob_files: usize,
    /// WAL files that recovery would read.
    pub wal_files: usize,
    /// Entries of the tables, range deletions not counted.
    pub entries: u64,
    /// Entries that point into blob files.
    pub pointers: u64,
    /// Records of the WAL files.
    pub wal_records: u64,
    /// Bytes of the files checked.
    pub bytes: u64,
    /// Facts worth knowing that are not wrong: a WAL that a crash cut short, unlisted files.
    pub notes: Vec<String>,
    /// Problems, each with its file and, if known, its offset. At most 100 for one file; the last
    /// of them then says how many more there are.
    pub problems: Vec<Error>,
}

/// Checks the database in `path` and reports progress to `progress`. The database is locked
/// meanwhile. If another process has it open, it is checked as of one moment, as by
/// [`Secondary`](titan::Secondary); the report then names that moment.
///
/// # Errors
/// `NotFound` if there is no database; `Busy` if it changes too fast; `Unsupported`,
/// `InvalidArgument` or `InvalidOption` if it has features, tables, comparators or codecs that
/// cannot be read; failures to read the directory; a file that the program may not open, or for
/// which it has no descriptor. Everything that is wrong with a file is a problem in the report
/// instead. If the MANIFEST is damaged, nothing says what the other files
/// should be, and this is the only problem.
pub fn check(
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<CheckReport> {
    options.validate()?;
    let options = &with_layout(path, options, true)?;
    let vfs = Arc::clone(&options.db.vfs);
    require_database(&*vfs, path)?;
    match lock_to_read(&*vfs, &FileKind::Lock.path(path)) {
        Ok(lock) => {
            let vfs = in_locked(vfs, path, &*lock);
            check_files(&vfs, path, options, progress).map(|(report, _)| report)
        }
        Err(e) if e.kind() == ErrorKind::Locked => check_beside(path, options, progress),
        Err(e) => Err(e),
    }
}

/// Checks a database that another process has open. A problem in a file that has meanwhile been
/// deleted is not damage: other programs that write the format may truncate files before they
/// delete them.
fn check_beside(
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<CheckReport> {
    let mut follower = Follower::new(path, options);
    for _ in 0..MAX_MOMENTS {
        let captured = match follower.capture() {
            Ok(captured) => captured,
            Err(e) if e.is_corruption() => return Ok(CheckReport::of_manifest(e)),
            Err(e) => return Err(e),
        };
        let vfs: Arc<dyn Vfs> = Arc::clone(&captured.vfs) as _;
        let (mut report, last) = check_files(&vfs, path, options, progress)?;
        let mut lasting = true;
        for problem in &report.problems {
            lasting = lasting && follower.still_has(&captured, problem)?;
        }
        if lasting {
            report.moment = Some(captured.moment(last));
            return Ok(report);
        }
    }
    Err(follower.changes_too_fast())
}

/// Checks the files in `vfs`; also returns the last sequence number in them.
fn check_files(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<(CheckReport, SequenceNumber)> {
    let mut check = Check {
        vfs: &**vfs,
        dir: path,
        progress,
        report: CheckReport::default(),
        total_bytes: 0,
        told_bytes: 0,
        file: FileKind::Current,
        file_problems: 0,
        last_sequence: SequenceNumber::ZERO,
        unread: None,
        knows_all_operations: true,
    };
    let versions = RecoveredState::read(&**vfs, path, options).and_then(|state| {
        let statistics = Arc::new(Statistics::default());
        state.into_set(Arc::clone(vfs), path, options, statistics)
    });
    match versions {
        Ok(versions) => check.run(&versions)?,
        Err(e) if e.is_corruption() => check.report = CheckReport::of_manifest(e),
        Err(e) => return Err(e),
    }
    Ok((check.report, check.last_sequence))
}

impl CheckReport {
    /// The report for a database whose MANIFEST is damaged.
    fn of_manifest(damage: Error) -> Self {
        let note = "the other files were not checked: only the MANIFEST describes them";
        CheckReport {
            notes: vec![note.to_owned()],
            problems: vec![damage],
            ..CheckReport::default()
        }
    }
}

/// A check in progress.
struct Check<'a> {
    vfs: &'a dyn Vfs,
    dir: &'a Path,
    progress: &'a mut dyn FnMut(Progress),
    report: CheckReport,
    total_bytes: u64,
    /// The bytes done at the last report of progress.
    told_bytes: u64,
    /// The current file and the number of its problems.
    file: FileKind,
    file_problems: u64,
    /// The last sequence number in the MANIFEST and the WAL files.
    last_sequence: SequenceNumber,
    /// The first file that this program could not read for want of a codec, a right or a
    /// descriptor.
    unread: Option<Error>,
    /// Whether all operations in the WAL files are understood. Others may need any file.
    knows_all_operations: bool,
}

impl Check<'_> {
    fn run(&mut self, versions: &VersionSet) -> Result<()> {
        refuse_unreadable_tables(self.vfs, self.dir, versions, false)?;
        let files = self.files()?;
        let kinds: Vec<FileKind> = files.keys().copied().collect();
        versions.counters().check_names(self.dir, &kinds)?;
        refuse_tables_elsewhere(self.vfs, self.dir, versions)?;
        let wals = Wals::find(self.vfs, self.dir, versions.logs_since(), true)?;
        let mut live = versions.live_files();
        let read = wals.older.iter().chain(&wals.needed);
        live.extend(read.map(|number| FileKind::Wal(*number)));
        let (manifest, manifest_path) = read_current(self.vfs, self.dir)?;
        live.insert(FileKind::Manifest(manifest));
        self.total_bytes = live.iter().filter_map(|f| files.get(f)).sum();

        self.manifest_end(manifest, &manifest_path)?;
        for family in versions.families().values() {
            let references = self.tables(family, versions);
            self.require_all_read()?;
            self.blob_files(family, references);
            self.require_all_read()?;
        }
        self.wals(&wals, versions);
        self.require_all_read()?;
        self.next_file_number(versions, &manifest_path);
        self.identity(versions)?;
        self.left_over(&files, &live, versions);
        self.require_all_read()?;
        (self.progress)(Progress {
            done_bytes: self.total_bytes,
            total_bytes: self.total_bytes,
            file: String::new(),
        });
        Ok(())
    }

    /// Lists the engine's files with their sizes; notes the names of other files.
    fn files(&mut self) -> Result<BTreeMap<FileKind, u64>> {
        let mut files = BTreeMap::new();
        let mut names = self.vfs.read_dir(self.dir)?;
        names.sort();
        for name in names {
            match FileKind::parse(&name) {
                Some(kind) => {
                    let size = self.vfs.size(&self.dir.join(&name)).unwrap_or(0);
                    files.insert(kind, size);
                }
                None => self.note(format!("{name} is not a file of the database")),
            }
        }
        Ok(files)
    }

    /// A MANIFEST whose end a crash cut off is normal: the edit never took effect.
    fn manifest_end(&mut self, number: FileNumber, path: &Path) -> Result<()> {
        let file = self.vfs.open(path, Access::Sequential)?;
        self.report.bytes += file.size()?;
        let mut manifest = ManifestReader::new(file, path, number);
        while manifest.next()?.is_some() {}
        if let Some(offset) = manifest.cut_short_at() {
            let note = format!("the MANIFEST ends in an edit cut short, at offset {offset}");
            self.note(note);
        }
        Ok(())
    }

    /// A number that was used again would overwrite a live file.
    fn next_file_number(&mut self, versions: &VersionSet, manifest: &Path) {
        let next = versions.counters().next_file_number().0;
        for file in versions.live_files() {
            if file.number().is_some_and(|number| number >= next) {
                let text = format!("the next file number is {next}, but {} exists", file.name());
                self.problem(Error::corruption(text).in_file(manifest));
            }
        }
    }

    fn identity(&mut self, versions: &VersionSet) -> Result<()> {
        let path = FileKind::Identity.path(self.dir);
        let stored = match read_file(self.vfs, &path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
            Err(e) if e.is_not_found() => {
                self.note("IDENTITY is missing; the next opening writes it");
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let recorded = versions.db_id();
        if !recorded.is_empty() && stored != recorded {
            self.begin(FileKind::Identity);
            let text = format!(
                "IDENTITY says '{}', the MANIFEST '{recorded}'",
                stored.escape_default()
            );
            self.problem(Error::corruption(text).at(&path, 0));
        }
        Ok(())
    }

    /// Notes the files to which nothing refers.
    fn left_over(
        &mut self,
        files: &BTreeMap<FileKind, u64>,
        live: &BTreeSet<FileKind>,
        versions: &VersionSet,
    ) {
        for (kind, size) in files {
            let what = match kind {
                FileKind::Table(_) | FileKind::Blob(_) | FileKind::BlobMap(_)
                    if !live.contains(kind) =>
                {
                    match self.knows_all_operations {
                        true => "is referred to by nothing: a job did not finish",
                        false => "is needed by a WAL file, or by nothing",
                    }
                }
                FileKind::Wal(_) if !live.contains(kind) => "is no longer needed",
                FileKind::Manifest(_) if !live.contains(kind) => "is not the current MANIFEST",
                FileKind::Temp(_) => "was never used",
                FileKind::Options(_) => {
                    let newest = files.keys().rfind(|f| matches!(f, FileKind::Options(_)));
                    self.options(*kind, newest == Some(kind), versions);
                    continue;
                }
                _ => continue,
            };
            self.note(format!("{} ({size} bytes) {what}", kind.name()));
        }
    }

    /// RocksDB's tools rely on the newest OPTIONS, so it must be readable and name the right
    /// comparators. Families created since it was written may be missing.
    fn options(&mut self, kind: FileKind, newest: bool, versions: &VersionSet) {
        let path = self.begin(kind);
        let mut wrong = Vec::new();
        match read_file(self.vfs, &path).and_then(|content| OptionsFile::parse(&content)) {
            Err(e) => wrong.push(e.context("OPTIONS")),
            Ok(options) => {
                for family in versions.families().values() {
                    let recorded = options.comparator(&family.name);
                    let comparator = family.comparator.user().name();
                    if let Some(recorded) = recorded.filter(|recorded| *recorded != comparator) {
                        wrong.push(Error::corruption(format!(
                            "OPTIONS names comparator '{recorded}' for family {}, the MANIFEST \
                             '{comparator}'",
                            family.name
                        )));
                    }
                }
            }
        }
        for e in wrong {
            match newest {
                true => self.problem(e.in_file(&path)),
                false => self.note(e.in_file(&path).to_string()),
            }
        }
    }

    /// Makes `file` the one that progress and problems are about.
    fn begin(&mut self, file: FileKind) -> PathBuf {
        self.report_suppressed();
        self.file = file;
        self.file_problems = 0;
        self.report_progress(self.report.bytes);
        file.path(self.dir)
    }

    /// Ends the check of the current file.
    fn finish(&mut self, size: u64) {
        self.report_suppressed();
        self.report.bytes += size;
    }

    /// Reports progress within the current file.
    fn reached(&mut self, offset: u64) {
        let done = self.report.bytes + offset;
        if done >= self.told_bytes + PROGRESS_STEP {
            self.report_progress(done);
        }
    }

    fn report_progress(&mut self, done: u64) {
        self.told_bytes = done;
        (self.progress)(Progress {
            done_bytes: done.min(self.total_bytes),
            total_bytes: self.total_bytes,
            file: self.file.name(),
        });
    }

    fn note(&mut self, note: impl Into<String>) {
        self.report.notes.push(note.into());
    }

    /// Fails if a file could not be read: other problems may follow from it.
    fn require_all_read(&mut self) -> Result<()> {
        self.unread.take().map_or(Ok(()), Err)
    }

    fn problem(&mut self, error: Error) {
        if says_nothing_of_the_file(&error) {
            self.unread.get_or_insert(error);
            return;
        }
        self.file_problems += 1;
        if self.file_problems <= MAX_PROBLEMS_PER_FILE {
            self.report.problems.push(error);
        }
    }

    fn report_suppressed(&mut self) {
        if let Some(more @ 1..) = self.file_problems.checked_sub(MAX_PROBLEMS_PER_FILE) {
            let error = Error::corruption(format!("{more} more problems in this file"));
            let path = self.file.path(self.dir);
            self.report.problems.push(error.in_file(&path));
        }
        self.file_problems = 0;
    }
}

/// Whether the program could not read the file, whose data may be whole.
fn says_nothing_of_the_file(error: &Error) -> bool {
    error.lacks_codec()
        || error.kind() == ErrorKind::TooManyOpenFiles
        || error.io_kind() == Some(std::io::ErrorKind::PermissionDenied)
}
