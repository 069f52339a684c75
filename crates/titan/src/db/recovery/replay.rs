//! Replays WAL files: brings back operations that no table has yet.
//!
//! By default as in RocksDB's point-in-time recovery: operations are applied in order up to the
//! first one that is missing or damaged, and none after it; other [modes](crate::WalRecoveryMode)
//! refuse damage, or skip it. Damage of a record without operations ends nothing. Operations go to
//! memtables and from there to tables. Nothing becomes visible, and nothing is deleted, before the
//! MANIFEST that the caller starts afterwards; after a crash in between, everything is as it was.
//!
//! On a device that may lack room for the tables, the memtables [stay in
//! memory](super::kept_memtables) with their WAL files.

use std::path::PathBuf;
use std::sync::Arc;

use super::kept_memtables::KeptMemtables;
use super::replay_target::ReplayTarget;
use super::unreplayed::Unreplayed;
use super::wal_chain::Chain;
use super::wal_damage::{AfterDamage, Gap, WalDamage};
use crate::batch::BatchView;
use crate::compaction::building::job_env::{JobEnv, OutputFamily};
use crate::compaction::building::shadows::OlderTables;
use crate::db::on_disk::wals::{Wals, missing};
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::number_map::NumberMap;
use crate::open_files::OpenFiles;
use crate::options::Options;
use crate::stats::WalDamageEvent;
use crate::version::VersionSet;
use crate::version::edit::VersionEdit;
use crate::vfs::Access;
use crate::wal::{LogReader, TailMode};
use crate::write::predecessor::Predecessor;
use crate::write::sync_record::WalPosition;
use crate::write::transactions::Transactions;

/// The error for a WAL file that does not continue the one before it.
const DOES_NOT_CONTINUE: &str = "the WAL file does not continue the one before it";

struct Replay<'a> {
    versions: &'a mut VersionSet,
    env: &'a JobEnv,
    open_files: &'a OpenFiles,
    targets: NumberMap<ColumnFamilyId, ReplayTarget>,
    chain: Chain,
    damage: WalDamage,
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

/// The outcome of a replay.
pub(super) struct Replayed {
    /// The operations, if there may be no room for tables; nothing was written then.
    pub(super) kept: Option<KeptMemtables>,
    /// The damage that was found and is no error.
    pub(super) damage: Option<WalDamageEvent>,
}

/// Replays `wals` and leaves their operations in tables, in `versions`, or in memtables.
///
/// # Errors
/// `Corruption` where a record that passed its checksum makes no sense, where something is damaged
/// or missing that had been synced, and for other damage as the mode says; `Unsupported` for
/// operations of other engines that this one does not have, and for transactions whose decision is
/// after a torn end. Torn ends are no errors.
pub(super) fn replay_wals(
    versions: &mut VersionSet,
    env: &JobEnv,
    open_files: &OpenFiles,
    options: &Options,
    wals: &Wals,
) -> Result<Replayed> {
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
    let damage = WalDamage::new(options.db.wal_recovery_mode, versions.record().is_titans);
    // Where damage is skipped, files need not continue each other, as another opening demands.
    let may_keep = !damage.skips() && wals.older.is_empty();
    let mut replay = Replay {
        chain: Chain::new(versions),
        damage,
        versions,
        env,
        open_files,
        targets,
        transactions: Transactions::new(wals.numbering),
        keeps: may_keep && lacks_room(env, &wals.needed)?,
        written: Vec::new(),
    };
    let kept = replay.run(wals);
    let kept = kept.inspect_err(|_| env.discard(&replay.written))?;
    let damage = replay.damage.into_event();
    Ok(Replayed { kept, damage })
}

