//! The counters for file numbers and sequence numbers.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::file_name::{FileKind, MAX_FOUND_NUMBER};
use crate::format::{FileNumber, SequenceNumber};
use crate::sync::atomic::{AtomicU64, Ordering};

/// The next file number and the last sequence number. Shared without the set's lock.
#[derive(Default)]
pub struct Counters {
    pub(super) next_file: AtomicU64,
    pub(super) last_sequence: AtomicU64,
}

impl Counters {
    /// Takes the next file number.
    pub fn new_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes sure that `number` is never allocated.
    pub(crate) fn mark_file_number_used(&self, number: FileNumber) {
        self.next_file.fetch_max(number.0 + 1, Ordering::Relaxed);
    }

    /// Makes sure that `number`, which damaged files name, is never allocated. A number that no
    /// database reaches is ignored: after it, none could be allocated.
    pub fn mark_named_number_used(&self, number: FileNumber) {
        if number.0 < MAX_FOUND_NUMBER {
            self.mark_file_number_used(number);
        }
    }

    /// Makes sure that none of these names, which are in `dir`, is ever written again.
    ///
    /// # Errors
    /// As [`Counters::check_names`].
    pub fn mark_names_used(&self, dir: &Path, files: &[FileKind]) -> Result<()> {
        self.check_names(dir, files)?;
        for number in files.iter().filter_map(|f| f.number()) {
            self.mark_file_number_used(FileNumber(number));
        }
        Ok(())
    }

    /// Refuses numbers that no database reaches and after which no numbers could be allocated.
    ///
    /// # Errors
    /// `Unsupported` naming such a file in `dir`.
    pub fn check_names(&self, dir: &Path, files: &[FileKind]) -> Result<()> {
        let known = MAX_FOUND_NUMBER.max(self.next_file_number().0);
        let is_far = |f: &&FileKind| f.number().is_some_and(|number| number >= known);
        match files.iter().find(is_far) {
            None => Ok(()),
            Some(file) => {
                let message = "the number in a file's name is too large to allocate others after \
                               it; no database writes such a file: move it elsewhere";
                Err(Error::unsupported(message).in_file(&file.path(dir)))
            }
        }
    }

    pub fn next_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.load(Ordering::Relaxed))
    }

    /// The newest sequence number that readers may see.
    pub fn last_sequence(&self) -> SequenceNumber {
        SequenceNumber(self.last_sequence.load(Ordering::Acquire))
    }

    /// The first and the last of the next sequence numbers, which are not taken. The last of none
    /// is one less than the first.
    ///
    /// # Errors
    /// `Unsupported` if there are no more.
    pub(crate) fn next_sequences(&self, count: u64) -> Result<(SequenceNumber, SequenceNumber)> {
        let last = self.last_sequence();
        let next = (last.plus(1), last.plus(count));
        match next.1 > SequenceNumber::MAX {
            true => Err(Error::unsupported(
                "the database has used up its sequence numbers",
            )),
            false => Ok(next),
        }
    }

    /// Publishes all writes up to `sequence` to readers.
    pub fn publish_sequence(&self, sequence: SequenceNumber) {
        self.last_sequence.fetch_max(sequence.0, Ordering::Release);
    }
}
