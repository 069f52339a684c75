//! A volume that is being made. Until it is complete it is marked as such; if it fails, nothing is
//! left.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The file in the directory of a volume that says that the volume is not complete.
const MARK: &str = "UNFINISHED";

/// The directory of a volume that is being made. Unless it is [finished](Making::finish), dropping
/// it removes everything that was made.
pub(super) struct Making {
    dir: PathBuf,
    /// Directories that did not exist before, `dir` itself first.
    made: Vec<PathBuf>,
    /// All files in `dir` are those of this volume.
    owns_files: bool,
    is_finished: bool,
}

impl Making {
    /// Begins to make a volume in a directory that is empty or does not exist.
    ///
    /// # Errors
    /// The directory cannot be made or written, or another process makes or has made a volume
    /// there.
    pub(super) fn begin(dir: &Path) -> Result<Making> {
        let missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
        let made = dir.ancestors().take_while(missing);
        let mut making = Making {
            dir: dir.to_owned(),
            made: made.map(Path::to_owned).collect(),
            owns_files: false,
            is_finished: false,
        };
        make_directory(dir)
            .and_then(|()| making.made.iter().try_for_each(|made| sync_name(made)))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let cannot_write = || format!("cannot write to {}", dir.display());
        // ORDER: the mark is there before anything that looks like a volume.
        let mark = dir.join(MARK);
        match File::create_new(&mark) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                bail!("another process makes a volume in {}", dir.display())
            }
            marked => marked.with_context(cannot_write)?,
        };
        // ORDER: after the mark, which keeps others from beginning. A volume that another process
        // finished just before stays as it is.
        let owns_files = has_only_mark(dir);
        if !matches!(owns_files, Ok(true)) {
            // Why no volume is made is the error to report.
            let _ = fs::remove_file(&mark);
        }
        if !owns_files.with_context(|| format!("cannot read {}", dir.display()))? {
            bail!("{} is not empty, so no volume is made there", dir.display());
        }
        making.owns_files = true;
        sync(dir).with_context(cannot_write)?;
        Ok(making)
    }

    /// The volume is complete and durable.
    pub(super) fn finish(mut self) -> Result<()> {
        // ORDER: the volume is durable before the mark goes. Should the mark come back after a
        // power failure, a whole volume would be taken for an unfinished one.
        fs::remove_file(self.dir.join(MARK))
            .and_then(|()| sync(&self.dir))
            .with_context(|| format!("cannot write to {}", self.dir.display()))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // The mark is left then, and the next command says how to go on.
        if self.owns_files && remove_files(&self.dir).is_err() {
            return;
        }
        for made in &self.made {
            // It fails if there is something in it, or if it was not made at all.
            let _ = fs::remove_dir(made);
        }
    }
}

/// Removes the files of a volume that is not complete.
fn remove_files(dir: &Path) -> io::Result<()> {
    // ORDER: the mark goes last, so that files that cannot be removed stay marked.
    let entries = fs::read_dir(dir)?.flatten();
    let mut of_store = entries.filter(|entry| is_of_database(&entry.file_name()));
    of_store.try_for_each(|entry| fs::remove_file(entry.path()))?;
    fs::remove_file(dir.join(MARK))
}

/// Makes the directory of a volume, if it does not exist, and those above it. Only the owner may
/// read a new one, because its files have data that users of the volume keep from each other.
fn make_directory(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(_) if dir.is_dir() => Ok(()),
        made => made,
    }
}

/// Whether the volume in a directory is not complete.
pub(super) fn is_unfinished(dir: &Path) -> bool {
    dir.join(MARK).exists()
}

/// Whether the mark is all that a directory has.
fn has_only_mark(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        if entry?.file_name() != MARK {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a file with this name is one of those in which a database has its data.
pub(super) fn is_data(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts = name.rsplit_once('.');
    let is_kind = |kind| matches!(kind, "sst" | "blob" | "blobmap" | "log");
    let is_numbered = parts.is_some_and(|(stem, kind)| is_number(stem) && is_kind(kind));
    is_numbered || name.strip_prefix("MANIFEST-").is_some_and(is_number)
}

/// Whether a file with this name is one of a database.
fn is_of_database(name: &OsStr) -> bool {
    let is_other = |name: &str| {
        let is_fixed = matches!(name, "CURRENT" | "IDENTITY" | "LOCK");
        is_fixed || name.starts_with("OPTIONS-") || name.ends_with(".dbtmp")
    };
    is_data(name) || name.to_str().is_some_and(is_other)
}

/// Makes the name of a new directory durable, unless the directory that it is in may not be read.
fn sync_name(dir: &Path) -> io::Result<()> {
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match sync(parent) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Makes the names in a directory durable.
fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_another_process_has_made_since_stays() {
        let home = tempfile::tempdir().unwrap();
        let current = home.path().join("CURRENT");
        fs::write(&current, "of another").unwrap();
        let begun = Making::begin(home.path());
        let error = begun.err().unwrap().to_string();
        assert!(error.contains("is not empty"), "{error}");
        assert_eq!(fs::read(&current).unwrap(), b"of another");
        assert!(!is_unfinished(home.path()));
    }

    #[test]
    fn what_another_process_is_making_stays() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("above/dir");
        let first = Making::begin(&dir).unwrap();
        let current = dir.join("CURRENT");
        fs::write(&current, "of the first").unwrap();
        let error = Making::begin(&dir).err().unwrap().to_string();
        assert!(error.contains("another process"), "{error}");
        assert!(current.exists() && is_unfinished(&dir));
        drop(first);
        assert!(!home.path().join("above").exists());
    }

    #[test]
    fn directories_above_go_if_the_last_cannot_be_made() {
        let home = tempfile::tempdir().unwrap();
        let above = home.path().join("above");
        assert!(Making::begin(&above.join("x".repeat(300))).is_err());
        assert!(!above.exists());
    }
}
