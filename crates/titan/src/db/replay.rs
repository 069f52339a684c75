//! Replays WAL files: brings back operations that no table has yet.
//!
//! Like RocksDB's point-in-time recovery: operations are applied in order up to the first one that
//! is missing or damaged, and none after it. They go to memtables and from there to tables. Nothing
//! becomes visible, and nothing is deleted, before the MANIFEST that the caller starts afterwards;
//! after a crash in between, everything is as it was.
//!
//! On a device that may lack room for the tables, the memtables [stay in memory](super::kept) with
//! their WAL files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::kept::KeptMemtables;
use super::replay_target::ReplayTarget;
use super::wals::{Chain, Wals};
use crate::batch::BatchView;
use crate::compaction::job_env::{JobEnv, OutputFamily};
use crate::compaction::shadows::OlderTables;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::open_files::OpenFiles;
use crate::options::Options;
use crate::version::VersionSet;
use crate::version::edit::VersionEdit;
use crate::vfs::Access;
use crate::wal::{LogReader, TailMode};
use crate::write::predecessor::Predecessor;
use crate::write::transactions::Transactions;

struct Replay<'a> {
    versions: &'a mut VersionSet,
    env: &'a JobEnv,
    open_files: &'a OpenFiles,
    targets: BTreeMap<ColumnFamilyId, ReplayTarget>,
    chain: Chain,
    transactions: Transactions,
    /// No tables are written: the memtables stay in memory.
    keeps: bool,
    /// Files written; no MANIFEST names them before the caller's.
    written: Vec<FileKind>,
}

/// Whether the device may lack room for the tables of these WAL files. A table takes more than the
/// operations in a WAL file if these are small.
fn lacks_room(env: &JobEnv, wals: &[FileNumber]) -> Result<bool> {
    let Ok(Some(space)) = env.vfs.device_space(&env.dir) else {
        return Ok(false);
    };
    let sizes = wals
        .iter()
        .map(|number| env.vfs.size(&FileKind::Wal(*number).path(&env.dir)));
    let bytes = sizes.sum::<Result<u64>>()?;
    Ok(bytes.saturating_mul(2) > space.available)
}

/// Replays `wals` and leaves their operations in tables, in `versions`. If there may be no room for
/// tables, the result has them in memtables, and nothing was written.
///
/// # Errors
/// `Corruption` where a record that passed its checksum makes no sense; `Unsupported` for
/// operations of other engines that this one does not have, and for transactions whose decision is
/// after a torn end. Torn ends are no errors.
pub(super) fn replay_wals(
    versions: &mut VersionSet,
    env: &JobEnv,
    open_files: &OpenFiles,
    options: &Options,
    wals: &Wals,
) -> Result<Option<KeptMemtables>> {
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
        chain: Chain::new(versions),
        versions,
        env,
        open_files,
        targets,
        transactions: Transactions::new(wals.numbering),
        keeps: wals.older.is_empty() && lacks_room(env, &wals.needed)?,
        written: Vec::new(),
    };
    let replayed = replay.run(wals);
    replayed.inspect_err(|_| env.discard(&replay.written))
}

