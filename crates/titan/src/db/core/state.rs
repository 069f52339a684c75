//! State that the state lock guards.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::due_compactions::DueCompactions;
use super::family::Family;
use super::idle::Idle;
use super::recent_writes::RecentWrites;
use super::room::{FlushWait, Room, RoomWait};
use super::running_jobs::{RunningCounts, RunningJob};
use super::stall_notifier::StallNotifier;
use crate::compaction::choosing::levels::LevelTargets;
use crate::compaction::choosing::tombstones::that_free_much;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber, total};
use crate::gc::rate::{FreeingRate, must_delay_writes};
use crate::gc::selection::{Exclusions, GarbageEvaluation, Urgency};
use crate::gc::space::{Bound, Space};
use crate::memtable::Memtable;
use crate::number_map::NumberMap;
use crate::read::SuperVersion;
use crate::stats::{StallCause, StallEvent};
use crate::version::Version;

/// A full memtable that waits for its flush.
#[derive(Clone)]
pub(crate) struct Immutable {
    pub(crate) memtable: Arc<Memtable>,
    /// The oldest WAL file with operations in it.
    pub(crate) log_number: FileNumber,
}

/// State of a family for background jobs.
pub(crate) struct FamilyState {
    pub(crate) family: Arc<Family>,
    pub(crate) memtable: Arc<Memtable>,
    /// The oldest WAL file with operations in the memtable, or an older one: the current one while
    /// the memtable is empty.
    pub(crate) memtable_log: FileNumber,
    /// Whether the memtables have operations that no WAL has.
    pub(crate) unlogged: bool,
    /// Oldest first.
    pub(crate) immutables: VecDeque<Immutable>,
    pub(crate) version: Arc<Version>,
    pub(crate) jobs: FamilyJobs,
    /// Blob files that are not to be collected.
    pub(crate) excluded: Arc<Exclusions>,
    /// Whether garbage is given back as holes: configured, and punching has freed space so far.
    pub(crate) punches_holes: bool,
    pub(crate) evaluation: Evaluation,
    pub(crate) due: DueCompactions,
    /// Stall of writes on account of this family.
    pub(crate) stall: StallEvent,
}

/// The jobs of a family that run now.
#[derive(Default)]
pub(crate) struct FamilyJobs {
    pub(crate) flushing: bool,
    pub(crate) compactions: usize,
    /// A manual compaction owns the family: no other is picked.
    pub(crate) manual_compaction: bool,
    /// Files are being installed: no compaction is picked.
    pub(crate) ingesting: bool,
    /// Set while its flush lacks room on the device.
    pub(crate) flush_wait: Option<FlushWait>,
    pub(crate) compactions_wait: RoomWait,
    pub(crate) collections_wait: RoomWait,
    /// Its tables have pointers that are to be counted.
    pub(crate) count_due: bool,
    /// Before this time, in seconds since 1970, the memtable is not switched because of its age.
    pub(crate) switch_not_before: u64,
}

/// Last evaluation of a family.
pub(crate) struct Evaluation {
    /// Whether this is of the current version, memtables and exclusions.
    is_current: bool,
    /// The state of the family's garbage; `None` if the family does not collect it.
    pub(crate) garbage: Option<GarbageEvaluation>,
    /// Stall of writes for memtables and levels.
    tree_stall: StallEvent,
}

impl FamilyState {
    /// With an empty memtable.
    pub(crate) fn new(
        family: Arc<Family>,
        memtable: Arc<Memtable>,
        memtable_log: FileNumber,
        version: Arc<Version>,
    ) -> Self {
        FamilyState {
            punches_holes: family.options().blob_garbage_collection_punch_holes,
            family,
            memtable,
            memtable_log,
            unlogged: false,
            immutables: VecDeque::new(),
            version,
            jobs: FamilyJobs::default(),
            excluded: Arc::default(),
            evaluation: Evaluation {
                is_current: false,
                garbage: None,
                tree_stall: StallEvent::Normal,
            },
            due: DueCompactions::default(),
            stall: StallEvent::Normal,
        }
    }

    /// An empty memtable for this family, with its options of now.
    pub(crate) fn fresh_memtable(&self) -> Arc<Memtable> {
        let (comparator, options) = (self.family.comparator.clone(), self.family.options());
        Memtable::new(comparator, options.write_buffer_size)
    }

