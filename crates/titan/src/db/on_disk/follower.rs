//! Captures the files of one moment while another process writes them.
//!
//! A process that dies leaves a MANIFEST, WAL files, and the files that the MANIFEST names;
//! recovery turns them into the database of one moment. So the follower must find the files that
//! the process would leave if it died now, although its files change while they are read. It
//! proceeds in this order:
//!
//! 1. Read the MANIFEST that CURRENT names, up to its present end, and open every file that it
//!    names; guard blob files against holes. Then check CURRENT and the MANIFEST's length again. If
//!    they have not changed, the state read was the newest while all of its files were open: none
//!    of them lacks anything, nor ever will. Otherwise files may be gone, or have holes: start
//!    again, with the files that are open by now.
//! 2. Read the WAL files, the newest first: everything in a file was preceded by everything in the
//!    older ones, which are read later. Within a file, bytes are read in their order, so of a
//!    record that is being appended at most the beginning is read.
//!    Files older than families need are read too, as far as the MANIFEST keeps them: they may have
//!    prepared transactions that a later file commits.
//! 3. Read the MANIFEST once more. If no family was created or dropped, and the oldest WAL files
//!    kept and needed are the same, then no WAL file was deleted or recycled before it had been
//!    read: every operation that the state of the first step lacks is in the files of the second.
//!    Otherwise: start again.
//!
//! Under full load a round takes longer than the writer needs to change something only if many
//! files must be opened. Open files stay open, so rounds become short.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::files_of;
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::number_map::NumberMap;
use crate::options::Options;
use crate::options::file::OptionsFile;
use crate::stats::Statistics;
use crate::sync::thread;
use crate::version::{LogsSince, Moment, RecoveredState, VersionSet, read_current};
use crate::vfs::{Access, Frozen, MemoryFile, ReadableFile, Vfs};
use crate::wal::{LogEnd, LogReader, TailMode};

/// Number of rounds that are tried while files change.
const MAX_ROUNDS: usize = 200;
/// Descriptors that a process has and needs beside those of the files: its standard streams,
/// CURRENT, MANIFEST and WAL files while they are read.
const OTHER_FILES: u64 = 8;
/// Number of times that something wrong is read again: it may be about to change.
const MAX_DOUBTS: usize = 3;
/// Number of the newest WAL files that may still grow: the one before the newest may get the rest
/// of a buffer after the newest has been created.
const GROWING: usize = 2;

/// The contents of CURRENT and the MANIFEST.
struct Manifest {
    number: FileNumber,
    current: Arc<dyn ReadableFile>,
    content: Arc<dyn ReadableFile>,
}

/// The files of one moment.
pub struct Captured {
    pub vfs: Arc<Frozen>,
    manifest: FileNumber,
    /// When all of them were in this state.
    unix_seconds: u64,
    live: BTreeSet<FileKind>,
}

impl Captured {
    /// The moment whose last operation is `last`.
    pub fn moment(&self, last: SequenceNumber) -> Moment {
        Moment {
            sequence: last.0,
            manifest: self.manifest.0,
            unix_seconds: self.unix_seconds,
        }
    }
}

/// Captures a database's files, again and again.
pub struct Follower {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    options: Options,
    /// Files named by the MANIFEST that was read last.
    open: BTreeMap<FileKind, Arc<dyn ReadableFile>>,
    /// The contents of WAL files that grow no more.
    logs: NumberMap<FileNumber, Arc<dyn ReadableFile>>,
}

impl Follower {
    pub fn new(dir: &Path, options: &Options) -> Self {
        Follower {
            vfs: Arc::clone(&options.db.vfs),
            dir: dir.to_owned(),
            options: options.clone(),
            open: BTreeMap::new(),
            logs: NumberMap::new(),
        }
    }

    /// Calls `f` with the files as they are now. If `f` finds damage in a file that the database
    /// has no longer, calls it again with the files of a later moment: a writer of another engine
    /// may cut files before it deletes them.
    pub(crate) fn look<T>(&mut self, mut f: impl FnMut(&Captured) -> Result<T>) -> Result<T> {
        for _ in 0..MAX_DOUBTS {
            let captured = self.capture()?;
            match f(&captured) {
                Err(e) if e.is_corruption() && !self.still_has(&captured, &e)? => {}
                outcome => return outcome,
            }
        }
        Err(self.changes_too_fast())
    }

