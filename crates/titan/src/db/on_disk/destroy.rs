//! Deleting a whole database.

use std::path::Path;
use std::sync::Arc;

use super::directory::{has_directory, names_in};
use super::layout::with_layout;
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::options::Options;
use crate::vfs::in_locked;

/// Deletes the database in `dir`: all its files, and the directory if nothing else is in it. If
/// `known` is given, only a database that has no other file: each opening that may write adds one
/// with a new name. Returns whether it was deleted.
///
/// # Errors
/// Those of [`Db::destroy`](crate::Db::destroy).
pub(crate) fn destroy(dir: &Path, options: &Options, known: Option<&[String]>) -> Result<bool> {
    let options = with_layout(dir, options, false)?;
    let vfs = &*options.db.vfs;
    let lock_file = FileKind::Lock.name();
    let ours = |name: &String| FileKind::parse(name).is_some() && *name != lock_file;
    // LOCK goes last: alone in its directory, it is the rest of an earlier attempt.
    let is_database = |names: &[String]| names.iter().any(ours) || *names == [lock_file.clone()];
    if !has_directory(vfs, dir)? || !is_database(&names_in(vfs, dir)?) {
        return Err(Error::new(ErrorKind::NotFound, "no database exists here").in_file(dir));
    }
    let lock = vfs.lock(&FileKind::Lock.path(dir))?;
    let in_dir = in_locked(Arc::clone(&options.db.vfs), dir, &*lock);
    let vfs = &*in_dir;
    let names = vfs.read_dir(dir)?;
    if known.is_some_and(|known| !names.iter().all(|name| known.contains(name))) {
        return Ok(false);
    }
    let current = FileKind::Current.path(dir);
    if vfs.exists(&current)? {
        vfs.remove(&current)?;
        // ORDER: the removal of CURRENT is durable before any file that it leads to is deleted:
        // files that a crash leaves are no longer taken for a database.
        vfs.sync_dir(dir)?;
    }
    let is_left = |name: &String| ours(name) && *name != FileKind::Current.name();
    for name in names.into_iter().filter(is_left) {
        vfs.remove(&dir.join(name))?;
    }
    vfs.remove(&FileKind::Lock.path(dir))?;
    drop(lock);
    if vfs.read_dir(dir)?.is_empty() {
        vfs.remove_dir(dir)?;
    }
    Ok(true)
}
