//! Running compactions: those that the picker finds due, and those that users ask for.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::job::{Claimed, Job, JobSource, claimed};
use crate::compaction::CompactRangeOptions;
use crate::compaction::building::filter::Filtering;
use crate::compaction::building::inputs::{Compaction, InputMarks};
use crate::compaction::building::job::{self, JobContext};
use crate::compaction::choosing::aged_tables;
use crate::compaction::choosing::budget::Fitting;
use crate::compaction::choosing::levels::{Circumstances, LevelTargets};
use crate::compaction::choosing::picker::{self, pick_range};
use crate::compaction::choosing::tombstones::Droppable;
use crate::db::core::family::{Family, dropped};
use crate::db::core::room::LOOK_EACH;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::db::resources::yielding::YieldsToReads;
use crate::env::Threads;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::{FilterReason, check_may_wait_for_jobs};
use crate::format::ColumnFamilyId;
use crate::stats::{self, CompactionBeginEvent, CompactionEvent, HistogramKind, Listeners, notify};
use crate::sync::MutexGuard;
use crate::version::{TableFile, Version, VersionSet};

pub(super) const COMPACTIONS: JobSource = JobSource {
    threads: Threads::Workers,
    takes_long: true,
    is_due: |shared, state| shared.due_compaction(state).is_some(),
    claim: Shared::claim_compaction,
};

/// A compaction whose inputs are claimed.
pub(super) struct CompactionJob {
    pub(super) family: Arc<Family>,
    pub(super) compaction: Compaction,
    /// A caller waits for it.
    pub(super) is_manual: bool,
    /// Bytes that are promised to it on the device.
    pub(super) promised: u64,
}

/// Seconds after which a compaction is tried again that was made for the age of a table, and in
/// which the compaction filter has failed; or longer, if tables are revisited less often.
const MIN_RETRY: u64 = 60;

/// The longest wait for a table to become old enough. Shorter than that may be, so that steps of
/// the clock are noticed.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Claim of a compaction.
pub(super) struct CompactionClaim {
    family: ColumnFamilyId,
    marks: InputMarks,
    /// When to try again, in seconds since 1970, if the compaction filter has failed.
    again: Option<u64>,
    promised: u64,
    /// When it ended, by the steady clock.
    ended: Duration,
}

impl Job for CompactionJob {
    const DOING: &'static str = "compacting";
    const HISTOGRAM: Option<HistogramKind> = Some(HistogramKind::Compaction);
    type Done = CompactionEvent;
    type Claim = CompactionClaim;

    fn kind(&self) -> RunningJob {
        match self.is_manual {
            true => RunningJob::ManualCompaction,
            false => RunningJob::Compaction,
        }
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn announce(&self, listeners: &Listeners) {
        let event = CompactionBeginEvent {
            column_family: self.family.id,
            inputs: self.compaction.input_numbers(),
            output_level: self.compaction.output_level,
            is_manual: self.is_manual,
        };
        notify!(listeners, compaction_begun(&event));
    }

    fn run(self, shared: &Shared) -> (Result<CompactionEvent>, CompactionClaim) {
        let yields = match self.is_manual {
            true => YieldsToReads::never(),
            false => YieldsToReads::of_compaction(shared),
        };
        let outcome = shared.compact_and_install(&self.family, &self.compaction, &yields);
        let failed = outcome.as_ref().err().map(Error::kind) == Some(ErrorKind::CompactionFilter);
        let revisit = self.family.revisit.filter(|_| failed && !self.is_manual);
        let again = revisit.map(|revisit| {
            let wait = revisit.interval.as_secs().max(MIN_RETRY);
            shared.aged_at().saturating_add(wait)
        });
        let claim = CompactionClaim {
            family: self.family.id,
            marks: self.compaction.into_marks(),
            again,
            promised: self.promised,
            ended: shared.opening.clock.monotonic(),
        };
        (outcome, claim)
    }

    /// The picker reads the marks under the state lock.
    fn release(claim: CompactionClaim, outcome: &Result<CompactionEvent>, state: &mut State) {
        state.room.release(claim.promised);
        if let Some(family) = state.families.get_mut(&claim.family) {
            let wait = &mut family.jobs.compactions_wait;
            match outcome {
                Err(error)
                    if error.kind() == ErrorKind::NoSpace
                        && !mutant!(full_device_tried_at_once) =>
                {
                    wait.failed(claim.ended, error);
                }
                Ok(_) => wait.succeeded(),
                Err(_) => {}
            }
        }
        if let (Some(again), Some(family)) = (claim.again, state.families.get_mut(&claim.family)) {
            family.due.revisit_failed(again);
        }
        drop(claim.marks);
    }

    fn report(event: &CompactionEvent, listeners: &Listeners) {
        notify!(listeners, compaction_finished(event));
    }
}

impl Shared {
    /// Claims a compaction that is due.
    fn claim_compaction(&self, state: &mut State) -> Option<Claimed> {
        // One of several threads is always left for flushes, and for estimates, which are brief.
        let all = usize::from(mutant!(compactions_take_every_thread));
        let limit = (self.opening.options.load().max_background_jobs + all - 1).max(1);
        // Manual compactions run on their callers' threads. Those of dropped families count: they
        // still have a thread.
        if state.running.of(RunningJob::Compaction) >= limit {
            return None;
        }
        let (id, compaction, promised) = self.due_compaction(state)?;
        state.turn = ColumnFamilyId(id.0 + 1);
        state.room.promise(promised);
        state.begin(RunningJob::Compaction, id);
        let family = state.families.get(&id)?;
        Some(claimed(CompactionJob {
            family: Arc::clone(&family.family),
            compaction,
            is_manual: false,
            promised,
        }))
    }

