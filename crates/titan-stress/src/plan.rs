//! The plan of one life of the stressed process, which it reads from a file.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use titan::{ColumnFamilyOptions, CompressionType, DbOptions, Options, Stated};

use crate::keys::{EDGES, Family};

/// The sizes of an actor's data; the same for all lives of a database.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Scale {
    /// Threads that write, each to its own keys. One more writes without a log.
    pub writers: usize,
    /// Keys of an actor in each family, excluding accounts and single-deleted keys.
    pub keys: u32,
    /// Bytes of the largest values.
    pub max_value: usize,
    /// The percentage of writes that are synced.
    pub synced: u8,
    /// Bytes of the smallest and the largest write buffers.
    pub buffers: (u64, u64),
}

impl Scale {
    /// The number of actors: the writers, the one without a log, the maintainer.
    pub fn actors(&self) -> usize {
        self.writers + 2
    }

    /// The actor whose writes are not logged.
    pub fn unlogged(&self) -> usize {
        self.writers
    }

    /// The actor that flushes, syncs and closes, and has no keys.
    pub fn maintainer(&self) -> usize {
        self.writers + 1
    }
}

/// The plan of one life of the stressed process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The database.
    pub dir: PathBuf,
    /// The seed of all randomness in this life.
    pub seed: u64,
    /// The version of each actor's next operation.
    pub next: Vec<u64>,
    /// The file system may be full: then the process waits until told that it is not.
    pub may_fill_up: bool,
    /// Whether to close while threads still read and write, and iterators pin files.
    pub close_at_work: bool,
    /// The sizes.
    pub scale: Scale,
    /// Options of the database.
    pub options: Options,
}

impl Plan {
    /// Writes the plan to a file.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let text = toml::to_string(self).map_err(|e| e.to_string())?;
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Reads a plan from a file.
    pub fn load(path: &Path) -> Result<Plan, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| format!("{}: {e}", path.display()))?;
        toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Options for one life: small buffers and files, so that everything happens often.
pub fn options(rng: &mut Rng, scale: &Scale) -> Options {
    let buffers = |rng: &mut Rng| rng.u64(scale.buffers.0..=scale.buffers.1);
    let mut options = Options {
        db: DbOptions {
            max_open_files: choose(rng, &[16, 64, 1000]),
            max_background_jobs: rng.usize(1..=4),
            block_cache_size: choose(rng, &[0, 64 << 10, 4 << 20]),
            max_total_wal_size: choose(rng, &[0, scale.buffers.0, 4 * scale.buffers.1]),
            use_direct_io_for_flush_and_compaction: rng.bool(),
            delayed_write_rate: choose(rng, &[4 << 20, 64 << 20]),
            max_manifest_file_size: choose(rng, &[4096, 64 << 10, 64 << 20]),
            ..DbOptions::default()
        },
        ..Options::default()
    };
    options.default = family(rng, buffers);
    options.default.enable_blob_files = rng.bool();
    for name in [Family::Inline, Family::Blobs] {
        let mut family = family(rng, buffers);
        family.enable_blob_files = name == Family::Blobs;
        options.families.insert(name.name(0), family);
    }
    options
}

fn family(rng: &mut Rng, buffers: impl Fn(&mut Rng) -> u64) -> ColumnFamilyOptions {
    let trigger = rng.usize(1..=4);
    let slowdown = trigger + rng.usize(..8);
    ColumnFamilyOptions {
        write_buffer_size: buffers(rng),
        max_write_buffer_number: rng.usize(2..=4),
        level0_file_num_compaction_trigger: trigger,
        level0_slowdown_writes_trigger: slowdown,
        level0_stop_writes_trigger: slowdown + rng.usize(..8),
        max_bytes_for_level_base: rng.u64(128 << 10..2 << 20),
        max_bytes_for_level_multiplier: rng.u64(2..=8),
        target_file_size_base: rng.u64(32 << 10..512 << 10),
        block_size: choose(rng, &[512, 4096, 16 << 10]),
        block_restart_interval: choose(rng, &[1, 4, 16]),
        bloom_bits_per_key: choose(rng, &[0.0, 2.0, 10.0]),
        compression: choose(
            rng,
            &[
                CompressionType::None,
                CompressionType::Snappy,
                CompressionType::Lz4,
                CompressionType::Zstd,
            ],
        ),
        min_blob_size: choose(rng, &EDGES) as u64,
        blob_file_size: rng.u64(64 << 10..2 << 20),
        blob_compression_type: choose(
            rng,
            &[
                CompressionType::None,
                CompressionType::None,
                CompressionType::Lz4,
                CompressionType::Zstd,
            ],
        ),
        stated: Stated::all(),
        ..ColumnFamilyOptions::default()
    }
}

/// One of `of`, which is not empty.
pub fn choose<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_the_same_after_a_way_through_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan");
        for seed in 0..50 {
            let scale = Scale {
                writers: 3,
                keys: 100,
                max_value: 1000,
                synced: 5,
                buffers: (64 << 10, 512 << 10),
            };
            let options = options(&mut Rng::with_seed(seed), &scale);
            options.validate().unwrap();
            let plan = Plan {
                dir: "/db".into(),
                seed,
                next: vec![1, 2, 3],
                may_fill_up: false,
                close_at_work: true,
                scale,
                options,
            };
            plan.save(&path).unwrap();
            assert_eq!(
                format!("{:?}", Plan::load(&path).unwrap()),
                format!("{plan:?}")
            );
        }
    }
}
