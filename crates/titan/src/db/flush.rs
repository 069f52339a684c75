//! Flushing memtables to a table of level 0 and to blob files.

use std::sync::Arc;

use super::core::Shared;
use super::family::Family;
use super::job::{Claimed, Job, JobSource, claimed};
use super::running::RunningJob;
use super::state::{FamilyState, FlushBarrier, Immutable, State};
use crate::compaction::combine::Combiner;
use crate::compaction::filter::{FilteredJob, Filtering, JobFilter};
use crate::compaction::job_env::{JobEnv, OutputFamily};
use crate::compaction::job_output::JobOutput;
use crate::compaction::merge::{SurvivorIterator, surviving_tombstones};
use crate::compaction::older_versions::UnknownOlderVersions;
use crate::compaction::output::OutputWriter;
use crate::compaction::shadows::{Effort, OlderTables, Shadows};
use crate::error::{Error, Result};
use crate::filter::FilterReason;
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::sequence_times::SequenceTimes;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::iterator::InternalIterator;
use crate::iterator::merging::MergingIterator;
use crate::memtable::Memtable;
use crate::open_files::OpenFiles;
use crate::range_del::{FragmentedTombstones, TombstoneCursor};
use crate::stats::{self, FlushBeginEvent, FlushEvent, Listeners, notify};
use crate::version::edit::VersionEdit;
use crate::version::{Version, VersionSet};
use crate::write::queue::Lead;

pub(super) const FLUSHES: JobSource = JobSource {
    is_due: |_, state| state.families.values().any(|f| !f.immutables.is_empty()),
    claim: Shared::claim_flush,
};

/// What a flush writes of memtables: not the entries of failed commits.
struct Survivors<'a> {
    entries: SurvivorIterator<'a, MergingIterator, UnknownOlderVersions>,
    /// All range deletions.
    tombstones: Arc<FragmentedTombstones>,
}

impl<'a> Survivors<'a> {
    /// Of memtables, newest last.
    fn of(
        memtables: &[Arc<Memtable>],
        comparator: &InternalKeyComparator,
        snapshots: Vec<SequenceNumber>,
        combiner: Option<Combiner>,
        filter: Option<JobFilter<'a>>,
    ) -> Result<Self> {
        let accepted_to = memtables.iter().map(|m| m.accepted_to()).min();
        let accepted_to = accepted_to.unwrap_or(SequenceNumber::MAX);
        let tombstones = memtables
            .iter()
            .filter(|m| m.has_range_tombstones())
            .flat_map(|m| m.range_tombstones().iter_tombstones().collect::<Vec<_>>())
            .filter(|tombstone| tombstone.sequence <= accepted_to);
        let tombstones = Arc::new(FragmentedTombstones::build(tombstones, comparator));
        let newest = SequenceNumber::MAX;
        let cursor = TombstoneCursor::new(Arc::clone(&tombstones), comparator.clone(), newest);
        let children = memtables
            .iter()
            .rev()
            .map(|m| Box::new(m.iter()) as Box<dyn InternalIterator>)
            .collect();
        let merged = MergingIterator::new(children, comparator.clone());
        let entries = SurvivorIterator::new(
            merged,
            UnknownOlderVersions,
            accepted_to,
            snapshots,
            cursor,
            combiner,
            filter,
        )?;
        Ok(Survivors {
            entries,
            tombstones,
        })
    }
}

/// The compaction filter of a flush, to be made.
#[derive(Clone, Copy)]
pub(crate) struct FlushFilter<'a> {
    filtering: &'a Filtering,
    version: &'a Arc<Version>,
    open_files: &'a Arc<OpenFiles>,
}

impl<'j> FlushFilter<'j> {
    /// Makes it.
    fn start(
        self,
        family: &'j OutputFamily,
        snapshots: &'j [SequenceNumber],
        times: Option<&'j Arc<SequenceTimes>>,
    ) -> Result<Option<JobFilter<'j>>> {
        let job = FilteredJob {
            family,
            level: 0,
            is_bottommost: false,
            snapshots,
            version: self.version,
            open_files: self.open_files,
            times,
            // The memtables take memory until they are flushed.
            pause: &|| Ok(()),
        };
        JobFilter::create(self.filtering, &job, &UnknownOlderVersions)
    }
}

