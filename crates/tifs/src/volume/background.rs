//! The thread of a volume that reclaims, and that syncs from time to time.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use titan::Process;
use titan::invariants::CHECKED;

use crate::error::Error;
use crate::volume::state::reclaim_queue::BATCH;
use crate::volume::state::volume::Volume;

/// The longest time without a sync after a change.
const SYNC_AFTER: Duration = Duration::from_secs(5);

/// The time for which a deletion may wait for others of its batch.
const RECLAIM_AFTER: Duration = Duration::from_secs(1);

/// The wait of the thread after an error.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The thread. It ends when this is dropped.
pub struct Background {
    volume: Weak<Volume>,
    thread: Option<std::thread::JoinHandle<()>>,
    ending: Arc<Mutex<bool>>,
    started_by: Process,
}

impl Volume {
    /// Starts the thread that reclaims, and that syncs at most five seconds after a change.
    ///
    /// # Errors
    /// Those of starting a thread. `failed` is called with errors of the thread's work, which goes
    /// on.
    pub fn start_background(
        self: &Arc<Self>,
        failed: impl Fn(crate::Error) + Send + 'static,
    ) -> std::io::Result<Background> {
        let ending = Arc::new(Mutex::new(false));
        let (volume, end) = (Arc::clone(self), Arc::clone(&ending));
        let thread = std::thread::Builder::new()
            .name("tifs-background".to_owned())
            .spawn(move || volume.work_until(&|| *end.lock(), &failed))?;
        Ok(Background {
            volume: Arc::downgrade(self),
            thread: Some(thread),
            ending,
            started_by: Process::current(),
        })
    }

    fn work_until(&self, ended: &dyn Fn() -> bool, failed: &dyn Fn(crate::Error)) {
        // A failure that lasts is said once.
        let said = RefCell::new(String::new());
        let failed = |error: Error| {
            let text = error.to_string();
            if said.replace(text.clone()) != text {
                failed(error);
            }
        };
        let mut synced = Instant::now();
        let (mut enough, mut at_most) = (BATCH, RECLAIM_AFTER);
        while !ended() {
            self.reclaim_queue.wait(enough, ended, at_most);
            (enough, at_most) = match self.reclaim_batch() {
                Ok(true) => (0, RECLAIM_AFTER),
                Ok(false) => (BATCH, RECLAIM_AFTER),
                Err(e) => {
                    failed(e);
                    (usize::MAX, RETRY_AFTER)
                }
            };
            if synced.elapsed() >= SYNC_AFTER {
                match self.sync_if_needed() {
                    Ok(()) => said.borrow_mut().clear(),
                    Err(error) => failed(error),
                }
                synced = Instant::now();
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if !self.started_by.is_current() {
            // A forked child does not have the thread, and its handle would name another one.
            std::mem::forget(self.thread.take());
            return;
        }
        *self.ending.lock() = true;
        if let Some(volume) = self.volume.upgrade() {
            volume.reclaim_queue.wake();
        }
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            // A failed check of an invariant must be heard, in builds that panic for one.
            if let Err(panic) = ended
                && CHECKED
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
