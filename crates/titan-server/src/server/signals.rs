//! The signals that stop a node.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, Result};

/// SIGTERM and SIGINT.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals. Within a runtime.
    ///
    /// # Errors
    /// `Io` if they cannot be caught.
    pub(super) fn catch() -> Result<Self> {
        let catch = |kind| signal(kind).map_err(Error::io("catch signals"));
        Ok(Signals {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    pub(super) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
