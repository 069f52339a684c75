//! One lock in memory.

use std::time::Duration;

use crate::format::lock::Lock;
use crate::lock_info::LockKind;
use crate::timestamp::Timestamp;

/// A lock that is held.
#[derive(Clone, Debug)]
pub(crate) struct ActiveLock {
    pub(crate) lock: Lock,
    /// The timestamp at which it is being committed right now.
    pub(crate) committing: Option<Timestamp>,
    /// When its owner last gave a sign of life, or the store was opened: monotonic time.
    pub(super) last_heartbeat: Duration,
    /// Whether its owner ended with an earlier opening.
    pub(crate) is_orphaned: bool,
}

impl ActiveLock {
    /// Whether a read at `at` may depend on how its transaction ends.
    pub(crate) fn affects_read_at(&self, at: Timestamp) -> bool {
        matches!(self.lock.kind, LockKind::Put | LockKind::Delete)
            && self.lock.start <= at
            && self.lock.min_commit <= at
            && self.committing.is_none_or(|commit| commit <= at)
    }
}

/// Whether a lock could be pushed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// Its transaction commits after the timestamp, if at all.
    Done,
    /// It is being committed at the timestamp or before.
    Committing,
    /// It is the lock of an async commit, which cannot be pushed.
    Async,
    /// The transaction has no lock on this key.
    None,
}
