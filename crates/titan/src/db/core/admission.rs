//! Admission: whether writes are stalled, and whether background jobs must hurry.
//!
//! `update_stalls` evaluates the families whenever something has changed on which their stalls
//! depend. Writers and jobs read the result here without the state lock.

use std::sync::Arc;

use super::signals::Signals;
use super::stall_notifier::StallNotifier;
use super::wal_limit::WalLimit;
use crate::format::ColumnFamilyId;
use crate::locks::LockTable;
use crate::options::DbOptions;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Last evaluation, work for the next commit, and keys are locked.
pub(crate) struct Admission {
    /// Whether writes are stalled; then the state says how.
    writes_stalled: AtomicBool,
    /// Writes are stalled, or soon will be.
    urgent: AtomicBool,
    /// Number of callers that wait for running jobs.
    awaiting: AtomicUsize,
    /// Notifies listeners how writes are stalled.
    pub(crate) notifier: StallNotifier,
    /// Families whose memtable a commit has filled; the next one switches it.
    filled: Mutex<Vec<ColumnFamilyId>>,
    pub(crate) wal_limit: WalLimit,
    /// The locks of pessimistic transactions.
    pub(crate) locks: LockTable,
}

impl Admission {
    /// Nothing is stalled, urgent or filled yet.
    pub(crate) fn new(options: &DbOptions) -> Self {
        Admission {
            writes_stalled: AtomicBool::new(false),
            urgent: AtomicBool::new(false),
            awaiting: AtomicUsize::new(0),
            notifier: StallNotifier::default(),
            filled: Mutex::default(),
            wal_limit: WalLimit::default(),
            locks: LockTable::new(Arc::clone(&options.clock)),
        }
    }

    /// Notes families whose memtable is full.
    pub(crate) fn add_filled(&self, families: impl Iterator<Item = ColumnFamilyId>) {
        self.filled.lock().extend(families);
    }

    /// The families noted since the last call.
    pub(crate) fn take_filled(&self) -> Vec<ColumnFamilyId> {
        std::mem::take(&mut self.filled.lock())
    }

    pub(crate) fn are_writes_stalled(&self) -> bool {
        self.writes_stalled.load(Ordering::Acquire)
    }

    pub(crate) fn set_writes_stalled(&self, stalled: bool) {
        self.writes_stalled.store(stalled, Ordering::Release);
    }

    pub(crate) fn set_urgent(&self, urgent: bool) {
        self.urgent.store(urgent, Ordering::Release);
    }

    /// Whether the database's jobs do not yield to reads now: writes are stalled or soon will be,
    /// or a caller waits for jobs.
    pub(crate) fn jobs_must_hurry(&self) -> bool {
        self.urgent.load(Ordering::Relaxed) || self.awaiting.load(Ordering::Relaxed) > 0
    }

    /// Keeps jobs from yielding while the caller waits for them, and ends their pauses.
    pub(crate) fn awaits_jobs(&self, signals: &Signals) -> AwaitsJobs<'_> {
        self.awaiting.fetch_add(1, Ordering::AcqRel);
        signals.progress.raise();
        AwaitsJobs(self)
    }
}

/// A caller waits for running jobs while this is alive.
pub(crate) struct AwaitsJobs<'a>(&'a Admission);

impl Drop for AwaitsJobs<'_> {
    fn drop(&mut self) {
        let before = self.0.awaiting.fetch_sub(1, Ordering::AcqRel);
        invariant!(
            before > 0,
            "a caller ceases to wait for jobs that did not wait"
        );
    }
}
