//! fjall, with its values in blob files.

use std::path::Path;

use anyhow::Result;
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode,
};
use titan_workload::keys::Key;
use titan_workload::target::{Target, hand_over, hand_over_each};

use super::contract::{Engine, Held, OnEach, OnValue, Store, Visitor};
use crate::results::AboutEngine;
use crate::settings::{Compression, Durability, Settings};

pub(super) struct Fjall;

/// The nearest one that it has.
fn compression(settings: &Settings) -> CompressionType {
    match settings.compression {
        Compression::None => CompressionType::None,
        Compression::Lz4 | Compression::Zstd => CompressionType::Lz4,
    }
}

impl Fjall {
    fn keyspace(settings: &Settings) -> KeyspaceCreateOptions {
        let compression = compression(settings);
        let separation = KvSeparationOptions::default()
            .compression(compression)
            .separation_threshold(u32::try_from(settings.blob_threshold).unwrap_or(u32::MAX));
        let separation = match settings.garbage_share() {
            Some(share) => separation.staleness_threshold(share as f32).age_cutoff(1.0),
            None => separation,
        };
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
        KeyspaceCreateOptions::default()
            .max_memtable_size(settings.write_buffer)
            .filter_policy(FilterPolicy::all(bloom))
            .data_block_compression_policy(CompressionPolicy::all(compression))
            .with_kv_separation(Some(separation))
    }
}

impl Engine for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn about(&self, settings: &Settings) -> AboutEngine {
        let mut options = vec![
            ("max_memtable_size", settings.write_buffer.to_string()),
            ("cache_size", settings.block_cache.to_string()),
            ("worker_threads", settings.background_jobs.to_string()),
            (
                "filter_policy",
                "Bloom, 10 bits a key, on all levels".to_owned(),
            ),
            ("separation_threshold", settings.blob_threshold.to_string()),
            ("compression", format!("{:?}", compression(settings))),
            ("journal_compression", "None".to_owned()),
        ];
        if let Some(share) = settings.garbage_share() {
            options.push(("staleness_threshold", format!("{share:.3}")));
            options.push(("age_cutoff", "1.0".to_owned()));
        }
        let mut notes = vec![
            "has no deletes of ranges: keys are looked up and deleted in one batch".to_owned(),
        ];
        if settings.compression == Compression::Zstd {
            notes.push("has no Zstandard: LZ4 in its place".to_owned());
        }
        AboutEngine::new(self.name(), "3.1.13", options, notes)
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let db = Database::builder(dir)
            .cache_size(settings.block_cache)
            .worker_threads(settings.background_jobs.max(1) as usize)
            .journal_compression(CompressionType::None)
            .open()?;
        let keyspace = db.keyspace("default", || Self::keyspace(settings))?;
        Ok(Box::new(Opened {
            db,
            keyspace,
            synced: settings.durability == Durability::Synced,
        }))
    }
}

struct Opened {
    db: Database,
    keyspace: Keyspace,
    synced: bool,
}

impl Opened {
    fn written(&self) -> Result<()> {
        if self.synced {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Target for Opened {
    type Error = anyhow::Error;

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.keyspace.insert(key.as_slice(), value)?;
        self.written()
    }

    fn get(&self, key: &Key, value: OnValue<'_>) -> Result<bool> {
        let found = self.keyspace.get(key)?;
        hand_over(found.as_deref(), value)
    }

    fn multi_get(&self, keys: &[Key], value: OnEach<'_>) -> Result<()> {
        hand_over_each(keys.iter().map(|key| self.keyspace.get(key)), value)
    }

    fn scan(&self, from: &[u8], entry: Visitor<'_>) -> Result<()> {
        for found in self.keyspace.range(from.to_vec()..) {
            let (key, value) = found.into_inner()?;
            if !entry(&key, &value)? {
                break;
            }
        }
        Ok(())
    }

    fn delete(&self, key: &Key) -> Result<()> {
        self.keyspace.remove(key.as_slice())?;
        self.written()
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<()> {
        let durability = self.synced.then_some(PersistMode::SyncData);
        let mut batch = self.db.batch().durability(durability);
        for found in self.keyspace.range(from.as_slice()..to.as_slice()) {
            batch.remove(&self.keyspace, found.key()?);
        }
        Ok(batch.commit()?)
    }
}

impl Store for Opened {
    fn snapshot(&self) -> Result<Box<dyn Held + '_>> {
        Ok(Box::new(self.db.snapshot()))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
