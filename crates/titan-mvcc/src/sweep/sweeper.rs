//! The thread that sweeps.
//!
//! It sweeps once after the opening, and then at every interval while time can bring work. After
//! everything was swept, it waits for the next commit. It ends with the store: a running sweep
//! stops after its range, or at once if the database closes.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;
use titan::{ErrorKind, Process};

use super::sweeps::Sweeps;
use crate::error::{Error, Result};

/// The number of failed sweeps in a row that double the pause.
const MAX_DOUBLINGS: u32 = 8;

/// The sweeper of a store.
pub(crate) struct Sweeper {
    sweeps: Arc<Sweeps>,
    thread: Mutex<Option<JoinHandle<()>>>,
    started_by: Process,
}

impl Sweeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Engine` if the operating system cannot start a thread.
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

    /// A sweeper without a thread, for a store that is open read-only.
    pub(crate) fn without_thread(sweeps: Sweeps) -> Self {
        Sweeper {
            sweeps: Arc::new(sweeps),
            thread: Mutex::default(),
            started_by: Process::current(),
        }
    }

    /// The sweeps, for explicit calls.
    pub(crate) fn sweeps(&self) -> &Sweeps {
        &self.sweeps
    }

    /// Stops the thread after the range that it compacts. Does not wait.
    pub(crate) fn stop(&self) {
        self.sweeps.wake().stop();
    }

    /// Stops the thread, and waits until it has ended.
    pub(crate) fn join(&self) {
        self.stop();
        let thread = self.thread.lock().take();
        // A thread that panicked has ended.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if !self.started_by.is_current() {
            // A forked child does not have the thread, and the handle would name another one.
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
