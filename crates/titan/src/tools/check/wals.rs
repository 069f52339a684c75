//! Checks the WAL files that recovery would read.

use std::path::Path;

use super::Check;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::version::VersionSet;
use crate::vfs::Access;
use crate::wal::{LogEnd, LogReader, TailMode};
use crate::write::batch::BatchView;
use crate::write::predecessor::Predecessor;

/// The WAL files among `files` that recovery would read, oldest first.
pub(super) fn needed<'f>(
    versions: &VersionSet,
    files: impl Iterator<Item = &'f FileKind>,
) -> Vec<FileKind> {
    let oldest = versions.oldest_log_needed();
    let is_needed = |f: &&FileKind| matches!(f, FileKind::Wal(number) if *number >= oldest);
    // Kinds sort by number.
    files.filter(is_needed).copied().collect()
}

/// How far a WAL went.
#[derive(Clone, Copy)]
struct Reached {
    number: FileNumber,
    last_sequence: SequenceNumber,
}

impl Check<'_> {
    /// Checks the records of each file and the batches in them. An end that is cut short is
    /// normal after a crash; damage with records behind it is not.
    pub(super) fn wals(&mut self, wals: &[FileKind], versions: &VersionSet) {
        if wals.is_empty() {
            let note = "no WAL file is here: if there was one, what only it had is gone";
            self.report.notes.push(note.to_owned());
        }
        let mut previous = None;
        for kind in wals {
            let FileKind::Wal(number) = *kind else {
                continue;
            };
            self.report.wal_files += 1;
            let path = self.begin(*kind);
            match self.wal(number, &path, previous, wals, versions) {
                Ok(reached) => previous = Some(reached),
                Err(e) => self.problem(e.in_file(&path)),
            }
            let size = self.vfs.size(&path).unwrap_or(0);
            self.finish(size);
        }
    }

    fn wal(
        &mut self,
        number: FileNumber,
        path: &Path,
        previous: Option<Reached>,
        wals: &[FileKind],
        versions: &VersionSet,
    ) -> Result<Reached> {
        let file = self.vfs.open(path, Access::Sequential)?;
        let mut log = LogReader::new(file, path, number, TailMode::PointInTime);
        let mut last_sequence = SequenceNumber::ZERO;
        while let Some(record) = log.next()? {
            self.report.wal_records += 1;
            self.reached(record.offset);
            if let Some(before) = Predecessor::decode(record.payload) {
                self.follows(number, before, previous, wals, versions);
            }
            match BatchView::parse_whole(record.payload) {
                Ok(batch) if batch.count() > 0 => {
                    let before =
                        last_sequence.max(previous.map_or(last_sequence, |p| p.last_sequence));
                    if batch.sequence() <= before {
                        let text = format!(
                            "a batch starts with sequence number {}, behind {before}",
                            batch.sequence()
                        );
                        self.problem(Error::corruption(text).at(path, record.offset));
                    }
                    if let Some(id) = unknown_family(&batch, versions) {
                        let text = format!("an operation on column family {id}, which never was");
                        self.problem(Error::corruption(text).at(path, record.offset));
                    }
                    let last = batch.sequence().plus(u64::from(batch.count()) - 1);
                    last_sequence = last_sequence.max(last);
                }
                Ok(_) => {}
                Err(e) => self.problem(e.at(path, record.offset)),
            }
        }
        match log.end() {
            Some(LogEnd::Truncated { offset }) => self.cut_short(number, *offset),
            Some(LogEnd::Corrupt { offset, reason }) => {
                let (offset, reason) = (*offset, *reason);
                match self.records_behind(number, path)? {
                    true => {
                        let text = format!("{reason}, and there are records behind it");
                        self.problem(Error::corruption(text).at(path, offset));
                    }
                    false => self.cut_short(number, offset),
                }
            }
            // Of a file used before; how such a log normally ends.
            Some(LogEnd::Stale { .. } | LogEnd::Clean) | None => {}
        }
        Ok(Reached {
            number,
            last_sequence,
        })
    }

    /// What a file says about the one before it.
    fn follows(
        &mut self,
        number: FileNumber,
        before: Predecessor,
        previous: Option<Reached>,
        wals: &[FileKind],
        versions: &VersionSet,
    ) {
        let name = FileKind::Wal(number).name();
        let kind = FileKind::Wal(before.number);
        let needed = before.number >= versions.oldest_log_needed();
        if needed && before.last_sequence > SequenceNumber::ZERO && !wals.contains(&kind) {
            // As opening the database says.
            let text = format!("a WAL file the database needs is missing: {name} follows it");
            let path = kind.path(self.dir);
            self.problem(Error::corruption(text).in_file(&path));
        }
        if let Some(previous) = previous
            && before.number == previous.number
            && before.last_sequence > previous.last_sequence
        {
            self.note(format!(
                "{name} follows on sequence number {} of the WAL before it, which ends with {}: \
                 recovery ends there",
                before.last_sequence, previous.last_sequence
            ));
        }
    }

    fn cut_short(&mut self, number: FileNumber, offset: u64) {
        let name = FileKind::Wal(number).name();
        self.note(format!(
            "{name} ends in a record cut short, at offset {offset}"
        ));
    }

    /// Whether anything stands behind the damage that ends a log, so that it is not the end of
    /// what was written.
    fn records_behind(&self, number: FileNumber, path: &Path) -> Result<bool> {
        let file = self.vfs.open(path, Access::Sequential)?;
        let mut log = LogReader::new(file, path, number, TailMode::Strict);
        loop {
            match log.next() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(false),
                Err(e) if e.is_corruption() => return Ok(true),
                Err(e) => return Err(e),
            }
        }
    }
}

/// A family that the batch is about and that the MANIFEST has never had.
fn unknown_family(batch: &BatchView<'_>, versions: &VersionSet) -> Option<ColumnFamilyId> {
    let ids = batch.ops().filter_map(|op| op.ok()?.column_family());
    ids.into_iter().find(|id| versions.never_had(*id))
}
