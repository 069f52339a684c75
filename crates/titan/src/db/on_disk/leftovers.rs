//! Deletes files that a MANIFEST does not name.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::sorting;
use crate::version::VersionSet;
use crate::vfs::Vfs;

/// Deletes, when a new MANIFEST is in force, the files that it does not name: outputs of jobs that
/// never finished, WAL files whose entries are in tables, old MANIFESTs. Files that are not the
/// engine's are never touched. A file that cannot be deleted stays, and is reported to `failed`:
/// its number is not given out again.
///
/// # Errors
/// Failures to list the directory.
pub fn remove_leftovers(
    vfs: &dyn Vfs,
    dir: &Path,
    versions: &VersionSet,
    oldest_wal: FileNumber,
    failed: &mut dyn FnMut(&Error),
) -> Result<()> {
    let mut live = versions.live_files();
    if mutant!(leftovers_of_the_current_manifest) {
        live.retain(|file| !matches!(file, FileKind::Blob(_)));
    }
    let stay = mutant!(leftovers_stay) && !live.is_empty();
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
    sorting::sort(&mut options);
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