    /// A compaction that is due and for which there is room, and the bytes that it needs. A family
    /// is evaluated again only after something has changed.
    fn due_compaction(&self, state: &mut State) -> Option<(ColumnFamilyId, Compaction, u64)> {
        let budget = state.room.budget;
        let of_all = Circumstances {
            // Where there is little room, a job that frees some is worth as much as in an idle
            // database.
            idle_cleanup: self.is_cleaning_up(state) || budget.is_short,
            oldest_snapshot: self.pins.snapshots.oldest(),
            garbage_moment: 0,
            long_dead_ranges: 0,
        };
        let circumstances_of = |family: &Family| Circumstances {
            garbage_moment: family.garbage_moment(),
            long_dead_ranges: family.dead.long_found(),
            ..of_all
        };
        let now = self.aged_at();
        let waiting = state.in_turn().filter(|f| {
            let wait = &f.jobs.compactions_wait;
            let (may_begin, lacked) = (wait.is_over(&state.room), wait.lack().is_some());
            let circumstances = circumstances_of(&f.family);
            !f.family.options().disable_auto_compactions
                && !f.jobs.ingesting
                && (!f.jobs.manual_compaction || mutant!(compaction_beside_a_manual_one))
                && f.due.may_be_some(circumstances, now, lacked && may_begin)
                && wait.may_try(&state.room)
        });
        let waiting: Vec<ColumnFamilyId> = waiting.map(|f| f.family.id).collect();
        waiting.into_iter().find_map(|id| {
            let family = state.families.get_mut(&id)?;
            let options = family.family.options();
            let circumstances = circumstances_of(&family.family);
            let base = LevelTargets::of(&family.version, &options).base_level;
            let mut fitting = Fitting::new(budget, &options, circumstances);
            let picked = picker::pick(&family.version, &options, circumstances, &mut fitting);
            let picked = picked.or_else(|| {
                let (version, dead) = (&family.version, &family.family.dead);
                let pick = || Droppable::of(version, base, circumstances, dead).pick(&options);
                fitting.admit(circumstances.idle_cleanup.then(pick).flatten()?)
            });
            let picked = picked.or_else(|| {
                let revisit = family.family.revisit?;
                let aged = || aged_tables::pick(&family.version, &options, base, revisit, now);
                let aged = family.due.may_revisit(now).then(aged).flatten();
                fitting.admit(aged?)
            });
            let lack = fitting.lack().filter(|_| picked.is_none());
            match (&picked, lack) {
                // The compaction that found the device full is not due any more.
                (None, None) => family.jobs.compactions_wait.succeeded(),
                _ => {
                    let wait = &mut family.jobs.compactions_wait;
                    let is_new = lack.is_some() && wait.lack().is_none();
                    wait.lacks(lack);
                    if is_new && !mutant!(writer_not_told_that_room_is_lacking) {
                        // A writer may wait for this compaction, and gets an error now.
                        self.signals.progress.raise();
                    }
                }
            }
            match picked {
                Some(_) => family.due.is_some(),
                None => {
                    let revisit = family.family.revisit;
                    let aged_at = revisit.and_then(|r| aged_tables::first_due(&family.version, r));
                    // Tables that are due and were not picked are being compacted: the end of that
                    // job counts.
                    let aged_at = aged_at.map(|at| at.max(now + 1));
                    family.due.none_under(circumstances, aged_at);
                }
            }
            let picked = picked?;
            let need = fitting.need(&picked);
            Some((id, picked, need.written))
        })
    }

