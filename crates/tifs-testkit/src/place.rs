//! Where volumes of tests are stored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tifs::Result;
use tifs::kv::{EngineKv, EngineOptions, Kv, MemoryKv};
use tifs::volume::VolumeOptions;
use titan::DbOptions;
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

use crate::device::{Device, DeviceKv};
use crate::fickle::Shared;

/// A place that can be opened again and again.
#[derive(Clone)]
pub enum Place {
    Memory(Arc<MemoryKv>),
    Fickle(Shared),
    /// A store with a log, and its device.
    Device(Arc<DeviceKv>, Device),
    Engine {
        dir: PathBuf,
        options: Box<EngineOptions>,
    },
    /// Any other store, by what opens it.
    Opened(Arc<Open>),
}

/// Opens a store again, after it was closed.
pub type Open = dyn Fn() -> Result<Arc<dyn Kv>> + Send + Sync;

/// An open store.
#[derive(Clone)]
pub enum Store {
    Memory(Arc<MemoryKv>),
    Fickle(Shared),
    Device(Arc<DeviceKv>),
    Engine(EngineKv),
    Opened(Arc<dyn Kv>),
}

impl Place {
    pub fn in_memory() -> Self {
        Place::Memory(Arc::default())
    }

    /// The engine on a simulated file system.
    pub fn simulated(vfs: &SimVfs) -> Self {
        Place::with_clock(vfs, &SimClock::with_seed(7))
    }

    /// The same, with a clock for the engine.
    pub fn with_clock(vfs: &SimVfs, clock: &SimClock) -> Self {
        let mut options = small_options();
        options.db.vfs = Arc::new(vfs.clone());
        options.db.clock = Arc::new(clock.clone());
        Place::Engine {
            dir: PathBuf::from("/volume"),
            options: Box::new(options),
        }
    }

    /// The engine on the real file system.
    pub fn on_disk(dir: &Path) -> Self {
        Place::Engine {
            dir: dir.join("volume"),
            options: Box::new(small_options()),
        }
    }

    /// The options of volumes there.
    pub fn options(&self, clock: &SimClock) -> VolumeOptions {
        let mut options = VolumeOptions {
            clock: Arc::new(clock.clone()),
            ..VolumeOptions::default()
        };
        if let Place::Device(_, device) = self {
            let device = device.clone();
            options.host_space = Arc::new(move || Ok(device.space()));
        }
        options
    }

    pub fn open(&self) -> Result<Store> {
        Ok(match self {
            Place::Memory(kv) => Store::Memory(Arc::clone(kv)),
            Place::Fickle(kv) => Store::Fickle(kv.clone()),
            Place::Device(kv, _) => Store::Device(Arc::clone(kv)),
            Place::Engine { dir, options } => Store::Engine(EngineKv::open(dir, options)?),
            Place::Opened(open) => Store::Opened(open()?),
        })
    }
}

/// The engine writes tables and blob files often.
fn small_options() -> EngineOptions {
    EngineOptions {
        db: DbOptions {
            max_background_jobs: 2,
            max_total_wal_size: 512 << 10,
            block_cache_size: 1 << 20,
            max_open_files: 64,
            max_manifest_file_size: 4096,
            ..DbOptions::default()
        },
        ..EngineOptions::default()
    }
}

impl Store {
    pub fn kv(&self) -> Arc<dyn Kv> {
        match self {
            Store::Memory(kv) => Arc::clone(kv) as _,
            Store::Fickle(kv) => Arc::new(kv.clone()),
            Store::Device(kv) => Arc::clone(kv) as _,
            Store::Engine(kv) => Arc::new(kv.clone()),
            Store::Opened(kv) => Arc::clone(kv),
        }
    }

    /// Lets the engine write what it has in memory to tables, as a volume does that is nearly full.
    pub fn flush(&self) -> Result<()> {
        match self {
            Store::Memory(_) | Store::Fickle(_) | Store::Opened(_) => Ok(()),
            Store::Device(kv) => kv.move_log(),
            Store::Engine(kv) => kv.move_log(),
        }
    }
}