/// Writes memtables, newest last, to one table and its blob files, all of it durable. On an error
/// every file written is removed: the memtables still have the data. Estimates and records what the
/// table shadows in `older` ones, if they are known. A flush that `filters` does so with the values
/// of the version that it is given.
pub(crate) fn write_memtables(
    memtables: &[Arc<Memtable>],
    env: &JobEnv,
    family: OutputFamily,
    snapshots: Vec<SequenceNumber>,
    older: Option<OlderTables<'_>>,
    filters: Option<FlushFilter<'_>>,
) -> Result<JobOutput> {
    let combiner = Combiner::of_inline_values(family.options.merge_operator.as_ref());
    let times = filters.and_then(|f| f.filtering.times(Vec::new(), None));
    let filtered_family = family.clone();
    let filter = match filters {
        Some(filters) => filters.start(&filtered_family, &snapshots, times.as_ref())?,
        None => None,
    };
    let survivors = Survivors::of(
        memtables,
        &family.comparator,
        snapshots.clone(),
        combiner,
        filter,
    )?;
    let Survivors {
        mut entries,
        tombstones,
    } = survivors;
    let min_blob_size = family.options.min_blob_size;
    let mut shadows = older
        .and_then(|older| Shadows::of(memtables, &tombstones, older, min_blob_size, Effort::FLUSH));
    let surviving = surviving_tombstones(&tombstones, &snapshots, &UnknownOlderVersions);
    let mut writer = OutputWriter::uncut(env.clone(), family, surviving).recording(times.clone());
    let written = (|| {
        while entries.valid() {
            writer.add(entries.key(), entries.value())?;
            if let Some(shadows) = &mut shadows {
                shadows.see(entries.key(), entries.value())?;
            }
            entries.next()?;
        }
        let mut output = writer.finish()?;
        output.filtered = entries.filter_counts();
        // A flush writes one.
        if let (Some(table), Some(shadows)) = (output.tables.first_mut(), &shadows) {
            // MUTANT: a flush does not note what it shadows, so nothing looks for it until there
            // are many tables.
            table.shadowed_bytes = if mutant!(
                "shadowed-data-of-a-flush-not-recorded",
                "-p titan --test it gc::space::what_flushes_hide"
            ) {
                0
            } else {
                shadows.bytes()
            };
        }
        Ok(output)
    })();
    written.inspect_err(|_| env.discard(&writer.created()))
}

/// An estimate of the bytes of separated values that memtables, newest last, shadow in older
/// tables. Cost: a walk through all entries, and a lookup for some of them.
pub(super) fn shadowed_by_memtables(
    memtables: &[Arc<Memtable>],
    family: &Family,
    older: OlderTables<'_>,
) -> Result<u64> {
    let survivors = Survivors::of(memtables, &family.comparator, Vec::new(), None, None)?;
    let Survivors {
        mut entries,
        tombstones,
    } = survivors;
    let min_blob_size = family.options().min_blob_size;
    let shadows = Shadows::of(
        memtables,
        &tombstones,
        older,
        min_blob_size,
        Effort::ESTIMATE,
    );
    let Some(mut shadows) = shadows else {
        return Ok(0);
    };
    while entries.valid() {
        shadows.see(entries.key(), entries.value())?;
        entries.next()?;
    }
    Ok(shadows.bytes())
}

impl Shared {
    /// Claims the immutable memtables of a family that may be flushed.
    fn claim_flush(&self, state: &mut State) -> Option<Claimed> {
        let barrier = state.flush_barrier.as_ref();
        let (id, count) = state
            .in_turn()
            .filter(|f| !f.jobs.flushing)
            .map(|f| (f.family.id, f.flushable(barrier)))
            .find(|(_, count)| *count > 0)?;
        state.begin(RunningJob::Flush, id);
        let family = state.families.get(&id)?;
        Some(claimed(FlushJob {
            family: Arc::clone(&family.family),
            immutables: family.immutables.iter().take(count).cloned().collect(),
        }))
    }

