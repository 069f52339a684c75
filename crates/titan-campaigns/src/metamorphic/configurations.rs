//! The configurations whose outcomes must be equal. To add one, add an entry to
//! [`CONFIGURATIONS`].

use std::sync::Arc;

use titan::vfs::Vfs;
use titan::{
    ColumnFamilyOptions, CompactionFilter, CompactionFilterFactory, CompressionType, DataInMemory,
    Decision, FilterContext, FilterEntry, Options, ReverseBytewiseComparator, Stated, prefix,
};

use titan_testkit::apply::{Logging, Manner, merge_operator};

/// The options of a database for a list of operations.
#[derive(Clone, Copy)]
pub struct Configuration {
    /// Its name in failures and cases.
    pub name: &'static str,
    /// Changes the options of a small database, at its opening of this number.
    pub set: fn(&mut Options, usize),
    /// Way in which writes are made durable.
    pub logging: Logging,
    /// Whether writes go through transactions.
    pub transactions: bool,
    /// Whether every second put writes an entity.
    pub entities: bool,
    /// Whether options change between operations.
    pub changes_options: bool,
    /// Whether every requested compaction rewrites the last level.
    pub bottommost: bool,
    /// Whether it is not known where a value is: `set` depends on the number, or entities stay in
    /// tables however large they are.
    pub changing: bool,
    /// Whether the files are the operating system's, not simulated ones.
    pub real_files: bool,
}

impl Configuration {
    /// Way in which operations are performed.
    pub fn manner(&self) -> Manner {
        Manner {
            logging: self.logging,
            transactions: self.transactions,
            entities: self.entities,
            changes_options: self.changes_options,
            thorough: true,
            ..Manner::default()
        }
    }

    /// The options of a small database with files in `vfs`, for its opening of this number.
    pub fn options(&self, vfs: Arc<dyn Vfs>, opening: usize) -> Options {
        let mut options = Options::default();
        options.db.vfs = vfs;
        options.db.block_cache_size = 256 << 10;
        options.default.write_buffer_size = 64 << 10;
        options.default.merge_operator = merge_operator();
        (self.set)(&mut options, opening);
        options
    }
}

const fn configuration(name: &'static str, set: fn(&mut Options, usize)) -> Configuration {
    Configuration {
        name,
        set,
        logging: Logging::AsAsked,
        transactions: false,
        entities: false,
        changes_options: false,
        bottommost: false,
        changing: false,
        real_files: false,
    }
}

/// Levels that a few hundred keys fill.
fn tiny_levels(o: &mut ColumnFamilyOptions) {
    o.max_bytes_for_level_base = 4 << 10;
    o.target_file_size_base = 1 << 10;
    o.max_bytes_for_level_multiplier = 2;
    o.block_size = 256;
}

fn separated_from(o: &mut Options, min_blob_size: u64) {
    o.default.min_blob_size = min_blob_size;
}

/// Collects garbage as soon as there is a little.
fn collected(o: &mut ColumnFamilyOptions) {
    o.blob_file_size = 64 << 10;
    o.enable_blob_garbage_collection = true;
    o.blob_garbage_collection_low_threshold = 0.02;
}

fn compressed(o: &mut Options, tables: CompressionType, blobs: CompressionType) {
    o.default.compression = tables;
    o.default.blob_compression_type = blobs;
}

fn reversed(o: &mut ColumnFamilyOptions) {
    o.comparator = Arc::new(ReverseBytewiseComparator);
}

/// A filter that reads two of three values, and writes them again as they are.
struct WritesAgain;

impl CompactionFilterFactory for WritesAgain {
    fn name(&self) -> &str {
        "tests.WritesAgain"
    }

    fn create(&self, _: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(WritesAgain))
    }

    fn at_flush(&self) -> bool {
        true
    }
}

impl CompactionFilter for WritesAgain {
    fn filter(&mut self, entry: &FilterEntry<'_>) -> titan::Result<Decision> {
        Ok(match entry.sequence().0 % 4 {
            0 => Decision::Keep,
            // A key that is not after this one: the entry stays.
            1 => Decision::SkipUntil(entry.key().to_vec()),
            _ => Decision::ChangeValue(entry.value().fetch()?.to_vec()),
        })
    }
}