impl Replay<'_> {
    fn run(&mut self, wals: &Wals) -> Result<Option<KeptMemtables>> {
        let needed = self.versions.oldest_log_needed();
        for &number in &wals.older {
            self.find_prepared(number)?;
        }
        if !self.damage.skips() {
            wals.check_all_present(&self.env.dir, self.versions)?;
        }
        for &number in &wals.needed {
            if !self.replay_file(number, needed, &wals.needed)? {
                // The rest of the WAL must go, or the next replay would end here, too.
                self.keeps = false;
                break;
            }
        }
        if !self.damage.skips() {
            self.look_beyond(&wals.needed)?;
            self.chain
                .check_tables_not_ahead(self.versions, &self.env.dir)?;
        }
        let undecided = self.transactions.require_decided();
        undecided.map_err(|e| e.in_file(&self.env.dir))?;
        if let Some(kept) = self.keep(wals)? {
            return Ok(Some(kept));
        }
        let ids: Vec<_> = self.targets.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.flush(id))?;
        Ok(None)
    }

    /// Keeps the memtables with their WAL files, if they need not be written. Files with damage
    /// that a replay passes are not kept: the next one would have to pass it again, between files.
    fn keep(&self, wals: &Wals) -> Result<Option<KeptMemtables>> {
        let may_keep = self.keeps && !self.damage.is_found();
        let (true, Some(last)) = (may_keep, self.chain.predecessor()) else {
            return Ok(None);
        };
        let memtables = self.targets.iter().map(|(id, target)| (*id, target));
        let memtables = memtables.filter(|(_, target)| !target.memtable.is_empty());
        let memtables = memtables.map(|(id, target)| (id, Arc::clone(&target.memtable)));
        KeptMemtables::with_durable_wals(self.env, memtables.collect(), &wals.needed, last)
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
        let mut gap: Option<Gap> = None;
        loop {
            let Some(record) = reader.next()? else {
                match self.damage.at_end(&mut reader, number, &path)? {
                    _ if gap.is_some() => break,
                    AfterDamage::Ended => break,
                    AfterDamage::Skipped => {}
                    AfterDamage::Gap(found) => gap = Some(found),
                }
                continue;
            };
            if let Some(damage) = &gap {
                if !self.follows_gap(last_sequence, record.payload) {
                    break;
                }
                self.damage
                    .skip(number, damage.records_end, damage.end.reason());
                gap = None;
            }
            let at = |e: Error| e.at(&path, record.offset);
            if last_sequence.is_none() {
                let predecessor = Predecessor::decode(record.payload);
                if !self.damage.skips() {
                    self.check_present(predecessor, needed, wals)?;
                    let versions = &*self.versions;
                    if !self
                        .chain
                        .follows(versions, number, predecessor, record.payload)
                    {
                        return match self.damage.ends_there() {
                            true => Ok(false),
                            false => Err(at(Error::corruption(DOES_NOT_CONTINUE))),
                        };
                    }
                    if let Some((end, reason)) = self.chain.passed() {
                        self.damage.skip(end.file, end.offset, reason);
                    }
                }
                last_sequence = Some(SequenceNumber::ZERO);
                if predecessor.is_some() {
                    continue;
                }
                // Another writer's file: nothing says where the one before it ends.
                self.keeps = false;
            }
            match self.replay_batch(record.payload, number) {
                Ok(Some(last)) => last_sequence = Some(last),
                Ok(None) => {}
                Err(e) if e.is_corruption() && self.damage.skips() => {
                    self.damage.skip(number, record.offset, e.message());
                }
                Err(e) => return Err(at(e)),
            }
        }
        let (how, offset) = match &gap {
            Some(gap) => (Some(&gap.end), gap.records_end),
            None => (reader.end(), reader.records_end()),
        };
        let end = WalPosition {
            file: number,
            offset,
        };
        self.chain.file_ended(end, last_sequence, how);
        Ok(true)
    }

    /// Replays the batch in a record; returns its last operation, if it has any.
    fn replay_batch(&mut self, record: &[u8], wal: FileNumber) -> Result<Option<SequenceNumber>> {
        let batch = BatchView::parse_whole(record)?;
        let next = self.apply(&batch, wal)?;
        if next <= batch.sequence() {
            return Ok(None);
        }
        let last = SequenceNumber(next.0 - 1);
        if !mutant!(sequence_not_recovered) {
            self.env.counters.publish_sequence(last);
        }
        Ok(Some(last))
    }

    /// Whether no operation is missing between those replayed, up to `last_sequence` in this file,
    /// and a record after damage: then the damaged one had none.
    fn follows_gap(&self, last_sequence: Option<SequenceNumber>, record: &[u8]) -> bool {
        let last = last_sequence.filter(|last| *last > SequenceNumber::ZERO);
        let last = last.or(self.chain.last());
        let last = last.unwrap_or_else(|| self.versions.last_before_logs());
        let next = self.versions.record().next_logged(last);
        // A record without operations has the number that was to come next when it was written.
        BatchView::parse(record).is_ok_and(|batch| match batch.count() {
            0 => batch.sequence() <= next,
            _ => batch.sequence() == next,
        })
    }

    /// Looks for records after the point where the replay ended, if it ended early.
    ///
    /// # Errors
    /// `Corruption` if anything is missing that had been synced.
    fn look_beyond(&mut self, wals: &[FileNumber]) -> Result<()> {
        let Some(end) = self.chain.ended_early(self.versions.record()) else {
            return Ok(());
        };
        let last = self.chain.last();
        let last = last.unwrap_or_else(|| self.versions.last_before_logs());
        let (vfs, dir) = (&*self.env.vfs, &self.env.dir);
        let left = Unreplayed::find(vfs, dir, wals, self.versions.record(), end, last)?;
        if let Some(lost) = left.loss_of_synced(dir) {
            return Err(lost);
        }
        if left.records > 0 {
            let at = (end.file, end.offset);
            self.damage
                .leave(at, left.reason, left.records, &left.files);
        }
        Ok(())
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
                Err(missing(number, &self.env.dir))
            }
            _ => Ok(()),
        }
    }

    /// Applies the operations that take effect with a batch; returns the sequence number after its
    /// last.
    fn apply(&mut self, batch: &BatchView<'_>, wal: FileNumber) -> Result<SequenceNumber> {
        let wal = if mutant!(replay_skips_a_family) {
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
