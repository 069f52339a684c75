//! Marks an unfinished repair, so that the next one recognises its files.
//!
//! The file `REPAIRING` is created in the directory where new files are prepared, before any of
//! them. If that directory was to become the repaired database and has no CURRENT yet, everything
//! in it was put there by the repair. In a repair in place, new files may have moved into the
//! database: the mark has the smallest number they can have and the MANIFEST that CURRENT named. As
//! long as CURRENT still names that one, the new files were never used, and their content does not
//! matter. Once a repair or an opening has switched CURRENT, the mark means nothing any more.

use std::path::Path;

use titan::internals::db::files_of;
use titan::internals::format::FileKind;
use titan::internals::version::read_current;
use titan::internals::vfs::read_file;
use titan::vfs::Vfs;
use titan::{Error, ErrorKind, FileNumber, Result};

/// Where a repair in place prepares new files, within the database.
pub(super) const WORK_DIR: &str = "repairing";

const MARK: &str = "REPAIRING";

/// The MANIFEST that CURRENT names; 0 if none.
pub(super) fn named_manifest(vfs: &dyn Vfs, dir: &Path) -> Result<FileNumber> {
    match read_current(vfs, dir) {
        Ok((number, _)) => Ok(number),
        Err(e) if e.is_not_found() || e.is_corruption() => Ok(FileNumber(0)),
        Err(e) => Err(e),
    }
}

/// Marks `work` as the directory of a repair of `dir` whose new files have numbers from `first` on.
pub(super) fn mark(vfs: &dyn Vfs, work: &Path, dir: &Path, first: FileNumber) -> Result<()> {
    let manifest = named_manifest(vfs, dir)?;
    let mut file = vfs.create(&work.join(MARK))?;
    file.append(format!("{} {}\n", manifest.0, first.0).as_bytes())?;
    // ORDER: the mark before any file that it explains.
    file.sync()?;
    vfs.sync_dir(work)
}

/// Removes the mark from a directory that has become the repaired database.
pub(super) fn unmark(vfs: &dyn Vfs, target: &Path) -> Result<()> {
    vfs.remove(&target.join(MARK))?;
    vfs.sync_dir(target)
}

/// The files that an unfinished repair of `dir` in place moved there.
pub(super) fn in_place(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<FileKind>> {
    let content = match read_file(vfs, &dir.join(WORK_DIR).join(MARK)) {
        Ok(content) => content,
        Err(e) if e.is_not_found() => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    // If the mark is cut short, it was still being written and nothing had moved.
    let text = std::str::from_utf8(&content).ok();
    let numbers = text.and_then(|text| text.strip_suffix('\n')?.split_once(' '));
    let Some((Ok(manifest), Ok(first))) = numbers.map(|(m, f)| (m.parse(), f.parse::<u64>()))
    else {
        return Ok(Vec::new());
    };
    if named_manifest(vfs, dir)? != FileNumber(manifest) {
        return Ok(Vec::new());
    }
    let mut files = files_of(vfs, dir)?;
    files.retain(|file| file.number().is_some_and(|number| number >= first));
    Ok(files)
}

/// Ensures that the directory to repair into has no files that would mix with the repaired
/// database. Deletes the files of an unfinished repair.
///
/// # Errors
/// `AlreadyExists` if there are any other files.
pub(super) fn clear_target(vfs: &dyn Vfs, target: &Path) -> Result<()> {
    if !vfs.exists(target)? {
        return Ok(());
    }
    let mut names = vfs.read_dir(target)?;
    let is_own = |name: &String| match FileKind::parse(name) {
        Some(file) => file != FileKind::Current,
        None => name == MARK,
    };
    let unfinished = names.iter().any(|name| name == MARK) && names.iter().all(is_own);
    if !names.is_empty() && !unfinished {
        let message = "the directory to repair into is not empty";
        return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(target));
    }
    // The mark last: so this can be interrupted too.
    names.sort_by_key(|name| name == MARK);
    names
        .iter()
        .try_for_each(|name| vfs.remove(&target.join(name)))
}
