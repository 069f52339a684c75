//! Flushing memtables to a table of level 0 and to blob files.

use std::sync::Arc;

use super::background::claim_flush;
use super::core::Shared;
use super::family::{Family, dropped};
use super::state::Immutable;
use crate::compaction::merge::{SurvivorIterator, Unknown, surviving_tombstones};
use crate::compaction::output::{FileFactory, JobOutput, OutputFamily, OutputWriter};
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::iterator::InternalIterator;
use crate::iterator::merging::MergingIterator;
use crate::memtable::Memtable;
use crate::range_del::{FragmentedTombstones, TombstoneCursor};
use crate::stats::{self, FlushEvent};
use crate::version::edit::VersionEdit;

/// Writes memtables, newest last, to one table and its blob files, all of it durable. On an
/// error every file written is removed: nothing but the memtables ever held the data.
pub(crate) fn write_memtables(
    memtables: &[Arc<Memtable>],
    factory: &FileFactory,
    family: OutputFamily,
    snapshots: Vec<SequenceNumber>,
) -> Result<JobOutput> {
    let comparator = family.comparator.clone();
    let tombstones = memtables
        .iter()
        .filter(|m| m.has_range_tombstones())
        .flat_map(|m| m.range_tombstones().iter_tombstones().collect::<Vec<_>>());
    let tombstones = Arc::new(FragmentedTombstones::build(tombstones, &comparator));
    let surviving = surviving_tombstones(&tombstones, &snapshots, &Unknown);
    let cursor = TombstoneCursor::new(tombstones, comparator.clone(), SequenceNumber::MAX);
    let children = memtables
        .iter()
        .rev()
        .map(|m| Box::new(m.iter()) as Box<dyn InternalIterator>)
        .collect();
    let merged = MergingIterator::new(children, comparator);
    let mut survivors = SurvivorIterator::new(merged, Unknown, snapshots, cursor)?;
    let mut writer = OutputWriter::uncut(factory.clone(), family, surviving);
    let written = (|| {
        while survivors.valid() {
            writer.add(survivors.key(), survivors.value())?;
            survivors.next()?;
        }
        writer.finish()
    })();
    written.inspect_err(|_| factory.discard(&writer.created()))
}

impl Shared {
    /// Flushes the memtables of `ids` and waits until that is done.
    pub(super) fn flush(&self, ids: &[ColumnFamilyId]) -> Result<()> {
        // What is in the memtables now must be flushed; what is written meanwhile need not.
        let waiting_for = self.alone(|| {
            self.failure.check()?;
            self.switch_memtables(ids)?;
            let state = self.state.lock();
            let newest = |id: &ColumnFamilyId| {
                let family = state.families.get(id)?;
                family
                    .immutables
                    .back()
                    .map(|i| (*id, Arc::clone(&i.memtable)))
            };
            Ok(ids.iter().filter_map(newest).collect::<Vec<_>>())
        })?;
        self.work.notify_all();
        let mut state = self.state.lock();
        loop {
            let done = waiting_for.iter().all(|(id, memtable)| {
                state.families.get(id).is_none_or(|family| {
                    !family
                        .immutables
                        .iter()
                        .any(|i| Arc::ptr_eq(&i.memtable, memtable))
                })
            });
            if done {
                return Ok(());
            }
            self.failure.check()?;
            self.check_open()?;
            self.progress.wait(&mut state);
        }
    }

    /// Flushes, on this thread, until no family has an immutable memtable.
    pub(super) fn flush_all_here(&self) -> Result<()> {
        loop {
            let claim = claim_flush(&mut self.state.lock());
            match claim {
                Some((family, immutables)) => self.run_flush(family, immutables)?,
                None => return Ok(()),
            }
        }
    }

    /// Runs a flush that the caller has marked as running.
    pub(super) fn run_flush(&self, family: Arc<Family>, immutables: Vec<Immutable>) -> Result<()> {
        let outcome =
            self.flush_and_install(&family, &immutables)
                .map_err(|e| match family.is_dropped() {
                    true => e,
                    // Before the job counts as done, so that none starts on what failed.
                    false => {
                        let doing = format!("flushing column family {}", family.name);
                        self.failure.set(self, e.context(doing))
                    }
                });
        let mut state = self.state.lock();
        state.running_flushes -= 1;
        if let Some(family) = state.families.get_mut(&family.id) {
            family.flushing = false;
        }
        self.update_stalls(&mut state);
        drop(state);
        self.work.notify_all();
        let event = match outcome {
            Ok(event) => event,
            Err(_) if family.is_dropped() => return Ok(()),
            Err(e) => return Err(e),
        };
        self.listeners.tell(|l| l.flush_finished(&event));
        Ok(())
    }

