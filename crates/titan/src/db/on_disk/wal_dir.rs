//! Where the WAL files of a database are: in its directory, or in the one that `wal_dir` names.
//!
//! Nothing in a WAL file says to which database it belongs. So a caller that writes states the
//! directory; one that only reads may take it from OPTIONS. A directory that is stated wrongly is
//! refused as far as it can be told: writes that were logged elsewhere would silently be missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{files_of, has_directory, holds_database};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::options::file::{DB_OPTIONS, OptionsFile};
use crate::options::{DbOptions, Options};
use crate::vfs::{LogsElsewhere, Vfs};

/// The name of the option, also in OPTIONS.
const WAL_DIR: &str = "wal_dir";

/// The options to work on the database in `dir` with. If its WAL files are in another directory,
/// the file system shows them in `dir`. That directory is the one that the options state. With
/// `looking`, for callers that only read, it is taken from OPTIONS where none is stated, and `dir`
/// itself may be stated to leave others out. Nothing is created.
///
/// # Errors
/// `Unsupported` if OPTIONS names a directory with WAL files in it, none are in `dir`, and the
/// options state none (this may be a copy of the database that they belong to, and a writer would
/// take them over) or another one without any. `NotFound` if the stated one is missing beside an
/// existing database. Failures to read.
pub(super) fn with_wal_dir(dir: &Path, options: &Options, looking: bool) -> Result<Options> {
    let mut options = options.clone();
    let vfs = Arc::clone(&options.db.vfs);
    let logs = match options.db.wal_dir.clone() {
        Some(logs) if looking && logs == dir => return Ok(options),
        Some(logs) => {
            check_stated(&*vfs, dir, &logs)?;
            logs
        }
        None => match Recorded::find(&*vfs, dir)? {
            None => return Ok(options),
            Some(recorded) if looking => recorded.logs,
            Some(recorded) => {
                let message = format!(
                    "a database with WAL files in another directory: to write to it, state \
                     wal_dir = {:?} if they belong to it",
                    recorded.logs.display().to_string()
                );
                return Err(Error::unsupported(message).in_file(&recorded.options_file));
            }
        },
    };
    if !is_same_place(&*vfs, dir, &logs)? {
        options.db.vfs = Arc::new(LogsElsewhere::new(vfs, dir, &logs));
    }
    Ok(options)
}

/// Refuses a stated directory that cannot be the one of the database in `dir`.
fn check_stated(vfs: &dyn Vfs, dir: &Path, logs: &Path) -> Result<()> {
    if !vfs.exists(logs)? {
        // A new database creates it.
        return match holds_database(vfs, dir)? {
            true => {
                let message = "the directory that wal_dir names does not exist";
                Err(Error::new(ErrorKind::NotFound, message).in_file(logs))
            }
            false => Ok(()),
        };
    }
    if !is_same_place(vfs, dir, logs)? && has_wals(vfs, logs)? {
        return Ok(());
    }
    let recorded = Recorded::find(vfs, dir)?;
    match recorded {
        Some(recorded) if !is_same_place(vfs, &recorded.logs, logs)? => {
            let message = format!(
                "wal_dir = {:?} has no WAL files, and the directory that OPTIONS names has some: \
                 state wal_dir = {:?} if they belong to the database, or move them",
                logs.display().to_string(),
                recorded.logs.display().to_string()
            );
            Err(Error::unsupported(message).in_file(&recorded.options_file))
        }
        _ => Ok(()),
    }
}

/// Record in OPTIONS of WAL files elsewhere.
struct Recorded {
    logs: PathBuf,
    options_file: PathBuf,
}

impl Recorded {
    /// The directory that the newest OPTIONS in `dir` names, if there are WAL files in it and none
    /// in `dir`: a copy may name the directory of its original, and WAL files that came along
    /// decide it.
    fn find(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Self>> {
        if !has_directory(vfs, dir)? || has_wals(vfs, dir)? {
            return Ok(None);
        }
        let Some((number, content)) = OptionsFile::read_newest(vfs, dir)? else {
            return Ok(None);
        };
        // The file is advice: a malformed one is ignored.
        let Ok(file) = OptionsFile::parse(&content) else {
            return Ok(None);
        };
        let section = file.section(DB_OPTIONS, "");
        let logs = section.and_then(|s| s.get(WAL_DIR)).unwrap_or_default();
        let logs = PathBuf::from(logs);
        if logs.as_os_str().is_empty() || logs == dir {
            return Ok(None);
        }
        let options_file = FileKind::Options(number).path(dir);
        let has_wals = has_wals(vfs, &logs).map_err(|e| {
            let file = options_file.display();
            e.context(format!(
                "looking for the WAL files that {file} places there"
            ))
        })?;
        Ok(has_wals.then_some(Recorded { logs, options_file }))
    }
}

/// Whether there are WAL files in `dir`. A directory that is missing has none.
fn has_wals(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    match files_of(vfs, dir) {
        Ok(files) => Ok(files.iter().any(|file| matches!(file, FileKind::Wal(_)))),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether both paths lead to the same directory. One that is missing is known by its path alone.
fn is_same_place(vfs: &dyn Vfs, one: &Path, other: &Path) -> Result<bool> {
    if one == other || !vfs.exists(one)? || !vfs.exists(other)? {
        return Ok(one == other);
    }
    Ok(vfs.canonicalize(one)? == vfs.canonicalize(other)?)
}

/// Records in an OPTIONS file of the database in `dir` where its WAL files are, if in another
/// directory: as an absolute path, since the next process may work in another directory.
pub fn record_wal_dir(
    dir: &Path,
    options: &DbOptions,
    options_file: &mut OptionsFile,
) -> Result<()> {
    if let Some(logs) = &options.wal_dir
        && !is_same_place(&*options.vfs, dir, logs)?
    {
        let logs = options.vfs.canonicalize(logs)?;
        options_file.set(DB_OPTIONS, "", WAL_DIR, logs.display());
    }
    Ok(())
}

/// The text of an OPTIONS file for a copy that has its WAL files in its own directory.
pub fn without_wal_dir(content: &[u8]) -> Vec<u8> {
    let keeps = |line: &&[u8]| {
        let key = line.split(|byte| *byte == b'=').next().unwrap_or_default();
        key.trim_ascii() != WAL_DIR.as_bytes()
    };
    let lines = content.split_inclusive(|byte| *byte == b'\n');
    lines.filter(keeps).flatten().copied().collect()
}
