//! Whether the database is open, and what closing waits for.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// A database is open until it is closed, once.
#[derive(Default)]
pub(crate) struct Lifecycle {
    closed: AtomicBool,
    checkpoints: Mutex<()>,
}

impl Lifecycle {
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Running compactions, collections and checkpoints end early from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Set when the database is closed: for jobs, which look at it often.
    pub(super) fn closed(&self) -> &AtomicBool {
        &self.closed
    }

    /// To be held while a checkpoint is made: they are made one at a time, and closing waits for
    /// the last.
    pub(super) fn checkpoint(&self) -> MutexGuard<'_, ()> {
        self.checkpoints.lock()
    }
}
