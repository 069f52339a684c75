//! The threads that flush, compact and collect garbage.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::core::{Core, Shared};
use super::family::Family;
use super::running::RunningJob;
use super::state::{Immutable, State};
use crate::compaction::picker::{self, Compaction};
use crate::error::{Error, Result};
use crate::format::ColumnFamilyId;
use crate::gc::choose::{Collection, choose};
use crate::sync::thread;

enum Job {
    Flush(Arc<Family>, Vec<Immutable>),
    Compaction(Arc<Family>, Compaction),
    Collection(Arc<Family>, Collection),
}

/// Starts the threads of a database. Those that were started before one could not be end with
/// the core.
pub(super) fn start(core: &Core) -> Result<()> {
    for i in 0..core.shared.options.max_background_jobs {
        let shared = Arc::clone(&core.shared);
        let thread = thread::Builder::new()
            .name(format!("titan-{i}"))
            .spawn(move || {
                if i == 0 {
                    shared.warm_up();
                }
                shared.run_jobs();
            });
        let thread = thread
            .map_err(|e| Error::new(crate::ErrorKind::Io, format!("cannot start a thread: {e}")))?;
        core.threads.lock().push(thread);
    }
    Ok(())
}

impl Shared {
    fn run_jobs(&self) {
        while let Some(job) = self.next_job() {
            // Failures have been recorded and told, panics too; the thread has nothing to add, and
            // is needed when the database resumes.
            let _ = catch_unwind(AssertUnwindSafe(|| match job {
                Job::Flush(family, immutables) => self.run_flush(family, immutables),
                Job::Compaction(family, compaction) => self.run_compaction(&family, compaction),
                Job::Collection(family, collection) => self.run_collection(&family, collection),
            }));
            // A listener that is told of a file that stays may panic, too; that concerns no data.
            let _ = catch_unwind(AssertUnwindSafe(|| self.purge()));
        }
    }

    /// Waits for work; `None` when the database closes.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if self.is_closing() {
                return None;
            }
            if let Some(job) = self.find_job(&mut state) {
                // There may be more for another thread.
                self.work.notify_one();
                return Some(job);
            }
            self.work.wait(&mut state);
        }
    }

    fn find_job(&self, state: &mut State) -> Option<Job> {
        if self.failure.get().is_some() {
            return None;
        }
        if let Some((family, immutables)) = claim_flush(state) {
            return Some(Job::Flush(family, immutables));
        }
        // With several threads, one is always left for flushes.
        let limit = (self.options.max_background_jobs - 1).max(1);
        // Those that users run are on threads of their own.
        let automatic = state.families.values().filter(|f| !f.manual_compaction);
        let compactions = automatic.map(|f| f.running_compactions).sum::<usize>();
        if compactions + state.running.collections >= limit {
            return None;
        }
        // Compactions first: they find the garbage. But where they never end, they take turns.
        let collect_first = std::mem::take(&mut state.collect_next);
        if let Some(job) = collect_first.then(|| claim_collection(state)).flatten() {
            return Some(job);
        }
        match claim_compaction(state) {
            Some(job) => {
                state.collect_next = true;
                Some(job)
            }
            None => claim_collection(state),
        }
    }

    /// See [`Db::wait_idle`](crate::Db::wait_idle).
    pub(super) fn wait_idle(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            self.check_open()?;
            self.failure.check()?;
            let busy = !state.running.is_idle()
                || !self.stall_news.all_told()
                || state
                    .families
                    .values()
                    .any(|f| !f.immutables.is_empty() || f.manual_compaction)
                || due_compaction(&state).is_some()
                || due_collection(&state).is_some();
            if !busy {
                drop(state);
                self.purge();
                return Ok(());
            }
            self.work.notify_all();
            self.progress.wait(&mut state);
        }
    }

    /// Waits until no job runs. None starts meanwhile if a failure is in force.
    pub(super) fn wait_for_running_jobs(&self) {
        let mut state = self.state.lock();
        while !state.running.is_idle() {
            self.progress.wait(&mut state);
        }
    }
}

/// The immutable memtables of a family that nobody flushes yet, marked as being flushed.
fn claim_flush(state: &mut State) -> Option<(Arc<Family>, Vec<Immutable>)> {
    let barrier = state.flush_barrier.as_ref();
    let (id, count) = state
        .in_turn()
        .filter(|f| !f.flushing)
        .map(|f| (f.family.id, f.flushable(barrier)))
        .find(|(_, count)| *count > 0)?;
    let family = state.families.get_mut(&id)?;
    RunningJob::Flush.count(family, &mut state.running);
    Some((
        Arc::clone(&family.family),
        family.immutables.iter().take(count).cloned().collect(),
    ))
}

fn claim_compaction(state: &mut State) -> Option<Job> {
    let (id, compaction) = due_compaction(state)?;
    state.turn = ColumnFamilyId(id.0 + 1);
    let family = state.families.get_mut(&id)?;
    RunningJob::Compaction.count(family, &mut state.running);
    Some(Job::Compaction(Arc::clone(&family.family), compaction))
}

fn claim_collection(state: &mut State) -> Option<Job> {
    let (id, collection) = due_collection(state)?;
    let family = state.families.get_mut(&id)?;
    RunningJob::Collection.count(family, &mut state.running);
    Some(Job::Collection(Arc::clone(&family.family), collection))
}

fn due_collection(state: &State) -> Option<(ColumnFamilyId, Collection)> {
    // One at a time: it is the device that is slow.
    if state.running.collections > 0 {
        return None;
    }
    state.in_turn().find_map(|f| {
        let collection = choose(&f.version, &f.family.options, &f.set_aside, &f.held)?;
        Some((f.family.id, collection))
    })
}

fn due_compaction(state: &State) -> Option<(ColumnFamilyId, Compaction)> {
    state
        .in_turn()
        .filter(|f| !f.family.options.disable_auto_compactions && !f.manual_compaction)
        .find_map(|f| Some((f.family.id, picker::pick(&f.version, &f.family.options)?)))
}
