//! Idle cleanup: when no user has written to any database of the `Env` for some seconds, or to this
//! one for a minute, memtables that shadow much or have many tombstones are flushed, shadowed data
//! is found down to a small part, and its garbage is then collected like any other; and tombstones
//! are compacted away. So an idle database takes no more space than it needs, and its iterators do
//! not step over deleted entries.

use std::sync::Arc;
use std::time::Duration;

use super::estimate::{Estimate, may_shadow};
use crate::compaction::choosing::levels::{
    Circumstances, IDLE_SHADOWED_SHARE, LevelTargets, ShadowedData,
};
use crate::compaction::choosing::tombstones::{Droppable, are_many};
use crate::db::core::family::Family;
use crate::db::core::idle::{IDLE_AFTER, Idle};
use crate::db::core::room::LOOK_EACH;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::panics::contain;
use crate::sync::MutexGuard;

impl Shared {
    /// Idle from now on.
    pub(super) fn idle(&self) -> Idle {
        let now = self.opening.clock.monotonic();
        Idle {
            since: now,
            own_since: now,
            writes: self.opening.env.parts().activity.writes(),
            last_sequence: self.counters.last_sequence(),
        }
    }

    /// Looks whether there is something to clean up when iterators have met a long dead range.
    pub(crate) fn heed_dead_ranges_of(&self, family: &Family) {
        let signals = Arc::clone(&self.signals);
        family.dead.on_long(move || {
            signals.collector.raise();
            signals.work.raise();
        });
    }

    /// Evaluates the families again, since the end of a version may have changed them, and notifies
    /// listeners.
    pub(super) fn heed_ended_versions(&self) {
        if self.signals.has_ended_version() {
            self.update_stalls(self.state.lock());
        }
    }

    /// Makes due the jobs that clean up, if the database is idle. Returns after how long it may be
    /// idle, or there may be something to collect, in real time; `None` if that will be told.
    pub(super) fn clean_up_if_idle(&self, mut state: MutexGuard<'_, State>) -> Option<Duration> {
        let look_for_room = state.lacks_room().then_some(LOOK_EACH);
        for family in state.families.values() {
            let memtable = &family.memtable;
            let alarm = memtable.tombstone_alarm();
            alarm.set_unless(|| memtable.has_many_tombstones());
        }
        let mut families = state.families.values();
        if !families.any(|f| f.family.collects_by_itself() || f.may_drop_tombstones()) {
            return look_for_room;
        }
        let (now, seen) = (self.idle(), state.idle);
        let wrote = now.last_sequence != seen.last_sequence;
        state.idle = now.after(&seen);
        let is_idle = state.idle.is_over(now.since);
        let oldest_snapshot = self.pins.snapshots.oldest();
        let needed = |f: &FamilyState| needs_cleanup(f, oldest_snapshot);
        // Looks at tables, under the lock: in vain while users write.
        let needed = !wrote && !self.is_cleaning_up(&state) && state.families.values().any(needed);
        if !needed && !wrote {
            // Before the state lock is released: a job that ends after this evaluation must find
            // that the thread waits, and wake it.
            let too_late = mutant!(collector_waits_before_it_says_so);
            if !too_late {
                self.signals.await_write();
            }
            drop(state);
            gate!("collector: nothing to do");
            if too_late {
                self.signals.await_write();
            }
            return match self.counters.last_sequence() == now.last_sequence {
                true => look_for_room,
                false => Some(Duration::ZERO),
            };
        }
        drop(state);
        // A comparator may panic: that concerns no data.
        if needed && is_idle && contain(|| self.clean_up()) == Ok(true) {
            return Some(Duration::ZERO);
        }
        Some(self.opening.clock.begin_wait(IDLE_AFTER / 2))
    }

    /// Whether compactions look for shadowed data down to a small part.
    pub(super) fn is_cleaning_up(&self, state: &State) -> bool {
        state.idle_cleanup == Some(self.counters.last_sequence())
    }

