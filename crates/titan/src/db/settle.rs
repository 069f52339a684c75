//! What is done once nobody writes: memtables that may hide much are flushed, hidden garbage is
//! found down to a small part, and then collected like any other. So a database that is left alone
//! takes no more space than it needs.

use std::time::Duration;

use super::core::Shared;
use super::state::{FamilyState, State};
use crate::compaction::levels::{HiddenGarbage, SETTLED};
use crate::compaction::picker::Circumstances;
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::sync::MutexGuard;

/// Nobody writes if nobody did for so long.
const SETTLE_AFTER: Duration = Duration::from_secs(5);

/// Since when nobody has written.
pub(super) struct Quiet {
    since: Duration,
    last_sequence: SequenceNumber,
}

impl Shared {
    /// From now on.
    pub(super) fn quiet(&self) -> Quiet {
        Quiet {
            since: self.options.clock.monotonic(),
            last_sequence: self.counters.last_sequence(),
        }
    }

    /// Waits for work, or until nobody has written for some time and there is something to settle,
    /// which is then made due.
    pub(super) fn wait_or_settle<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        quiet: &mut Quiet,
    ) -> MutexGuard<'a, State> {
        let oldest_snapshot = self.snapshots.oldest();
        let restless = |f: &FamilyState| is_restless(f, oldest_snapshot);
        if state.settling || !state.families.values().any(restless) {
            self.work.wait(&mut state);
            return state;
        }
        let step = self.options.clock.begin_wait(SETTLE_AFTER / 2);
        self.work.wait_for(&mut state, step);
        let now = self.quiet();
        if now.last_sequence != quiet.last_sequence {
            *quiet = now;
        } else if now.since.saturating_sub(quiet.since) >= SETTLE_AFTER {
            drop(state);
            self.settle();
            state = self.state.lock();
        }
        state
    }

    fn settle(&self) {
        // Where this fails, the database is closed or writes have stopped.
        let switched = self.alone(|| {
            let state = self.state.lock();
            let waiting = state.families.values().filter(|f| hides_in_memtable(f));
            let ids: Vec<ColumnFamilyId> = waiting.map(|f| f.family.id).collect();
            drop(state);
            self.failure.check()?;
            self.switch_memtables(&ids)
        });
        let mut state = self.state.lock();
        state.settling = switched.is_ok();
        self.work.notify_all();
    }
}

/// Whether a family takes more space than it would if it were settled.
fn is_restless(family: &FamilyState, oldest_snapshot: Option<SequenceNumber>) -> bool {
    let options = &family.family.options;
    if !options.enable_blob_garbage_collection || options.disable_auto_compactions {
        return false;
    }
    let settled = Circumstances {
        settling: true,
        oldest_snapshot,
    };
    hides_in_memtable(family) || HiddenGarbage::of(&family.version, options, settled).is_too_much()
}

/// Whether what a memtable could replace is more than may stay hidden.
fn hides_in_memtable(family: &FamilyState) -> bool {
    let live = family.version.blob_files.values().map(|m| m.live_bytes());
    let live = live.fold(0, u64::saturating_add);
    let memtable = &family.memtable;
    let size = memtable.approximate_memory_usage();
    !memtable.is_empty() && live > 0 && size as f64 >= live as f64 * SETTLED
}