    /// The oldest WAL file that replay would still need for this family.
    pub(crate) fn oldest_log_needed(&self) -> FileNumber {
        self.oldest_log_needed_after(0)
    }

    /// The same, once the `flushed` oldest immutable memtables are gone.
    pub(crate) fn oldest_log_needed_after(&self, flushed: usize) -> FileNumber {
        let oldest = self.immutables.get(flushed);
        oldest.map_or(self.memtable_log, |oldest| oldest.log_number)
    }

    /// Number of the oldest immutable memtables that may be flushed.
    pub(crate) fn flushable(&self, barrier: Option<&FlushBarrier>) -> usize {
        let Some(barrier) = barrier else {
            return self.immutables.len();
        };
        let newest = barrier.get(&self.family.id);
        if newest.is_none() && mutant!(barrier_only_for_its_families) {
            return self.immutables.len();
        }
        let is_newest = |i: &Immutable| newest.is_some_and(|m| Arc::ptr_eq(&i.memtable, m));
        self.immutables
            .iter()
            .position(is_newest)
            .map_or(0, |at| at + 1)
    }

    /// Publishes memtables and version to readers. To be called after every change of them. Returns
    /// the super version that it replaced: that may be the last holder of memtables and of an older
    /// version, and freeing them may take a while.
    #[must_use = "drop it after releasing the state lock"]
    pub(crate) fn publish(&self) -> Arc<SuperVersion> {
        invariant!(
            self.immutables.iter().is_sorted_by_key(|i| i.log_number)
                && self
                    .immutables
                    .back()
                    .is_none_or(|i| i.log_number <= self.memtable_log),
            "memtables of family {} are out of the order of their WAL files",
            self.family.id
        );
        invariant!(
            !self
                .immutables
                .iter()
                .any(|i| Arc::ptr_eq(&i.memtable, &self.memtable)),
            "family {} writes to a memtable that is immutable",
            self.family.id
        );
        invariant!(
            self.version.column_family == self.family.id,
            "family {} has a version of family {}",
            self.family.id,
            self.version.column_family
        );
        let immutables = self
            .immutables
            .iter()
            .rev()
            .map(|i| Arc::clone(&i.memtable))
            .collect();
        let before = self.family.super_version.load();
        let is_filtered = self.family.options().compaction_filter.is_some();
        let may_have_lost_values = is_filtered && !Arc::ptr_eq(&before.version, &self.version);
        self.family.super_version.swap(Arc::new(SuperVersion {
            memtable: Arc::clone(&self.memtable),
            immutables,
            version: Arc::clone(&self.version),
            generation: before.generation + u64::from(may_have_lost_values),
        }))
    }

