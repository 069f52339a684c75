//! Reads and writes by users of all databases of an `Env`: jobs of one yield to reads of all, and
//! none is idle while users write to another.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::order::MemberId;
use crate::stats::Statistics;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Default)]
pub(crate) struct Activity {
    /// Number of groups of batches that have become visible.
    writes: AtomicU64,
    statistics: Mutex<BTreeMap<MemberId, Arc<Statistics>>>,
}

impl Activity {
    /// A database is open.
    pub(super) fn add(&self, id: MemberId, statistics: &Arc<Statistics>) {
        self.statistics.lock().insert(id, Arc::clone(statistics));
    }

    /// It is closed.
    pub(super) fn remove(&self, id: MemberId) {
        self.statistics.lock().remove(&id);
    }

    /// A write has become visible.
    pub(crate) fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    /// Changes with every write.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// Changes with everything that users read. Cost: visits each database.
    pub(crate) fn reads(&self) -> u64 {
        self.sum(Statistics::reads)
    }

    /// Changes with everything that users do. Cost: visits each database.
    pub(crate) fn all(&self) -> u64 {
        self.sum(Statistics::activity)
    }

    fn sum(&self, of_database: fn(&Statistics) -> u64) -> u64 {
        let statistics = self.statistics.lock();
        let each = statistics
            .values()
            .map(|statistics| of_database(statistics));
        each.fold(0, u64::wrapping_add)
    }
}
