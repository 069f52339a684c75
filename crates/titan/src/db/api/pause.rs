//! Pauses automatic garbage collection.

use std::fmt;
use std::sync::Arc;

use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::error::Result;
use crate::filter::check_may_wait_for_jobs;

/// Garbage is not collected automatically while this is alive; see
/// [`Db::pause_garbage_collection`](crate::Db::pause_garbage_collection). It does not keep the
/// database open.
#[must_use = "collecting resumes when this is dropped"]
pub struct GarbageCollectionPause {
    shared: Arc<Shared>,
}

impl Shared {
    /// See [`Db::pause_garbage_collection`](crate::Db::pause_garbage_collection).
    pub(super) fn pause_collections(self: &Arc<Self>) -> Result<GarbageCollectionPause> {
        check_may_wait_for_jobs()?;
        self.lifecycle.check_not_inherited()?;
        let mut state = self.state.lock();
        self.check_open()?;
        state.collections.pauses += 1;
        // A throttled collection must see it now.
        drop(state);
        self.signals.progress.raise();
        let state = loop {
            let seen = self.signals.progress.seen();
            let state = self.state.lock();
            if state.running.of(RunningJob::Collection) == 0 {
                break state;
            }
            drop(state);
            self.signals.progress.wait(seen);
        };
        self.update_stalls(state);
        Ok(GarbageCollectionPause {
            shared: Arc::clone(self),
        })
    }
}

impl Drop for GarbageCollectionPause {
    fn drop(&mut self) {
        if self.shared.lifecycle.is_inherited() {
            return;
        }
        let mut state = self.shared.state.lock();
        if mutant!(one_resumes_for_all) {
            state.collections.pauses = 0;
        } else {
            state.collections.pauses -= 1;
        }
        self.shared.update_stalls(state);
    }
}

impl fmt::Debug for GarbageCollectionPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GarbageCollectionPause")
    }
}
