//! One lock in memory.

use std::time::Duration;

use crate::format::lock::Lock;
use crate::lock_info::LockKind;
use crate::timestamp::Timestamp;

/// A lock in memory, with its state.
#[derive(Clone, Debug)]
pub(crate) struct ActiveLock {
    pub(crate) lock: Lock,
    /// The timestamp of a commit that is being written.
    pub(crate) committing: Option<Timestamp>,
    /// Monotonic time of the owner's last heartbeat, or of the opening.
    pub(super) last_heartbeat: Duration,
    /// True if the owner ended with an earlier opening.
    pub(crate) is_orphaned: bool,
}

impl ActiveLock {
    /// Returns true if a read at `at` may depend on the outcome of the lock's transaction.
    pub(crate) fn affects_read_at(&self, at: Timestamp) -> bool {
        matches!(self.lock.kind, LockKind::Put | LockKind::Delete)
            && self.lock.start <= at
            && self.lock.min_commit <= at
            && self.committing.is_none_or(|commit| commit <= at)
    }
}

/// The result of pushing the minimal commit timestamp of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// The transaction commits after the timestamp, if it commits.
    Done,
    /// A commit at the timestamp or earlier is being written.
    Committing,
    /// The primary lock of an async commit, which cannot be pushed.
    Async,
    /// The transaction has no lock on this key.
    None,
}
