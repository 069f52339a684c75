//! Flushing memtables to a table of level 0 and to blob files.

use std::sync::Arc;

use super::job::{Claimed, Job, JobSource, claimed};
use super::survivors::{FlushFilter, bytes_of_flush, write_memtables};
use crate::compaction::building::filter::Filtering;
use crate::compaction::building::job_output::JobOutput;
use crate::compaction::building::shadows::OlderTables;
use crate::db::core::family::Family;
use crate::db::core::room::FlushWait;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, FlushBarrier, Immutable, State};
use crate::env::Threads;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::FilterReason;
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber};
use crate::stats::{self, FlushBeginEvent, FlushEvent, HistogramKind, Listeners, notify};
use crate::version::VersionSet;
use crate::version::edit::VersionEdit;
use crate::write::queue::Lead;

pub(super) const FLUSHES: JobSource = JobSource {
    threads: Threads::Workers,
    takes_long: false,
    is_due: |_, state| {
        let mut families = state.families.values();
        families.any(|f| f.may_flush(f.immutables.len(), &state.room))
    },
    claim: Shared::claim_flush,
};

impl Shared {
    /// Claims the immutable memtables of a family that may be flushed.
    fn claim_flush(&self, state: &mut State) -> Option<Claimed> {
        let barrier = state.flush_barrier.as_ref();
        let (id, count) = state
            .in_turn()
            .filter(|f| !f.jobs.flushing || mutant!(two_flushes_of_one_family))
            .map(|f| (f.family.id, f.flushable(barrier)))
            .find(|(id, count)| {
                let family = state.families.get(id);
                family.is_some_and(|f| f.may_flush(*count, &state.room))
            })?;
        state.begin(RunningJob::Flush, id);
        let family = state.families.get(&id)?;
        Some(claimed(FlushJob {
            family: Arc::clone(&family.family),
            immutables: family.immutables.iter().take(count).cloned().collect(),
        }))
    }

    /// Flushes the memtables of `ids` and waits until that is done.
    pub(crate) fn flush(&self, ids: &[ColumnFamilyId]) -> Result<()> {
        // The entries in memtables now must be flushed; those written meanwhile need not.
        let newest = self.alone(|lead| self.switch_to_flush(lead, ids))?;
        self.try_again(ids.iter().copied());
        self.wait_for_flushes(&newest)
    }

    /// Makes the contents of memtables immutable. Returns the newest memtable of each family that
    /// has something to flush.
    pub(crate) fn switch_to_flush(
        &self,
        lead: &Lead<'_>,
        ids: &[ColumnFamilyId],
    ) -> Result<FlushBarrier> {
        self.check_not_stopped()?;
        self.switch_memtables(lead, ids)?;
        Ok(self.newest_immutables(ids))
    }

    /// The same, and a new WAL file is started also if all the memtables are empty.
    pub(crate) fn seal_to_flush(
        &self,
        lead: &Lead<'_>,
        ids: &[ColumnFamilyId],
    ) -> Result<FlushBarrier> {
        self.check_not_stopped()?;
        self.start_wal(lead, ids)?;
        Ok(self.newest_immutables(ids))
    }

    fn newest_immutables(&self, ids: &[ColumnFamilyId]) -> FlushBarrier {
        let state = self.state.lock();
        let newest = |id: &ColumnFamilyId| {
            let family = state.families.get(id)?;
            let newest = family.immutables.back()?;
            Some((*id, Arc::clone(&newest.memtable)))
        };
        ids.iter().filter_map(newest).collect()
    }

