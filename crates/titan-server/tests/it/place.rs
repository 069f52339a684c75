//! A simulated disk and a clock that a test sets.

use std::path::PathBuf;
use std::sync::Arc;

use titan::DbOptions;
use titan_server::{NodeOptions, StorageOptions};
use titan_testkit::clock::SetClock;
use titan_testkit::sim::{Loss, SimVfs};

use crate::cluster::{Cluster, options};

/// A simulated disk and a clock. The clock stands still, so the node writes nothing by itself.
pub struct Place {
    pub vfs: SimVfs,
    pub clock: SetClock,
}

/// Some moment, in seconds since 1970.
pub const NOW: u64 = 1_800_000_000;

impl Place {
    pub fn new() -> Self {
        Place {
            vfs: SimVfs::new(),
            clock: SetClock::at(NOW),
        }
    }

    pub fn options(&self) -> NodeOptions {
        NodeOptions {
            storage: StorageOptions {
                retention: None,
                db: DbOptions {
                    vfs: Arc::new(self.vfs.clone()),
                    clock: Arc::new(self.clock.clone()),
                    ..DbOptions::default()
                },
                ..StorageOptions::default()
            },
            ..options()
        }
    }

    pub fn start(&self) -> Cluster {
        self.start_with(self.options())
    }

    pub fn start_with(&self, options: NodeOptions) -> Cluster {
        Cluster::at(PathBuf::from("/node"), options)
    }

    /// The disk after a crash.
    pub fn crashed(&self, loss: &Loss) -> Place {
        let journal = self.vfs.journal();
        Place {
            vfs: journal.crash_at(journal.len(), loss),
            clock: self.clock.clone(),
        }
    }
}