    /// Flushes the memtables of `ids` and waits until that is done.
    pub(super) fn flush(&self, ids: &[ColumnFamilyId]) -> Result<()> {
        // What is in the memtables now must be flushed; what is written meanwhile need not.
        let newest = self.alone(|lead| self.switch_to_flush(lead, ids))?;
        self.wait_for_flushes(&newest)
    }

    /// Makes what is in memtables immutable. Returns the newest memtable of each family that has
    /// something to flush.
    pub(super) fn switch_to_flush(
        &self,
        lead: &Lead<'_>,
        ids: &[ColumnFamilyId],
    ) -> Result<FlushBarrier> {
        self.check_not_stopped()?;
        self.switch_memtables(lead, ids)?;
        let state = self.state.lock();
        let newest = |id: &ColumnFamilyId| {
            let family = state.families.get(id)?;
            let newest = family.immutables.back()?;
            Some((*id, Arc::clone(&newest.memtable)))
        };
        Ok(ids.iter().filter_map(newest).collect())
    }

    /// Waits until these memtables, and all older ones of their families, are in tables.
    pub(super) fn wait_for_flushes(&self, newest: &FlushBarrier) -> Result<()> {
        self.signals.work.raise();
        loop {
            let seen = self.signals.progress.seen();
            let state = self.state.lock();
            let done = newest.iter().all(|(id, memtable)| {
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
            drop(state);
            self.check_not_stopped()?;
            self.check_open()?;
            gate!("flush: waited for");
            self.signals.progress.wait(seen);
        }
    }

    fn flush_and_install(&self, family: &Family, immutables: &[Immutable]) -> Result<FlushEvent> {
        // So that no writer has to do it when it starts the next WAL file.
        let synced = self.pipeline.sync_wal_names();
        synced.map_err(|e| self.wal_not_synced(e))?;
        let flushed = self.write_out(family, immutables)?;
        gate!("flush: written");
        let synced_to = self.state.lock().current_wal();
        // MUTANT: a flush lets a batch over families outlive the WAL that has its other half.
        let forgotten = mutant!(
            "flush-forgets-other-families",
            "-p titan-campaigns --test it crash::"
        );
        if self.families.load().len() > 1 && !forgotten {
            // ORDER: a batch may span families, and this one is about to outlive its WAL. The
            // others must be able to replay their part of it (WAL-1).
            let synced = self.pipeline.sync_closed_wals();
            synced.map_err(|e| {
                self.files.env.discard(&flushed.output.files());
                self.wal_not_synced(e)
            })?;
        }
        let event = flushed.event();
        gate!("flush: to be installed");
        self.install_flushes(&[flushed], synced_to)?;
        Ok(event)
    }

    /// Stops writes because of a failed sync of WAL files, whatever becomes of the flush, and returns
    /// the error. Another sync might succeed although data is lost.
    fn wal_not_synced(&self, error: Error) -> Error {
        // MUTANT: a failed sync of the WAL has no consequence if the family of the flush is dropped.
        match mutant!(
            "dropping-a-family-forgives-a-failed-sync",
            "-p titan --lib db::races::flushes"
        ) {
            true => error,
            false => self.failure.set(error.context("syncing the WAL")),
        }
    }

    /// Flushes all immutable memtables on this thread and installs the result in one step.
    /// Afterwards only the current WAL file is needed. No job may run.
    pub(super) fn flush_all_as_one(&self, _: &Lead<'_>) -> Result<()> {
        // ORDER: before the edits, which name the current WAL file: recovery misses one that they name.
        self.pipeline.sync_wal_names()?;
        let waiting: Vec<(Arc<Family>, Vec<Immutable>)> = {
            let state = self.state.lock();
            let families = state.families.values().filter(|f| !f.immutables.is_empty());
            families
                .map(|f| {
                    (
                        Arc::clone(&f.family),
                        f.immutables.iter().cloned().collect(),
                    )
                })
                .collect()
        };
        let mut flushed = Vec::new();
        for (family, immutables) in &waiting {
            let event = begin_event(family, immutables);
            notify!(self.context.listeners, flush_begun(&event));
            match self.write_out(family, immutables) {
                Ok(done) => flushed.push(done),
                Err(e) => {
                    for Flushed { output, .. } in flushed {
                        self.files.env.discard(&output.files());
                    }
                    return Err(e.context(format!("flushing column family {}", family.name)));
                }
            }
        }
        // ORDER: together, since the WAL of these memtables is not relied on: a batch that spans
        // families is in the tables of all of them or of none (WAL-1).
        let synced_to = self.state.lock().current_wal();
        self.install_flushes(&flushed, synced_to)?;
        for done in &flushed {
            notify!(self.context.listeners, flush_finished(&done.event()));
        }
        Ok(())
    }

    /// Writes immutable memtables of a family to files.
    fn write_out<'a>(
        &self,
        family: &'a Family,
        immutables: &'a [Immutable],
    ) -> Result<Flushed<'a>> {
        let memtables: Vec<_> = immutables.iter().map(|i| Arc::clone(&i.memtable)).collect();
        let snapshots = self.readers.snapshots.sequences();
        gate!("flush: snapshots listed");
        // A recent one: another job may install a newer one at any time.
        let version = Arc::clone(&family.super_version.load().version);
        let older = OlderTables {
            version: &version,
            open_files: &self.files.open,
        };
        let mut filtering = self.filtering(family, FilterReason::Flush);
        let write = |filtering: &Filtering| {
            let filter = FlushFilter {
                filtering,
                version: &version,
                open_files: &self.files.open,
            };
            let (env, snapshots) = (&self.files.env, snapshots.clone());
            let output = family.output();
            write_memtables(
                &memtables,
                env,
                output,
                snapshots,
                Some(older),
                Some(filter),
            )
        };
        let mut written = write(&filtering);
        if self.is_failed_filter(&written) {
            // The memtables must go, and compactions will ask the filter again.
            filtering.asks = false;
            written = write(&filtering);
        }
        let output = written?;
        self.count_filtered(&output.filtered);
        self.report_collectors(&output);
        stats::add(
            &self.context.statistics.flush_sst_bytes,
            output.table_bytes(),
        );
        stats::add(
            &self.context.statistics.flush_blob_bytes,
            output.blob_bytes(),
        );
        Ok(Flushed {
            family,
            immutables: immutables.len(),
            output,
        })
    }

