//! Titan.

use std::path::Path;

use anyhow::Result;
use titan::{ColumnFamilyOptions, CompressionType, Db, DbOptions, Options};

use super::contract::{Engine, Held, Store};
use crate::results::AboutEngine;
use crate::settings::{Compression, Durability, Settings};

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
        let db = Db::open(dir, &options(settings))?;
        Ok(Box::new(Opened::new(
            db,
            settings.durability == Durability::Synced,
        )))
    }
}

/// An open database; its errors become those of this program.
type Opened = titan_workload::titan::Titan<anyhow::Error>;

impl Store for Opened {
    fn snapshot(&self) -> Result<Box<dyn Held + '_>> {
        Ok(Box::new(self.db().snapshot()))
    }

    fn written(&self) -> Vec<(String, u64)> {
        let statistics = self.db().statistics();
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
        Ok(Opened::close(*self)?)
    }
}
