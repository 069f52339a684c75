//! State that all parts of an open database share.

use std::sync::Arc;

use super::admission::Admission;
use super::failure::BackgroundFailure;
use super::family::Family;
use super::files::Files;
use super::lifecycle::Lifecycle;
use super::opening::Opening;
use super::pins::Pins;
use super::signals::Signals;
use super::state::State;
use crate::error::Result;
use crate::format::ColumnFamilyId;
use crate::number_map::NumberMap;
use crate::sync::{ArcSwap, Mutex};
use crate::version::{Counters, VersionSet};
use crate::write::pipeline::CommitPipeline;

/// The families by id; replaced whole when one is created or dropped. Ordered, so that every run
/// visits them in the same order.
pub(crate) type FamilyMap = NumberMap<ColumnFamilyId, Arc<Family>>;

/// An open database, seen from inside. Handles, jobs and threads share it.
pub(crate) struct Shared {
    pub(crate) opening: Opening,
    pub(crate) files: Files,
    pub(crate) pins: Pins,
    pub(crate) families: ArcSwap<FamilyMap>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) pipeline: CommitPipeline,
    /// Locked before the state.
    pub(crate) versions: Mutex<VersionSet>,
    pub(crate) state: Mutex<State>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) admission: Admission,
    pub(crate) failure: BackgroundFailure,
    pub(crate) lifecycle: Lifecycle,
}

impl Shared {
    /// Fails with `Closed` once the database is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.lifecycle.check_open()
    }

    /// Fails with `ReadOnly` where nothing is ever changed, with `WritesStopped` after a failure.
    pub(crate) fn check_not_stopped(&self) -> Result<()> {
        self.lifecycle.check_not_read_only()?;
        self.failure.check()
    }

    /// Deletes obsolete files; see [`Files::delete_obsolete`].
    pub(crate) fn purge(&self) {
        let Opening {
            statistics,
            listeners,
            ..
        } = &self.opening;
        self.files.delete_obsolete(statistics, listeners);
    }

    pub(crate) fn family(&self, id: ColumnFamilyId) -> Option<Arc<Family>> {
        self.families.load().get(&id).cloned()
    }

    /// The family of this number.
    ///
    /// # Errors
    /// `InvalidArgument` if it was dropped, or never existed.
    pub(crate) fn existing_family(&self, id: ColumnFamilyId) -> Result<Arc<Family>> {
        let family = self.family(id);
        let family = family.ok_or_else(|| self.pins.dropped.error(id))?;
        family.check_exists()?;
        Ok(family)
    }
}

/// Ends when the last handle is dropped: first the service of threads, then the lock on the
/// directory.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    /// Held while the database is being closed.
    pub(crate) closing: Mutex<()>,
}
