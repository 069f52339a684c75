//! Bringing back what WAL files hold and no table does yet.
//!
//! As RocksDB's point-in-time recovery: operations are applied in order up to the first one that
//! is missing or damaged, and nothing behind it. What is applied goes to memtables and from there
//! to tables; nothing becomes visible, and nothing is deleted, before the MANIFEST that the caller
//! starts afterwards (a crash in between finds everything as it was).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::directory::files_of;
use super::replay_target::ReplayTarget;
use crate::cache::OpenFiles;
use crate::compaction::factory::{FileFactory, OutputFamily};
use crate::compaction::shadows::ShadowSample;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::options::Options;
use crate::version::VersionSet;
use crate::version::edit::VersionEdit;
use crate::vfs::Access;
use crate::wal::{LogEnd, LogReader, TailMode};
use crate::write::batch::BatchView;
use crate::write::predecessor::Predecessor;

/// How far a WAL file went, for the check against what its successor says.
#[derive(Clone, Copy)]
struct Replayed {
    number: FileNumber,
    /// The last operation in it: zero if it has none, `None` if it has not even a first record.
    last_sequence: Option<SequenceNumber>,
    /// It did not end cleanly.
    torn: bool,
    /// It ended where the previous content of a recycled file begins, as such files do.
    stale: bool,
}

struct Replay<'a> {
    versions: &'a mut VersionSet,
    factory: &'a FileFactory,
    open_files: &'a OpenFiles,
    targets: BTreeMap<ColumnFamilyId, ReplayTarget>,
    previous: Option<Replayed>,
    /// The last operation of all files replayed so far.
    last_replayed: Option<SequenceNumber>,
    /// Files written; nothing names them before the caller's MANIFEST does.
    written: Vec<FileKind>,
}

/// Replays every WAL that is still needed and leaves its content in tables, in `versions`.
///
/// # Errors
/// `Corruption` where a record that passed its checksum makes no sense; `Unsupported` for
/// operations of other engines that this one does not have. Torn ends are no errors.
pub(super) fn replay_wals(
    versions: &mut VersionSet,
    factory: &FileFactory,
    open_files: &OpenFiles,
    options: &Options,
) -> Result<()> {
    let needed = versions.oldest_log_needed();
    let mut wals: Vec<FileNumber> = files_of(&*factory.vfs, &factory.dir)?
        .into_iter()
        .filter_map(|file| match file {
            FileKind::Wal(number) if number >= needed => Some(number),
            _ => None,
        })
        .collect();
    wals.sort();
    let targets = versions.families().iter().map(|(id, family)| {
        let output = OutputFamily {
            id: *id,
            name: family.name.clone(),
            comparator: family.comparator.clone(),
            options: Arc::new(options.family(&family.name).clone()),
        };
        (*id, ReplayTarget::new(output, family.log_number))
    });
    let targets = targets.collect();
    let mut replay = Replay {
        versions,
        factory,
        open_files,
        targets,
        previous: None,
        last_replayed: None,
        written: Vec::new(),
    };
    let replayed = replay.run(&wals, needed);
    replayed.inspect_err(|_| factory.discard(&replay.written))
}