/// All of them.
pub const CONFIGURATIONS: &[Configuration] = &[
    configuration("defaults", |_, _| {}),
    configuration("no separation", |o, _| o.default.enable_blob_files = false),
    configuration("no separation, tiny levels", |o, _| {
        o.default.enable_blob_files = false;
        tiny_levels(&mut o.default);
    }),
    configuration("separated from 1 B", |o, _| {
        separated_from(o, 1);
        o.default.level0_file_num_compaction_trigger = 2;
    }),
    configuration(
        "separated from 1 B, tiny levels, small blob files",
        |o, _| {
            separated_from(o, 1);
            o.default.blob_file_size = 64 << 10;
            tiny_levels(&mut o.default);
        },
    ),
    configuration("separated from 100 B, tiny levels", |o, _| {
        separated_from(o, 100);
        o.default.level0_file_num_compaction_trigger = 1;
        tiny_levels(&mut o.default);
    }),
    configuration("separated from 4 KiB, tiny levels, four jobs", |o, _| {
        separated_from(o, 4 << 10);
        o.db.max_background_jobs = 4;
        o.default.level0_file_num_compaction_trigger = 2;
        tiny_levels(&mut o.default);
    }),
    configuration("separated from 1 B, garbage collected", |o, _| {
        separated_from(o, 1);
        collected(&mut o.default);
    }),
    configuration(
        "separated from 100 B, garbage collected, tiny levels, cold",
        |o, _| {
            separated_from(o, 100);
            o.db.max_open_files = 16;
            o.db.block_cache_size = 0;
            o.db.max_background_jobs = 4;
            collected(&mut o.default);
            tiny_levels(&mut o.default);
        },
    ),
    configuration("separated from 1 B, garbage given back as holes", |o, _| {
        separated_from(o, 1);
        collected(&mut o.default);
        o.default.blob_garbage_collection_punch_holes = true;
    }),
    configuration("separated from 64 KiB", |o, _| separated_from(o, 64 << 10)),
    configuration("separated from 1 MiB, three jobs", |o, _| {
        separated_from(o, 1 << 20);
        o.db.max_background_jobs = 3;
    }),
    configuration("one job, no cache, few files, no filter", |o, _| {
        o.db.max_background_jobs = 1;
        o.db.block_cache_size = 0;
        o.db.max_open_files = 16;
        o.default.bloom_bits_per_key = 0.0;
        o.default.block_restart_interval = 1;
        o.default.level0_file_num_compaction_trigger = 3;
        tiny_levels(&mut o.default);
    }),
    configuration(
        "no cache, few files, small filters, many blob files",
        |o, _| {
            o.db.block_cache_size = 0;
            o.db.max_open_files = 16;
            o.default.bloom_bits_per_key = 1.0;
            o.default.blob_file_size = 64 << 10;
            separated_from(o, 30);
        },
    ),
    configuration("two levels", |o, _| {
        o.default.num_levels = 2;
        o.default.level0_file_num_compaction_trigger = 2;
        separated_from(o, 100);
    }),
    configuration("three levels, three jobs, small MANIFEST", |o, _| {
        o.default.num_levels = 3;
        o.db.max_background_jobs = 3;
        o.db.max_manifest_file_size = 4096;
        separated_from(o, 100);
        tiny_levels(&mut o.default);
    }),
    configuration("compactions only when asked for", |o, _| {
        o.default.disable_auto_compactions = true;
        o.default.level0_slowdown_writes_trigger = 1000;
        o.default.level0_stop_writes_trigger = 1000;
        separated_from(o, 1000);
    }),
    configuration("many memtables", |o, _| {
        o.default.max_write_buffer_number = 6;
        o.default.block_restart_interval = 4096;
        separated_from(o, 1000);
    }),
    configuration("nothing compressed", |o, _| {
        compressed(o, CompressionType::None, CompressionType::None);
        o.default.block_restart_interval = 3;
    }),
    configuration("snappy and lz4", |o, _| {
        compressed(o, CompressionType::Snappy, CompressionType::Lz4);
        separated_from(o, 100);
    }),
    configuration("lz4 and zstd", |o, _| {
        compressed(o, CompressionType::Lz4, CompressionType::Zstd);
        separated_from(o, 1000);
    }),
    configuration("zstd and zstd, tiny levels", |o, _| {
        compressed(o, CompressionType::Zstd, CompressionType::Zstd);
        separated_from(o, 1);
        tiny_levels(&mut o.default);
    }),
    configuration("reversed order", |o, _| reversed(&mut o.default)),
    configuration("reversed order, tiny levels", |o, _| {
        reversed(&mut o.default);
        separated_from(o, 100);
        tiny_levels(&mut o.default);
    }),
    configuration("reversed order, two levels, zstd", |o, _| {
        reversed(&mut o.default);
        o.default.num_levels = 2;
        o.default.level0_file_num_compaction_trigger = 2;
        compressed(o, CompressionType::Zstd, CompressionType::Lz4);
    }),
    configuration("families with different options", |o, _| {
        let mut first = o.default.clone();
        reversed(&mut first);
        first.enable_blob_files = false;
        let mut second = o.default.clone();
        second.min_blob_size = 1;
        second.num_levels = 4;
        second.compression = CompressionType::Zstd;
        tiny_levels(&mut second);
        o.families = [("cf1".to_owned(), first), ("cf2".to_owned(), second)].into();
    }),
    Configuration {
        bottommost: true,
        ..configuration("compactions rewrite the last level", |o, _| {
            separated_from(o, 100);
            tiny_levels(&mut o.default);
        })
    },
    Configuration {
        logging: Logging::Synced,
        ..configuration("every write synced", |o, _| separated_from(o, 100))
    },
    Configuration {
        logging: Logging::Unlogged,
        ..configuration("no write logged", |o, _| separated_from(o, 100))
    },
    Configuration {
        logging: Logging::Mixed,
        ..configuration("some writes not logged, small WAL", |o, _| {
            o.db.max_total_wal_size = 8 << 10;
            separated_from(o, 100);
        })
    },
    Configuration {
        changing: true,
        ..configuration("options that change", |o, opening| {
            o.default.enable_blob_files = opening % 2 == 0;
            o.default.min_blob_size = [100, 1, 4096][opening % 3];
            let (lz4, zstd) = (CompressionType::Lz4, CompressionType::Zstd);
            let tables = [lz4, zstd, CompressionType::Snappy][opening % 3];
            let blobs = [CompressionType::None, lz4, zstd][opening / 2 % 3];
            compressed(o, tables, blobs);
            o.default.block_size = [256, 4096][opening % 2];
            o.db.max_background_jobs = 1 + opening % 4;
            if opening % 4 < 2 {
                tiny_levels(&mut o.default);
            }
        })
    },
    Configuration {
        transactions: true,
        ..configuration("transactions, tiny levels", |o, _| {
            separated_from(o, 100);
            tiny_levels(&mut o.default);
        })
    },
    Configuration {
        transactions: true,
        logging: Logging::Mixed,
        ..configuration("transactions, some writes not logged", |o, _| {
            o.db.max_total_wal_size = 8 << 10;
            separated_from(o, 1);
        })
    },
    Configuration {
        entities: true,
        changing: true,
        ..configuration("entities, tiny levels", |o, _| {
            separated_from(o, 100);
            tiny_levels(&mut o.default);
            collected(&mut o.default);
        })
    },
    Configuration {
        entities: true,
        changing: true,
        transactions: true,
        ..configuration(
            "entities in transactions, that a filter writes again",
            |o, _| {
                o.default.compaction_filter = Some(Arc::new(WritesAgain));
                separated_from(o, 100);
                tiny_levels(&mut o.default);
            },
        )
    },
    configuration("prefixes of two bytes, tiny levels", |o, _| {
        o.default.prefix_extractor = Some(prefix::capped(2));
        separated_from(o, 100);
        tiny_levels(&mut o.default);
    }),
    configuration("prefixes of whole keys", |o, _| {
        o.default.prefix_extractor = Some(prefix::fixed(4));
        o.default.level0_file_num_compaction_trigger = 2;
    }),
    configuration("values that a filter writes again", |o, _| {
        o.default.compaction_filter = Some(Arc::new(WritesAgain));
        separated_from(o, 100);
        tiny_levels(&mut o.default);
        collected(&mut o.default);
    }),
    Configuration {
        changing: true,
        changes_options: true,
        ..configuration("options that change between operations", |o, _| {
            o.default.stated = Stated::fields(&["max_bytes_for_level_base"]);
            collected(&mut o.default);
            tiny_levels(&mut o.default);
        })
    },
    Configuration {
        real_files: true,
        ..configuration("real files, direct I/O", |o, _| {
            o.db.use_direct_io_for_flush_and_compaction = true;
            separated_from(o, 100);
        })
    },
    Configuration {
        real_files: true,
        ..configuration("real files, the kernel's cache, tiny levels", |o, _| {
            o.db.data_in_memory = DataInMemory::Always;
            separated_from(o, 100);
            tiny_levels(&mut o.default);
        })
    },
    Configuration {
        real_files: true,
        logging: Logging::Mixed,
        ..configuration("real files, some writes not logged, small WAL", |o, _| {
            o.db.max_total_wal_size = 16 << 10;
            o.db.max_background_jobs = 3;
            separated_from(o, 1);
        })
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_and_they_can_be_told_apart() {
        assert!(CONFIGURATIONS.len() >= 24);
        for (n, configuration) in CONFIGURATIONS.iter().enumerate() {
            let first = CONFIGURATIONS
                .iter()
                .position(|c| c.name == configuration.name);
            assert_eq!(first, Some(n), "{}", configuration.name);
            assert!(!configuration.name.contains(';'), "names stand in lists");
        }
    }
}
