//! The thread that splits large regions and ends expired safe points.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::boundaries::boundaries;
use super::shared::Shared;
use crate::error::{Error, Result};

/// The time between two looks for expired safe points.
const INTERVAL: Duration = Duration::from_secs(10);

/// The running thread.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Starts the thread, which gets regions to look at by `to_check`.
    ///
    /// # Errors
    /// `Io` if no thread can be made.
    pub(crate) fn start(shared: Arc<Shared>, to_check: Receiver<u64>) -> Result<Self> {
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("titan-serve keeper".to_owned())
            .spawn(move || run(&own, &to_check))
            .map_err(Error::io("start a thread"))?;
        Ok(Keeper { shared, thread })
    }

    /// Stops the thread, and waits for it.
    pub(crate) fn stop(self) {
        self.shared.to_check.lock().take();
        // A panic of the thread has been printed.
        let _ = self.thread.join();
    }
}

/// Failures are left to the next round: nothing waits for this thread.
fn run(shared: &Shared, to_check: &Receiver<u64>) {
    loop {
        match to_check.recv_timeout(INTERVAL) {
            Ok(region) => {
                if let Ok(Some(at)) = boundaries(shared, region) {
                    let _ = shared.regions.split(region, &at);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = shared.safe_points.expire();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