impl Replay<'_> {
    fn run(&mut self, wals: &[FileNumber], needed: FileNumber) -> Result<()> {
        let mut stopped = false;
        for &number in wals {
            if !self.replay_file(number, needed, wals)? {
                stopped = true;
                break;
            }
        }
        self.check_tables_not_ahead(stopped)?;
        let ids: Vec<_> = self.targets.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.flush(id))
    }

    /// Replays one file of `wals`, all that are `needed`. Returns whether the next one may follow.
    fn replay_file(
        &mut self,
        number: FileNumber,
        needed: FileNumber,
        wals: &[FileNumber],
    ) -> Result<bool> {
        let path = FileKind::Wal(number).path(&self.factory.dir);
        let file = self.factory.vfs.open(&path, Access::Sequential)?;
        let mut reader = LogReader::new(file, &path, number, TailMode::PointInTime);
        let mut last_sequence = None;
        while let Some(record) = reader.next()? {
            let at = |e: Error| e.at(&path, record.offset);
            if last_sequence.is_none() {
                let predecessor = Predecessor::decode(record.payload);
                self.check_present(predecessor, needed, wals)?;
                if !self.follows(predecessor, record.payload, needed) {
                    return Ok(false);
                }
                last_sequence = Some(SequenceNumber::ZERO);
                if predecessor.is_some() {
                    continue;
                }
            }
            let batch = BatchView::parse_whole(record.payload).map_err(at)?;
            self.apply(&batch, number).map_err(at)?;
            if batch.count() > 0 {
                let last = batch.sequence().plus(u64::from(batch.count()) - 1);
                last_sequence = Some(last);
                self.last_replayed = Some(last);
                self.factory.counters.publish_sequence(last);
            }
        }
        self.previous = Some(Replayed {
            number,
            last_sequence,
            torn: !matches!(reader.end(), Some(LogEnd::Clean)),
            stale: matches!(reader.end(), Some(LogEnd::Stale { .. })),
        });
        Ok(true)
    }

    /// A file that had operations is there for as long as it is needed: its name was durable
    /// before its successor was created, and it is deleted only after the MANIFEST said so. If it
    /// is gone, that part of the MANIFEST, or the file, was lost.
    fn check_present(
        &self,
        predecessor: Option<Predecessor>,
        needed: FileNumber,
        wals: &[FileNumber],
    ) -> Result<()> {
        match predecessor {
            Some(Predecessor {
                number,
                last_sequence,
            }) if number >= needed
                && last_sequence > SequenceNumber::ZERO
                && !wals.contains(&number) =>
            {
                let path = FileKind::Wal(number).path(&self.factory.dir);
                Err(Error::corruption("a WAL file the database needs is missing").in_file(&path))
            }
            _ => Ok(()),
        }
    }

    /// A flush syncs the WAL files that other families still need before its tables count
    /// (WAL-1), and its log number goes no further. So where replay ended in a file that a family
    /// has tables beyond, synced operations of others were lost, and going on would show batches
    /// in half.
    fn check_tables_not_ahead(&self, stopped: bool) -> Result<()> {
        let Some(end) = self.previous.filter(|p| stopped || (p.torn && !p.stale)) else {
            return Ok(());
        };
        let ahead = self.versions.families().values().find(|family| {
            family.log_number > end.number && family.current.tables().next().is_some()
        });
        match ahead {
            None => Ok(()),
            Some(family) => Err(Error::corruption(format!(
                "the WAL is damaged where the tables of column family {} continue it",
                family.name
            ))
            .in_file(&FileKind::Wal(end.number).path(&self.factory.dir))),
        }
    }

    /// Whether a file that starts like this continues what was replayed so far, without a gap.
    fn follows(&self, predecessor: Option<Predecessor>, record: &[u8], needed: FileNumber) -> bool {
        match (predecessor, self.previous) {
            // It says what must have come before, unless that is in tables already.
            (Some(predecessor), previous) if predecessor.number >= needed => {
                previous.is_some_and(|previous| {
                    previous.number == predecessor.number
                        && previous.last_sequence >= Some(predecessor.last_sequence)
                })
            }
            (Some(_), _) => true,
            // Written by RocksDB. Behind a torn end only the very next operation may follow.
            (None, Some(previous)) if previous.torn => {
                // Counted from what was replayed: the MANIFEST knows of later operations, too.
                let last = self
                    .last_replayed
                    .unwrap_or_else(|| self.factory.counters.last_sequence());
                BatchView::parse(record).is_ok_and(|batch| batch.sequence() == last.plus(1))
            }
            (None, _) => true,
        }
    }

    fn apply(&mut self, batch: &BatchView<'_>, wal: FileNumber) -> Result<()> {
        let mut sequence = batch.sequence();
        let mut full = Vec::new();
        for op in batch.ops() {
            let op = op?;
            let Some((value_type, key, value)) = op.entry()? else {
                continue;
            };
            let id = op.column_family();
            if id.is_some_and(|id| self.versions.never_had(id)) {
                return Err(Error::corruption(
                    "an operation on a column family that the MANIFEST does not know",
                ));
            }
            let target = id.and_then(|id| self.targets.get(&id));
            // A family dropped since, or whose tables have the operation already, is skipped.
            if let Some(target) = target
                && wal >= target.log_number
            {
                target.memtable.add(sequence, value_type, key, value)?;
                if target.memtable.should_flush() {
                    full.push(target.family.id);
                }
            }
            sequence = sequence.plus(1);
        }
        full.dedup();
        full.into_iter().try_for_each(|id| self.flush(id))
    }

    /// Moves a memtable's content to a table.
    fn flush(&mut self, id: ColumnFamilyId) -> Result<()> {
        let Some(target) = self.targets.get_mut(&id) else {
            return Ok(());
        };
        let version = self.versions.current(id);
        let threshold = target.family.options.min_blob_size;
        let shadows = version.as_ref();
        let shadows = shadows.and_then(|v| ShadowSample::of(v, self.open_files, threshold));
        if let Some(output) = target.write_out(self.factory, shadows)? {
            let mut edit = VersionEdit {
                column_family: id,
                ..VersionEdit::default()
            };
            output.add_to(&mut edit, 0, self.factory.unix_seconds());
            self.written.extend(output.files());
            self.versions.apply_in_memory(&edit)?;
        }
        Ok(())
    }
}
