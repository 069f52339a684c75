//! The failure that stopped writes: they are refused with the reason, and reads go on, until a
//! [resume](crate::Db::resume).

use std::sync::Arc;

use super::postponed::Postponed;
use super::signals::Signals;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{Listeners, notify};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// The failure that stopped writes, if one did. The first one is kept.
pub(crate) struct BackgroundFailure {
    signals: Arc<Signals>,
    listeners: Listeners,
    failed: AtomicBool,
    reason: Mutex<Option<Error>>,
    /// Failures that stop nothing: jobs that are retried.
    pub(crate) postponed: Postponed,
}

impl BackgroundFailure {
    /// None yet. A failure will wake threads, and listeners will be notified.
    pub(crate) fn none(signals: Arc<Signals>, listeners: Listeners) -> Self {
        BackgroundFailure {
            signals,
            listeners,
            failed: AtomicBool::new(false),
            reason: Mutex::default(),
            postponed: Postponed::default(),
        }
    }

    /// Fails with `WritesStopped` after a failure.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.get() {
            Some(reason) => Err(Error::new(
                ErrorKind::WritesStopped,
                "an earlier failure stopped writes; resume() after its cause is gone",
            )
            .with_source(reason)),
            None => Ok(()),
        }
    }

    /// The failure in force.
    pub(crate) fn get(&self) -> Option<Error> {
        self.reason.lock().clone()
    }

    /// Stops writes because of `error`, and returns it.
    pub(crate) fn set(&self, error: Error) -> Error {
        let first = {
            let mut reason = self.reason.lock();
            let first = reason.is_none();
            // The resuming caller decides by its kind.
            invariant!(
                !first || error.kind() != ErrorKind::WritesStopped,
                "writes are stopped for no reason: {error}"
            );
            reason.get_or_insert_with(|| error.clone());
            self.failed.store(true, Ordering::Release);
            first
        };
        // Writers that wait for background jobs would now wait for ever.
        self.signals.raise_all();
        if first {
            notify!(self.listeners, writes_stopped(&error));
        }
        error
    }

    /// Stops writes because of a panic; may be called while the thread unwinds.
    pub(crate) fn set_after_panic(&self, message: &str) {
        self.set(Error::internal(message));
    }

    /// Accepts writes again.
    pub(crate) fn clear(&self) {
        let mut reason = self.reason.lock();
        *reason = None;
        self.failed.store(false, Ordering::Release);
    }
}