    /// Makes due the jobs that clean up, unless a commit is under way: that may wait, and this
    /// thread serves others. Returns whether it did.
    fn clean_up(&self) -> bool {
        let last_sequence = self.counters.last_sequence();
        let (tombstones, estimates) = {
            let state = self.state.lock();
            let compacted = state.families.values();
            let compacted = compacted.filter(|f| f.family.compacts_by_itself());
            let tombstones = compacted.filter(|f| f.memtable.has_many_tombstones());
            let tombstones: Vec<ColumnFamilyId> = tombstones.map(|f| f.family.id).collect();
            let waiting = state.families.values();
            let waiting = waiting.filter(|f| f.family.collects_by_itself() && may_shadow(f));
            let estimate = |f: &FamilyState| {
                (
                    f.family.id,
                    Estimate::at(f),
                    f.version.blob_files.live_bytes(),
                )
            };
            let estimates: Vec<(ColumnFamilyId, Estimate, u64)> = waiting.map(estimate).collect();
            (tombstones, estimates)
        };
        let part = if mutant!(idle_cleanup_overlooks_memtables) {
            2.0
        } else {
            IDLE_SHADOWED_SHARE
        };
        let shadows_much = |estimate: &Estimate, live: u64| {
            self.try_estimate(estimate) as f64 >= live as f64 * part
        };
        let shadowing = estimates
            .iter()
            .filter(|(_, estimate, live)| shadows_much(estimate, *live));
        let ids: Vec<ColumnFamilyId> = shadowing.map(|(id, ..)| *id).chain(tombstones).collect();
        drop(estimates);
        let switched = self.pipeline.try_exclusive(|lead| {
            self.check_open()?;
            self.check_not_stopped()?;
            self.switch_memtables(lead, &ids)
        });
        // Where switching fails, the database is closed, writes have stopped, or a file cannot be
        // made now.
        if !matches!(switched, Some(Ok(_))) {
            return false;
        }
        self.state.lock().idle_cleanup = Some(last_sequence);
        self.signals.work.raise();
        true
    }
}

/// Whether a family may take more space than it would after idle cleanup.
fn needs_cleanup(family: &FamilyState, oldest_snapshot: Option<SequenceNumber>) -> bool {
    if !family.family.compacts_by_itself() {
        return false;
    }
    let options = &family.family.options();
    let after_cleanup = Circumstances {
        idle_cleanup: true,
        oldest_snapshot,
        garbage_moment: family.family.garbage_moment(),
        long_dead_ranges: family.family.dead.long_found(),
    };
    let version = &family.version;
    // Only an estimate can tell what a memtable shadows.
    let is_shadowed =
        || may_shadow(family) || ShadowedData::of(version, options, after_cleanup).is_too_much();
    let has_tombstones = || {
        let base = LevelTargets::of(version, options).base_level;
        let dead = &family.family.dead;
        Droppable::of(version, base, after_cleanup, dead).is_any()
    };
    family.family.collects_by_itself() && is_shadowed()
        || family.memtable.has_many_tombstones()
        || has_tombstones()
}

impl FamilyState {
    /// Whether it has so many tombstones and old versions of keys, or iterators have met so many
    /// tombstones, that some may be dropped once the database is idle.
    pub(crate) fn may_drop_tombstones(&self) -> bool {
        let has_many = || {
            let met = self.family.dead.long_found() > 0;
            met || self.memtable.has_many_tombstones()
                || are_many(&self.version, self.version.droppable())
        };
        self.family.compacts_by_itself() && has_many()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use crate::{Db, Options};

    /// The thread that cleans up collects the garbage of all databases of an `Env`.
    #[test]
    fn cleaning_up_does_not_wait_for_a_commit() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let clean_up = || {
            let shared = Arc::clone(&db.core.shared);
            let (tell, told) = mpsc::channel();
            thread::spawn(move || tell.send(shared.clean_up()));
            told.recv_timeout(Duration::from_secs(60))
        };
        // Nobody leads the queue for longer than a barrier.
        assert_eq!(db.barrier(|_| clean_up()).unwrap(), Ok(false));
        assert_eq!(clean_up(), Ok(true));
    }

    #[test]
    fn writes_are_stalled_no_longer_than_until_a_version_ends() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let shared = &db.core.shared;
        let excess = || shared.state.lock().stalls.space_excess;
        shared.update_stalls(shared.state.lock());
        let usual = excess();
        {
            // As it was while the version pinned garbage.
            shared.state.lock().stalls.space_excess = usual + 1.0;
        }
        shared.signals.version_ended();
        db.wait_idle().unwrap();
        assert_eq!(excess(), usual);
    }
}
