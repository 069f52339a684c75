//! The thread that maintains a cache.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use titan::Process;

use crate::error::Result;
use crate::maintenance::passes::Maintenance;

/// The thread. Dropping it ends it.
pub(crate) struct MaintenanceThread {
    /// Whether it is to end.
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    started_by: Process,
}

impl MaintenanceThread {
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(maintenance: Arc<Maintenance>, every: Duration) -> Result<Self> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let ends = Arc::clone(&end);
        let run = move || {
            let (is_over, wakes) = &*ends;
            let mut is_over = is_over.lock();
            while !*is_over {
                wakes.wait_for(&mut is_over, every);
                if !*is_over {
                    MutexGuard::unlocked(&mut is_over, || maintenance.maintain());
                }
            }
        };
        let named = std::thread::Builder::new().name("titan-ime".to_owned());
        let thread = named.spawn(run).map_err(|e| {
            let what = format!("the maintenance thread of the range cache: {e}");
            titan::Error::new(titan::ErrorKind::Io, what)
        })?;
        Ok(MaintenanceThread {
            end,
            thread: Some(thread),
            started_by: Process::current(),
        })
    }
}

impl Drop for MaintenanceThread {
    fn drop(&mut self) {
        if !self.started_by.is_current() {
            // A forked child does not have the thread, and its handle would name another one.
            std::mem::forget(self.thread.take());
            return;
        }
        let (is_over, wakes) = &*self.end;
        *is_over.lock() = true;
        wakes.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its panics are caught within.
            let _ = thread.join();
        }
    }
}