    /// For how long nothing becomes due by the passing of time alone; `None` for ever. Jobs that
    /// lack room are looked at now and then.
    pub(super) fn time_to_next_look(&self, state: &State) -> Option<Duration> {
        if state.lacks_room() {
            return Some(LOOK_EACH);
        }
        let families = state.families.values();
        let next = families.flat_map(|f| [f.due.aged_at(), f.memtable_aged_at()]);
        let next = next.flatten().min()?;
        let left = Duration::from_secs(next.saturating_sub(self.aged_at()).max(1));
        Some(left.min(MAX_WAIT))
    }

    fn compact_and_install(
        &self,
        family: &Family,
        compaction: &Compaction,
        yields: &YieldsToReads<'_>,
    ) -> Result<CompactionEvent> {
        let output = family.output();
        let due = output.options.level0_file_num_compaction_trigger;
        let env = self.rewriting_env();
        let yield_to_reads = || match level0_has_grown(family, compaction, due) {
            true => yields.hurry(),
            false => yields.yield_to_reads(),
        };
        let run = |filtering: &Filtering| {
            let context = JobContext {
                env: &env,
                family: &output,
                open_files: &self.files.open,
                snapshots: if mutant!(compaction_ignores_snapshots) {
                    Vec::new()
                } else {
                    self.pins.snapshots.sequences()
                },
                cancel: self.lifecycle.closed(),
                yield_to_reads: &yield_to_reads,
                filtering: Some(filtering),
            };
            gate!("compaction: snapshots listed");
            job::run(compaction, context)
        };
        let mut filtering = self.filtering(family, compaction.reason);
        let mut result = run(&filtering);
        if self.is_failed_filter(&result) && compaction.reason == FilterReason::Automatic {
            // The tree must not wait for it. The entries stay, and later compactions ask again.
            if !mutant!(failed_filter_stops_compactions) {
                filtering.asks = false;
                result = run(&filtering);
            }
        }
        // Flushes wait for what follows.
        yields.hurry();
        let result = result?;
        gate!("compaction: written");
        let outputs = result.output.files();
        let prepare = |_: &VersionSet| Some((vec![result.edit.clone()], ()));
        self.install(&[family], &outputs, prepare, |_, ()| {})?;
        let counters = &self.opening.statistics;
        if result.trivial_move {
            stats::add(&counters.trivial_moves, 1);
        } else {
            stats::add(&counters.compactions, 1);
            stats::add(&counters.compaction_read_bytes, result.bytes_read);
            stats::add(&counters.compaction_sst_bytes, result.output.table_bytes());
            stats::add(&counters.compaction_blob_bytes, result.output.blob_bytes());
        }
        self.count_filtered(&result.output.filtered);
        self.report_collectors(&result.output);
        let outputs = result.edit.new_files.iter().map(|(_, f)| f.number);
        Ok(CompactionEvent {
            column_family: family.id,
            inputs: compaction.input_numbers(),
            output_level: compaction.output_level,
            outputs: outputs.collect(),
            bytes_read: result.bytes_read,
            bytes_written: result.output.table_bytes(),
            blob_files: result.output.blob_numbers(),
        })
    }

