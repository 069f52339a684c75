//! Sealing memtables that no writer fills: those whose entries a compaction filter is to see, since
//! they are old enough, and the largest one where the databases of an `Env` take too much memory.
//! Without this, the entries in the memtable of a family that is written little would stay there.

use std::sync::Arc;

use super::job::{Claimed, Job, JobSource, claimed};
use crate::compaction::choosing::aged_tables::memtable_due_at;
use crate::db::core::family::Family;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::env::Threads;
use crate::error::Result;
use crate::memtable::Memtable;

/// Seconds after which a switch is tried again while a commit is under way, which may be waiting.
const RETRY: u64 = 1;

/// The switch of a memtable.
struct Switch {
    family: Arc<Family>,
    memtable: Arc<Memtable>,
}

impl Switch {
    fn of(state: &FamilyState) -> Self {
        Switch {
            family: Arc::clone(&state.family),
            memtable: Arc::clone(&state.memtable),
        }
    }
}

impl Job for Switch {
    const DOING: &'static str = "switching the memtable of";
    type Done = ();
    type Claim = ();

    fn kind(&self) -> RunningJob {
        RunningJob::Switch
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn run(self, shared: &Shared) -> (Result<()>, ()) {
        self.memtable.request_flush();
        shared.note_filled([(self.family.id, &*self.memtable)].into_iter());
        // Not to be waited for: a leader that waits for a flush may be waiting for this thread. The
        // next commit switches the memtable, or the next try.
        let switched = shared.pipeline.try_exclusive(|lead| {
            match shared
                .check_open()
                .and_then(|()| shared.check_not_stopped())
            {
                Ok(()) => shared.make_room(lead),
                // Nothing is flushed any more, or not before the database has resumed.
                Err(_) => Ok(()),
            }
        });
        (switched.unwrap_or(Ok(())), ())
    }

    fn release((): (), _: &Result<()>, _: &mut State) {}
}

pub(super) const SWITCHES: JobSource = JobSource {
    threads: Threads::Workers,
    takes_long: false,
    is_due: |shared, state| {
        let is_asked = shared.opening.env.write_buffers.is_asked();
        if is_asked && state.families.values().any(|f| !f.memtable.is_empty()) {
            return true;
        }
        let now = shared.aged_at();
        let mut families = state.families.values();
        families.any(|f| f.memtable_aged_at().is_some_and(|at| at <= now))
    },
    claim: Shared::claim_switch,
};

impl FamilyState {
    /// When the memtable is to be flushed because of the age of its entries, in seconds since 1970.
    pub(super) fn memtable_aged_at(&self) -> Option<u64> {
        let revisit = self.family.revisit?;
        let at = memtable_due_at(self.memtable.oldest_time()?, revisit);
        let is_automatic = !self.family.options().disable_auto_compactions;
        is_automatic.then_some(at.max(self.jobs.switch_not_before))
    }
}

impl Shared {
    /// Claims the switch of a memtable that is old, or whose memory is to be freed.
    fn claim_switch(&self, state: &mut State) -> Option<Claimed> {
        if state.running.of(RunningJob::Switch) > 0 {
            return None;
        }
        let buffers = &self.opening.env.write_buffers;
        if buffers.take_asked() {
            let families = state.families.values().filter(|_| buffers.is_exceeded());
            let largest = families.max_by_key(|f| f.memtable.bytes_to_flush());
            let largest = largest.filter(|f| !f.memtable.is_empty());
            if let Some(switch) = largest.map(Switch::of) {
                state.begin(RunningJob::Switch, switch.family.id);
                return Some(claimed(switch));
            }
            // No job will wake the callers that wait until there is none.
            self.signals.progress.raise();
        }
        let now = self.aged_at();
        let is_old = |f: &&mut FamilyState| f.memtable_aged_at().is_some_and(|at| at <= now);
        let old = state.families.values_mut().find(is_old)?;
        old.jobs.switch_not_before = now.saturating_add(RETRY);
        let switch = Switch::of(old);
        state.begin(RunningJob::Switch, switch.family.id);
        Some(claimed(switch))
    }
}
