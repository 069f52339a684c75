//! Writes MANIFEST files and makes CURRENT name them.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::version::edit::VersionEdit;
use crate::vfs::{Vfs, read_file, replace_file};
use crate::wal::LogWriter;

/// The MANIFEST being appended to.
pub(crate) struct Manifest {
    log: LogWriter,
    number: FileNumber,
    initial_size: u64,
}

impl Manifest {
    /// Writes a new MANIFEST with `state`, makes it durable, and makes it the current one. Until
    /// the last step the previous MANIFEST stays in force, even if a step fails.
    pub(crate) fn start(
        vfs: &dyn Vfs,
        dir: &Path,
        number: FileNumber,
        state: &mut [VersionEdit],
    ) -> Result<Self> {
        let path = FileKind::Manifest(number).path(dir);
        let mut log = LogWriter::new(vfs.create(&path)?, &path);
        if let Some(first) = state.first_mut() {
            first.state_follows = true;
        }
        if let Some(last) = state.last_mut() {
            last.synced_before = Some(0);
        }
        add_all(&mut log, state)?;
        // ORDER: the content, then its name, are durable before CURRENT names the file.
        let too_late = mutant!(current_before_manifest);
        if !too_late {
            log.sync()?;
            vfs.sync_dir(dir)?;
        }
        gate!("manifest: written");
        set_current(vfs, dir, number)?;
        gate!("manifest: current");
        if too_late {
            log.sync()?;
        }
        let initial_size = log.file_size();
        Ok(Manifest {
            log,
            number,
            initial_size,
        })
    }

    /// Appends edits and makes them durable.
    pub(crate) fn append(&mut self, edits: &mut [VersionEdit]) -> Result<()> {
        // ORDER: everything before is durable, or the append before would have failed. The edits
        // say so, which distinguishes their remains after a crash from damage.
        let start = self.log.file_size();
        for edit in &mut *edits {
            edit.synced_before = Some(start);
        }
        add_all(&mut self.log, edits)?;
        if mutant!(manifest_sync_left_out) {
            return Ok(());
        }
        self.log.sync()
    }

    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// Bytes of the state with which it started.
    pub(crate) fn initial_size(&self) -> u64 {
        self.initial_size
    }

    pub(crate) fn size(&self) -> u64 {
        self.log.file_size()
    }
}

/// Adds a record for each edit.
fn add_all(log: &mut LogWriter, edits: &[VersionEdit]) -> Result<()> {
    let mut record = Vec::new();
    for edit in edits {
        record.clear();
        edit.encode(&mut record);
        log.add_record(&record)?;
    }
    Ok(())
}

fn set_current(vfs: &dyn Vfs, dir: &Path, manifest: FileNumber) -> Result<()> {
    let content = format!("{}\n", FileKind::Manifest(manifest).name());
    let temp = FileKind::Temp(manifest).path(dir);
    replace_file(vfs, &temp, &FileKind::Current.path(dir), content.as_bytes())
}

/// The MANIFEST that CURRENT names.
///
/// # Errors
/// `NotFound` if there is no CURRENT, `Corruption` if it does not name a MANIFEST.
pub fn read_current(vfs: &dyn Vfs, dir: &Path) -> Result<(FileNumber, PathBuf)> {
    let path = FileKind::Current.path(dir);
    let content = read_file(vfs, &path)?;
    let name = std::str::from_utf8(&content)
        .ok()
        .and_then(|text| text.strip_suffix('\n'));
    match name.and_then(FileKind::parse) {
        Some(kind @ FileKind::Manifest(number)) => Ok((number, kind.path(dir))),
        _ => Err(Error::corruption("CURRENT does not name a MANIFEST").in_file(&path)),
    }
}
