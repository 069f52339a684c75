//! Pauses automatic garbage collection.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::core::Shared;
use super::running::RunningJob;
use crate::error::{Error, ErrorKind, Result};

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
        // MUTANT: a pause of collections outlives the panic of a listener when it begins.
        let state = match mutant!("pause-outlives-a-panic", "-p titan --lib db::pause::") {
            true => {
                self.update_stalls(state);
                self.state.lock()
            }
            false => state,
        };
        // First, so that the pause ends if a listener panics.
        let pause = GarbageCollectionPause {
            shared: Arc::clone(self),
        };
        self.update_stalls(state);
        Ok(pause)
    }
}

impl Drop for GarbageCollectionPause {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        // MUTANT: the first pause of garbage collection that ends also ends the others.
        if mutant!(
            "one-resumes-for-all",
            "-p titan --test it gc::pause::nothing"
        ) {
            state.collections.pauses = 0;
        } else {
            state.collections.pauses -= 1;
        }
        // A listener may panic, and the thread may be unwinding already.
        let _ = catch_unwind(AssertUnwindSafe(|| self.shared.update_stalls(state)));
    }
}

impl fmt::Debug for GarbageCollectionPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GarbageCollectionPause")
    }
}

/// Why a running collection ends.
pub(super) fn paused() -> Error {
    Error::new(ErrorKind::Busy, "collecting garbage is paused")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{ColumnFamilyId, Db, EventListener, Options, StallEvent};

    /// Panics at every change of how writes are stalled, while armed.
    #[derive(Default)]
    struct Panics {
        armed: AtomicBool,
        notified: AtomicBool,
    }

    impl EventListener for Panics {
        fn stall_changed(&self, _: ColumnFamilyId, _: StallEvent) {
            self.notified.store(true, Ordering::SeqCst);
            assert!(!self.armed.load(Ordering::SeqCst), "the listener");
        }
    }

    #[test]
    fn a_listener_that_panics_keeps_no_pause() {
        let dir = tempfile::tempdir().unwrap();
        let listener = Arc::new(Panics::default());
        let mut options = Options::default();
        options.db.listeners.push(Arc::clone(&listener) as _);
        // No idle cleanup, so that no other thread notifies.
        options.default.disable_auto_compactions = true;
        let db = Db::open(dir.path(), &options).unwrap();
        db.wait_idle().unwrap();
        let shared = &db.core.shared;
        // The next change of a pause notifies the listener, which panics.
        let arm = || {
            let state = shared.state.lock();
            let notifier = &shared.admission.notifier;
            notifier.push(ColumnFamilyId::DEFAULT, StallEvent::Normal);
            drop(state);
            listener.notified.store(false, Ordering::SeqCst);
            listener.armed.store(true, Ordering::SeqCst);
        };
        let pauses = || {
            assert!(listener.notified.load(Ordering::SeqCst));
            listener.armed.store(false, Ordering::SeqCst);
            db.metrics().garbage_collection_pauses
        };

        // When a pause begins.
        arm();
        let begun = catch_unwind(AssertUnwindSafe(|| db.pause_garbage_collection()));
        assert!(begun.is_err());
        assert_eq!(pauses(), 0);
        // When it ends: the caller, who drops it, does not see the panic.
        let pause = db.pause_garbage_collection().unwrap();
        arm();
        drop(pause);
        assert_eq!(pauses(), 0);
        // When it ends because the thread unwinds: a second panic would end the process.
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _pause = db.pause_garbage_collection().unwrap();
            arm();
            panic!("something else");
        }));
        assert!(unwound.is_err());
        assert_eq!(pauses(), 0);
        db.close().unwrap();
    }
}
