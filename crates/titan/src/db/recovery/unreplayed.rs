//! Content of WAL files after the point at which a replay ended.
//!
//! After a crash of the machine, blocks may be missing from the part that was not synced, while
//! later ones are there. So records after that point are no loss by themselves. They are one if a
//! sync record says that the WAL was durable beyond it.

use std::path::Path;

use super::wal_chain::recorded_as_synced;
use crate::batch::BatchView;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{FileNumber, SequenceNumber};
use crate::version::DatabaseRecord;
use crate::vfs::{Access, Vfs};
use crate::wal::{LogEnd, LogReader, Search, TailMode};
use crate::write::sync_record::{SyncRecord, WalPosition};

/// See the [module](self).
pub struct Unreplayed {
    /// Where the replay ended, and why.
    pub(crate) end: WalPosition,
    pub reason: &'static str,
    /// Up to where the WAL is known to have been synced.
    synced: WalPosition,
    /// Whole records with operations.
    pub records: u64,
    /// The files that have them.
    pub(crate) files: Vec<FileNumber>,
}

impl Unreplayed {
    /// Looks through `wals` from `end` on. `last` is the last operation that was replayed.
    ///
    /// Cost: reads the files from the one of `end` on; in a block with damage, each byte may be
    /// taken for the start of a record.
    ///
    /// # Errors
    /// Failures to read.
    pub fn find(
        vfs: &dyn Vfs,
        dir: &Path,
        wals: &[FileNumber],
        record: &DatabaseRecord,
        end: WalPosition,
        last: SequenceNumber,
    ) -> Result<Self> {
        let mut found = Unreplayed {
            end,
            reason: "nothing that continues it follows",
            synced: recorded_as_synced(record),
            records: 0,
            files: Vec::new(),
        };
        for &number in wals.iter().filter(|number| **number >= end.file) {
            let path = FileKind::Wal(number).path(dir);
            let file = vfs.open(&path, Access::Sequential)?;
            let mut log = LogReader::new(file, &path, number, TailMode::PointInTime);
            found.look_through(&mut log, number, last)?;
        }
        Ok(found)
    }

    fn look_through(
        &mut self,
        log: &mut LogReader,
        number: FileNumber,
        last: SequenceNumber,
    ) -> Result<()> {
        let mut is_first_end = number == self.end.file;
        loop {
            // A record of an unknown type is none of this file.
            while let Some(record) = log.next().or_else(end_of_readable)? {
                let at = WalPosition {
                    file: number,
                    offset: record.offset,
                };
                if at >= self.end {
                    self.look_at(at, record.payload, last);
                }
            }
            if std::mem::take(&mut is_first_end)
                && let Some(end) = log.end().filter(|end| **end != LogEnd::Clean)
            {
                self.reason = end.reason();
            }
            if !log.resume(Search::Everywhere)? {
                return Ok(());
            }
        }
    }

    fn look_at(&mut self, at: WalPosition, record: &[u8], last: SequenceNumber) {
        if let Some(sync) = SyncRecord::decode(record) {
            if sync.at == at {
                self.synced = self.synced.max(sync.synced);
            }
            return;
        }
        // Bytes that look like a record may be part of a value; a record of this log has a later
        // number.
        let is_later = BatchView::parse_whole(record)
            .is_ok_and(|batch| batch.count() > 0 && batch.sequence() > last);
        if is_later {
            self.records += 1;
            if self.files.last() != Some(&at.file) {
                self.files.push(at.file);
            }
        }
    }

    /// The error if the missing part had been synced.
    pub fn loss_of_synced(&self, dir: &Path) -> Option<Error> {
        let overlooked = mutant!(synced_damage_overlooked);
        let lost = self.synced > self.end && !overlooked;
        lost.then(|| {
            let synced = self.synced;
            let text = format!(
                "the WAL is damaged where it had been synced, up to offset {} of {}: {}",
                synced.offset,
                FileKind::Wal(synced.file).name(),
                self.reason
            );
            Error::corruption(text).at(&FileKind::Wal(self.end.file).path(dir), self.end.offset)
        })
    }
}

/// Takes bytes that cannot be understood for the end of the readable ones.
fn end_of_readable<T>(error: Error) -> Result<Option<T>> {
    match error.is_unreadable() {
        true => Ok(None),
        false => Err(error),
    }
}