    /// See [`ColumnFamily::compact_range`](crate::ColumnFamily::compact_range).
    pub(crate) fn compact_range(
        &self,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        check_may_wait_for_jobs()?;
        if let (Some(begin), Some(end)) = (begin, end)
            && family.comparator.compare_user(begin, end).is_gt()
        {
            return Err(Error::invalid_argument(
                "a range to be compacted ends before it begins",
            ));
        }
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
    pub(crate) fn claim_for_manual(&self, family: &Family) -> Result<ManualClaim<'_>> {
        let _awaits = self.admission.awaits_jobs(&self.signals);
        loop {
            let seen = self.signals.progress.seen();
            self.check_open()?;
            self.check_not_stopped()?;
            let mut state = self.state.lock();
            let Some(claimed) = state.families.get_mut(&family.id) else {
                return Err(dropped(&family.name));
            };
            if !claimed.jobs.manual_compaction {
                claimed.jobs.manual_compaction = true;
                break;
            }
            drop(state);
            self.signals.progress.wait(seen);
        }
        let claim = ManualClaim {
            shared: self,
            family: family.id,
        };
        loop {
            let seen = self.signals.progress.seen();
            let running = |f: &FamilyState| f.jobs.compactions > 0;
            let state = self.state.lock();
            if !state.families.get(&family.id).is_some_and(running) {
                break;
            }
            drop(state);
            self.signals.progress.wait(seen);
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
        let made_since = self.counters.next_file_number();
        let last = {
            let state = self.state.lock();
            let Some(f) = state.families.get(&family.id) else {
                return Err(dropped(&family.name));
            };
            let base = LevelTargets::of(&f.version, &family.options()).base_level;
            let deepest = (0..f.version.num_levels())
                .rfind(|&level| f.version.has_overlapping(level, begin, end));
            deepest.unwrap_or(0).max(base)
        };
        gate!("manual compaction: last level chosen");
        for level in 0..last {
            // Level 0 may not pass files that were ingested above the last level meanwhile.
            let pick = |version: &Arc<Version>| {
                let base = || LevelTargets::of(version, &family.options()).base_level;
                let output_level = if level == 0 { base() } else { level + 1 };
                pick_range(version, level, output_level, begin, end)
            };
            self.compact_one(family, pick)?;
        }
        if options.force_bottommost {
            let pick = |version: &Arc<Version>| {
                let picked = pick_range(version, last, last, begin, end)?;
                Some(picked.forced(FilterReason::Manual))
            };
            self.compact_one(family, pick)?;
            return Ok(());
        }
        // Changes that rewriting makes now and did not make when the table was written. Tables that
        // were written just now have been through it; moved ones have not.
        let options = family.options();
        let filters = options.compaction_filter.is_some() && !mutant!(last_level_not_filtered);
        let inlines = !options.enable_blob_files;
        let wanted =
            |table: &TableFile| filters || inlines && table.meta.oldest_blob_file.is_some();
        let pick = |version: &Arc<Version>| {
            picker::pick_older(version, last, begin, end, made_since, wanted)
        };
        while self.compact_one(family, pick)? {}
        Ok(())
    }

    /// Runs the compaction that `pick` returns, if any; returns whether there was one.
    pub(super) fn compact_one(
        &self,
        family: &Arc<Family>,
        pick: impl FnOnce(&Arc<Version>) -> Option<Compaction>,
    ) -> Result<bool> {
        let picked = {
            let mut state = self.state_without_ingestion(family)?;
            let Some(f) = state.families.get(&family.id) else {
                return Err(dropped(&family.name));
            };
            let picked = pick(&f.version);
            if picked.is_some() {
                state.begin(RunningJob::ManualCompaction, family.id);
            }
            picked
        };
        let Some(mut compaction) = picked else {
            return Ok(false);
        };
        compaction.reason = FilterReason::Manual;
        self.run_job(CompactionJob {
            family: Arc::clone(family),
            compaction,
            is_manual: true,
            promised: 0,
        })?;
        Ok(true)
    }
}

impl Shared {
    /// The state, once no files are being installed in the family.
    fn state_without_ingestion(&self, family: &Family) -> Result<MutexGuard<'_, State>> {
        loop {
            let seen = self.signals.progress.seen();
            let state = self.state.lock();
            // Under the lock: closing and resuming wait for the jobs that they find counted.
            self.check_open()?;
            self.check_not_stopped()?;
            let ingesting = |f: &FamilyState| f.jobs.ingesting;
            if !state.families.get(&family.id).is_some_and(ingesting) {
                return Ok(state);
            }
            drop(state);
            gate!("compaction: ingestion waited for");
            self.signals.progress.wait(seen);
        }
    }
}

/// Whether the compaction is one of level 0, and that has more tables than made it due. Every read
/// visits each of them, so it does not yield to reads then.
fn level0_has_grown(family: &Family, compaction: &Compaction, due: usize) -> bool {
    let tables = || family.super_version.load().version.level(0).len();
    compaction.start_level == 0 && tables() > due
}

/// A manual compaction owns the family until this is dropped: no other is picked.
pub(crate) struct ManualClaim<'a> {
    shared: &'a Shared,
    family: ColumnFamilyId,
}

