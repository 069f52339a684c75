//! Collections that are due: finding blob files to collect, without the state lock, and claiming
//! it.

use std::sync::Arc;

use super::collect::CollectionJob;
use super::job::{Claimed, JobSource, Running};
use crate::compaction::choosing::budget::{Budget, Lack};
use crate::db::core::family::Family;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::env::Threads;
use crate::gc::selection::{Collection, Exclusions, select};
use crate::version::Version;

/// One at a time.
pub(super) const COLLECTIONS: JobSource = JobSource {
    threads: Threads::Collector,
    takes_long: false,
    is_due: |_, state| state.to_collect().is_some(),
    claim: |_, state| claim_selection(state),
};

/// Claims the search for blob files to collect in the family that is due. The job is the search,
/// and the collection of the files found.
fn claim_selection(state: &mut State) -> Option<Claimed> {
    let family = state.to_collect()?;
    let candidate = FamilyToCollect::of(family, state.collections.begun);
    let budget = state.room.budget;
    // The version that it reads is pinned, so a caller that waits for the database to be idle, and
    // for files to be deleted, must wait for it, too.
    let counts = !mutant!(selection_does_not_count);
    let id = candidate.family.id;
    if counts {
        state.begin(RunningJob::Selection, id);
    }
    Some(Box::new(move |shared| {
        let selecting = counts.then(|| Running::counted(shared, id, RunningJob::Selection));
        gate!("collector: candidate chosen");
        let collection = candidate.select(&budget);
        let mut state = shared.state.lock();
        let claimed = shared.claim_collection(&mut state, &candidate, collection);
        drop(state);
        drop(candidate);
        if let Some(selecting) = selecting {
            selecting.end();
        }
        if let Some(collection) = claimed {
            // Listeners have been notified of a failure.
            drop(shared.run_job(collection));
        }
    }))
}

impl Shared {
    /// Counts a collection as running, unless it is out of date. If there is none, notes that the
    /// family has nothing to collect.
    fn claim_collection(
        &self,
        state: &mut State,
        candidate: &FamilyToCollect,
        collection: Result<Option<Collection>, Lack>,
    ) -> Option<CollectionJob<'static>> {
        let may_begin = !self.lifecycle.is_closed()
            && self.failure.get().is_none()
            && state.to_collect().is_some()
            && state.collections.begun == candidate.collections_begun;
        let family = state.families.get_mut(&candidate.family.id);
        let family = family.filter(|_| may_begin)?;
        let is_current = Arc::ptr_eq(&family.version, &candidate.version);
        match &collection {
            Ok(None) if is_current => {
                if let Some(garbage) = &mut family.evaluation.garbage {
                    garbage.urgency = None;
                }
                family.jobs.collections_wait.succeeded();
                self.signals.progress.raise();
            }
            Err(lack) if is_current => {
                family.jobs.collections_wait.lacks(Some(*lack));
                self.signals.progress.raise();
            }
            _ => {}
        }
        let collection = collection.ok().flatten()?;
        let family = Arc::clone(&family.family);
        state.begin(RunningJob::Collection, family.id);
        Some(CollectionJob {
            family,
            collection,
            manual_rate_limit: None,
        })
    }
}

/// A family that has something to collect, to be evaluated without the state lock.
struct FamilyToCollect {
    family: Arc<Family>,
    version: Arc<Version>,
    excluded: Arc<Exclusions>,
    /// The count at that moment: if no collection has begun since, records are where they were.
    collections_begun: u64,
}

impl FamilyToCollect {
    fn of(family: &FamilyState, collections_begun: u64) -> Self {
        FamilyToCollect {
            family: Arc::clone(&family.family),
            version: Arc::clone(&family.version),
            excluded: Arc::clone(&family.excluded),
            collections_begun,
        }
    }

    /// The files that are to be collected; an error if there is no room for any of it.
    fn select(&self, budget: &Budget) -> Result<Option<Collection>, Lack> {
        select(&self.version, &self.family.options(), &self.excluded).next_within(budget)
    }
}
