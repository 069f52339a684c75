//! The state that hook, readers, loads and maintenance share.

use std::sync::Arc;

use titan::ColumnFamilyId;
use titan_mvcc::Timestamp;

use crate::content::memory::Budget;
use crate::content::root::Target;
use crate::content::timestamps::Timestamps;
use crate::segments::cold_reads::ColdReads;
use crate::segments::directory::Directory;
use crate::segments::faults::FaultState;
use crate::segments::pending_writes::PendingWrites;
use crate::stats::Counters;
use crate::sync::Cell;
use crate::sync::atomic::{AtomicU32, Ordering};

/// No family has this number.
const NO_FAMILY: u32 = u32::MAX;

/// The shared state. The store owns it, so it has no handle of the store.
pub(crate) struct Shared {
    pub(crate) directory: Directory,
    pub(crate) budget: Arc<Budget>,
    pub(crate) pending: PendingWrites,
    /// The limits of pruning.
    pub(crate) target: Cell<Arc<Target>>,
    pub(crate) counters: Counters,
    pub(crate) cold: ColdReads,
    pub(crate) faults: FaultState,
    /// Whether the cache chooses ranges by itself.
    pub(crate) chooses: bool,
    /// The usual size of a segment in bytes.
    pub(crate) segment_size: usize,
    family: AtomicU32,
    /// The place at which a test wants a panic.
    #[cfg(test)]
    pub(crate) panics_at: parking_lot::Mutex<Option<&'static str>>,
}

impl Shared {
    pub(crate) fn new(limit: usize, segment_size: usize, chooses: bool) -> Self {
        let nothing = Timestamps::new(Timestamp::ZERO, []);
        Shared {
            directory: Directory::new(),
            budget: Arc::new(Budget::new(limit)),
            pending: PendingWrites::new(),
            target: Cell::new(Arc::new(Target {
                kept: nothing.clone(),
                needed: nothing,
            })),
            counters: Counters::default(),
            cold: ColdReads::default(),
            faults: FaultState::new(),
            chooses,
            segment_size,
            family: AtomicU32::new(NO_FAMILY),
            #[cfg(test)]
            panics_at: parking_lot::Mutex::default(),
        }
    }

    /// Sets the family of the versions. There are no segments before.
    pub(crate) fn set_family(&self, family: ColumnFamilyId) {
        self.family.store(family.0, Ordering::Release);
    }

    pub(crate) fn is_versions(&self, family: ColumnFamilyId) -> bool {
        self.family.load(Ordering::Acquire) == family.0
    }

    /// Panics if a test asked for it at this place.
    #[cfg(test)]
    pub(crate) fn may_panic(&self, place: &'static str) {
        let is_here = *self.panics_at.lock() == Some(place);
        assert!(!is_here, "as a test asked");
    }
}
