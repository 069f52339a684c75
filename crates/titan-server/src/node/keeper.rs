//! The thread that splits large regions, ends expired safe points, and lets writes go on after a
//! failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use titan::{Db, ErrorKind};

use super::boundaries::boundaries;
use super::shared::Shared;
use crate::error::{Error, Result};

/// The time between two looks for expired safe points and for failures.
const INTERVAL: Duration = Duration::from_secs(1);

/// The running thread. It stops when this is dropped.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread, which gets regions to look at by `to_check`.
    ///
    /// # Errors
    /// `Io` if no thread can be made.
    pub(crate) fn start(shared: Arc<Shared>, to_check: Receiver<u64>) -> Result<Self> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (own, stopping) = (Arc::clone(&shared), Arc::clone(&is_stopping));
        let thread = std::thread::Builder::new()
            .name("titan-serve keeper".to_owned())
            .spawn(move || run(&own, &to_check, &stopping))
            .map_err(Error::io("start a thread"))?;
        Ok(Keeper {
            shared,
            is_stopping,
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.shared.to_check.lock().take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

/// Failures are left to the next round: nothing waits for this thread.
fn run(shared: &Shared, to_check: &Receiver<u64>, is_stopping: &AtomicBool) {
    let mut due = Instant::now() + INTERVAL;
    while !is_stopping.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            resume(shared.store().db());
            resume(&shared.records);
            let _ = shared.safe_points.expire();
            due = Instant::now() + INTERVAL;
        }
        match to_check.recv_timeout(left) {
            Ok(region) => {
                if let Ok(Some(at)) = boundaries(shared, region, is_stopping) {
                    let _ = shared.regions.split(region, &at);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Lets writes go on if the cause is gone that stopped them: the disk was full, or has failed. A
/// cause that persists stops them again, with nothing lost.
fn resume(db: &Db) {
    let may_pass = |kind| {
        matches!(
            kind,
            ErrorKind::NoSpace | ErrorKind::Io | ErrorKind::TooManyOpenFiles
        )
    };
    if db.background_error().is_some_and(|e| may_pass(e.kind())) {
        let _ = db.resume();
    }
}
