//! The applier: a thread that applies pending writes when many have come.
//!
//! It sleeps until the hook wakes it, so an idle store costs nothing. Nothing depends on it:
//! without it, reads and the hook apply the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use titan::Process;

use crate::error::Result;
use crate::segments::shared::Shared;

/// The thread. Dropping it ends it.
pub(crate) struct Applier {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    started_by: Process,
}

impl Applier {
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let applied = Arc::clone(&shared);
        let run = move || {
            while !is_over.load(Ordering::Acquire) {
                applied.apply_pending();
                std::thread::park();
            }
        };
        let named = std::thread::Builder::new().name("titan-ime-apply".to_owned());
        let thread = named.spawn(run).map_err(|e| {
            let what = format!("the thread of the range cache that applies writes: {e}");
            titan::Error::new(titan::ErrorKind::Io, what)
        })?;
        shared.pending.set_applier(thread.thread().clone());
        Ok(Applier {
            ends,
            thread: Some(thread),
            started_by: Process::current(),
        })
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        if !self.started_by.is_current() {
            // A forked child does not have the thread, and its handle would name another one.
            std::mem::forget(self.thread.take());
            return;
        }
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in it has turned the cache off.
            let _ = thread.join();
        }
    }
}