    /// Bytes that the memtables have to be flushed, at most.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        total(self.memtables().map(|memtable| memtable.bytes_to_flush()))
    }

    fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        let immutables = self.immutables.iter().map(|i| &i.memtable);
        immutables.chain([&self.memtable])
    }

    /// Bytes of separated values that memtables shadow, as far as estimated.
    pub(crate) fn shadowed_by_memtables(&self) -> u64 {
        total(self.memtables().map(|memtable| memtable.shadowed_bytes()))
    }

    /// Deletions of keys in memtables, and of keys and ranges in tables.
    pub(crate) fn tombstones(&self) -> u64 {
        let deletes = self.memtables().map(|memtable| memtable.num_deletes());
        total(deletes).saturating_add(self.version.tombstones())
    }

    /// Notes that the family must be evaluated again.
    pub(crate) fn has_changed(&mut self) {
        self.evaluation.is_current = false;
        self.due.may_have_changed();
        self.jobs.collections_wait.lacks(None);
    }

    /// Urgency of collecting the family's garbage.
    pub(crate) fn collection_urgency(&self) -> Option<Urgency> {
        self.evaluation.garbage.and_then(|garbage| garbage.urgency)
    }

    /// Evaluates the family, if it has changed. Cost: that of a [`GarbageEvaluation`], and
    /// O(levels).
    fn evaluate(&mut self) {
        if self.evaluation.is_current {
            return;
        }
        let (version, options) = (&self.version, self.family.options());
        let alarm = self.memtable.tombstone_alarm();
        alarm.set_much(that_free_much(version));
        let collects = options.enable_blob_garbage_collection;
        let evaluate = || GarbageEvaluation::of(version, &options, &self.excluded);
        self.evaluation = Evaluation {
            is_current: true,
            garbage: collects.then(evaluate),
            tree_stall: self.evaluate_tree_stall(),
        };
    }

    /// Bytes that count towards the bound on space. Without compactions, shadowed data is never
    /// found, however long writes wait.
    fn bounded(&self) -> Option<Space> {
        if self.family.options().disable_auto_compactions {
            return None;
        }
        let garbage = self.evaluation.garbage.as_ref()?;
        Some(garbage.space.with_shadowed(self.shadowed_by_memtables()))
    }

    /// Stall of writes, depending on whether files take too much space.
    fn stall_where(&self, space_is_short: bool) -> StallEvent {
        let exceeds = |space: Space| space.exceeds(&self.family.options());
        match self.evaluation.tree_stall {
            StallEvent::Normal if space_is_short && self.bounded().is_some_and(exceeds) => {
                StallEvent::Delayed(StallCause::SpaceAmplification)
            }
            stall => stall,
        }
    }

    /// Whether level 0 is half way to where it delays writes.
    fn is_level0_long(&self) -> bool {
        let options = self.family.options();
        let due = options.level0_file_num_compaction_trigger;
        let slow = options.level0_slowdown_writes_trigger;
        let half_way = due.midpoint(slow).max(due + 1);
        !options.disable_auto_compactions && self.version.level(0).len() >= half_way
    }

    /// Whether a table in the last level may have entries that only snapshots see, or any table
    /// tombstones for them, and idle cleanup applies to the family.
    fn keeps_for_snapshots(&self) -> bool {
        let last = self.version.num_levels().saturating_sub(1);
        let shadows = self.family.collects_by_itself() && self.version.sums(last).shadowed > 0;
        shadows || self.may_drop_tombstones()
    }

    fn evaluate_tree_stall(&self) -> StallEvent {
        let options = self.family.options();
        let level0 = self.version.level(0).len();
        if self.immutables.len() >= options.max_write_buffer_number {
            return StallEvent::Stopped(StallCause::Memtables);
        }
        if options.disable_auto_compactions {
            return StallEvent::Normal;
        }
        if level0 >= options.level0_stop_writes_trigger {
            return StallEvent::Stopped(StallCause::Level0Files);
        }
        let targets = LevelTargets::of(&self.version, &options);
        let pending = targets.pending_bytes(&self.version, &options);
        if pending >= options.stop_pending_bytes() {
            return StallEvent::Stopped(StallCause::PendingCompactionBytes);
        }
        if level0 >= options.level0_slowdown_writes_trigger {
            return StallEvent::Delayed(StallCause::Level0Files);
        }
        if pending >= options.slowdown_pending_bytes() {
            return StallEvent::Delayed(StallCause::PendingCompactionBytes);
        }
        StallEvent::Normal
    }
}

/// A WAL file in the directory.
pub(crate) struct LiveWal {
    pub(crate) number: FileNumber,
    /// Bytes; those of the current file, as of when it was started.
    pub(crate) size: u64,
}

/// Why writes are delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delays {
    /// For memtables or levels of a family.
    pub(crate) for_tree: bool,
    /// For the space that files take.
    pub(crate) for_space: bool,
}

impl Delays {
    /// Adds the stall of a family.
    fn note(&mut self, stall: StallEvent) {
        match stall {
            StallEvent::Delayed(StallCause::SpaceAmplification) => self.for_space = true,
            StallEvent::Delayed(_) => self.for_tree = true,
            StallEvent::Normal | StallEvent::Stopped(_) => {}
        }
    }
}

/// The newest memtable of each family that may be flushed: newer ones wait.
pub(crate) type FlushBarrier = NumberMap<ColumnFamilyId, Arc<Memtable>>;

