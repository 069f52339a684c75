//! A node that listens nowhere, for the fuzz targets of `titan_campaigns`. No public interface.

use std::path::Path;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use tokio::sync::watch;
use tonic::service::Routes;

use titan_mvcc::{CheckReport, Direction};

use crate::error::Result;
use crate::node::{Keeper, Shared};
use crate::options::NodeOptions;
use crate::services::{Executor, routes};

/// An open node that listens nowhere.
pub struct LocalNode {
    routes: Routes,
    shared: Arc<Shared>,
    /// Streams end with it.
    stop: watch::Sender<bool>,
    keeper: Keeper,
}

/// The contents of a node.
#[derive(Debug, PartialEq)]
pub struct Contents {
    /// The check of all versions.
    pub versions: CheckReport,
    /// Raw keys and their values.
    pub raw: Vec<(Bytes, Bytes)>,
    /// The number of regions. They cover all keys.
    pub regions: usize,
}

impl LocalNode {
    /// Opens the node in the directory `dir`, or makes one.
    ///
    /// # Errors
    /// Those of [`Node::start`](crate::Node::start).
    pub fn open(dir: impl AsRef<Path>, options: &NodeOptions) -> Result<Self> {
        let (to_check, checked) = mpsc::channel();
        let address = "127.0.0.1:1".to_owned();
        let shared = Shared::open(dir.as_ref(), options, address, to_check)?;
        let shared = Arc::new(shared);
        let keeper = Keeper::start(Arc::clone(&shared), checked)?;
        let executor = Arc::new(Executor::new(Arc::clone(&shared)));
        let (stop, stopping) = watch::channel(false);
        Ok(LocalNode {
            routes: routes(&executor, &stopping, options),
            shared,
            stop,
            keeper,
        })
    }

    /// The number of the cluster.
    pub fn cluster_id(&self) -> u64 {
        self.shared.cluster_id
    }

    /// The services. Calls need a runtime.
    pub fn routes(&self) -> Routes {
        self.routes.clone()
    }

    /// Reads everything, and checks it.
    ///
    /// # Errors
    /// Those of the store and the engine.
    pub fn contents(&self) -> Result<Contents> {
        let mut raw = Vec::new();
        let mut scan = self
            .shared
            .raw
            .scan(None, None, Direction::Forward, false)?;
        while let Some(pair) = scan.next()? {
            raw.push(pair);
        }
        Ok(Contents {
            versions: self.shared.store().check(&mut |_| {})?,
            raw,
            regions: self.shared.regions.len(),
        })
    }

    /// Closes the node. Calls that run go on, and fail.
    ///
    /// # Errors
    /// Those of the databases.
    pub fn close(self) -> Result<()> {
        self.stop.send_replace(true);
        drop(self.keeper);
        self.shared.close()
    }
}