    /// Replaces the memtables by the files, all at once, and retires WAL files. `synced_to` is the
    /// first WAL file that may have unsynced operations of other families.
    fn install_flushes(&self, flushed: &[Flushed<'_>], synced_to: FileNumber) -> Result<()> {
        let families: Vec<&Family> = flushed.iter().map(|flush| flush.family).collect();
        let outputs: Vec<FileKind> = flushed.iter().flat_map(|f| f.output.files()).collect();
        let flush_of = |id| flushed.iter().find(|flush| flush.family.id == id);
        let prepare = |_: &VersionSet| {
            let (edits, needed) = self.edits_of_flushes(flushed, synced_to);
            // MUTANT: WAL files are handed over for deletion before the edit that gives them up.
            if mutant!(
                "wal-deleted-before-install",
                "-p titan-campaigns --test it crash::"
            ) {
                self.retire_wals(needed);
                self.purge();
            }
            Some((edits, needed))
        };
        let installed = self.install(&families, &outputs, prepare, |family, _| {
            if let Some(flush) = flush_of(family.family.id) {
                family.immutables.drain(..flush.immutables);
                family.unlogged &= !(family.immutables.is_empty() && family.memtable.is_empty());
            }
        })?;
        stats::add(&self.context.statistics.flushes, flushed.len() as u64);
        gate!("flush: installed");
        if let Some(needed) = installed {
            // ORDER: the edit that says which WAL files are still needed is durable; only now may
            // others be deleted.
            self.retire_wals(needed);
        }
        Ok(())
    }

    /// The edits that replace memtables by files, and the first WAL file that is needed afterwards.
    fn edits_of_flushes(
        &self,
        flushed: &[Flushed<'_>],
        synced_to: FileNumber,
    ) -> (Vec<VersionEdit>, FileNumber) {
        let state = self.state.lock();
        // As it will be once these memtables are gone.
        let after = |f: &FamilyState| {
            let flush = flushed.iter().find(|flush| flush.family.id == f.family.id);
            f.oldest_log_needed_after(flush.map_or(0, |flush| flush.immutables))
        };
        let families = &state.families;
        let needed = families.values().map(after).min();
        let needed = needed.unwrap_or(state.current_wal());
        let edit_of = |Flushed { family, output, .. }: &Flushed<'_>| {
            let mut edit = VersionEdit {
                column_family: family.id,
                // Not past a file that was closed meanwhile: recovery takes a log number after a
                // damaged WAL file as proof that the file had been synced.
                // MUTANT: the edit of a flush gives up WAL files of memtables that were switched
                // after it had begun.
                log_number: families.get(&family.id).map(|f| {
                    match mutant!(
                        "flush-gives-up-newer-wals",
                        "-p titan --lib db::races::flushes"
                    ) {
                        true => state.current_wal(),
                        false => after(f).min(synced_to),
                    }
                }),
                ..VersionEdit::default()
            };
            output.add_to(&mut edit, 0, self.files.env.unix_seconds());
            edit
        };
        let mut edits: Vec<VersionEdit> = flushed.iter().map(edit_of).collect();
        if edits.is_empty() {
            // Where nothing was flushed, an edit names a family all the same.
            edits.push(VersionEdit::default());
        }
        if let Some(last) = edits.last_mut() {
            last.min_log_number_to_keep = Some(needed);
        }
        (edits, needed)
    }

    /// Hands over WAL files older than `needed` for deletion. The edit that makes them unneeded is
    /// durable.
    pub(super) fn retire_wals(&self, needed: FileNumber) {
        self.pipeline.forget_wals_before(needed);
        let mut state = self.state.lock();
        while let Some(oldest) = state.wals.front()
            && oldest.number < needed
            && state.wals.len() > 1
        {
            self.files.obsolete.push(FileKind::Wal(oldest.number));
            state.wals.pop_front();
        }
        self.admission
            .wal_limit
            .set(&state, &self.context.options.load());
    }
}

/// A flush of the oldest immutable memtables of a family.
pub(super) struct FlushJob {
    pub(super) family: Arc<Family>,
    pub(super) immutables: Vec<Immutable>,
}

impl Job for FlushJob {
    const DOING: &'static str = "flushing";
    type Done = FlushEvent;
    type Claim = ();

