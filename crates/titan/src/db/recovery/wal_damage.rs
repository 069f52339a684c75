//! Actions of a replay on damage in a WAL file, as the [mode](WalRecoveryMode) says, and its
//! findings.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::FileNumber;
use crate::options::WalRecoveryMode;
use crate::stats::WalDamageEvent;
use crate::wal::{LogEnd, LogReader, Search};

/// See the [module](self).
pub(super) struct WalDamage {
    pub(super) mode: WalRecoveryMode,
    /// Whether the WAL files are Titan's: each operation takes one sequence number.
    is_titans: bool,
    /// Damage of which to notify listeners.
    event: Option<WalDamageEvent>,
}

/// Damage after which the log goes on, if no operation is missing.
pub(super) struct Gap {
    pub(super) end: LogEnd,
    /// Where the records before it end.
    pub(super) records_end: u64,
}

/// The way in which a replay goes on where records cannot be read.
pub(super) enum AfterDamage {
    /// The file has ended.
    Ended,
    /// With the next record.
    Skipped,
    /// With the next record, if it shows that none is missing.
    Gap(Gap),
}

impl WalDamage {
    pub(super) fn new(mode: WalRecoveryMode, is_titans: bool) -> Self {
        WalDamage {
            mode,
            is_titans,
            event: None,
        }
    }

    pub(super) fn skips(&self) -> bool {
        self.mode == WalRecoveryMode::SkipAnyCorruptedRecords
    }

    /// Whether recovery ends at the first damage, without an error.
    pub(super) fn ends_there(&self) -> bool {
        self.mode == WalRecoveryMode::PointInTimeRecovery
    }

    /// To be called where `log`, the file `wal` at `path`, has no further record.
    ///
    /// # Errors
    /// `Corruption` where the mode allows no such end; failures to read.
    pub(super) fn at_end(
        &mut self,
        log: &mut LogReader,
        wal: FileNumber,
        path: &Path,
    ) -> Result<AfterDamage> {
        let Some(end) = log.end().cloned() else {
            return Ok(AfterDamage::Ended);
        };
        let reason = end.reason();
        let (offset, followed) = match end {
            LogEnd::Clean => return Ok(AfterDamage::Ended),
            LogEnd::Truncated { offset } | LogEnd::Stale { offset } => (offset, false),
            LogEnd::Corrupt {
                offset, followed, ..
            } => (offset, followed),
        };
        let is_stale = matches!(end, LogEnd::Stale { .. });
        let refused = match self.mode {
            WalRecoveryMode::AbsoluteConsistency => !is_stale,
            WalRecoveryMode::TolerateCorruptedTailRecords => followed,
            WalRecoveryMode::PointInTimeRecovery | WalRecoveryMode::SkipAnyCorruptedRecords => {
                false
            }
        };
        if refused {
            return Err(Error::corruption(reason).at(path, offset));
        }
        let records_end = log.records_end();
        if self.skips() {
            let resumed = log.resume(Search::Certain)?;
            if resumed || followed {
                self.skip(wal, offset, reason);
            }
            return Ok(match resumed {
                true => AfterDamage::Skipped,
                false => AfterDamage::Ended,
            });
        }
        let may_go_on = self.is_titans && self.ends_there() && !is_stale;
        Ok(match may_go_on && log.resume(Search::Certain)? {
            true => AfterDamage::Gap(Gap { end, records_end }),
            false => AfterDamage::Ended,
        })
    }

    /// Notes damage that the replay has passed.
    pub(super) fn skip(&mut self, wal: FileNumber, offset: u64, reason: &str) {
        self.note(wal, offset, reason).skipped += 1;
        if self.skips() {
            self.keep(&[wal]);
        }
    }

    /// Notes records that are not replayed, in `files`.
    pub(super) fn leave(
        &mut self,
        (wal, offset): (FileNumber, u64),
        reason: &str,
        records: u64,
        files: &[FileNumber],
    ) {
        self.note(wal, offset, reason).records_left += records;
        self.keep(&[wal]);
        self.keep(files);
    }

    fn note(&mut self, wal: FileNumber, offset: u64, reason: &str) -> &mut WalDamageEvent {
        self.event.get_or_insert_with(|| WalDamageEvent {
            wal,
            offset,
            reason: reason.to_owned(),
            records_left: 0,
            skipped: 0,
            kept: Vec::new(),
        })
    }

    /// Notes files that are to be kept.
    fn keep(&mut self, files: &[FileNumber]) {
        if let Some(event) = &mut self.event {
            for file in files {
                if !event.kept.contains(file) {
                    event.kept.push(*file);
                }
            }
        }
    }

    /// Whether damage was passed, or records behind it were left.
    pub(super) fn is_found(&self) -> bool {
        self.event.is_some()
    }

    /// Damage that was found; `kept` names the files that must not be deleted.
    pub(super) fn into_event(self) -> Option<WalDamageEvent> {
        self.event
    }
}
