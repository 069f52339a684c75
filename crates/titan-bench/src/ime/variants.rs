//! The sides of the experiment: a store alone, with a range cache, and with as much more block
//! cache.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use titan::{ColumnFamilyOptions, DbOptions};
use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::{Store, StoreOptions, TimestampOracle};

use super::time::SPEED;

/// A side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// The store alone.
    Off,
    /// With a range cache.
    On,
    /// Alone, with the memory of the range cache as more block cache.
    MoreBlockCache,
}

/// In the order in which they run: the first one says at which moment the others are compared with
/// it.
pub(super) const ALL: [Variant; 3] = [Variant::Off, Variant::On, Variant::MoreBlockCache];

impl Variant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::Off => "off",
            Variant::On => "on",
            Variant::MoreBlockCache => "more-block-cache",
        }
    }
}

/// Settings for opening the store of a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// In the time of the store. `None`: its safe point is frozen.
    pub(super) retention: Option<Duration>,
    /// Bytes of the block cache of the store alone.
    pub(super) block_cache: u64,
    /// Bytes of the range cache.
    pub(super) range_cache: u64,
}

/// An open store.
pub(super) enum Opened {
    Alone(Store),
    Cached(RangeCache),
}

impl Opened {
    /// Opens a side of it in a directory.
    pub(super) fn open(
        dir: &Path,
        variant: Variant,
        settings: Settings,
        oracle: Arc<dyn TimestampOracle>,
    ) -> Result<Self> {
        let more = match variant {
            Variant::MoreBlockCache => settings.range_cache,
            Variant::Off | Variant::On => 0,
        };
        let options = StoreOptions {
            db: DbOptions {
                block_cache_size: settings.block_cache + more,
                ..DbOptions::default()
            },
            versions: ColumnFamilyOptions {
                // Small, as the tables are: in proportion, so that flushes and compactions come by.
                write_buffer_size: 16 << 20,
                ..ColumnFamilyOptions::default()
            },
            oracle: Some(oracle),
            retention: settings.retention,
            sweep_interval: StoreOptions::default().sweep_interval.div_f64(SPEED),
            ..StoreOptions::default()
        };
        Ok(match variant {
            Variant::Off | Variant::MoreBlockCache => Opened::Alone(Store::open(dir, &options)?),
            Variant::On => {
                let cache = CacheOptions {
                    memory_limit: settings.range_cache as usize,
                    ..CacheOptions::default()
                };
                Opened::Cached(RangeCache::open(dir, &options, &cache)?)
            }
        })
    }

    pub(super) fn store(&self) -> &Store {
        match self {
            Opened::Alone(store) => store,
            Opened::Cached(cache) => cache.store(),
        }
    }

    pub(super) fn cache(&self) -> Option<&RangeCache> {
        match self {
            Opened::Alone(_) => None,
            Opened::Cached(cache) => Some(cache),
        }
    }

    pub(super) fn close(self) -> Result<()> {
        match self {
            Opened::Alone(store) => store.close()?,
            Opened::Cached(cache) => cache.close()?,
        }
        Ok(())
    }
}
