//! The first key of a prefix: keys of 16 bytes, each with ten versions by a suffix of 8 bytes.

use std::path::Path;

use anyhow::{Result, bail};
use titan::{ColumnFamilyOptions, CompressionType, Db, DbOptions, Options, prefix};

#[cfg(feature = "rocksdb")]
use rocksdb::WaitForCompactOptions;

use super::sides::{Bench, Comparison, Side};
use crate::measure::device;

/// Small, so that there are several levels.
const WRITE_BUFFER: usize = 8 << 20;
const PREFIXES: usize = 100_000;
const VERSIONS: u64 = 10;
const VALUE: [u8; 100] = [b'v'; 100];
const READS: usize = 100_000;
const COLD_READS: usize = 5_000;
/// The block cache of the databases that are read from the device.
const SMALL_CACHE: u64 = 1 << 20;
/// Cache size of the others: all blocks fit.
const LARGE_CACHE: u64 = 1 << 30;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (dir, extent) = (bench.dir, bench.extent);
    let few = PREFIXES / 100;
    for (what, prefixes, compacted, cache, reads) in [
        (
            "few keys, one level, in the block cache",
            few,
            true,
            LARGE_CACHE,
            READS,
        ),
        (
            "one level, in the block cache",
            PREFIXES,
            true,
            LARGE_CACHE,
            READS,
        ),
        (
            "as written, in the block cache",
            PREFIXES,
            false,
            LARGE_CACHE,
            READS,
        ),
        (
            "one level, on the device",
            PREFIXES,
            true,
            SMALL_CACHE,
            COLD_READS,
        ),
        (
            "as written, on the device",
            PREFIXES,
            false,
            SMALL_CACHE,
            COLD_READS,
        ),
    ] {
        let prefixes = (prefixes / extent.divisor).max(1);
        let cold = cache == SMALL_CACHE;
        // A test does not take the caches of others away.
        if cold && (extent.divisor > 1 || device::may_drop_caches().is_err()) {
            continue;
        }
        let titan = open(&dir.join("titan"), cache)?;
        fill(prefixes, |key| Ok(titan.put(&key, &VALUE)?))?;
        if compacted {
            titan.compact_range(None, None, &Default::default())?;
        }
        titan.wait_idle()?;
        let reads = (reads / extent.divisor).max(1);
        let chill = || match cold {
            true => {
                device::sync();
                device::drop_caches()
            }
            false => Ok(()),
        };
        #[cfg(feature = "rocksdb")]
        let peer = peer::open(&dir.join("rocksdb"), cache)?;
        let mut sides = Vec::new();
        sides.extend([
            Side::new("titan, first_in_prefix", |round| {
                each(reads, prefixes, round, |key, version| {
                    // Between two versions: the newest one that is not newer than asked for.
                    let from = versioned(key, version * 2 + 1);
                    let found = titan.first_in_prefix(&from, &key)?;
                    check(
                        found.map(|(key, _)| key.to_vec()),
                        versioned(key, version * 2 + 2),
                    )
                })
            })
            .after(chill),
            Side::new("titan, get", |round| {
                each(reads, prefixes, round, |key, version| {
                    let key = versioned(key, version * 2 + 2);
                    check(titan.get(&key)?.map(|_| key.to_vec()), key)
                })
            })
            .after(chill),
        ]);
        #[cfg(feature = "rocksdb")]
        {
            fill(prefixes, |key| Ok(peer.put(key, VALUE)?))?;
            if compacted {
                peer.compact_range::<&[u8], &[u8]>(None, None);
            }
            peer.wait_for_compact(&WaitForCompactOptions::default())?;
            sides.push(
                Side::new("rocksdb, get", |round| {
                    each(reads, prefixes, round, |key, version| {
                        let key = versioned(key, version * 2 + 2);
                        check(peer.get_pinned(key)?.map(|_| key.to_vec()), key)
                    })
                })
                .after(chill),
            );
            sides.push(
                Side::new("rocksdb, seek within the prefix", |round| {
                    each(reads, prefixes, round, |key, version| {
                        let from = versioned(key, version * 2 + 1);
                        let found = peer::first(&peer, &from)?;
                        check(found, versioned(key, version * 2 + 2))
                    })
                })
                .after(chill),
            );
        }
        let name = format!("the first key of a prefix, {what}");
        let comparison = Comparison::new(name, sides);
        comparison.aiming_at(3.0).run(bench)?;
        std::fs::remove_dir_all(dir)?;
    }
    Ok(std::fs::create_dir_all(dir)?)
}

fn open(dir: &Path, cache: u64) -> Result<Db> {
    let options = Options {
        db: DbOptions {
            block_cache_size: cache,
            // What is written is read from the device afterwards.
            data_in_memory: titan::DataInMemory::Never,
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            compression: CompressionType::None,
            write_buffer_size: WRITE_BUFFER as u64,
            prefix_extractor: Some(prefix::fixed(16)),
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    std::fs::create_dir_all(dir)?;
    Ok(Db::open(dir, &options)?)
}

/// The key `n`; neighbours are far apart.
fn key(n: usize) -> [u8; 16] {
    let mut key = *b"................";
    let number = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn versioned(key: [u8; 16], version: u64) -> [u8; 24] {
    let mut full = [0; 24];
    full[..16].copy_from_slice(&key);
    full[16..].copy_from_slice(&version.to_be_bytes());
    full
}

/// Each version of all keys, one after the other; versions have even numbers from 2 on.
fn fill(prefixes: usize, mut put: impl FnMut([u8; 24]) -> Result<()>) -> Result<()> {
    for version in 1..=VERSIONS {
        for n in 0..prefixes {
            put(versioned(key(n), version * 2))?;
        }
    }
    Ok(())
}

fn each(
    reads: usize,
    prefixes: usize,
    seed: u64,
    mut read: impl FnMut([u8; 16], u64) -> Result<()>,
) -> Result<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..reads {
        read(key(rng.usize(..prefixes)), rng.u64(..VERSIONS))?;
    }
    Ok(reads)
}

fn check(found: Option<Vec<u8>>, expected: [u8; 24]) -> Result<()> {
    match found {
        Some(found) if found == expected => Ok(()),
        other => bail!("found {other:?} instead of {expected:?}"),
    }
}

#[cfg(feature = "rocksdb")]
mod peer {
    use std::path::Path;

    use anyhow::Result;
    use rocksdb::{
        BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, SliceTransform,
    };

    /// With filters over whole keys and over prefixes, as Titan's.
    pub(super) fn open(dir: &Path, cache: u64) -> Result<DB> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(cache as usize));
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_write_buffer_size(crate::features::prefixes::WRITE_BUFFER);
        options.set_level_compaction_dynamic_level_bytes(true);
        // As Titan opens its files.
        options.set_advise_random_on_open(true);
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(16));
        options.set_block_based_table_factory(&table);
        std::fs::create_dir_all(dir)?;
        Ok(DB::open(&options, dir)?)
    }

    pub(super) fn first(db: &DB, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut options = ReadOptions::default();
        options.set_prefix_same_as_start(true);
        let mut iter = db.raw_iterator_opt(options);
        iter.seek(from);
        iter.status()?;
        Ok(iter.item().map(|(key, _)| key.to_vec()))
    }
}