/// Guarded by the state lock.
pub(crate) struct State {
    pub(crate) families: NumberMap<ColumnFamilyId, FamilyState>,
    /// Oldest first; the last is current.
    pub(crate) wals: VecDeque<LiveWal>,
    pub(crate) running: RunningCounts,
    pub(crate) collections: Collections,
    /// Set by a checkpoint, so that the tables of all families are of one moment.
    pub(crate) flush_barrier: Option<FlushBarrier>,
    /// Idle cleanup: shadowed data is sought down to a small part, as long as nobody has written
    /// since.
    pub(crate) idle_cleanup: Option<SequenceNumber>,
    pub(crate) stalls: Stalls,
    pub(crate) room: Room,
    /// Whether a user writes.
    pub(crate) recent_writes: RecentWrites,
    /// Since when nobody does.
    pub(crate) idle: Idle,
    /// The family to consider first when a job is sought, so that none starves.
    pub(crate) turn: ColumnFamilyId,
    /// The kernel's cache is to be warmed up.
    pub(crate) warm_up_due: bool,
}

/// The garbage collections of all families.
#[derive(Default)]
pub(crate) struct Collections {
    /// Pauses of automatic garbage collection.
    pub(crate) pauses: usize,
    /// Calls that collect garbage of a range.
    pub(crate) manual: usize,
    /// Number of collections that have begun, for any reason.
    pub(crate) begun: u64,
    /// For how long the running collection has waited for its rate.
    pub(crate) waited_for_rate: Duration,
    /// Rate at which urgent collections have freed space.
    pub(crate) freeing: FreeingRate,
}

/// Stalls of writes on account of all families.
pub(crate) struct Stalls {
    /// The strongest stall.
    pub(crate) strongest: StallEvent,
    /// Why writes are delayed: different families may have different causes, and then both apply.
    pub(crate) delays: Delays,
    /// Excess of the files over their bound; see
    /// [`Bound::excess`](crate::gc::space::Bound::excess).
    pub(crate) space_excess: f64,
}

impl Default for Stalls {
    fn default() -> Self {
        Stalls {
            strongest: StallEvent::Normal,
            delays: Delays::default(),
            space_excess: 0.0,
        }
    }
}

impl State {
    /// Counts a job of a family as running.
    pub(crate) fn begin(&mut self, job: RunningJob, family: ColumnFamilyId) {
        let family = self.families.get_mut(&family);
        self.running.begin(job);
        match (job, family) {
            (RunningJob::Flush, Some(family)) => {
                invariant!(
                    !family.jobs.flushing,
                    "two flushes of family {} run at once",
                    family.family.id
                );
                family.jobs.flushing = true;
            }
            (job, Some(family)) if job.is_compaction() => {
                invariant!(
                    !family.jobs.manual_compaction || job == RunningJob::ManualCompaction,
                    "a compaction of family {} begins beside one that a user asked for",
                    family.family.id
                );
                family.jobs.compactions += 1;
            }
            _ => {}
        }
        if job.is_collection() {
            self.collections.begun += 1;
        }
    }

    /// Counts it as ended. The family may have been dropped meanwhile.
    pub(crate) fn end(&mut self, job: RunningJob, family: ColumnFamilyId) {
        let family = self.families.get_mut(&family);
        self.running.end(job);
        match (job, family) {
            (RunningJob::Flush, Some(family)) => {
                invariant!(
                    family.jobs.flushing,
                    "a flush of family {} ends that does not run",
                    family.family.id
                );
                family.jobs.flushing = false;
            }
            (job, Some(family)) if job.is_compaction() => {
                invariant!(
                    family.jobs.compactions > 0,
                    "a compaction of family {} ends that does not run",
                    family.family.id
                );
                family.jobs.compactions -= 1;
                // Its inputs may be taken again.
                family.due.may_have_changed();
            }
            _ => {}
        }
    }

    pub(crate) fn current_wal(&self) -> FileNumber {
        self.wals.back().map_or(FileNumber(0), |wal| wal.number)
    }

    /// The oldest WAL file that replay would still need, were it not for family `without`.
    pub(crate) fn oldest_log_needed(&self, without: Option<ColumnFamilyId>) -> FileNumber {
        self.families
            .values()
            .filter(|f| Some(f.family.id) != without)
            .map(FamilyState::oldest_log_needed)
            .min()
            .unwrap_or(self.current_wal())
    }