    /// Waits until these memtables, and all older ones of their families, are in tables.
    ///
    /// # Errors
    /// `NoSpace` if there is no room for a flush, also while no other job takes any; it stays due.
    /// Those of an open database.
    pub(crate) fn wait_for_flushes(&self, newest: &FlushBarrier) -> Result<()> {
        let postponements = self.retry_postponed_jobs();
        self.signals.work.raise();
        // Whether a flush that lacked room has been tried again since other jobs took some.
        let mut is_last_try = false;
        loop {
            let seen = self.signals.progress.seen();
            let state = self.state.lock();
            let left = newest.iter().filter_map(|(id, memtable)| {
                let family = state.families.get(id)?;
                let is_it = |i: &Immutable| Arc::ptr_eq(&i.memtable, memtable);
                family.immutables.iter().any(is_it).then_some(family)
            });
            let mut left = left.peekable();
            if left.peek().is_none() {
                return Ok(());
            }
            let lacking = left.find_map(|family| family.jobs.flush_wait.as_ref());
            let lacking = lacking.map(|wait| wait.error.clone());
            drop(left);
            let is_room_taken = state.running.is_replacing();
            drop(state);
            self.check_not_stopped()?;
            self.check_open()?;
            self.failure.postponed.check_none_since(postponements)?;
            if let Some(error) = lacking.filter(|_| !is_room_taken) {
                if is_last_try {
                    return Err(error);
                }
                is_last_try = true;
                self.purge();
                self.try_again(newest.keys().copied());
                self.signals.work.raise();
                continue;
            }
            is_last_try &= !is_room_taken;
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
        let forgotten = mutant!(flush_forgets_other_families);
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

    /// Stops writes because of a failed sync of WAL files, even if the flush succeeds, and returns
    /// the error. Another sync might succeed although data is lost. Without a file descriptor
    /// nothing was synced, and nothing is lost.
    pub(super) fn wal_not_synced(&self, error: Error) -> Error {
        if error.is_out_of_descriptors() {
            return error;
        }
        match mutant!(dropping_a_family_forgives_a_failed_sync) {
            true => error,
            false => self.failure.set(error.context("syncing the WAL")),
        }
    }

    /// Flushes all immutable memtables on this thread and installs the result in one step.
    /// Afterwards only the current WAL file is needed. No job may run.
    pub(crate) fn flush_all_as_one(&self, _: &Lead<'_>) -> Result<()> {
        // ORDER: before the edits, which name the current WAL file: recovery misses one that they
        // name.
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
            notify!(self.opening.listeners, flush_begun(&event));
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
            notify!(self.opening.listeners, flush_finished(&done.event()));
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
        let snapshots = self.pins.snapshots.sequences();
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
            &self.opening.statistics.flush_sst_bytes,
            output.table_bytes(),
        );
        stats::add(
            &self.opening.statistics.flush_blob_bytes,
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
            if mutant!(wal_deleted_before_install) {
                self.retire_wals(needed);
                self.purge();
            }
            Some((edits, needed))
        };
        let installed = self.install(&families, &outputs, prepare, |family, _| {
            if let Some(flush) = flush_of(family.family.id) {
                invariant!(
                    flush.immutables <= family.immutables.len(),
                    "{} memtables of family {} were flushed, which has {}",
                    flush.immutables,
                    family.family.id,
                    family.immutables.len()
                );
                family.immutables.drain(..flush.immutables);
                family.unlogged &= !(family.immutables.is_empty() && family.memtable.is_empty());
            }
        })?;
        stats::add(&self.opening.statistics.flushes, flushed.len() as u64);
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
        invariant!(
            needed <= state.current_wal() && synced_to <= state.current_wal(),
            "WAL files are needed from {needed} on, and synced to {synced_to}; the current one is {}",
            state.current_wal()
        );
        let edit_of = |Flushed { family, output, .. }: &Flushed<'_>| {
            let mut edit = VersionEdit {
                column_family: family.id,
                // Not past a file that was closed meanwhile: recovery takes a log number after a
                // damaged WAL file as proof that the file had been synced.
                log_number: families.get(&family.id).map(|f| {
                    match mutant!(flush_gives_up_newer_wals) {
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
    pub(crate) fn retire_wals(&self, needed: FileNumber) {
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
            .set(&state, &self.opening.options.load());
    }
}

/// A flush of the oldest immutable memtables of a family.
pub(super) struct FlushJob {
    pub(super) family: Arc<Family>,
    pub(super) immutables: Vec<Immutable>,
}

impl Job for FlushJob {
    const DOING: &'static str = "flushing";
    const HISTOGRAM: Option<HistogramKind> = Some(HistogramKind::Flush);
    type Done = FlushEvent;
    type Claim = (ColumnFamilyId, Option<FlushWait>);

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

    fn run(self, shared: &Shared) -> (Result<FlushEvent>, Self::Claim) {
        let (family, immutables) = (&self.family, &self.immutables);
        let snapshots = shared.pins.snapshots.sequences();
        let memtables = immutables.iter().map(|i| Arc::clone(&i.memtable));
        let memtables: Vec<_> = memtables.collect();
        let written = || bytes_of_flush(family, &memtables, snapshots);
        let room = shared.check_room_for_flush(&family.name, immutables, written);
        let (outcome, need) = match room {
            Err((error, need)) => (Err(error), Some(need)),
            Ok(()) => (shared.flush_and_install(family, immutables), None),
        };
        let no_room = outcome.as_ref().err();
        let wait = no_room
            .filter(|e| e.kind() == ErrorKind::NoSpace)
            .map(|e| shared.flush_wait(immutables.len(), e, need));
        (outcome, (family.id, wait))
    }

    fn release((family, wait): Self::Claim, _: &Result<FlushEvent>, state: &mut State) {
        if let Some(family) = state.families.get_mut(&family) {
            family.jobs.flush_wait = wait;
        }
    }

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
    /// Number of the oldest memtables that these are.
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