impl Drop for ManualClaim<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if let Some(family) = state.families.get_mut(&self.family) {
            family.jobs.manual_compaction = false;
        }
        drop(state);
        self.shared.signals.progress.raise();
        self.shared.signals.work.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::choosing::budget::Budget;
    use crate::{Db, Options};

    /// A stopped writer gets an error as soon as the compaction for which it waits lacks room.
    #[test]
    fn a_writer_that_waits_is_woken_when_a_compaction_lacks_room() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.default.disable_auto_compactions = true;
        options.default.level0_file_num_compaction_trigger = 2;
        let db = Db::open(dir.path(), &options).unwrap();
        for round in 0..3 {
            db.put(b"a", &[7; 1000]).unwrap();
            db.put(b"z", &[7; 1000]).unwrap();
            db.flush().unwrap();
            if round == 0 {
                // Fills a level to which no table of level 0 can be moved as it is.
                db.compact_range(None, None, &CompactRangeOptions::default())
                    .unwrap();
            }
        }
        let shared = &db.core.shared;
        // So that the threads find nothing to compact.
        let claimed = |state: &mut State, is: bool| {
            let family = state.families.get_mut(&ColumnFamilyId::DEFAULT).unwrap();
            family.jobs.manual_compaction = is;
        };
        claimed(&mut shared.state.lock(), true);
        db.set_options(&[("disable_auto_compactions", "false")])
            .unwrap();
        let mut state = shared.state.lock();
        claimed(&mut state, false);
        state.room.budget = Budget {
            available: 0,
            any: 0,
            freeing: 0,
            is_short: true,
        };
        for is_new in [true, false] {
            let seen = shared.signals.progress.seen();
            assert!(shared.due_compaction(&mut state).is_none());
            let wait = &state.families[&ColumnFamilyId::DEFAULT]
                .jobs
                .compactions_wait;
            assert!(wait.lack().is_some());
            // Not each time: `wait_idle` looks again after each.
            assert_eq!(shared.signals.progress.is_raised_since(seen), is_new);
        }
        claimed(&mut state, true);
    }

    #[test]
    fn a_compaction_of_level_0_hurries_once_a_further_table_comes() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.default.disable_auto_compactions = true;
        let db = Db::open(dir.path(), &options).unwrap();
        let write = || {
            db.put(b"a", b"1").unwrap();
            db.put(b"z", b"1").unwrap();
            db.flush().unwrap();
        };
        write();
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        write();
        write();
        let family = db.core.shared.family(ColumnFamilyId::DEFAULT).unwrap();
        let version = || Arc::clone(&family.super_version.load().version);
        let last = version().num_levels() - 1;
        let pick = |level| pick_range(&version(), level, last, None, Bound::Unbounded).unwrap();
        let of_level0 = pick(0);
        assert!(!level0_has_grown(&family, &of_level0, 2));
        write();
        assert!(level0_has_grown(&family, &of_level0, 2));
        drop(of_level0);
        let of_last = pick(last);
        assert!(!level0_has_grown(&family, &of_last, 2));
    }
}
