//! Idle cleanup: when no user has written for some seconds, memtables that shadow much are flushed,
//! shadowed data is found down to a small part, and its garbage is then collected like any other.
//! So an idle database takes no more space than it needs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::core::Shared;
use super::estimate::{Estimate, may_shadow};
use super::room::LOOK_EACH;
use super::signals::Seen;
use super::state::{FamilyState, State};
use crate::compaction::levels::Circumstances;
use crate::compaction::levels::{IDLE_SHADOWED_SHARE, ShadowedData};
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::sync::MutexGuard;

/// The database is idle after so long without a write.
const IDLE_AFTER: Duration = Duration::from_secs(5);

/// Since when no user has written.
#[derive(Clone, Copy)]
pub(super) struct Idle {
    since: Duration,
    last_sequence: SequenceNumber,
}

impl Shared {
    /// Idle from now on.
    pub(super) fn idle(&self) -> Idle {
        Idle {
            since: self.context.clock.monotonic(),
            last_sequence: self.counters.last_sequence(),
        }
    }

    /// Evaluates again what the end of a version may have changed, and notifies listeners.
    pub(super) fn heed_ended_versions(&self) {
        if self.signals.has_ended_version() {
            self.update_stalls(self.state.lock());
        }
    }

    /// Waits until there may be something to collect, or until the database is idle and there is
    /// something to clean up, which is then made due. `seen` was read before the caller looked for
    /// something to collect.
    pub(super) fn wait_or_clean_up(
        &self,
        state: MutexGuard<'_, State>,
        seen: Seen,
        idle: &mut Idle,
    ) {
        let collector = &self.signals.collector;
        let lacks_room = state.lacks_room();
        let wait = || match lacks_room {
            true => collector.wait_for(seen, LOOK_EACH),
            false => collector.wait(seen),
        };
        let mut families = state.families.values();
        if !families.any(|f| f.family.collects_by_itself()) {
            drop(state);
            return wait();
        }
        let now = self.idle();
        let wrote = now.last_sequence != idle.last_sequence;
        if wrote {
            *idle = now;
        }
        let waited = now.since.saturating_sub(idle.since);
        let oldest_snapshot = self.readers.snapshots.oldest();
        let needed = |f: &FamilyState| needs_cleanup(f, oldest_snapshot);
        let needed = !self.is_cleaning_up(&state) && state.families.values().any(needed);
        if !needed && !wrote {
            // Before the state lock is released: a job that ends after this evaluation must find
            // that the thread waits, and wake it.
            // MUTANT: the thread says that it waits only after it has released the state lock.
            let too_late = mutant!(
                "collector-waits-before-it-says-so",
                "-p titan --lib db::races::collections"
            );
            if !too_late {
                self.signals.await_write();
            }
            drop(state);
            gate!("collector: nothing to do");
            if too_late {
                self.signals.await_write();
            }
            if self.counters.last_sequence() == idle.last_sequence {
                wait();
            }
            return;
        }
        drop(state);
        if needed && waited >= IDLE_AFTER {
            // A comparator may panic: that concerns no data.
            let _ = catch_unwind(AssertUnwindSafe(|| self.clean_up()));
        } else {
            let step = self.context.clock.begin_wait(IDLE_AFTER / 2);
            collector.wait_for(seen, step);
        }
    }

    /// Whether compactions look for shadowed data down to a small part.
    pub(super) fn is_cleaning_up(&self, state: &State) -> bool {
        state.idle_cleanup == Some(self.counters.last_sequence())
    }

    fn clean_up(&self) {
        let last_sequence = self.counters.last_sequence();
        let estimates: Vec<(ColumnFamilyId, Estimate, u64)> = {
            let state = self.state.lock();
            let waiting = state.families.values();
            let waiting = waiting.filter(|f| f.family.collects_by_itself() && may_shadow(f));
            let estimate = |f: &FamilyState| {
                (
                    f.family.id,
                    Estimate::at(f),
                    f.version.blob_files.live_bytes(),
                )
            };
            waiting.map(estimate).collect()
        };
        // MUTANT: idle cleanup overlooks what memtables shadow.
        let part = if mutant!(
            "idle-cleanup-overlooks-memtables",
            "-p titan --test it gc::estimate::a_database_that_is_left_alone_gives"
        ) {
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
        let ids: Vec<ColumnFamilyId> = shadowing.map(|(id, ..)| *id).collect();
        drop(estimates);
        // Where this fails, the database is closed or writes have stopped.
        let switched = self.alone(|lead| {
            self.check_not_stopped()?;
            self.switch_memtables(lead, &ids)
        });
        let mut state = self.state.lock();
        state.idle_cleanup = switched.is_ok().then_some(last_sequence);
        drop(state);
        self.signals.work.raise();
    }
}

/// Whether a family may take more space than it would after idle cleanup.
fn needs_cleanup(family: &FamilyState, oldest_snapshot: Option<SequenceNumber>) -> bool {
    if !family.family.collects_by_itself() {
        return false;
    }
    let options = &family.family.options();
    let after_cleanup = Circumstances {
        idle_cleanup: true,
        oldest_snapshot,
        garbage_moment: family.family.garbage_moment(),
    };
    // Only an estimate can tell.
    may_shadow(family) || ShadowedData::of(&family.version, options, after_cleanup).is_too_much()
}

#[cfg(test)]
mod tests {
    use crate::{Db, Options};

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