    fn flush_and_install(&self, family: &Family, immutables: &[Immutable]) -> Result<FlushEvent> {
        let memtables: Vec<_> = immutables.iter().map(|i| Arc::clone(&i.memtable)).collect();
        let snapshots = self.snapshots.sequences();
        let output = write_memtables(&memtables, &self.factory, family.output(), snapshots)?;
        stats::add(&self.statistics.flush_sst_bytes, output.table_bytes());
        stats::add(&self.statistics.flush_blob_bytes, output.blob_bytes());
        let synced_to = self.state.lock().current_wal();
        if self.families.load().len() > 1 {
            // ORDER: a batch may span families, and this one is about to outlive its WAL. The
            // others must be able to replay their part of it (WAL-1).
            let synced = self.wal.sync_closed();
            synced.inspect_err(|_| self.factory.discard(&output_files(&output)))?;
        }
        self.install_flush(family, immutables, &output, synced_to)?;
        stats::add(&self.statistics.flushes, 1);
        Ok(FlushEvent {
            column_family: family.id,
            table: output.tables.first().map(|t| t.number),
            table_bytes: output.table_bytes(),
            blob_files: output.blob_numbers(),
            blob_bytes: output.blob_bytes(),
        })
    }

    /// `synced_to` is the first WAL file that may hold unsynced operations of other families.
    fn install_flush(
        &self,
        family: &Family,
        immutables: &[Immutable],
        output: &JobOutput,
        synced_to: FileNumber,
    ) -> Result<()> {
        let mut versions = self.versions.lock();
        if versions.family(family.id).is_none() {
            self.factory.discard(&output_files(output));
            return Err(dropped(&family.name));
        }
        let mut edit = VersionEdit {
            column_family: family.id,
            ..VersionEdit::default()
        };
        output.add_to(&mut edit, 0);
        let needed = {
            let mut state = self.state.lock();
            let current = state.current_wal();
            let Some(flushed) = state.families.get_mut(&family.id) else {
                return Err(dropped(&family.name));
            };
            // As it will be once these memtables are gone.
            let kept = flushed.immutables.split_off(immutables.len());
            let gone = std::mem::replace(&mut flushed.immutables, kept);
            // Not beyond a file closed meanwhile: recovery takes log numbers beyond a damaged WAL
            // for proof that it had been synced.
            edit.log_number = Some(flushed.oldest_log_needed(current).min(synced_to));
            let needed = state.oldest_log_needed();
            if let Some(flushed) = state.families.get_mut(&family.id) {
                let kept = std::mem::replace(&mut flushed.immutables, gone);
                flushed.immutables.extend(kept);
            }
            needed
        };
        edit.min_log_number_to_keep = Some(needed);
        self.add_locations(output);
        versions.apply(edit)?;
        let current = versions.family(family.id).map(|f| Arc::clone(&f.current));
        {
            let mut state = self.state.lock();
            if let (Some(flushed), Some(version)) = (state.families.get_mut(&family.id), current) {
                flushed.immutables.drain(..immutables.len());
                flushed.version = version;
                flushed.unlogged &= !(flushed.immutables.is_empty() && flushed.memtable.is_empty());
                flushed.publish();
            }
        }
        drop(versions);
        // ORDER: the edit that says who still needs which WAL is durable; only now may they go.
        self.retire_wals(needed);
        Ok(())
    }

    /// Hands WAL files older than `needed` over for deletion. The edit that says nobody needs
    /// them is durable.
    pub(super) fn retire_wals(&self, needed: FileNumber) {
        self.wal.forget_before(needed);
        let mut state = self.state.lock();
        while let Some(oldest) = state.wals.front()
            && oldest.number < needed
            && state.wals.len() > 1
        {
            self.obsolete.push(FileKind::Wal(oldest.number));
            state.wals.pop_front();
        }
    }
}

/// The files of a job that will not be installed.
pub(super) fn output_files(output: &JobOutput) -> Vec<FileKind> {
    let tables = output.tables.iter().map(|t| FileKind::Table(t.number));
    tables
        .chain(output.blob_files.iter().map(|b| FileKind::Blob(b.number)))
        .collect()
}