    /// The bound on the files of the families; `None` if none keeps to one. Cost: O(families), and
    /// an evaluation of those that have changed.
    pub(crate) fn bound(&mut self) -> Option<Bound> {
        let mut bound = None;
        for family in self.families.values_mut() {
            family.evaluate();
            if let Some(space) = family.bounded() {
                let bound = bound.get_or_insert_with(Bound::default);
                bound.add(&space, &family.family.options());
            }
        }
        bound
    }

    /// Evaluates the families that have changed, and with them how writes are stalled. Cost:
    /// O(families), and that of the families that have changed.
    pub(crate) fn evaluate(&mut self, notifier: &StallNotifier) {
        let bound = self.bound().unwrap_or_default();
        // Nothing is collected during a pause, however long writes wait.
        self.stalls.space_excess = match self.collections.pauses {
            0 => bound.excess(),
            _ => 0.0,
        };
        invariant!(
            !self.stalls.space_excess.is_nan(),
            "the excess of space is no number"
        );
        let space_is_short = must_delay_writes(self.stalls.space_excess);
        self.stalls.strongest = StallEvent::Normal;
        self.stalls.delays = Delays::default();
        for (id, family) in self.families.iter_mut() {
            let stall = family.stall_where(space_is_short);
            self.stalls.delays.note(stall);
            if stall != family.stall {
                family.stall = stall;
                notifier.push(*id, stall);
            }
            let last_counts = mutant!(weaker_stall_hides_the_stronger);
            self.stalls.strongest = match (self.stalls.strongest, stall) {
                (_, last) if last_counts && last != StallEvent::Normal => last,
                (StallEvent::Stopped(_), _) | (_, StallEvent::Normal) => self.stalls.strongest,
                (StallEvent::Delayed(_), StallEvent::Delayed(_)) => self.stalls.strongest,
                (_, stronger) => stronger,
            };
        }
    }

    /// Whether the garbage of any family must be collected to keep space bounded.
    pub(crate) fn is_collecting_urgent(&self) -> bool {
        let mut families = self.families.values();
        families.any(|f| f.collection_urgency() == Some(Urgency::High))
    }

    /// Whether any family has a memtable to flush.
    pub(crate) fn is_flush_due(&self) -> bool {
        self.families.values().any(|f| !f.immutables.is_empty())
    }

    /// Whether compactions of any family are so late that writes will soon be stalled.
    pub(crate) fn is_level0_long(&self) -> bool {
        self.families.values().any(FamilyState::is_level0_long)
    }

    /// Whether an idle database may have tombstones to drop.
    pub(crate) fn may_drop_tombstones(&self) -> bool {
        self.families.values().any(FamilyState::may_drop_tombstones)
    }

    /// Whether a table in the last level of any family has entries that only snapshots see.
    pub(crate) fn keeps_for_snapshots(&self) -> bool {
        self.families.values().any(FamilyState::keeps_for_snapshots)
    }

    /// Whether neither a collection runs nor collections are paused.
    fn may_collect(&self) -> bool {
        !self.running.is_collecting() && self.collections.pauses == 0
    }

    /// The next family whose pointers are to be counted, if that may begin now.
    pub(crate) fn to_count(&self) -> Option<&FamilyState> {
        let mut due = self.families.values().filter(|f| f.jobs.count_due);
        let overlooked = mutant!(pause_does_not_keep_from_counting);
        due.next().filter(|_| self.may_collect() || overlooked)
    }

    /// The family whose garbage is to be collected next, if that may begin now.
    pub(crate) fn to_collect(&self) -> Option<&FamilyState> {
        if !self.may_collect() {
            return None;
        }
        // The most urgent; of several, the first in turn.
        let mut due = self.in_turn().filter(|f| {
            f.collection_urgency().is_some() && f.jobs.collections_wait.is_over(&self.room)
        });
        let first = due.next()?;
        Some(due.fold(first, |most, family| {
            match family.collection_urgency() > most.collection_urgency() {
                true => family,
                false => most,
            }
        }))
    }

    /// The families, starting with the one whose turn it is.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = &FamilyState> {
        let turn = self.turn;
        self.families
            .range(turn..)
            .chain(self.families.range(..turn))
            .map(|(_, f)| f)
    }
}