    /// Whether damage in a file of that moment concerns the database as it is now: false if the
    /// database does not have the file any more.
    pub fn still_has(&self, captured: &Captured, damage: &Error) -> Result<bool> {
        let name = damage.path().and_then(Path::file_name);
        let file = name.and_then(|name| FileKind::parse(name.to_str()?));
        let Some(file) = file.filter(|file| captured.live.contains(file)) else {
            return Ok(true);
        };
        for _ in 0..MAX_ROUNDS {
            if let Some(manifest) = self.read_manifest()?
                && let Some(versions) = self.parse(&manifest)?
            {
                return Ok(versions.live_files().contains(&file));
            }
        }
        Err(self.changes_too_fast())
    }

    pub fn changes_too_fast(&self) -> Error {
        let message = "the files of the database change faster than they can be read";
        Error::new(ErrorKind::Busy, message).in_file(&self.dir)
    }

    /// Captures the files as they are now.
    ///
    /// # Errors
    /// `Busy` after too many rounds; as [`RecoveredState::read`] where the MANIFEST is damaged.
    pub fn capture(&mut self) -> Result<Captured> {
        for _ in 0..MAX_ROUNDS {
            // A failed round, for example with too many open files, closes the files that it
            // opened.
            let captured = self.round().inspect_err(|_| self.open.clear())?;
            if let Some(captured) = captured {
                return Ok(captured);
            }
            thread::yield_now();
        }
        Err(self.changes_too_fast())
    }

    /// One round; `None` if something changed in it.
    fn round(&mut self) -> Result<Option<Captured>> {
        let Some(manifest) = self.read_manifest()? else {
            return Ok(None);
        };
        let Some(versions) = self.parse(&manifest)? else {
            return Ok(None);
        };
        let live = versions.live_files();
        self.check_descriptors(live.len())?;
        self.open_files(&live)?;
        // ORDER: after all files have been opened. A file that is missing now is missing from the
        // database.
        if !self.is_newest(&manifest)? {
            return Ok(None);
        }
        let Some(logs) = self.read_logs(versions.logs_since().kept)? else {
            return Ok(None);
        };
        let mut files = self.small_files()?;
        let unix_seconds = self.options.db.clock.unix_time().as_secs();
        // ORDER: after all WAL files have been read.
        if !self.is_newest(&manifest)? {
            let Some(later) = self.read_manifest()? else {
                return Ok(None);
            };
            match self.parse(&later)? {
                Some(later) if outline(&later) == outline(&versions) => {}
                _ => return Ok(None),
            }
        }
        files.extend(
            self.open
                .iter()
                .map(|(kind, file)| (*kind, Arc::clone(file))),
        );
        files.extend(logs.into_iter().map(|(n, log)| (FileKind::Wal(n), log)));
        files.extend(self.files_of_manifest(&manifest));
        Ok(Some(Captured {
            vfs: Arc::new(self.frozen(files)),
            manifest: manifest.number,
            unix_seconds,
            live,
        }))
    }

    fn frozen(&self, files: impl IntoIterator<Item = (FileKind, Arc<dyn ReadableFile>)>) -> Frozen {
        let files = files.into_iter();
        let files = files
            .map(|(kind, file)| (kind.path(&self.dir), file))
            .collect();
        Frozen::new(Arc::clone(&self.vfs), &self.dir, files)
    }

    fn files_of_manifest(&self, manifest: &Manifest) -> [(FileKind, Arc<dyn ReadableFile>); 2] {
        [
            (FileKind::Current, Arc::clone(&manifest.current)),
            (
                FileKind::Manifest(manifest.number),
                Arc::clone(&manifest.content),
            ),
        ]
    }

    /// CURRENT, and the MANIFEST that it names, up to its present end; `None` if it is gone.
    fn read_manifest(&self) -> Result<Option<Manifest>> {
        let mut missing = None;
        for _ in 0..MAX_DOUBTS {
            let (number, path) = read_current(&*self.vfs, &self.dir)?;
            let current = format!("{}\n", FileKind::Manifest(number).name());
            match self.read(&path)? {
                Some(content) => {
                    return Ok(Some(Manifest {
                        number,
                        current: MemoryFile::open(current),
                        content: MemoryFile::open(content),
                    }));
                }
                None if missing == Some(number) => {
                    let message = "CURRENT names a MANIFEST that is missing";
                    return Err(Error::corruption(message).in_file(&path));
                }
                None => missing = Some(number),
            }
        }
        Ok(None)
    }

