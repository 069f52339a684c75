//! Titan.

use std::path::Path;

use anyhow::Result;
use titan::{
    ColumnFamilyId, ColumnFamilyOptions, CompressionType, Db, DbOptions, Options, ReadOptions,
    WriteBatch, WriteOptions,
};

use super::{Engine, Held, OnEach, OnValue, Store, Visitor, hand_over, hand_over_each};
use crate::results::AboutEngine;
use crate::settings::{Compression, Durability, Settings};
use crate::work::keys::Key;

pub(super) struct Titan;

fn options(settings: &Settings) -> Options {
    let compression = match settings.compression {
        Compression::None => CompressionType::None,
        Compression::Lz4 => CompressionType::Lz4,
        Compression::Zstd => CompressionType::Zstd,
    };
    let family = ColumnFamilyOptions::default();
    Options {
        db: DbOptions {
            create_if_missing: true,
            block_cache_size: settings.block_cache,
            max_background_jobs: settings.background_jobs as usize,
            use_direct_io_for_flush_and_compaction: settings.direct_io,
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            write_buffer_size: settings.write_buffer,
            compression,
            blob_compression_type: compression,
            min_blob_size: settings.blob_threshold,
            max_space_amp: settings.space_amplification.unwrap_or(family.max_space_amp),
            ..family
        },
        ..Options::default()
    }
}

impl Engine for Titan {
    fn name(&self) -> &'static str {
        "titan"
    }

    fn about(&self, settings: &Settings) -> AboutEngine {
        let Options { db, default, .. } = options(settings);
        let options = [
            ("write_buffer_size", default.write_buffer_size.to_string()),
            ("block_cache_size", db.block_cache_size.to_string()),
            ("max_background_jobs", db.max_background_jobs.to_string()),
            ("bloom_bits_per_key", default.bloom_bits_per_key.to_string()),
            ("compression", format!("{:?}", default.compression)),
            ("min_blob_size", default.min_blob_size.to_string()),
            ("max_space_amp", default.max_space_amp.to_string()),
            (
                "use_direct_io_for_flush_and_compaction",
                db.use_direct_io_for_flush_and_compaction.to_string(),
            ),
        ];
        let notes = vec![
            "collects garbage in a thread beside its background jobs".to_owned(),
            "max_space_amp allows up to 256 MiB beside it".to_owned(),
        ];
        AboutEngine::new(self.name(), env!("CARGO_PKG_VERSION"), options, notes)
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        Ok(Box::new(Opened {
            db: Db::open(dir, &options(settings))?,
            write: WriteOptions {
                sync: settings.durability == Durability::Synced,
                ..WriteOptions::default()
            },
            read: ReadOptions::default(),
        }))
    }
}

struct Opened {
    db: Db,
    write: WriteOptions,
    read: ReadOptions,
}

impl Opened {
    fn write(&self, add: impl FnOnce(&mut WriteBatch) -> titan::Result<()>) -> Result<()> {
        let mut batch = WriteBatch::new();
        add(&mut batch)?;
        Ok(self.db.write(batch, &self.write)?)
    }
}

impl Store for Opened {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.write(|batch| batch.put(ColumnFamilyId::DEFAULT, key, value))
    }

    fn get(&self, key: &Key, value: OnValue<'_>) -> Result<bool> {
        let found = self.db.get_with(key, &self.read)?;
        hand_over(found.as_deref(), value)
    }

    fn multi_get(&self, keys: &[Key], value: OnEach<'_>) -> Result<()> {
        hand_over_each(self.db.multi_get(keys, &self.read), value)
    }

    fn scan(&self, from: &[u8], entry: Visitor<'_>) -> Result<()> {
        let mut entries = self.db.iter(&self.read)?;
        entries.seek(from)?;
        while entries.valid() {
            let value = entries.value()?;
            if !entry(entries.key(), &value)? {
                break;
            }
            entries.next()?;
        }
        Ok(())
    }

    fn delete(&self, key: &Key) -> Result<()> {
        self.write(|batch| batch.delete(ColumnFamilyId::DEFAULT, key))
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<()> {
        self.write(|batch| batch.delete_range(ColumnFamilyId::DEFAULT, from, to))
    }

    fn snapshot(&self) -> Result<Box<dyn Held + '_>> {
        Ok(Box::new(self.db.snapshot()))
    }

    fn written(&self) -> Vec<(String, u64)> {
        let statistics = self.db.statistics();
        let kinds = [
            ("WAL", statistics.wal_bytes()),
            ("SST by flushes", statistics.flush_sst_bytes()),
            ("blob by flushes", statistics.flush_blob_bytes()),
            ("SST by compaction", statistics.compaction_sst_bytes()),
            ("blob by compaction", statistics.compaction_blob_bytes()),
            ("blob by collection", statistics.gc_blob_bytes()),
            ("MANIFEST", statistics.manifest_bytes()),
        ];
        kinds.map(|(kind, bytes)| (kind.to_owned(), bytes)).to_vec()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}