impl Replay<'_> {
    fn run(&mut self, wals: &Wals) -> Result<Option<KeptMemtables>> {
        let needed = self.versions.oldest_log_needed();
        for &number in &wals.older {
            self.find_prepared(number)?;
        }
        for &number in &wals.needed {
            if !self.replay_file(number, needed, &wals.needed)? {
                // What follows must go, or the next replay would end here, too.
                self.keeps = false;
                break;
            }
        }
        self.chain
            .check_tables_not_ahead(self.versions, &self.env.dir)?;
        let undecided = self.transactions.require_decided();
        undecided.map_err(|e| e.in_file(&self.env.dir))?;
        if let Some(kept) = self.keep(wals)? {
            return Ok(Some(kept));
        }
        let ids: Vec<_> = self.targets.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.flush(id))?;
        Ok(None)
    }

    /// Keeps the memtables with their WAL files, if they need not be written.
    fn keep(&self, wals: &Wals) -> Result<Option<KeptMemtables>> {
        let (true, Some(predecessor)) = (self.keeps, self.chain.predecessor()) else {
            return Ok(None);
        };
        let memtables = self.targets.iter().map(|(id, target)| (*id, target));
        let memtables = memtables.filter(|(_, target)| !target.memtable.is_empty());
        let memtables = memtables.map(|(id, target)| (id, Arc::clone(&target.memtable)));
        KeptMemtables::with_durable_wals(self.env, memtables.collect(), &wals.needed, predecessor)
    }

    /// Reads a file that is needed only for the transactions prepared in it.
    fn find_prepared(&mut self, number: FileNumber) -> Result<()> {
        let (mut reader, path) = self.reader(number)?;
        while let Some(record) = reader.next()? {
            let batch = BatchView::parse_whole(record.payload);
            batch
                .and_then(|batch| self.transactions.apply(&batch, &mut |_, _| Ok(())))
                .map_err(|e| e.at(&path, record.offset))?;
        }
        Ok(())
    }

    fn reader(&self, number: FileNumber) -> Result<(LogReader, PathBuf)> {
        let path = FileKind::Wal(number).path(&self.env.dir);
        let file = self.env.vfs.open(&path, Access::Sequential)?;
        let reader = LogReader::new(file, &path, number, TailMode::PointInTime);
        Ok((reader, path))
    }

    /// Replays one file of `wals`, the files from `needed` on. Returns whether the next one may
    /// follow.
    fn replay_file(
        &mut self,
        number: FileNumber,
        needed: FileNumber,
        wals: &[FileNumber],
    ) -> Result<bool> {
        let (mut reader, path) = self.reader(number)?;
        let mut last_sequence = None;
        while let Some(record) = reader.next()? {
            let at = |e: Error| e.at(&path, record.offset);
            if last_sequence.is_none() {
                let predecessor = Predecessor::decode(record.payload);
                self.check_present(predecessor, needed, wals)?;
                if !self.chain.follows(predecessor, record.payload) {
                    return Ok(false);
                }
                last_sequence = Some(SequenceNumber::ZERO);
                if predecessor.is_some() {
                    continue;
                }
                // Another writer's file: nothing says where the one before it ends.
                self.keeps = false;
            }
            let batch = BatchView::parse_whole(record.payload).map_err(at)?;
            let next = self.apply(&batch, number).map_err(at)?;
            if next > batch.sequence() {
                let last = SequenceNumber(next.0 - 1);
                last_sequence = Some(last);
                // MUTANT: sequence numbers are given out again after recovery.
                if !mutant!(
                    "sequence-not-recovered",
                    "-p titan-campaigns --test it crash::"
                ) {
                    self.env.counters.publish_sequence(last);
                }
            }
        }
        self.chain.file_ended(number, last_sequence, reader.end());
        Ok(true)
    }

    /// A file that had operations exists for as long as it is needed: its name was durable before
    /// its successor was created, and it is deleted only after the MANIFEST recorded that it is not
    /// needed. If it is gone, that part of the MANIFEST, or the file, was lost.
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
                let path = FileKind::Wal(number).path(&self.env.dir);
                Err(Error::corruption("a WAL file the database needs is missing").in_file(&path))
            }
            _ => Ok(()),
        }
    }

    /// Applies the operations that take effect with a batch; returns the sequence number after its
    /// last.
    fn apply(&mut self, batch: &BatchView<'_>, wal: FileNumber) -> Result<SequenceNumber> {
        // MUTANT: replay takes the operations of the WAL in which a memtable began for flushed.
        let wal = if mutant!(
            "replay-skips-a-family",
            "-p titan-campaigns --test it crash::"
        ) {
            FileNumber(wal.0 - 1)
        } else {
            wal
        };
        let mut full = Vec::new();
        let (versions, targets) = (&self.versions, &self.targets);
        let next = self.transactions.apply(batch, &mut |sequence, op| {
            let Some((value_type, key, value)) = op.entry()? else {
                return Ok(());
            };
            let id = op.column_family();
            if id.is_some_and(|id| versions.never_had(id)) {
                return Err(Error::corruption(
                    "an operation on a column family that the MANIFEST does not know",
                ));
            }
            // A family dropped since, or whose tables have the operation already, is skipped.
            if let Some(target) = id.and_then(|id| targets.get(&id))
                && wal >= target.log_number
            {
                target.memtable.add(sequence, value_type, key, value)?;
                if target.memtable.should_flush() {
                    full.push(target.family.id);
                }
            }
            Ok(())
        })?;
        if self.keeps {
            return Ok(next);
        }
        full.dedup();
        full.into_iter().try_for_each(|id| self.flush(id))?;
        Ok(next)
    }

    /// Writes the content of a memtable to a table.
    fn flush(&mut self, id: ColumnFamilyId) -> Result<()> {
        let Some(target) = self.targets.get_mut(&id) else {
            return Ok(());
        };
        let version = self.versions.current(id);
        let older = version.as_ref().map(|version| OlderTables {
            version,
            open_files: self.open_files,
        });
        if let Some(output) = target.write_out(self.env, older)? {
            let mut edit = VersionEdit {
                column_family: id,
                ..VersionEdit::default()
            };
            output.add_to(&mut edit, 0, self.env.unix_seconds());
            self.written.extend(output.files());
            self.versions.apply_in_memory(&edit)?;
        }
        Ok(())
    }
}
