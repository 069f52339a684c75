//! A directory that appears whole.
//!
//! The directory `DIR` is built in `DIR.tmp`, beside it, and gets its name by a rename. So nothing
//! unfinished has the name. An unfinished `DIR.tmp` is removed by the next attempt, which knows it
//! by a mark: the file `000000.dbtmp`. The mark is removed last, or by the first opening, since
//! that removes files of this kind.

use std::path::{Path, PathBuf};

use super::directory::create_dir_durably;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::vfs::{FileLock, Vfs};

/// Numbers of other temporary files start at 1.
const MARK: FileKind = FileKind::Temp(FileNumber(0));

/// A directory under its temporary name. Dropped before it was published, it is removed.
pub(crate) struct Staging<'a> {
    vfs: &'a dyn Vfs,
    target: PathBuf,
    /// Where the directory is now.
    path: PathBuf,
    /// The lock of the future database: opening it and making it a second time are refused.
    lock: Option<Box<dyn FileLock>>,
}

impl<'a> Staging<'a> {
    /// Starts the directory that will be `target`.
    ///
    /// # Errors
    /// `AlreadyExists` if something has that name, or if something other than an unfinished attempt
    /// has the temporary one; `Locked` if it is being made already.
    pub(crate) fn start(vfs: &'a dyn Vfs, target: &Path) -> Result<Self> {
        let taken =
            |path: &Path, what: &str| Error::new(ErrorKind::AlreadyExists, what).in_file(path);
        if vfs.exists(target)? {
            return Err(taken(target, "something has this name already"));
        }
        let Some(name) = target.file_name() else {
            let message = format!("{} names no directory to be made", target.display());
            return Err(Error::invalid_argument(message));
        };
        let mut name = name.to_owned();
        name.push(".tmp");
        let path = target.with_file_name(name);
        if vfs.exists(&path)? && !is_unfinished(&vfs.read_dir(&path)?) {
            return Err(taken(
                &path,
                "another file or directory has the temporary name",
            ));
        }
        create_dir_durably(vfs, &path)?;
        let lock = vfs.lock(&FileKind::Lock.path(&path))?;
        let staging = Staging {
            vfs,
            target: target.to_owned(),
            path,
            lock: Some(lock),
        };
        staging.clear()?;
        vfs.create(&MARK.path(&staging.path))?.sync()?;
        // ORDER: the mark before any file that it explains.
        vfs.sync_dir(&staging.path)?;
        Ok(staging)
    }

    /// Where to put the files.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory its own name. Its files and their names must be durable.
    pub(crate) fn publish(mut self) -> Result<()> {
        // ORDER: the directory is whole and durable before it has its name.
        self.vfs.rename(&self.path, &self.target)?;
        self.path.clone_from(&self.target);
        if let Some(parent) = self.target.parent() {
            self.vfs.sync_dir(parent)?;
        }
        self.lock = None;
        // It has its final name: a mark that stays does no harm.
        let _ = self.vfs.remove(&MARK.path(&self.target));
        Ok(())
    }

    /// Removes everything but the lock and the mark.
    fn clear(&self) -> Result<()> {
        let current = FileKind::Current.path(&self.path);
        if self.vfs.exists(&current)? {
            self.vfs.remove(&current)?;
            // ORDER: as when a database is destroyed: CURRENT before the files to which it leads.
            self.vfs.sync_dir(&self.path)?;
        }
        for name in self.vfs.read_dir(&self.path)? {
            if !matches!(FileKind::parse(&name), Some(FileKind::Lock | MARK)) {
                self.vfs.remove(&self.path.join(name))?;
            }
        }
        Ok(())
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if self.lock.is_none() {
            return;
        }
        // The next attempt removes files that cannot be removed now.
        let _ = self.clear().and_then(|()| {
            self.vfs.remove(&MARK.path(&self.path))?;
            self.vfs.remove(&FileKind::Lock.path(&self.path))?;
            self.vfs.remove_dir(&self.path)
        });
    }
}

/// Whether a directory with these names is an unfinished one: it has nothing yet, or the mark and
/// no file that is not the engine's.
fn is_unfinished(names: &[String]) -> bool {
    let kinds: Option<Vec<FileKind>> = names.iter().map(|name| FileKind::parse(name)).collect();
    kinds.is_some_and(|kinds| {
        kinds.contains(&MARK) || kinds.iter().all(|kind| *kind == FileKind::Lock)
    })
}
