//! What the state lock guards.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::core::Shared;
use super::family::Family;
use super::running::RunningCounts;
use crate::compaction::levels::LevelTargets;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::gc::choose::{Exempt, Urgency, judge};
use crate::gc::pace::{FreeingRate, must_delay_writes};
use crate::memtable::Memtable;
use crate::read::SuperVersion;
use crate::stats::{StallCause, StallEvent};
use crate::version::{Version, VersionSet};

/// A full memtable that waits for its flush.
#[derive(Clone)]
pub(crate) struct Immutable {
    pub(crate) memtable: Arc<Memtable>,
    /// The oldest WAL file with operations in it.
    pub(crate) log_number: FileNumber,
}

/// What background work knows of a family.
pub(crate) struct FamilyState {
    pub(crate) family: Arc<Family>,
    pub(crate) memtable: Arc<Memtable>,
    /// The oldest WAL file with operations in the memtable, or before it: while it is empty, the
    /// current one.
    pub(crate) memtable_log: FileNumber,
    /// Whether the memtables hold operations that no WAL has.
    pub(crate) unlogged: bool,
    /// Oldest first.
    pub(crate) immutables: VecDeque<Immutable>,
    pub(crate) version: Arc<Version>,
    pub(crate) flushing: bool,
    pub(crate) running_compactions: usize,
    /// Blob files that are not to be collected.
    pub(crate) exempt: Exempt,
    /// Whether garbage is given back as holes: asked for, and not found to be in vain.
    pub(crate) punches_holes: bool,
    /// How urgent collecting is; as of the last change of files, or end of a version that held
    /// garbage, as is what follows.
    pub(crate) collection_urgency: Option<Urgency>,
    /// How far the family's files exceed their bound; see
    /// [`Space::excess`](crate::gc::space::Space::excess).
    pub(crate) space_excess: f64,
    /// A manual compaction owns the family: no other is picked.
    pub(crate) manual_compaction: bool,
    pub(crate) stall: StallEvent,
}

impl FamilyState {
    /// The oldest WAL file that replay would still need for this family.
    pub(crate) fn oldest_log_needed(&self) -> FileNumber {
        self.oldest_log_needed_after(0)
    }

    /// The same, once the `flushed` oldest immutable memtables are gone.
    pub(crate) fn oldest_log_needed_after(&self, flushed: usize) -> FileNumber {
        let oldest = self.immutables.get(flushed);
        oldest.map_or(self.memtable_log, |oldest| oldest.log_number)
    }

    /// How many of the immutable memtables, the oldest, may be flushed.
    pub(crate) fn flushable(&self, barrier: Option<&FlushBarrier>) -> usize {
        let Some(barrier) = barrier else {
            return self.immutables.len();
        };
        let newest = barrier.get(&self.family.id);
        let is_newest = |i: &Immutable| newest.is_some_and(|m| Arc::ptr_eq(&i.memtable, m));
        self.immutables
            .iter()
            .position(is_newest)
            .map_or(0, |at| at + 1)
    }

    /// Publishes memtables and version to readers. To be called after every change of them. Gives
    /// what it replaced: of an older version that may be the last holder, and none goes while the
    /// state is locked.
    #[must_use = "it is to go without the state lock"]
    pub(crate) fn publish(&self) -> Arc<SuperVersion> {
        let immutables = self
            .immutables
            .iter()
            .rev()
            .map(|i| Arc::clone(&i.memtable))
            .collect();
        self.family.super_version.swap(Arc::new(SuperVersion {
            memtable: Arc::clone(&self.memtable),
            immutables,
            version: Arc::clone(&self.version),
        }))
    }

    /// How writes should be held back now. `paused` says that nothing is collected however long
    /// they wait.
    pub(crate) fn judge_stall(&mut self, paused: bool) -> StallEvent {
        let options = &self.family.options;
        (self.space_excess, self.collection_urgency) = (0.0, None);
        // Without compactions there is no finding what is hidden, however long writes wait.
        if options.enable_blob_garbage_collection && !options.disable_auto_compactions && !paused {
            let judgement = judge(&self.version, options, &self.exempt);
            self.space_excess = judgement.space.excess(options);
            self.collection_urgency = judgement.urgency;
        }
        let stall = self.judge_tree();
        match stall {
            StallEvent::Normal if must_delay_writes(self.space_excess) => {
                StallEvent::Delayed(StallCause::SpaceAmplification)
            }
            stall => stall,
        }
    }

