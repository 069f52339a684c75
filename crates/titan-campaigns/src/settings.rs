//! The settings of a workload: small ones, so that a few hundred writes cause flushes, separation
//! and compactions. As text they are part of a regression.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use titan::{ColumnFamilyOptions, CompressionType, DbOptions, Options, Stated};
use titan_testkit::apply::merge_operator;
use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::sim::SimVfs;

/// Values of at least this size go to blob files, unless settings say otherwise.
pub const MIN_BLOB: u64 = 100;

/// The compressions, by name.
pub(crate) const COMPRESSIONS: [(&str, CompressionType); 4] = [
    ("none", CompressionType::None),
    ("snappy", CompressionType::Snappy),
    ("lz4", CompressionType::Lz4),
    ("zstd", CompressionType::Zstd),
];

/// Settings in which workloads differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `max_background_jobs`.
    pub jobs: usize,
    /// Of tables, and of blob files if they support it.
    pub compression: CompressionType,
    /// Values of at least this size go to blob files; `None` leaves all in the tables.
    pub min_blob: Option<u64>,
    /// `max_total_wal_size`, bytes; 0 for the engine's default.
    pub wal_limit: u64,
    /// `num_levels`.
    pub levels: usize,
    /// Target size of a table, bytes; the base level has room for eight of them.
    pub table: u64,
    /// Writes bypass the WAL, so that only flushes make them durable.
    pub unlogged: bool,
    /// Each opening switches separation off or on again.
    pub toggles: bool,
    /// Almost nothing is cached: neither blocks nor open files.
    pub cold: bool,
    /// Garbage in blob files is collected as soon as there is a little.
    pub collects: bool,
    /// Space is freed by punching holes where suitable.
    pub punches: bool,
    /// Background jobs end before the next operation, so that runs are similar.
    pub settled: bool,
    /// Every second put writes an entity.
    pub entities: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            jobs: 2,
            compression: CompressionType::None,
            min_blob: Some(MIN_BLOB),
            wal_limit: 0,
            levels: 4,
            table: 4 << 10,
            unlogged: false,
            toggles: false,
            cold: false,
            collects: false,
            punches: false,
            settled: false,
            entities: false,
        }
    }
}

impl Settings {
    /// The usual settings with this many background jobs.
    pub fn jobs(jobs: usize) -> Settings {
        Settings {
            jobs,
            ..Settings::default()
        }
    }

    /// Random settings.
    pub fn random(rng: &mut fastrand::Rng) -> Settings {
        let rarely = |rng: &mut fastrand::Rng| rng.u8(..5) == 0;
        let compression = COMPRESSIONS[rng.usize(..COMPRESSIONS.len())].1;
        Settings {
            jobs: rng.usize(1..=4),
            compression: if rng.bool() {
                CompressionType::None
            } else {
                compression
            },
            min_blob: (!rarely(rng)).then(|| [1, MIN_BLOB, MIN_BLOB, 1000][rng.usize(..4)]),
            wal_limit: [0, 0, 16 << 10, 100 << 10][rng.usize(..4)],
            levels: [2, 4, 4, 7][rng.usize(..4)],
            table: [1 << 10, 4 << 10, 4 << 10, 32 << 10][rng.usize(..4)],
            unlogged: rarely(rng),
            toggles: rarely(rng),
            cold: rarely(rng),
            settled: rng.bool(),
            collects: rng.bool(),
            punches: rng.bool(),
            entities: rarely(rng),
        }
    }

    /// The engine's options for a database in `vfs`.
    pub fn options(&self, vfs: &SimVfs) -> Options {
        let family = ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            level0_file_num_compaction_trigger: 2,
            max_bytes_for_level_base: 8 * self.table,
            max_bytes_for_level_multiplier: 4,
            num_levels: self.levels,
            target_file_size_base: self.table,
            block_size: 512,
            enable_blob_files: self.min_blob.is_some(),
            min_blob_size: self.min_blob.unwrap_or(MIN_BLOB),
            blob_file_size: 64 << 10,
            compression: self.compression,
            blob_compression_type: match self.compression {
                // Not for blob files.
                CompressionType::Snappy => CompressionType::None,
                other => other,
            },
            enable_blob_garbage_collection: self.collects,
            blob_garbage_collection_low_threshold: 0.05,
            blob_garbage_collection_punch_holes: self.punches,
            merge_operator: merge_operator(),
            stated: Stated::all(),
            ..ColumnFamilyOptions::default()
        };
        Options {
            db: DbOptions {
                vfs: Arc::new(vfs.clone()),
                max_background_jobs: self.jobs,
                max_total_wal_size: self.wal_limit,
                block_cache_size: if self.cold { 0 } else { 1 << 20 },
                max_open_files: if self.cold { 16 } else { 1000 },
                // Small enough that the MANIFEST is sometimes replaced while it is in use.
                max_manifest_file_size: 4096,
                ..DbOptions::default()
            },
            default: family,
            ..Options::default()
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = COMPRESSIONS.iter().find(|(_, c)| *c == self.compression);
        let compression = named.map_or("none", |(name, _)| name);
        write!(f, "jobs={} compression={compression}", self.jobs)?;
        match self.min_blob {
            Some(bytes) => write!(f, " min-blob={bytes}")?,
            None => f.write_str(" min-blob=never")?,
        }
        let (wal_limit, levels, table) = (self.wal_limit, self.levels, self.table);
        write!(f, " wal-limit={wal_limit} levels={levels} table={table}")?;
        let flags = [
            (self.unlogged, "unlogged"),
            (self.toggles, "toggles"),
            (self.cold, "cold"),
            (self.collects, "collects"),
            (self.punches, "punches"),
            (self.settled, "settled"),
            (self.entities, "entities"),
        ];
        let set = flags.iter().filter(|(is_set, _)| *is_set);
        set.map(|(_, name)| name)
            .try_for_each(|name| write!(f, " {name}"))
    }
}

impl FromStr for Settings {
    type Err = CheckFailure;

    /// Parses the output of `Display`; omitted settings have the usual values.
    fn from_str(text: &str) -> Checked<Settings> {
        let mut settings = Settings::default();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let unknown = || CheckFailure::wrong(format!("unknown setting {word}"));
            let number = || value.parse::<u64>().map_err(|_| unknown());
            match name {
                "jobs" => settings.jobs = number()? as usize,
                "compression" => {
                    let named = COMPRESSIONS.iter().find(|(name, _)| *name == value);
                    settings.compression = named.ok_or_else(unknown)?.1;
                }
                "min-blob" if value == "never" => settings.min_blob = None,
                "min-blob" => settings.min_blob = Some(number()?),
                "wal-limit" => settings.wal_limit = number()?,
                "levels" => settings.levels = number()? as usize,
                "table" => settings.table = number()?,
                "unlogged" => settings.unlogged = true,
                "toggles" => settings.toggles = true,
                "cold" => settings.cold = true,
                "collects" => settings.collects = true,
                "punches" => settings.punches = true,
                "settled" => settings.settled = true,
                "entities" => settings.entities = true,
                _ => return Err(unknown()),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_text_and_the_engine_takes_them() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let settings = Settings::random(&mut rng);
            let text = settings.to_string();
            assert_eq!(text.parse::<Settings>().unwrap(), settings, "{text}");
            settings.options(&SimVfs::new()).validate().unwrap();
        }
        "jobs=x".parse::<Settings>().unwrap_err();
        "colour=red".parse::<Settings>().unwrap_err();
    }
}