    /// The state in a MANIFEST; `None` if it makes no sense and is no longer the newest.
    fn parse(&self, manifest: &Manifest) -> Result<Option<VersionSet>> {
        let vfs: Arc<dyn Vfs> = Arc::new(self.frozen(self.files_of_manifest(manifest)));
        let state = RecoveredState::read(&*vfs, &self.dir, &self.options);
        let statistics = Arc::new(Statistics::default());
        match state.and_then(|s| s.into_set(vfs, &self.dir, &self.options, statistics)) {
            Ok(versions) => Ok(Some(versions)),
            // An edit may have been read while it was appended.
            Err(e) if e.is_corruption() && !self.is_newest(manifest)? => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether CURRENT still names the MANIFEST, and nothing has been added to it.
    fn is_newest(&self, manifest: &Manifest) -> Result<bool> {
        // ORDER: the length first: CURRENT never names a MANIFEST again after another, so if it
        // names this one afterwards, the length was that of the newest state.
        let path = FileKind::Manifest(manifest.number).path(&self.dir);
        match self.vfs.size(&path) {
            Ok(size) if size == manifest.content.size()? => {}
            Err(e) if !e.is_not_found() => return Err(e),
            _ => return Ok(false),
        }
        Ok(read_current(&*self.vfs, &self.dir)?.0 == manifest.number)
    }

    /// Fails with `TooManyOpenFiles` if the process may not have so many files open: before the
    /// first one is opened.
    fn check_descriptors(&self, files: usize) -> Result<()> {
        let limit = self.vfs.resources().open_files;
        match limit.filter(|limit| (files as u64).saturating_add(OTHER_FILES) > *limit) {
            Some(_) => Err(self.too_few_descriptors(files)),
            None => Ok(()),
        }
    }

    fn too_few_descriptors(&self, files: usize) -> Error {
        let available = match self.vfs.resources().open_files {
            Some(limit) => format!("may have {limit} open in all"),
            None => "has not so many left".to_owned(),
        };
        let message = format!(
            "to read beside the process that writes the database takes a file descriptor for each \
             of its {files} files, and this process {available}: raise its limit (`ulimit -n`), or \
             read a checkpoint"
        );
        Error::new(ErrorKind::TooManyOpenFiles, message).in_file(&self.dir)
    }

    /// Opens the files in `live` and closes others; those that are missing are left out.
    fn open_files(&mut self, live: &BTreeSet<FileKind>) -> Result<()> {
        self.open.retain(|file, _| live.contains(file));
        for file in live {
            if self.open.contains_key(file) {
                continue;
            }
            let path = file.path(&self.dir);
            let opened = match file {
                FileKind::Blob(_) => self.vfs.open_guarded(&path),
                _ => self.vfs.open(&path, Access::Random),
            };
            match opened {
                Ok(opened) => drop(self.open.insert(*file, opened)),
                Err(e) if e.is_not_found() => {}
                Err(e) if e.is_out_of_descriptors() => {
                    return Err(self.too_few_descriptors(live.len()).with_source(e));
                }
                Err(e) => {
                    let files = live.len();
                    let doing = format!("opening the {files} files of a database in use");
                    return Err(e.context(doing));
                }
            }
        }
        Ok(())
    }

    /// The contents of the WAL files from `kept` on; `None` if one is gone.
    fn read_logs(
        &mut self,
        kept: FileNumber,
    ) -> Result<Option<NumberMap<FileNumber, Arc<dyn ReadableFile>>>> {
        self.logs.retain(|number, _| *number >= kept);
        let files = files_of(&*self.vfs, &self.dir)?.into_iter();
        let numbers = files.filter_map(|file| match file {
            FileKind::Wal(number) if number >= kept => Some(number),
            _ => None,
        });
        let numbers: Vec<FileNumber> = numbers.collect();
        let mut logs = NumberMap::new();
        for (age, number) in numbers.into_iter().rev().enumerate() {
            let log = match self.logs.get(&number) {
                Some(log) => Arc::clone(log),
                None => match self.read_log(number)? {
                    Some(log) => log,
                    None => return Ok(None),
                },
            };
            if age >= GROWING {
                self.logs.insert(number, Arc::clone(&log));
            }
            logs.insert(number, log);
        }
        Ok(Some(logs))
    }

    /// The contents of a WAL file. A record that was appended while it was read is not damage: the
    /// file is read again for as long as its readable part grows.
    fn read_log(&self, number: FileNumber) -> Result<Option<Arc<dyn ReadableFile>>> {
        let path = FileKind::Wal(number).path(&self.dir);
        let mut damaged_at = None;
        loop {
            let Some(content) = self.read(&path)? else {
                return Ok(None);
            };
            let log = MemoryFile::open(content);
            let mut reader = LogReader::new(Arc::clone(&log), &path, number, TailMode::PointInTime);
            while let Ok(Some(_)) = reader.next() {}
            match reader.end() {
                Some(LogEnd::Corrupt { offset, .. }) if damaged_at != Some(*offset) => {
                    damaged_at = Some(*offset);
                }
                _ => return Ok(Some(log)),
            }
        }
    }

    /// The other files that recovery and checks read, if they exist.
    fn small_files(&self) -> Result<BTreeMap<FileKind, Arc<dyn ReadableFile>>> {
        let mut small = BTreeMap::new();
        if let Some((number, content)) = OptionsFile::read_newest(&*self.vfs, &self.dir)? {
            small.insert(FileKind::Options(number), MemoryFile::open(content));
        }
        if let Some(content) = self.read(&FileKind::Identity.path(&self.dir))? {
            small.insert(FileKind::Identity, MemoryFile::open(content));
        }
        Ok(small)
    }

    /// A file's bytes, read from front to back, up to its present end; `None` if it is gone.
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let file = match self.vfs.open(path, Access::Sequential) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        };
        // It may become shorter meanwhile: closing a WAL file cuts the zeros at its end.
        let mut content = vec![0; file.size()? as usize];
        let len = file.read_at(0, &mut content)?;
        content.truncate(len);
        Ok(Some(content))
    }
}