    /// How writes should be held back for memtables and levels.
    fn judge_tree(&self) -> StallEvent {
        let options = &self.family.options;
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
        let targets = LevelTargets::of(&self.version, options);
        let pending = targets.pending_bytes(&self.version, options);
        if pending >= options.hard_pending_compaction_bytes_limit {
            return StallEvent::Stopped(StallCause::PendingCompactionBytes);
        }
        if level0 >= options.level0_slowdown_writes_trigger {
            return StallEvent::Delayed(StallCause::Level0Files);
        }
        if pending >= options.soft_pending_compaction_bytes_limit {
            return StallEvent::Delayed(StallCause::PendingCompactionBytes);
        }
        StallEvent::Normal
    }
}

/// A WAL file in the directory.
pub(crate) struct LiveWal {
    pub(crate) number: FileNumber,
    /// Bytes; of the current file, as of when it was started.
    pub(crate) size: u64,
}

/// The newest memtable of each family that may be flushed: what is written later waits.
pub(crate) type FlushBarrier = BTreeMap<ColumnFamilyId, Arc<Memtable>>;

/// Guarded by the state lock.
pub(crate) struct State {
    pub(crate) families: BTreeMap<ColumnFamilyId, FamilyState>,
    /// Oldest first; the last is current.
    pub(crate) wals: VecDeque<LiveWal>,
    pub(crate) running: RunningCounts,
    /// Users who keep garbage from being collected by itself.
    pub(crate) collection_pauses: usize,
    /// Users who collect garbage of a range.
    pub(crate) manual_collections: usize,
    /// Set by a checkpoint, so that the tables of all families are of one moment.
    pub(crate) flush_barrier: Option<FlushBarrier>,
    /// Hidden garbage is sought down to a small part, as long as nobody has written since this.
    pub(crate) settling: Option<SequenceNumber>,
    /// A version has ended that held garbage: how writes are held back, and how urgent collecting
    /// is, is to be judged anew.
    pub(crate) version_ended: bool,
    /// How fast space has been freed where that was urgent.
    pub(crate) freeing: FreeingRate,
    /// The family looked at first when work is sought, so that none starves.
    pub(crate) turn: ColumnFamilyId,
}

impl Shared {
    /// Shows readers the current versions of families, all at once for those who have the state
    /// lock, after `change` has changed what else goes with each; nothing of those that were
    /// dropped. To be called for every family that an edit named. The version set is locked
    /// meanwhile, so that no older version follows a newer one.
    pub(super) fn install(
        &self,
        versions: &VersionSet,
        ids: &[ColumnFamilyId],
        mut change: impl FnMut(&mut FamilyState),
    ) {
        let mut replaced = Vec::new();
        let mut state = self.state.lock();
        for id in ids {
            if let (Some(family), Some(version)) =
                (state.families.get_mut(id), versions.current(*id))
            {
                change(family);
                family.version = version;
                replaced.push(family.publish());
            }
        }
        drop(state);
        // Not before: whoever waits for the end of an older version takes the state lock.
        drop(replaced);
    }
}

impl State {
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

    /// The strongest hold on writes over all families.
    pub(crate) fn stall(&self) -> StallEvent {
        let mut strongest = StallEvent::Normal;
        for family in self.families.values() {
            match (family.stall, strongest) {
                (StallEvent::Stopped(_), _) => return family.stall,
                (StallEvent::Delayed(_), StallEvent::Normal) => strongest = family.stall,
                _ => {}
            }
        }
        strongest
    }

    /// How far the files of the family that is worst exceed their bound.
    pub(crate) fn space_excess(&self) -> f64 {
        let excess = self.families.values().map(|f| f.space_excess);
        excess.fold(0.0, f64::max)
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
