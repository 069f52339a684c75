//! Checks the WAL files that recovery would read.

use std::path::Path;

use titan::internals::batch::BatchView;
use titan::internals::db::{Chain, Unreplayed, Wals};
use titan::internals::format::FileKind;
use titan::internals::version::VersionSet;
use titan::internals::wal::{LogEnd, LogReader, TailMode};
use titan::internals::write::{Predecessor, Transactions, WalPosition};
use titan::vfs::Access;
use titan::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};

use super::Check;

/// The WAL files read so far.
struct SoFar<'a> {
    wals: &'a Wals,
    versions: &'a VersionSet,
    chain: Chain,
    transactions: Transactions,
    /// The last sequence number, also of records after the point where recovery ends.
    last_sequence: SequenceNumber,
}

impl Check<'_> {
    /// Checks the records of each file and the batches in them. An end that is cut short is
    /// normal after a crash. Damage of what had been synced is not, and neither is an end before
    /// the newest entry of the tables.
    pub(super) fn wals(&mut self, wals: &Wals, versions: &VersionSet) {
        if wals.needed.is_empty() {
            let note = "there is no WAL file: if there was one, its unflushed entries are lost";
            self.report.notes.push(note.to_owned());
        }
        let mut so_far = SoFar {
            wals,
            versions,
            chain: Chain::new(versions),
            transactions: Transactions::new(wals.numbering),
            last_sequence: SequenceNumber::ZERO,
        };
        for &number in wals.older.iter().chain(&wals.needed) {
            self.report.wal_files += 1;
            let path = self.begin(FileKind::Wal(number));
            if let Err(e) = self.wal(number, &path, &mut so_far) {
                self.unknown_operations(e.in_file(&path));
            }
            let size = self.vfs.size(&path).unwrap_or(0);
            self.finish(size);
        }
        let in_tables = versions.counters().last_sequence();
        self.last_sequence = in_tables.max(so_far.last_sequence);
        if let Err(e) = wals.check_all_present(self.dir, versions) {
            self.problem(e);
        }
        if let Err(e) = self.left_after_the_end(&so_far) {
            self.problem(e);
        }
        if let Err(e) = so_far.chain.check_tables_not_ahead(versions, self.dir) {
            self.problem(e);
        }
    }

    /// Reports operations that are not understood: they may need any file.
    fn unknown_operations(&mut self, error: Error) {
        self.knows_all_operations = false;
        self.problem(error);
    }

    fn wal(&mut self, number: FileNumber, path: &Path, so_far: &mut SoFar<'_>) -> Result<()> {
        let file = self.vfs.open(path, Access::Sequential)?;
        let mut log = LogReader::new(file, path, number, TailMode::PointInTime);
        let is_needed = so_far.wals.needed.contains(&number);
        // In the form that [`Chain::file_ended`] takes.
        let mut last_sequence = None;
        while let Some(record) = log.next()? {
            self.report.wal_records += 1;
            self.reached(record.offset);
            let before = Predecessor::decode(record.payload);
            if last_sequence.is_none() {
                last_sequence = Some(SequenceNumber::ZERO);
                if let Some(before) = before {
                    self.is_there(number, before, so_far);
                }
                let versions = so_far.versions;
                let chain = &mut so_far.chain;
                if is_needed && !chain.follows(versions, number, before, record.payload) {
                    let name = FileKind::Wal(number).name();
                    self.note(format!(
                        "{name} does not continue what is there of the WAL files before it, which \
                         ends with sequence number {}: recovery ends there",
                        so_far.last_sequence
                    ));
                }
            }
            let mut refused = None;
            let batch = BatchView::parse_whole(record.payload).and_then(|batch| {
                let next = so_far.transactions.apply(&batch, &mut |_, op| {
                    if is_needed && let Err(e) = op.entry() {
                        refused.get_or_insert(e);
                    }
                    Ok(())
                })?;
                Ok((batch, next))
            });
            if let Some(e) = refused {
                self.unknown_operations(e.at(path, record.offset));
            }
            match batch {
                Ok((batch, next)) => {
                    let before = so_far.last_sequence;
                    if batch.count() > 0 && batch.sequence() <= before {
                        let text = format!(
                            "a batch starts with sequence number {}, not after {before}",
                            batch.sequence()
                        );
                        self.problem(Error::corruption(text).at(path, record.offset));
                    }
                    if let Some(id) = unknown_family(&batch, so_far.versions) {
                        let text = format!("an operation on column family {id}, which is unknown");
                        self.problem(Error::corruption(text).at(path, record.offset));
                    }
                    if next > batch.sequence() {
                        let last = SequenceNumber(next.0 - 1);
                        so_far.last_sequence = last.max(before);
                        last_sequence = Some(last);
                    }
                }
                Err(e) => self.unknown_operations(e.at(path, record.offset)),
            }
        }
        if is_needed {
            let end = WalPosition {
                file: number,
                offset: log.records_end(),
            };
            so_far.chain.file_ended(end, last_sequence, log.end());
        }
        match log.end() {
            Some(LogEnd::Truncated { offset }) => self.cut_short(number, *offset),
            Some(LogEnd::Corrupt {
                offset,
                reason,
                followed: true,
            }) => {
                // A crash of the machine may leave this of what was not synced. Titan's files say,
                // once all have been read, what was; others do not.
                if so_far.versions.record().is_titans {
                    let name = FileKind::Wal(number).name();
                    self.note(format!("{name} is damaged at offset {offset}: {reason}"));
                } else {
                    let text = format!("{reason}, and there are records after it");
                    self.problem(Error::corruption(text).at(path, *offset));
                }
            }
            Some(LogEnd::Corrupt { offset, .. }) => self.cut_short(number, *offset),
            // Records of an earlier use of the file: the normal end of a recycled WAL.
            Some(LogEnd::Stale { .. } | LogEnd::Clean) | None => {}
        }
        Ok(())
    }

    /// Checks that the predecessor that this file names exists, if it is needed.
    fn is_there(&mut self, number: FileNumber, before: Predecessor, so_far: &SoFar<'_>) {
        let needed = before.number >= so_far.versions.oldest_log_needed();
        if needed
            && before.last_sequence > SequenceNumber::ZERO
            && !so_far.wals.needed.contains(&before.number)
        {
            // The same text as when opening the database.
            let name = FileKind::Wal(number).name();
            let text = format!("a WAL file the database needs is missing: {name} follows it");
            let path = FileKind::Wal(before.number).path(self.dir);
            self.problem(Error::corruption(text).in_file(&path));
        }
    }

    fn cut_short(&mut self, number: FileNumber, offset: u64) {
        let name = FileKind::Wal(number).name();
        self.note(format!(
            "{name} ends in a record cut short, at offset {offset}"
        ));
    }

    /// Reports what the files have after the point where recovery ends: a loss, if it had been
    /// synced.
    fn left_after_the_end(&mut self, so_far: &SoFar<'_>) -> Result<()> {
        let Some(end) = so_far.chain.ended_early(so_far.versions.record()) else {
            return Ok(());
        };
        let last = so_far.chain.last();
        let last = last.unwrap_or_else(|| so_far.versions.last_before_logs());
        let (wals, record) = (&so_far.wals.needed, so_far.versions.record());
        let left = Unreplayed::find(self.vfs, self.dir, wals, record, end, last)?;
        if let Some(lost) = left.loss_of_synced(self.dir) {
            self.problem(lost);
        } else if left.records > 0 {
            self.note(format!(
                "{} records after offset {} of {} are not recovered: {}",
                left.records,
                end.offset,
                FileKind::Wal(end.file).name(),
                left.reason
            ));
        }
        Ok(())
    }
}

/// A family that the batch names and that the MANIFEST has never had.
fn unknown_family(batch: &BatchView<'_>, versions: &VersionSet) -> Option<ColumnFamilyId> {
    let ids = batch.ops().filter_map(|op| op.ok()?.column_family());
    ids.into_iter().find(|id| versions.never_had(*id))
}
