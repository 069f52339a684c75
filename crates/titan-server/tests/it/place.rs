//! A simulated disk and a clock that a test sets.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use titan::{DbOptions, StdClock, SystemClock};
use titan_server::{NodeOptions, StorageOptions};
use titan_testkit::sim::{Loss, SimVfs};

use crate::cluster::{Cluster, options};

/// A clock whose time of day stands still until it is set. Its monotonic time is the real one.
#[derive(Clone)]
pub struct SetClock {
    seconds: Arc<AtomicU64>,
}

impl SetClock {
    pub fn at(seconds: u64) -> Self {
        SetClock {
            seconds: Arc::new(AtomicU64::new(seconds)),
        }
    }

    pub fn set(&self, seconds: u64) {
        self.seconds.store(seconds, Ordering::SeqCst);
    }
}

impl SystemClock for SetClock {
    fn monotonic(&self) -> Duration {
        StdClock.monotonic()
    }

    fn unix_time(&self) -> Duration {
        Duration::from_secs(self.seconds.load(Ordering::SeqCst))
    }
}

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
