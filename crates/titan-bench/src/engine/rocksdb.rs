//! RocksDB, plain and with blob files.

use std::fmt::Display;
use std::path::Path;

use anyhow::{Context, Result};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, DB, DBCompressionType, Options, ReadOptions,
    WriteOptions,
};
use titan_workload::keys::Key;
use titan_workload::target::{Target, hand_over, hand_over_each};

use super::contract::{Engine, Held, OnEach, OnValue, Store, Visitor};
use crate::results::AboutEngine;
use crate::settings::{Compression, Durability, Settings};

/// The only column family.
const FAMILY: &str = "default";
const BLOOM_BITS: u8 = 10;

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

    fn set_up(&self, settings: &Settings) -> SetUp {
        let compression = match settings.compression {
            Compression::None => DBCompressionType::None,
            Compression::Lz4 => DBCompressionType::Lz4,
            Compression::Zstd => DBCompressionType::Zstd,
        };
        let cache = Cache::new_lru_cache(settings.block_cache as usize);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&cache);
        table.set_bloom_filter(f64::from(BLOOM_BITS), false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(compression);
        // For bytes by kind. Without times and distributions, which would make it slower.
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        let mut set_up = SetUp {
            options,
            told: vec![
                ("block_cache", settings.block_cache.to_string()),
                ("bloom_bits_per_key", BLOOM_BITS.to_string()),
                ("compression", format!("{compression:?}")),
                ("statistics", "counters only".to_owned()),
            ],
        };
        set_up.set("write_buffer_size", settings.write_buffer, |o, bytes| {
            o.set_write_buffer_size(bytes as usize);
        });
        set_up.set(
            "max_background_jobs",
            settings.background_jobs,
            |o, jobs| {
                o.set_max_background_jobs(jobs as i32);
            },
        );
        set_up.set("level_compaction_dynamic_level_bytes", true, |o, on| {
            o.set_level_compaction_dynamic_level_bytes(on);
        });
        set_up.set(
            "use_direct_io_for_flush_and_compaction",
            settings.direct_io,
            Options::set_use_direct_io_for_flush_and_compaction,
        );
        if self.blob_files {
            set_up.options.set_blob_compression_type(compression);
            set_up.set("enable_blob_files", true, Options::set_enable_blob_files);
            set_up.set("min_blob_size", settings.blob_threshold, |o, bytes| {
                o.set_min_blob_size(bytes);
            });
            let collection = "enable_blob_garbage_collection";
            set_up.set(collection, true, Options::set_enable_blob_gc);
            if let Some(threshold) = settings.garbage_share() {
                let age = "blob_garbage_collection_age_cutoff";
                set_up.set(age, 1.0, Options::set_blob_gc_age_cutoff);
                let force = "blob_garbage_collection_force_threshold";
                set_up.set(force, threshold, Options::set_blob_gc_force_threshold);
            }
        }
        set_up
    }
}

/// RocksDB's options, and their description for reports.
struct SetUp {
    options: Options,
    told: Vec<(&'static str, String)>,
}

impl SetUp {
    fn set<T: Copy + Display>(
        &mut self,
        name: &'static str,
        value: T,
        set: impl FnOnce(&mut Options, T),
    ) {
        set(&mut self.options, value);
        self.told.push((name, value.to_string()));
    }
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self, settings: &Settings) -> AboutEngine {
        let mut notes = Vec::new();
        if settings.space_amplification.is_some() {
            notes.push(match self.blob_files {
                true => {
                    "to keep to the space asked for, compactions move every value that they meet"
                }
                false => "has no option that bounds space; its levels do",
            });
        }
        let notes = notes.into_iter().map(str::to_owned).collect();
        AboutEngine::new(
            self.name,
            "of the crate librocksdb-sys 0.19.0: 11.8.1",
            self.set_up(settings).told,
            notes,
        )
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let SetUp { options, .. } = self.set_up(settings);
        // Named, so that there is a handle for calls that need one.
        let db = DB::open_cf_with_opts(&options, dir, [(FAMILY, options.clone())])?;
        let mut write = WriteOptions::default();
        write.set_sync(settings.durability == Durability::Synced);
        Ok(Box::new(Opened { db, options, write }))
    }
}

struct Opened {
    db: DB,
    /// The options own the statistics.
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

impl Target for Opened {
    type Error = anyhow::Error;

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
}

impl Store for Opened {
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
        // What is left in the memtable stays in the WAL, as with the other engines.
        drop(self.db);
        Ok(())
    }
}
