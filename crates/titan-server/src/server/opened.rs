//! The parts of a node that takes calls, and their end.

use std::path::Path;
use std::sync::{Arc, mpsc};

use tokio::sync::watch;
use tonic::service::Routes;

use super::port_file;
use crate::error::Result;
use crate::node::{Keeper, Shared};
use crate::options::NodeOptions;
use crate::services::{Executor, routes};

/// A node that takes calls, from wherever they come.
pub(crate) struct Opened {
    shared: Arc<Shared>,
    executor: Arc<Executor>,
    keeper: Keeper,
    /// Streams end with it.
    stop: watch::Sender<bool>,
}

impl Opened {
    /// Opens the node in the directory `dir`, or makes one. Clients are told to connect to
    /// `address`.
    ///
    /// # Errors
    /// `NotANode`; `Io` if no thread can be made; those of the databases.
    pub(crate) fn open(dir: &Path, options: &NodeOptions, address: String) -> Result<Self> {
        let (to_check, checked) = mpsc::channel();
        // The address of a node that runs is kept: then the directory is locked.
        let locked = || {
            options
                .port_file
                .as_deref()
                .map_or(Ok(()), port_file::remove)
        };
        let shared = Arc::new(Shared::open(dir, options, address, to_check, locked)?);
        let keeper = Keeper::start(Arc::clone(&shared), checked)?;
        Ok(Opened {
            executor: Arc::new(Executor::new(Arc::clone(&shared))),
            shared,
            keeper,
            stop: watch::channel(false).0,
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn executor(&self) -> &Arc<Executor> {
        &self.executor
    }

    /// True when the node stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// The services. Calls need a runtime.
    pub(crate) fn routes(&self, options: &NodeOptions) -> Routes {
        routes(&self.executor, &self.stopping(), options)
    }

    /// Ends the streams of calls.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Closes the node. Calls that run go on, and fail.
    ///
    /// # Errors
    /// Those of the databases.
    pub(crate) fn close(self) -> Result<()> {
        self.stop();
        drop(self.keeper);
        self.shared.close()
    }
}