/// Shows whether the WAL files read beside a state are all that it needs. The number of the next
/// family reveals one that was created and dropped meanwhile.
fn outline(versions: &VersionSet) -> (Vec<ColumnFamilyId>, ColumnFamilyId, LogsSince) {
    let families = versions.families().keys().copied().collect();
    let next = versions.next_column_family();
    (families, next, versions.logs_since())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::db::recovery::open::open_captured;
    use crate::db::with_layout;

    #[test]
    fn a_view_has_the_logs_that_were_captured_also_from_another_directory() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("db");
        let mut options = Options::default();
        options.db.wal_dir = Some(place.path().join("logs"));
        let db = Db::open(&dir, &options).unwrap();
        db.put(b"key", b"then").unwrap();
        let options = with_layout(&dir, &options, true).unwrap();
        let captured = Follower::new(&dir, &options).capture().unwrap();
        db.put(b"key", b"now").unwrap();
        let core = open_captured(&dir, &options, &captured).unwrap();
        let view = Db::of_core(core).unwrap();
        let value = view.get(b"key").unwrap();
        assert_eq!(value.as_deref(), Some(&b"then"[..]));
    }

    #[test]
    fn a_failed_round_gives_back_what_it_opened() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default();
        let db = Db::open(dir.path(), &options).unwrap();
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
        let mut follower = Follower::new(dir.path(), &options);
        follower.capture().unwrap();
        assert_eq!(follower.open.len(), 1);
        // A table that cannot be opened, though it is not gone.
        db.put(b"key", b"newer").unwrap();
        db.flush().unwrap();
        let mut tables = files_of(&*options.db.vfs, dir.path()).unwrap();
        tables.retain(|file| matches!(file, FileKind::Table(_)));
        let newest = tables.last().unwrap().path(dir.path());
        std::fs::remove_file(&newest).unwrap();
        std::os::unix::fs::symlink(&newest, &newest).unwrap();
        assert!(follower.capture().is_err());
        assert!(follower.open.is_empty());
    }
}
