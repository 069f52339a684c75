//! The store of versions, with a range cache or without.

use std::path::Path;

use titan::WriteOptions;
use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::{Store, StoreOptions, Timestamp};

use crate::error::Result;
use crate::options::StorageOptions;

/// The open store of versions.
pub(crate) enum Versions {
    Plain(Store),
    Cached(RangeCache),
}

impl Versions {
    /// Opens the store. Its safe point does not pass `held_at`.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub(crate) fn open(
        dir: &Path,
        options: &StorageOptions,
        held_at: Option<Timestamp>,
    ) -> Result<Self> {
        let store = StoreOptions {
            db: options.db.clone(),
            write: WriteOptions {
                sync: options.sync,
                ..WriteOptions::default()
            },
            retention: options.retention,
            held_at,
            refuse_clock_jump: options.refuse_clock_jump,
            ..StoreOptions::default()
        };
        Ok(match options.range_cache {
            None => Versions::Plain(Store::open(dir, &store)?),
            Some(memory_limit) => {
                let cache = CacheOptions {
                    memory_limit,
                    ..CacheOptions::default()
                };
                Versions::Cached(RangeCache::open(dir, &store, &cache)?)
            }
        })
    }

    pub(crate) fn store(&self) -> &Store {
        match self {
            Versions::Plain(store) => store,
            Versions::Cached(cache) => cache.store(),
        }
    }

    pub(crate) fn cache(&self) -> Option<&RangeCache> {
        match self {
            Versions::Plain(_) => None,
            Versions::Cached(cache) => Some(cache),
        }
    }

    /// # Errors
    /// Those of [`Store::close`].
    pub(crate) fn close(&self) -> Result<()> {
        Ok(self.store().close()?)
    }
}
