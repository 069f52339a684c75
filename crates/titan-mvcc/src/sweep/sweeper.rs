//! The thread that sweeps.
//!
//! It sweeps once when the store is opened, and then every interval while time can bring something to sweep.
//! Where all was swept, it waits for the next commit. It ends with the store: a sweep that is under way stops
//! after its range, or at once if the database is closed.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;
use titan::{ErrorKind, Process};

use super::sweeps::Sweeps;
use crate::error::{Error, Result};

/// Failed sweeps in a row after which the wait does not become longer any more.
const MAX_DOUBLINGS: u32 = 8;

/// The thread.
pub(crate) struct Sweeper {
    sweeps: Arc<Sweeps>,
    thread: Mutex<Option<JoinHandle<()>>>,
    started_by: Process,
}

impl Sweeper {
    /// Starts it.
    ///
    /// # Errors
    /// `Engine` if the operating system has no thread to give.
    pub(crate) fn start(sweeps: Sweeps) -> Result<Self> {
        let sweeps = Arc::new(sweeps);
        let own = Arc::clone(&sweeps);
        let thread = Builder::new()
            .name("titan-mvcc-sweeper".into())
            .spawn(move || run(&own))
            .map_err(|e| {
                titan::Error::new(ErrorKind::Io, format!("cannot start the sweeper: {e}"))
            })?;
        Ok(Sweeper {
            sweeps,
            thread: Mutex::new(Some(thread)),
            started_by: Process::current(),
        })
    }

    /// None, for a store that is read alone.
    pub(crate) fn without_thread(sweeps: Sweeps) -> Self {
        Sweeper {
            sweeps: Arc::new(sweeps),
            thread: Mutex::default(),
            started_by: Process::current(),
        }
    }

    /// What it does, for calls by hand.
    pub(crate) fn sweeps(&self) -> &Sweeps {
        &self.sweeps
    }

    /// Has it end after the range that it compacts. Does not wait for it.
    pub(crate) fn stop(&self) {
        self.sweeps.wake().stop();
    }

    /// Has it end, and waits until it has.
    pub(crate) fn join(&self) {
        self.stop();
        let thread = self.thread.lock().take();
        // If it has panicked, it has ended.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if !self.started_by.is_current() {
            // A forked child does not have the thread, and its handle would name another one.
            std::mem::forget(self.thread.get_mut().take());
            return;
        }
        self.join();
    }
}

fn run(sweeps: &Sweeps) {
    let mut failures = 0;
    loop {
        failures = match sweeps.sweep() {
            Ok(_) => 0,
            Err(Error::Engine(e)) if e.kind() == ErrorKind::Closed => return,
            Err(_) => failures + 1,
        };
        let pause = sweeps
            .interval
            .saturating_mul(1 << failures.min(MAX_DOUBLINGS));
        let until = match failures > 0 || sweeps.waits_for_time() {
            true => {
                let now = sweeps.core.clock.monotonic();
                Some((&*sweeps.core.clock, now.saturating_add(pause)))
            }
            false => None,
        };
        if !sweeps.wake().wait(until) {
            return;
        }
    }
}
