//! RocksDB, plain and with blob files.

use std::path::Path;

use anyhow::{Context, Result};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, DB, DBCompressionType, Options, ReadOptions,
    WriteOptions,
};

use super::{Engine, Held, OnEach, OnValue, Store, Visitor, hand_over, hand_over_each};
use crate::results::AboutEngine;
use crate::settings::{Compression, Durability, Settings};
use crate::work::keys::Key;

/// The only column family.
const FAMILY: &str = "default";

pub(super) struct RocksDb {
    name: &'static str,
    blob_files: bool,
}

impl RocksDb {
    pub(super) const PLAIN: Self = RocksDb {
        name: "rocksdb",
        blob_files: false,
    };

    pub(super) const WITH_BLOB_FILES: Self = RocksDb {
        name: "rocksdb-blob",
        blob_files: true,
    };

    fn options(&self, settings: &Settings) -> Options {
        let compression = match settings.compression {
            Compression::None => DBCompressionType::None,
            Compression::Lz4 => DBCompressionType::Lz4,
            Compression::Zstd => DBCompressionType::Zstd,
        };
        let cache = Cache::new_lru_cache(settings.block_cache as usize);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&cache);
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(compression);
        options.set_write_buffer_size(settings.write_buffer as usize);
        options.set_max_background_jobs(settings.background_jobs as i32);
        options.set_level_compaction_dynamic_level_bytes(true);
        // For bytes by kind. Without times and distributions, which would cost it speed.
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        options.set_use_direct_io_for_flush_and_compaction(settings.direct_io);
        if self.blob_files {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(settings.blob_threshold);
            options.set_blob_compression_type(compression);
            options.set_enable_blob_gc(true);
            if let Some(threshold) = settings.garbage_share() {
                options.set_blob_gc_age_cutoff(1.0);
                options.set_blob_gc_force_threshold(threshold);
            }
        }
        options
    }
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self, settings: &Settings) -> AboutEngine {
        let mut options = vec![
            ("write_buffer_size", settings.write_buffer.to_string()),
            ("block_cache", settings.block_cache.to_string()),
            ("max_background_jobs", settings.background_jobs.to_string()),
            ("bloom_bits_per_key", "10".to_owned()),
            ("compression", format!("{:?}", settings.compression)),
            ("level_compaction_dynamic_level_bytes", "true".to_owned()),
            ("statistics", "counters only".to_owned()),
            (
                "use_direct_io_for_flush_and_compaction",
                settings.direct_io.to_string(),
            ),
        ];
        let mut notes = Vec::new();
        if self.blob_files {
            options.push(("enable_blob_files", "true".to_owned()));
            options.push(("min_blob_size", settings.blob_threshold.to_string()));
            options.push(("enable_blob_garbage_collection", "true".to_owned()));
            if let Some(threshold) = settings.garbage_share() {
                options.push(("blob_garbage_collection_age_cutoff", "1.0".to_owned()));
                options.push((
                    "blob_garbage_collection_force_threshold",
                    format!("{threshold:.3}"),
                ));
                notes.push(
                    "to keep to the space asked for, compactions move every value that they meet"
                        .to_owned(),
                );
            }
        } else if settings.space_amplification.is_some() {
            notes.push("has no option that bounds space; its levels do".to_owned());
        }
        AboutEngine::new(
            self.name,
            "of the crate librocksdb-sys 0.19.0: 11.8.1",
            options,
            notes,
        )
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let options = self.options(settings);
        // Named, so that there is a handle of it for calls that want one.
        let db = DB::open_cf_with_opts(&options, dir, [(FAMILY, options.clone())])?;
        let mut write = WriteOptions::default();
        write.set_sync(settings.durability == Durability::Synced);
        Ok(Box::new(Opened { db, options, write }))
    }
}

struct Opened {
    db: DB,
    /// It has the statistics.
    options: Options,
    write: WriteOptions,
}

impl Opened {
    fn family(&self) -> Result<&ColumnFamily> {
        self.db
            .cf_handle(FAMILY)
            .context("the only column family is gone")
    }
}

impl Store for Opened {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn get(&self, key: &Key, value: OnValue<'_>) -> Result<bool> {
        let found = self.db.get_pinned(key)?;
        hand_over(found.as_deref(), value)
    }

    fn multi_get(&self, keys: &[Key], value: OnEach<'_>) -> Result<()> {
        let family = self.family()?;
        hand_over_each(self.db.batched_multi_get_cf(family, keys, false), value)
    }

    fn scan(&self, from: &[u8], entry: Visitor<'_>) -> Result<()> {
        let mut entries = self.db.raw_iterator_opt(ReadOptions::default());
        entries.seek(from);
        while let Some((key, value)) = entries.item() {
            if !entry(key, value)? {
                return Ok(());
            }
            entries.next();
        }
        Ok(entries.status()?)
    }

    fn delete(&self, key: &Key) -> Result<()> {
        Ok(self.db.delete_opt(key, &self.write)?)
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<()> {
        let family = self.family()?;
        Ok(self.db.delete_range_cf_opt(family, from, to, &self.write)?)
    }

    fn snapshot(&self) -> Result<Box<dyn Held + '_>> {
        Ok(Box::new(self.db.snapshot()))
    }

    fn written(&self) -> Vec<(String, u64)> {
        let kinds = [
            ("WAL", Ticker::WalFileBytes),
            ("SST by flushes", Ticker::FlushWriteBytes),
            ("SST by compaction", Ticker::CompactWriteBytes),
            ("blob files", Ticker::BlobDbBlobFileBytesWritten),
        ];
        kinds
            .map(|(kind, ticker)| (kind.to_owned(), self.options.get_ticker_count(ticker)))
            .to_vec()
    }

    fn close(self: Box<Self>) -> Result<()> {
        // What is left in the memtable stays in the WAL, as it does for the others.
        drop(self.db);
        Ok(())
    }
}
