//! Running compactions: those that the picker finds due, and those that users ask for.

use std::ops::Bound;
use std::sync::Arc;

use super::core::Shared;
use super::family::{Family, dropped};
use super::running::{Running, RunningJob};
use super::yielding::YieldsToReads;
use crate::compaction::CompactRangeOptions;
use crate::compaction::job::{self, CompactionResult, JobContext};
use crate::compaction::levels::LevelTargets;
use crate::compaction::picker::{Compaction, pick_range};
use crate::error::{ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::stats::{self, CompactionEvent};

impl Shared {
    /// Runs a compaction that the caller has counted as running, and installs it.
    pub(super) fn run_compaction(
        &self,
        family: &Arc<Family>,
        compaction: Compaction,
        yields: &YieldsToReads<'_>,
    ) -> Result<()> {
        let _running = Running::counted(self, family.id, RunningJob::Compaction);
        let outcome = self
            .compact_and_install(family, &compaction, yields)
            .map_err(|e| match e.kind() {
                ErrorKind::Closed => e,
                _ if family.is_dropped() => e,
                // Before the job counts as done, so that no job starts on what failed.
                _ => {
                    let doing = format!("compacting column family {}", family.name);
                    self.failure.set(self, e.context(doing))
                }
            });
        let event_inputs = compaction.input_numbers();
        let output_level = compaction.output_level;
        let marks = compaction.into_marks();
        let state = self.state.lock();
        // The inputs are released under the state lock, which the picker holds.
        drop(marks);
        self.update_stalls(state);
        self.work.notify_all();
        let result = outcome?;
        let moved = result.edit.new_files.iter().map(|(_, f)| f.number);
        let event = CompactionEvent {
            column_family: family.id,
            inputs: event_inputs,
            output_level,
            outputs: moved.collect(),
            bytes_read: result.bytes_read,
            bytes_written: result.output.table_bytes(),
            blob_files: result.output.blob_numbers(),
        };
        self.listeners.notify(|l| l.compaction_finished(&event));
        Ok(())
    }

    fn compact_and_install(
        &self,
        family: &Family,
        compaction: &Compaction,
        yields: &YieldsToReads<'_>,
    ) -> Result<CompactionResult> {
        let context = JobContext {
            env: &self.rewriting_env(),
            family: &family.output(),
            open_files: &self.open_files,
            // MUTANT: a compaction drops versions of keys that snapshots see.
            snapshots: if mutant!(
                "compaction-ignores-snapshots",
                "-p titan-campaigns --test it metamorphic::"
            ) {
                Vec::new()
            } else {
                self.snapshots.sequences()
            },
            cancel: &self.closing,
            yield_to_reads: &|| yields.yield_to_reads(),
        };
        let result = job::run(compaction, context);
        // Flushes wait for what follows.
        yields.hurry();
        let result = result?;
        let mut versions = self.versions.lock();
        if versions.family(family.id).is_none() {
            self.env.discard(&result.output.files());
            return Err(dropped(&family.name));
        }
        versions.apply(result.edit.clone())?;
        self.install(&versions, &[family.id], |_| {});
        drop(versions);
        let counters = &self.statistics;
        if result.trivial_move {
            stats::add(&counters.trivial_moves, 1);
        } else {
            stats::add(&counters.compactions, 1);
            stats::add(&counters.compaction_read_bytes, result.bytes_read);
            stats::add(&counters.compaction_sst_bytes, result.output.table_bytes());
            stats::add(&counters.compaction_blob_bytes, result.output.blob_bytes());
        }
        Ok(result)
    }

    /// See [`ColumnFamily::compact_range`](crate::ColumnFamily::compact_range).
    pub(super) fn compact_range(
        &self,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.flush(&[family.id])?;
        let claim = self.claim_for_manual(family)?;
        let end = end.map_or(Bound::Unbounded, Bound::Included);
        let outcome = self.compact_levels(family, begin, end, options);
        // Before another compaction of the family may start, so that the effects of one are seen
        // before those of the next.
        self.purge();
        drop(claim);
        outcome
    }

    /// Waits until no compaction of the family runs, and keeps others from starting.
    fn claim_for_manual(&self, family: &Family) -> Result<ManualClaim<'_>> {
        let _awaits = self.awaits_jobs();
        let mut state = self.state.lock();
        loop {
            self.check_open()?;
            self.failure.check()?;
            let Some(claimed) = state.families.get_mut(&family.id) else {
                return Err(dropped(&family.name));
            };
            if !claimed.manual_compaction {
                claimed.manual_compaction = true;
                break;
            }
            self.progress.wait(&mut state);
        }
        let claim = ManualClaim {
            shared: self,
            family: family.id,
        };
        while state
            .families
            .get(&family.id)
            .is_some_and(|f| f.running_compactions > 0)
        {
            self.progress.wait(&mut state);
        }
        Ok(claim)
    }

    fn compact_levels(
        &self,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Bound<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let (last, base) = {
            let state = self.state.lock();
            let Some(f) = state.families.get(&family.id) else {
                return Err(dropped(&family.name));
            };
            let base = LevelTargets::of(&f.version, &family.options).base_level;
            let deepest = (0..f.version.num_levels())
                .rfind(|&level| f.version.has_overlapping(level, begin, end));
            (deepest.unwrap_or(0).max(base), base)
        };
        for level in 0..last {
            let output_level = if level == 0 { base } else { level + 1 };
            self.compact_one(family, level, output_level, begin, end, false)?;
        }
        if options.force_bottommost {
            self.compact_one(family, last, last, begin, end, true)?;
        }
        Ok(())
    }

    fn compact_one(
        &self,
        family: &Arc<Family>,
        level: usize,
        output_level: usize,
        begin: Option<&[u8]>,
        end: Bound<&[u8]>,
        force_rewrite: bool,
    ) -> Result<()> {
        self.failure.check()?;
        let picked = {
            let mut state = self.state.lock();
            // Under the lock: closing waits for the jobs that it finds counted.
            self.check_open()?;
            let state = &mut *state;
            let Some(f) = state.families.get_mut(&family.id) else {
                return Err(dropped(&family.name));
            };
            let picked = pick_range(&f.version, level, output_level, begin, end);
            if picked.is_some() {
                RunningJob::Compaction.count(f, &mut state.running);
            }
            picked
        };
        match picked {
            Some(mut compaction) => {
                compaction.force_rewrite = force_rewrite;
                self.run_compaction(family, compaction, &YieldsToReads::never())
            }
            None => Ok(()),
        }
    }
}

/// A manual compaction owns the family until this is dropped: no other is picked.
struct ManualClaim<'a> {
    shared: &'a Shared,
    family: ColumnFamilyId,
}

impl Drop for ManualClaim<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if let Some(family) = state.families.get_mut(&self.family) {
            family.manual_compaction = false;
        }
        self.shared.progress.notify_all();
        self.shared.work.notify_all();
    }
}
