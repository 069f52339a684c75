//! Reads a MANIFEST whose last append may have been torn by a crash.
//!
//! An append may cover several pages. If the machine stops before their sync, any of them may be
//! missing, for example the first but not the second. So an undamaged MANIFEST can end in a gap
//! with records after it. But an append begins only after the one before it is durable, and each
//! record says where its append began. So a gap is damage if a record after it belongs to an append
//! that began after the gap: then the bytes of the gap had been durable. RocksDB's records do not
//! say where their append began. If the last record before a gap is one of these, only a record
//! that is longer than the file counts as torn; one that is complete and fails its checksum is
//! damage.
//!
//! A crash cannot tear the state with which a MANIFEST starts: it is durable before CURRENT names
//! the file. If the first record says that a state follows, an end before the state is complete is
//! damage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::FileNumber;
use crate::version::edit::VersionEdit;
use crate::vfs::ReadableFile;
use crate::wal::{LogEnd, LogReader, Search, TailMode};

/// A record of a MANIFEST.
pub struct ManifestRecord {
    /// Where it begins.
    pub(crate) offset: u64,
    /// Its content; an error names the file and the offset.
    pub(crate) edit: Result<VersionEdit>,
}

/// Reads the records of a MANIFEST up to its end, as the opening of a database sees it.
pub struct ManifestReader {
    log: LogReader,
    file: Arc<dyn ReadableFile>,
    path: PathBuf,
    number: FileNumber,
    /// Where the torn part of the last append begins.
    torn_at: Option<u64>,
    state: StartState,
    /// Whether the last record said where its append began.
    marked: bool,
}

/// Progress in reading the state with which the MANIFEST starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StartState {
    /// No record has been read.
    Unread,
    /// The first record said that it follows, and the one that completes it has not been read.
    Incomplete,
    /// It is complete, or nothing says where it ends.
    Read,
}

impl ManifestReader {
    pub fn new(file: Arc<dyn ReadableFile>, path: &Path, number: FileNumber) -> Self {
        ManifestReader {
            log: LogReader::new(Arc::clone(&file), path, number, TailMode::Strict),
            file,
            path: path.to_owned(),
            number,
            torn_at: None,
            state: StartState::Unread,
            marked: false,
        }
    }

    /// The next record; `None` at the end, also where a crash tore the last append.
    ///
    /// # Errors
    /// `Corruption` for damage anywhere else, and as for [`LogReader::next`].
    #[expect(clippy::should_implement_trait, reason = "a step of a cursor may fail")]
    pub fn next(&mut self) -> Result<Option<ManifestRecord>> {
        match self.log.next() {
            Ok(Some(record)) => {
                let offset = record.offset;
                let edit = VersionEdit::decode(record.payload);
                self.marked = is_marked(&edit);
                if self.state != StartState::Read {
                    let follows = edit.as_ref().is_ok_and(|edit| edit.state_follows);
                    let completes = self.marked;
                    self.state = match follows || self.state == StartState::Incomplete {
                        true if !completes => StartState::Incomplete,
                        _ => StartState::Read,
                    };
                }
                let edit = edit.map_err(|e| e.at(&self.path, offset));
                Ok(Some(ManifestRecord { offset, edit }))
            }
            Ok(None) if self.state == StartState::Incomplete => {
                let message = "the MANIFEST ends within the state that it starts with";
                Err(Error::corruption(message).at(&self.path, self.file.size()?))
            }
            Ok(None) => match self.log.end() {
                Some(LogEnd::Corrupt { offset, reason, .. }) if !self.marked => {
                    Err(Error::corruption(*reason).at(&self.path, *offset))
                }
                _ => Ok(None),
            },
            Err(e) if e.is_corruption() => {
                match ends_in_torn_append(&self.file, &self.path, self.number)? {
                    true => {
                        self.torn_at = e.offset();
                        Ok(None)
                    }
                    false => Err(e),
                }
            }
            Err(e) => Err(e),
        }
    }

    /// At the end: the end of the last complete edit, if anything follows it.
    pub fn cut_short_at(&self) -> Option<u64> {
        let cut = match self.log.end() {
            Some(LogEnd::Truncated { offset } | LogEnd::Corrupt { offset, .. }) => Some(*offset),
            _ => None,
        };
        self.torn_at.or(cut)
    }
}

/// Whether the first gap in the MANIFEST with something after it can be the rest that a crash left
/// of the last append. False if the records do not say: in MANIFESTs of RocksDB, and before the
/// state with which one starts is complete.
fn ends_in_torn_append(
    file: &Arc<dyn ReadableFile>,
    path: &Path,
    number: FileNumber,
) -> Result<bool> {
    let mut log = LogReader::new(Arc::clone(file), path, number, TailMode::PointInTime);
    let mut told = false;
    while let Some(record) = log.next()? {
        told = synced_before(record.payload).is_some();
    }
    let Some(&LogEnd::Corrupt { offset: hole, .. }) = log.end() else {
        return Ok(false);
    };
    while told && log.resume(Search::Certain)? {
        while let Some(record) = log.next()? {
            told &= synced_before(record.payload).is_some_and(|synced| synced <= hole);
        }
    }
    Ok(told)
}

fn is_marked(edit: &Result<VersionEdit>) -> bool {
    edit.as_ref().is_ok_and(|edit| edit.synced_before.is_some())
}

fn synced_before(record: &[u8]) -> Option<u64> {
    VersionEdit::decode(record).ok()?.synced_before
}
