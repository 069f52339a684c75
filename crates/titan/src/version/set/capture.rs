//! Pins the files of a database at one moment.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::manifest::Manifest;
use super::version_set::VersionSet;
use crate::error::Result;
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::version::edit::VersionEdit;
use crate::version::state::files::PhysicalBlobFile;
use crate::version::state::version::Version;
use crate::vfs::Vfs;

/// The files of all families and the edits of a MANIFEST that describe them. While it exists, none
/// of the files is deleted (BLOB-2).
pub(crate) struct Capture {
    edits: Vec<VersionEdit>,
    files: BTreeSet<FileKind>,
    /// They pin the tables, and hole punching and collections count records to which these point as
    /// live.
    _versions: Vec<Arc<Version>>,
    /// A collection relocates a version's records out of the files they were in; these pin the
    /// files.
    _blob_files: Vec<Arc<PhysicalBlobFile>>,
}

impl VersionSet {
    /// Captures the current versions, for a database that starts with the WAL `log`. Its number,
    /// and those of all other files of the new database, must have been allocated before. Cost: as
    /// much memory as a MANIFEST takes.
    pub(crate) fn capture(&self, log: FileNumber) -> Capture {
        let versions = || self.families.values().map(|family| &family.current);
        let mut edits = self.state();
        for edit in &mut edits {
            let numbers = [&mut edit.log_number, &mut edit.min_log_number_to_keep];
            numbers.into_iter().flatten().for_each(|n| *n = log);
        }
        let blob_files = versions().flat_map(|version| version.physical_blob_files().into_values());
        Capture {
            edits,
            files: self.live_files(),
            _versions: versions().cloned().collect(),
            _blob_files: blob_files
                .map(|(file, _)| file)
                .filter(|_| !mutant!(checkpoint_does_not_hold_collected_files))
                .collect(),
        }
    }
}

impl Capture {
    /// The tables, blob files and maps.
    pub(crate) fn files(&self) -> &BTreeSet<FileKind> {
        &self.files
    }

    /// Writes the MANIFEST `number` of a database in `dir` that has these files, and a CURRENT that
    /// names it, all of it durable.
    pub(crate) fn write_manifest(
        mut self,
        vfs: &dyn Vfs,
        dir: &Path,
        number: FileNumber,
    ) -> Result<()> {
        Manifest::start(vfs, dir, number, &mut self.edits).map(drop)
    }
}
