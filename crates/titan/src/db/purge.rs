//! Deletes files that are no longer needed.

use std::path::Path;

use super::context::Context;
use super::core::Shared;
#[cfg(doc)]
use super::files::Files;
use crate::error::{Error, Result};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::version::VersionSet;
use crate::vfs::Vfs;

impl Shared {
    /// Deletes obsolete files; see [`Files::delete_obsolete`].
    pub(super) fn purge(&self) {
        let Context {
            statistics,
            listeners,
            ..
        } = &self.context;
        self.files.delete_obsolete(statistics, listeners);
    }
}

/// Deletes, when a new MANIFEST is in force, the files that it does not name: outputs of jobs that
/// never finished, WAL files whose entries are in tables, old MANIFESTs. Files that are not the
/// engine's are never touched. What cannot be deleted stays, and is reported to `failed`: its
/// number is not given out again.
///
/// # Errors
/// Failures to list the directory.
pub(crate) fn remove_leftovers(
    vfs: &dyn Vfs,
    dir: &Path,
    versions: &VersionSet,
    oldest_wal: FileNumber,
    failed: &mut dyn FnMut(&Error),
) -> Result<()> {
    let mut live = versions.live_files();
    // MUTANT: opening removes blob files that the MANIFEST names.
    if mutant!(
        "leftovers-of-the-current-manifest",
        "-p titan-campaigns --test it crash::"
    ) {
        live.retain(|file| !matches!(file, FileKind::Blob(_)));
    }
    // MUTANT: opening leaves the outputs of unfinished jobs.
    let stay =
        mutant!("leftovers-stay", "-p titan-campaigns --test it crash::") && !live.is_empty();
    let named = vfs.read_dir(dir)?.into_iter();
    let files: Vec<(String, FileKind)> = named
        .filter_map(|name| FileKind::parse(&name).map(|kind| (name, kind)))
        .collect();
    let mut options: Vec<FileNumber> = files
        .iter()
        .filter_map(|(_, file)| match file {
            FileKind::Options(number) => Some(*number),
            _ => None,
        })
        .collect();
    options.sort();
    let oldest_options = options.iter().rev().nth(1).copied().unwrap_or_default();
    for (name, file) in files {
        let needed = match file {
            FileKind::Table(_) | FileKind::Blob(_) if stay => true,
            FileKind::Table(_) | FileKind::Blob(_) | FileKind::BlobMap(_) => live.contains(&file),
            FileKind::Wal(number) => number >= oldest_wal,
            FileKind::Manifest(number) => Some(number) == versions.manifest_number(),
            FileKind::Options(number) => number >= oldest_options,
            FileKind::Temp(_) => false,
            FileKind::Current | FileKind::Identity | FileKind::Lock => true,
        };
        if !needed {
            match vfs.remove(&dir.join(name)) {
                Err(e) if !e.is_not_found() => failed(&e.context("removing an unlisted file")),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::db::open::open;
    use crate::{FileNumber, Options};

    /// A job may end late, when the directory may be another process's.
    #[test]
    fn nothing_is_deleted_once_the_directory_is_given_free() {
        let dir = tempfile::tempdir().unwrap();
        let core = open(dir.path(), &Options::default()).unwrap();
        let tables = [1001, 1002].map(|n| FileKind::Table(FileNumber(n)));
        for table in tables {
            std::fs::write(table.path(dir.path()), b"x").unwrap();
        }
        let there = || {
            let exists = tables.iter().filter(|t| t.path(dir.path()).exists());
            exists.copied().collect::<BTreeSet<_>>()
        };
        core.shared.files.obsolete.push(tables[0]);
        core.shared.purge();
        assert_eq!(there(), BTreeSet::from([tables[1]]));

        core.close().unwrap();
        core.shared.files.obsolete.push(tables[1]);
        core.shared.purge();
        assert_eq!(there(), BTreeSet::from([tables[1]]));
    }
}
