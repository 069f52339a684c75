//! A volume that is being made: until it is complete, it is named so, and if it fails, nothing is left.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The file in the directory of a volume that says that the volume is not complete.
const MARK: &str = "UNFINISHED";

/// The directory of a volume that is being made. Unless it is [finished](Making::finish), dropping it
/// removes what was made.
pub(super) struct Making {
    dir: PathBuf,
    /// Directories that did not exist before, `dir` itself first.
    made: Vec<PathBuf>,
    is_finished: bool,
}

impl Making {
    /// Begins to make a volume in a directory that is empty or does not exist.
    pub(super) fn begin(dir: &Path) -> Result<Making> {
        let missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
        let made = dir.ancestors().take_while(missing);
        let making = Making {
            dir: dir.to_owned(),
            made: made.map(Path::to_owned).collect(),
            is_finished: false,
        };
        make_directory(dir)
            .and_then(|()| making.made.iter().try_for_each(|made| sync_name(made)))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        // ORDER: the mark is there before anything that looks like a volume.
        File::create_new(dir.join(MARK))
            .and_then(|_| sync(dir))
            .with_context(|| format!("cannot write to {}", dir.display()))?;
        Ok(making)
    }

    /// The volume is complete and durable.
    pub(super) fn finish(mut self) -> Result<()> {
        // ORDER: the volume is durable before the mark goes. Should the mark come back after a power
        // failure, a whole volume would be taken for an unfinished one.
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
        // ORDER: the mark goes last, so that what cannot be removed keeps its name.
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let of_store = entries.filter(|entry| is_of_database(&entry.file_name()));
        let removed: io::Result<()> =
            { of_store }.try_for_each(|entry| fs::remove_file(entry.path()));
        // What is left says so itself when somebody uses the directory.
        let removed = removed.and_then(|()| fs::remove_file(self.dir.join(MARK)));
        let mut made = self.made.iter();
        let _: io::Result<()> = removed.and_then(|()| made.try_for_each(fs::remove_dir));
    }
}

/// Makes the directory of a volume, if it does not exist, and those above it. Its files have what users keep
/// from each other in the volume, so nobody else may read them.
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
