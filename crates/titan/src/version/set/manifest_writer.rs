//! The MANIFEST to which edits go, and the work that a failed one leaves.

use super::manifest::Manifest;
use crate::error::{Error, Result};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::version::edit::VersionEdit;

/// The part of a database's data, as a divisor, from which on a MANIFEST takes too much of its
/// space.
const DATA_PER_BYTE: u64 = 128;

/// Bytes up to which a MANIFEST is small, however little data there is: some thousand edits.
const SMALL: u64 = 256 << 10;

/// Appends edits to the MANIFEST of this opening, until one fails. The end of the file is unknown
/// then, so it is never appended to again.
pub(super) struct ManifestWriter {
    /// `None` before the first MANIFEST of this opening, and after a failure.
    current: Option<Manifest>,
    max_file_size: u64,
    /// Bytes from which on `current` takes too much, by the data that there was at its start.
    too_much: u64,
    /// Bytes of `current` from which on a start that failed is tried again.
    retry_at: u64,
    /// The MANIFEST in force before `current` was started.
    previous: Option<FileNumber>,
    /// Why there is no `current` now, if one failed.
    failure: Option<Error>,
    /// Files of jobs whose edits failed, and MANIFESTs whose starts did. They may be needed until
    /// another MANIFEST is in force.
    unrecorded: Vec<FileKind>,
}

impl ManifestWriter {
    /// `previous` is the MANIFEST in force, if there is one.
    pub(super) fn new(max_file_size: u64, previous: Option<FileNumber>) -> Self {
        ManifestWriter {
            current: None,
            max_file_size,
            too_much: SMALL,
            retry_at: 0,
            previous,
            failure: None,
            unrecorded: Vec::new(),
        }
    }

    /// Changes the size from which on it is time for another file.
    pub(super) fn set_max_file_size(&mut self, bytes: u64) {
        self.max_file_size = bytes;
    }

    /// The number of the file to which edits go.
    pub(super) fn number(&self) -> Option<FileNumber> {
        self.current.as_ref().map(Manifest::number)
    }

    /// Whether it is time for another one.
    pub(super) fn is_full(&self) -> bool {
        let most = self.max_file_size.min(self.too_much);
        let limit = |m: &Manifest| most.max(2 * m.initial_size()).max(self.retry_at);
        self.current.as_ref().is_some_and(|m| m.size() >= limit(m))
    }

    /// Lets the current one grow by an eighth before another start is tried: each attempt writes
    /// the whole state, and takes the last room for it.
    pub(super) fn wait_for_growth(&mut self) {
        let size = self.current.as_ref().map_or(0, Manifest::size);
        self.retry_at = size + size / 8;
    }

    /// Gives up the current one, since another may be in force.
    pub(super) fn retire(&mut self, failure: Error) {
        let retired = self.current.take().map(|m| m.number());
        self.previous = retired.or(self.previous);
        self.failure = Some(failure);
    }

    /// Appends edits. They are durable on return. Returns how many bytes were written.
    ///
    /// # Errors
    /// `Io` or `NoSpace` if the file fails; then the same error again until another MANIFEST is
    /// started.
    pub(super) fn append(&mut self, edits: &mut [VersionEdit]) -> Result<u64> {
        let Some(manifest) = self.current.as_mut() else {
            // Of its kind: if two jobs meet the failure, this one may be the first to report it,
            // and the kind decides how and when writes are resumed.
            let failure = self.failure.clone();
            let failure = failure.unwrap_or_else(|| Error::internal("no MANIFEST was started"));
            return Err(failure.context("the MANIFEST failed earlier and has not been replaced"));
        };
        let before = manifest.size();
        match manifest.append(edits) {
            Ok(()) => Ok(manifest.size() - before),
            Err(e) => {
                let failure = e.context("recording a change in the MANIFEST");
                self.retire(failure.clone());
                Err(failure)
            }
        }
    }

    /// Notes files that only an edit or a start names that failed.
    pub(super) fn add_unrecorded(&mut self, files: Vec<FileKind>) {
        self.unrecorded.extend(files);
    }

    /// Goes on with a MANIFEST that CURRENT names now, of a database with so many bytes of data.
    /// Returns the files that are obsolete since.
    pub(super) fn replace(
        &mut self,
        manifest: Manifest,
        data: u64,
    ) -> impl Iterator<Item = FileKind> {
        self.too_much = SMALL.max(data / DATA_PER_BYTE);
        self.retry_at = 0;
        let replaced = self.current.replace(manifest).map(|m| m.number());
        self.failure = None;
        let previous = replaced.or(self.previous.take());
        // ORDER: CURRENT names a MANIFEST that has none of those edits; only now may their files be
        // deleted.
        let unrecorded = std::mem::take(&mut self.unrecorded);
        previous
            .map(FileKind::Manifest)
            .into_iter()
            .chain(unrecorded)
    }
}