    fn kind(&self) -> RunningJob {
        RunningJob::Flush
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn announce(&self, listeners: &Listeners) {
        let event = begin_event(&self.family, &self.immutables);
        notify!(listeners, flush_begun(&event));
    }

    fn run(self, shared: &Shared) -> (Result<FlushEvent>, ()) {
        (shared.flush_and_install(&self.family, &self.immutables), ())
    }

    fn release((): (), _: &Result<FlushEvent>, _: &mut State) {}

    fn report(event: &FlushEvent, listeners: &Listeners) {
        notify!(listeners, flush_finished(event));
    }
}

fn begin_event(family: &Family, immutables: &[Immutable]) -> FlushBeginEvent {
    FlushBeginEvent {
        column_family: family.id,
        memtables: immutables.len(),
        entries: immutables.iter().map(|i| i.memtable.num_entries()).sum(),
    }
}

/// Memtables of a family that have been written to files.
struct Flushed<'a> {
    family: &'a Family,
    /// How many of the oldest memtables these are.
    immutables: usize,
    output: JobOutput,
}

impl Flushed<'_> {
    fn event(&self) -> FlushEvent {
        FlushEvent {
            column_family: self.family.id,
            table: self.output.tables.first().map(|t| t.number),
            table_bytes: self.output.table_bytes(),
            blob_files: self.output.blob_numbers(),
            blob_bytes: self.output.blob_bytes(),
        }
    }
}
