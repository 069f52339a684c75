//! Continuity of WAL files.

use std::path::Path;

use crate::batch::BatchView;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{FileNumber, SequenceNumber};
use crate::version::{DatabaseRecord, VersionSet};
use crate::wal::LogEnd;
use crate::write::predecessor::Predecessor;
use crate::write::sync_record::WalPosition;

/// Follows WAL files one after the other for as long as each continues the one before.
pub struct Chain {
    needed: FileNumber,
    /// The last operation that the MANIFEST knows of.
    recorded: SequenceNumber,
    /// The file that was read last.
    previous: Option<Reached>,
    /// The last operation read.
    last: Option<SequenceNumber>,
    /// The first file that did not continue the one before.
    broken: Option<FileNumber>,
    /// Where a file without operations is damaged that the next one continues, and how.
    passed: Option<(WalPosition, &'static str)>,
}

/// The point that a WAL file reached.
#[derive(Clone, Copy)]
struct Reached {
    /// Where its records end.
    end: WalPosition,
    /// The last operation in it: zero if it has none, `None` if it has not even a first record.
    last_sequence: Option<SequenceNumber>,
    /// It did not end cleanly.
    torn: bool,
    /// It ended where the previous content of a recycled file begins, as such files do.
    stale: bool,
    /// Its end, if that was not clean.
    reason: &'static str,
}

impl Chain {
    pub fn new(versions: &VersionSet) -> Self {
        Chain {
            needed: versions.oldest_log_needed(),
            recorded: versions.counters().last_sequence(),
            previous: None,
            last: None,
            broken: None,
            passed: None,
        }
    }

    /// Whether the file `number`, which starts with this record, continues the files read so far,
    /// without a gap. If not, none after it does.
    pub fn follows(
        &mut self,
        versions: &VersionSet,
        number: FileNumber,
        predecessor: Option<Predecessor>,
        record: &[u8],
    ) -> bool {
        let follows = match (predecessor, self.previous) {
            // It names the operations that must have come before, unless they are in tables
            // already.
            (Some(predecessor), previous) if predecessor.number >= self.needed => previous
                .is_some_and(|previous| {
                    previous.end.file == predecessor.number
                        && (previous.last_sequence >= Some(predecessor.last_sequence)
                            || previous.last_sequence.is_none()
                                && predecessor.last_sequence == SequenceNumber::ZERO
                                && self.has_all_before(versions, record))
                }),
            (Some(_), _) => true,
            // Written by RocksDB. After a torn end only the very next operation may follow, counted
            // from the operations read: the MANIFEST knows of later operations, too.
            (None, Some(previous)) if previous.torn => {
                let last = self.last.unwrap_or(self.recorded);
                BatchView::parse(record).is_ok_and(|batch| batch.sequence() == last.plus(1))
            }
            (None, _) => true,
        };
        let jumps = mutant!(replay_jumps_over_a_gap);
        if !follows && !jumps {
            self.broken.get_or_insert(number);
        }
        let passed = self.previous.filter(|previous| {
            follows && previous.last_sequence.is_none() && previous.torn && !previous.stale
        });
        self.passed = passed.map(|previous| (previous.end, previous.reason));
        self.broken.is_none()
    }

    /// Whether every operation before a record has been read: where the first record of a file
    /// without operations cannot be read, the predecessor of that file is unknown.
    fn has_all_before(&self, versions: &VersionSet, record: &[u8]) -> bool {
        let last = self.last.unwrap_or_else(|| versions.last_before_logs());
        let next = versions.record().next_logged(last);
        BatchView::parse(record).is_ok_and(|batch| batch.sequence() <= next)
    }

    /// Where the file before is damaged, if it lost no operation by that and the one that was asked
    /// about last continues it.
    pub(super) fn passed(&self) -> Option<(WalPosition, &'static str)> {
        self.passed
    }

    /// The last operation read, if any.
    pub fn last(&self) -> Option<SequenceNumber> {
        self.last
    }

    /// A file has been read to `end`, where its records end; `last_sequence` is zero if it has no
    /// operation, `None` if it has not even a first record.
    pub fn file_ended(
        &mut self,
        end: WalPosition,
        last_sequence: Option<SequenceNumber>,
        how: Option<&LogEnd>,
    ) {
        if self.broken.is_some() {
            return;
        }
        self.last = last_sequence
            .filter(|last| *last > SequenceNumber::ZERO)
            .or(self.last);
        self.previous = Some(Reached {
            end,
            last_sequence,
            torn: !matches!(how, Some(LogEnd::Clean)),
            stale: matches!(how, Some(LogEnd::Stale { .. })),
            reason: how.map_or("", LogEnd::reason),
        });
    }

    /// The predecessor that a WAL file must name to continue the files read so far, and its end;
    /// `None` if none can.
    pub(crate) fn predecessor(&self) -> Option<(Predecessor, WalPosition)> {
        let previous = self.previous.filter(|_| self.broken.is_none())?;
        let predecessor = Predecessor {
            number: previous.end.file,
            last_sequence: previous.last_sequence?,
        };
        Some((predecessor, previous.end))
    }

    /// Where the replay ended, unless it read everything that there is, and that is all that
    /// RocksDB recorded as synced, where it did.
    pub fn ended_early(&self, record: &DatabaseRecord) -> Option<WalPosition> {
        let end = self.previous.map(|previous| previous.end);
        match (self.broken, self.previous) {
            (Some(file), _) => end.or(Some(WalPosition { file, offset: 0 })),
            (None, Some(previous)) if previous.torn => end,
            (None, _) => end.filter(|end| recorded_as_synced(record) > *end),
        }
    }

    /// To be called at the end of all files. A flush syncs the WAL files that other families still
    /// need before its tables count (WAL-1), and its log number goes no further. So if a family has
    /// tables from beyond the file in which replay ended, synced operations of others were lost,
    /// and going on would show batches in half.
    ///
    /// # Errors
    /// `Corruption` naming that file.
    pub fn check_tables_not_ahead(&self, versions: &VersionSet, dir: &Path) -> Result<()> {
        let is_end = |p: &Reached| self.broken.is_some() || (p.torn && !p.stale);
        let Some(end) = self.previous.filter(is_end) else {
            return Ok(());
        };
        let ahead = versions.families().values().find(|family| {
            family.log_number > end.end.file && family.current.tables().next().is_some()
        });
        match ahead {
            None => Ok(()),
            Some(family) => Err(Error::corruption(format!(
                "the WAL is damaged where the tables of column family {} continue it",
                family.name
            ))
            .in_file(&FileKind::Wal(end.end.file).path(dir))),
        }
    }
}

/// Up to where RocksDB recorded WAL files as synced, where it did; else the start of all.
pub(crate) fn recorded_as_synced(record: &DatabaseRecord) -> WalPosition {
    let last = record.synced_logs.iter().next_back();
    last.map_or_else(WalPosition::default, |(&file, &offset)| WalPosition {
        file,
        offset,
    })
}
