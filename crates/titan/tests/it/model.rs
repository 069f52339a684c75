//! Random operations on the engine, compared with sorted maps, over many configurations.
//!
//! `TITAN_TEST_SECONDS` makes the test run for so long, with new seeds all the time;
//! `TITAN_TEST_SEED` starts with another seed; `TITAN_TEST_REDUCE` makes a failing list small.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbIterator,
    Options, ReadOptions, ReverseBytewiseComparator, Snapshot, WriteBatch, WriteOptions,
};
use titan_testkit::model::{DEFAULT, Model};
use titan_testkit::ops::{Generator, Op, Ops, Write, reduce};
use titan_testkit::sim::SimVfs;

use crate::support::{DIR, RECORD_HEADER, files, options};

type Check = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err(format!($($what)*));
        }
    };
}

/// How a database is set up for a run.
#[derive(Clone, Copy)]
struct Config {
    name: &'static str,
    /// Changes the options of a small database. The number counts the openings.
    set: fn(&mut Options, usize),
    /// Options differ between openings, so where a value lies is not known.
    changing: bool,
    /// Some writes are not logged.
    unlogged: bool,
}

const fn config(name: &'static str, set: fn(&mut Options, usize)) -> Config {
    Config {
        name,
        set,
        changing: false,
        unlogged: false,
    }
}

fn tiny_levels(o: &mut ColumnFamilyOptions) {
    o.max_bytes_for_level_base = 4 << 10;
    o.target_file_size_base = 1 << 10;
    o.max_bytes_for_level_multiplier = 2;
    o.block_size = 256;
}

const CONFIGS: &[Config] = &[
    config("defaults", |_, _| {}),
    config("no separation, tiny levels", |o, _| {
        o.default.enable_blob_files = false;
        tiny_levels(&mut o.default);
    }),
    config("everything separated", |o, _| {
        o.default.min_blob_size = 1;
        o.default.level0_file_num_compaction_trigger = 2;
    }),
    config("separated from 100, tiny levels", |o, _| {
        o.default.min_blob_size = 100;
        o.default.level0_file_num_compaction_trigger = 1;
        tiny_levels(&mut o.default);
    }),
    config("separated from 4096, four threads", |o, _| {
        o.default.min_blob_size = 4096;
        o.db.max_background_jobs = 4;
        o.default.level0_file_num_compaction_trigger = 2;
        tiny_levels(&mut o.default);
    }),
    config("one thread, no cache, few files, no filter", |o, _| {
        o.db.max_background_jobs = 1;
        o.db.block_cache_size = 0;
        o.db.max_open_files = 16;
        o.default.bloom_bits_per_key = 0.0;
        o.default.block_restart_interval = 1;
        o.default.level0_file_num_compaction_trigger = 3;
        tiny_levels(&mut o.default);
    }),
    config("snappy and lz4", |o, _| {
        o.default.compression = CompressionType::Snappy;
        o.default.blob_compression_type = CompressionType::Lz4;
        o.default.min_blob_size = 100;
    }),
    config("zstd and zstd", |o, _| {
        o.default.compression = CompressionType::Zstd;
        o.default.blob_compression_type = CompressionType::Zstd;
        o.default.min_blob_size = 1;
        tiny_levels(&mut o.default);
    }),
    config("no compression and zstd", |o, _| {
        o.default.compression = CompressionType::None;
        o.default.blob_compression_type = CompressionType::Zstd;
        o.default.block_restart_interval = 3;
    }),
    config("reversed order", |o, _| {
        o.default.comparator = std::sync::Arc::new(ReverseBytewiseComparator);
        o.default.min_blob_size = 100;
        tiny_levels(&mut o.default);
    }),
    config("reversed order, few levels", |o, _| {
        o.default.comparator = std::sync::Arc::new(ReverseBytewiseComparator);
        o.default.num_levels = 2;
        o.default.level0_file_num_compaction_trigger = 2;
    }),
    config("small blob files, three levels", |o, _| {
        o.default.min_blob_size = 100;
        o.default.blob_file_size = 64 << 10;
        o.default.num_levels = 3;
        o.db.max_background_jobs = 3;
        o.db.max_manifest_file_size = 4096;
        tiny_levels(&mut o.default);
    }),
    Config {
        unlogged: true,
        ..config("unlogged writes, small WAL", |o, _| {
            o.default.min_blob_size = 100;
            o.db.max_total_wal_size = 8 << 10;
        })
    },
    Config {
        changing: true,
        ..config("options that change", |o, opening| {
            o.default.enable_blob_files = opening % 2 == 0;
            o.default.min_blob_size = [100, 1, 4096][opening % 3];
            o.default.compression = [
                CompressionType::Lz4,
                CompressionType::Zstd,
                CompressionType::Snappy,
            ][opening % 3];
            o.default.blob_compression_type = [
                CompressionType::None,
                CompressionType::Lz4,
                CompressionType::Zstd,
            ][opening / 2 % 3];
            o.default.block_size = [256, 4096][opening % 2];
            if opening % 4 < 2 {
                tiny_levels(&mut o.default);
            }
        })
    },
];

/// An iterator kept over other operations, with what it must go on to show.
struct Held {
    iterator: DbIterator,
    family: String,
    sees: Model,
}

struct Run {
    config: Config,
    vfs: SimVfs,
    openings: usize,
    db: Option<Db>,
    reversed: bool,
    model: Model,
    snapshots: BTreeMap<u32, (Snapshot, Model)>,
    held: Vec<Held>,
    rng: fastrand::Rng,
}

fn text(e: titan::Error) -> String {
    format!("error: {e} {e:?}")
}

/// A key such that the reversed order of stored keys is the plain order of what they stand for.
fn turned(key: &[u8]) -> Vec<u8> {
    let mut stored: Vec<u8> = key.iter().flat_map(|byte| [0x80, !byte]).collect();
    stored.push(0xff);
    stored
}

impl Run {
    fn new(config: Config, seed: u64) -> Result<Run, String> {
        let mut run = Run {
            config,
            vfs: SimVfs::new(),
            openings: 0,
            db: None,
            reversed: false,
            model: Model::new(),
            snapshots: BTreeMap::new(),
            held: Vec::new(),
            rng: fastrand::Rng::with_seed(seed ^ 0x5eed),
        };
        run.open()?;
        Ok(run)
    }

    fn options(&self) -> Options {
        let mut options = options(&self.vfs, ColumnFamilyOptions::default());
        options.default.write_buffer_size = 64 << 10;
        options.db.block_cache_size = 256 << 10;
        (self.config.set)(&mut options, self.openings);
        options
    }

    fn open(&mut self) -> Check {
        // The journal would keep every byte ever written.
        self.vfs.restart_journal();
        let options = self.options();
        self.reversed = options.default.comparator.name() != "leveldb.BytewiseComparator";
        self.db = Some(Db::open(DIR, &options).map_err(text)?);
        Ok(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn family(&self, name: &str) -> Result<ColumnFamily, String> {
        let family = self.db().column_family(name);
        family.ok_or_else(|| format!("family {name} is missing"))
    }

    fn stored(&self, key: &[u8]) -> Vec<u8> {
        if self.reversed {
            turned(key)
        } else {
            key.to_vec()
        }
    }

    fn sees(&self, at: Option<u32>) -> (Model, ReadOptions) {
        let mut options = ReadOptions::default();
        let model = match at.and_then(|id| self.snapshots.get(&id)) {
            Some((snapshot, model)) => {
                options.snapshot = Some(snapshot.clone());
                model
            }
            None => &self.model,
        };
        (model.clone(), options)
    }

    fn apply(&mut self, op: &Op) -> Check {
        match op {
            Op::Write { writes, sync } => self.write(writes, *sync)?,
            Op::Get { family, key, at } => self.get(family, key, *at)?,
            Op::Scan {
                family,
                from,
                to,
                reverse,
                at,
            } => self.scan(family, from.as_deref(), to.as_deref(), *reverse, *at)?,
            Op::Snapshot { id } => {
                let taken = (self.db().snapshot(), self.model.clone());
                self.snapshots.insert(*id, taken);
            }
            Op::DropSnapshot { id } => drop(self.snapshots.remove(id)),
            Op::Flush { family } => self.family(family)?.flush().map_err(text)?,
            Op::Compact { family } => self.compact(family)?,
            Op::Reopen => return self.reopen(),
            Op::CreateCf { family } => {
                let options = self.options().default;
                let created = self.db().create_column_family(family, options);
                created.map_err(text)?;
            }
            Op::DropCf { family } => {
                let handle = self.family(family)?;
                self.db().drop_column_family(&handle).map_err(text)?;
                ensure!(handle.get(b"k").is_err(), "a dropped family is read");
            }
        }
        self.model.apply(op);
        match op {
            Op::Flush { family } | Op::Compact { family } => self.compare(family),
            _ => Ok(()),
        }
    }

    fn write(&mut self, writes: &[Write], sync: bool) -> Check {
        let mut batch = WriteBatch::new();
        for write in writes {
            let family = self.family(write.family())?;
            match write {
                Write::Put { key, value, .. } => {
                    batch.put(&family, self.stored(key), value.bytes())
                }
                Write::Delete { key, .. } => batch.delete(&family, self.stored(key)),
                Write::SingleDelete { key, .. } => batch.single_delete(&family, self.stored(key)),
                Write::DeleteRange { from, to, .. } => {
                    batch.delete_range(&family, self.stored(from), self.stored(to))
                }
            }
            .map_err(text)?;
        }
        let options = WriteOptions {
            sync,
            disable_wal: self.config.unlogged && !sync && self.rng.u8(..4) == 0,
            no_slowdown: false,
        };
        self.db().write(batch, &options).map_err(text)
    }

    fn get(&mut self, family: &str, key: &[u8], at: Option<u32>) -> Check {
        let (model, options) = self.sees(at);
        let handle = self.family(family)?;
        let expected = model.get(family, key);
        let stored = self.stored(key);
        let found = handle.get_with(&stored, &options).map_err(text)?;
        ensure!(
            found.as_deref() == expected,
            "get: {found:?}, not {expected:?}"
        );
        let contains = handle.contains_key_with(&stored, &options).map_err(text)?;
        ensure!(contains == expected.is_some(), "contains_key: {contains}");
        let lazy = handle.get_lazy(&stored, &options).map_err(text)?;
        match (&lazy, expected) {
            (None, None) => {}
            (Some(lazy), Some(expected)) => {
                let len = lazy.len().unwrap_or(expected.len() as u64);
                ensure!(len == expected.len() as u64, "get_lazy: length {len}");
                ensure!(
                    lazy.fetch().map_err(text)? == expected,
                    "get_lazy: other bytes"
                );
            }
            _ => return Err(format!("get_lazy: {lazy:?}, not {expected:?}")),
        }
        // The same key among others, there or not, twice.
        let mut keys = vec![key.to_vec(), b"none".to_vec(), key.to_vec()];
        keys.extend(
            model
                .scan(family, Some(key), None)
                .take(5)
                .map(|(k, _)| k.to_vec()),
        );
        self.rng.shuffle(&mut keys);
        let stored: Vec<Vec<u8>> = keys.iter().map(|key| self.stored(key)).collect();
        for (key, found) in keys.iter().zip(handle.multi_get(&stored, &options)) {
            let (found, expected) = (found.map_err(text)?, model.get(family, key));
            ensure!(found.as_deref() == expected, "multi_get {key:?}: {found:?}");
        }
        Ok(())
    }

    fn scan(
        &mut self,
        family: &str,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        reverse: bool,
        at: Option<u32>,
    ) -> Check {
        let (model, mut options) = self.sees(at);
        options.lower_bound = from.map(|key| self.stored(key));
        options.upper_bound = to.map(|key| self.stored(key));
        options.prefetch_values = [0, 1, 7, 128][self.rng.usize(..4)];
        options.fill_cache = self.rng.bool();
        let handle = self.family(family)?;
        let pairs = |prefix: &[u8]| -> Vec<(Vec<u8>, Vec<u8>)> {
            let found = model.scan(family, from, to);
            let found = found.filter(|(key, _)| key.starts_with(prefix));
            found.map(|(k, v)| (self.stored(k), v.to_vec())).collect()
        };
        let expected = pairs(b"");
        let mut iterator = handle.iter(&options).map_err(text)?;
        for backward in [reverse, !reverse] {
            walk(&mut iterator, &expected, backward)?;
        }
        if let (Some(from), false) = (from, self.reversed) {
            let prefix = from[..from.len().min(1 + from.len() / 2)].to_vec();
            let expected = pairs(&prefix);
            options.prefix = Some(prefix);
            let mut iterator = handle.iter(&options).map_err(text)?;
            walk(&mut iterator, &expected, reverse)?;
        }
        if from.is_none() && to.is_none() {
            let wanted = self.rng.u8(..4) == 0;
            if wanted && self.held.len() < 3 {
                self.held.push(Held {
                    iterator,
                    family: family.to_owned(),
                    sees: model,
                });
            } else if !self.held.is_empty() {
                let at = self.rng.usize(..self.held.len());
                let mut held = self.held.swap_remove(at);
                let pairs = self.contents(&held.sees, &held.family);
                walk(&mut held.iterator, &pairs, reverse)?;
            }
        }
        Ok(())
    }

    fn contents(&self, model: &Model, family: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = model.scan(family, None, None);
        pairs.map(|(k, v)| (self.stored(k), v.to_vec())).collect()
    }

    /// Everything in a family, now and in every snapshot.
    fn compare(&self, family: &str) -> Check {
        let handle = self.family(family)?;
        let snapshots = self.snapshots.keys().map(|id| Some(*id));
        for at in snapshots.chain([None]) {
            let (model, options) = self.sees(at);
            // A family of this name may have been another one then.
            if family != DEFAULT && at.is_some() {
                continue;
            }
            let mut iterator = handle.iter(&options).map_err(text)?;
            let expected = self.contents(&model, family);
            walk(&mut iterator, &expected, false).map_err(|e| format!("snapshot {at:?}: {e}"))?;
        }
        Ok(())
    }

    fn compact(&mut self, family: &str) -> Check {
        let handle = self.family(family)?;
        let force_bottommost = self.rng.bool();
        let options = CompactRangeOptions { force_bottommost };
        if self.rng.bool() {
            let (a, b) = (format!("k{:04}", self.rng.u8(..60)), self.rng.u8(..60));
            let b = format!("k{b:04}");
            let (a, b) = if a < b { (a, b) } else { (b, a) };
            let (a, b) = (self.stored(a.as_bytes()), self.stored(b.as_bytes()));
            return handle
                .compact_range(Some(&a), Some(&b), &options)
                .map_err(text);
        }
        let exact = force_bottommost && self.snapshots.is_empty() && !self.config.changing;
        if exact {
            // They may hold snapshots.
            self.held.clear();
        }
        handle.compact_range(None, None, &options).map_err(text)?;
        if exact {
            self.only_what_is_visible_is_referenced(family)?;
        }
        Ok(())
    }

    /// After everything was merged, live are exactly the records of the values there are.
    fn only_what_is_visible_is_referenced(&self, family: &str) -> Check {
        let handle = self.family(family)?;
        let options = self.options().default;
        let mut expected = 0;
        for (key, value) in self.model.scan(family, None, None) {
            if options.enable_blob_files && value.len() as u64 >= options.min_blob_size {
                let key = self.stored(key);
                let lazy = handle
                    .get_lazy(&key, &ReadOptions::default())
                    .map_err(text)?;
                let stored = lazy.ok_or("a key is missing")?.stored_len();
                expected += RECORD_HEADER + key.len() as u64 + stored;
            }
        }
        let m = handle.metrics();
        ensure!(
            m.live_blob_bytes == expected,
            "live {} not {expected}",
            m.live_blob_bytes
        );
        ensure!(
            m.live_blob_bytes + m.garbage_blob_bytes == m.blob_bytes,
            "live and garbage are not all: {m:?}"
        );
        Ok(())
    }

    /// What the MANIFEST counts, and that nothing else is in the directory.
    fn accounts(&self) -> Result<Vec<(String, usize, u64, u64)>, String> {
        self.db().wait_idle().map_err(text)?;
        let metrics = self.db().metrics();
        let blobs: usize = metrics.families.iter().map(|f| f.blob_files).sum();
        let tables = metrics.families.iter().flat_map(|f| &f.levels);
        let tables: usize = tables.map(|l| l.files).sum();
        for (suffix, expected) in [(".blob", blobs), (".sst", tables)] {
            let found = files(&self.vfs, DIR, suffix);
            ensure!(
                found.len() == expected,
                "{expected} files {suffix} are live, but there are {found:?}: {metrics:?}"
            );
        }
        for f in &metrics.families {
            let referenced: u64 = f.levels.iter().map(|l| l.referenced_blob_bytes).sum();
            ensure!(
                referenced == f.live_blob_bytes,
                "tables refer to {referenced} bytes, files count {} as live (BLOB-3)",
                f.live_blob_bytes
            );
        }
        let families = metrics.families.into_iter();
        Ok(families
            .map(|f| {
                (
                    f.name,
                    f.blob_files,
                    f.live_blob_bytes,
                    f.garbage_blob_bytes,
                )
            })
            .collect())
    }

    fn reopen(&mut self) -> Check {
        self.held.clear();
        self.snapshots.clear();
        let flushed = self.rng.bool();
        let mut before = Vec::new();
        if flushed {
            self.db().flush_all().map_err(text)?;
            before = self.accounts()?;
        }
        if self.rng.bool() {
            self.db().close().map_err(text)?;
        }
        self.db = None;
        self.openings += 1;
        self.open()?;
        if flushed && !self.config.changing {
            let after = self.accounts()?;
            ensure!(
                after == before,
                "before {before:?}, after {after:?} (BLOB-3)"
            );
        }
        self.accounts()?;
        let mut families: Vec<String> = self.model.families().map(str::to_owned).collect();
        let mut found: Vec<String> = self
            .db()
            .column_families()
            .iter()
            .map(|f| f.name().into())
            .collect();
        families.sort();
        found.sort();
        ensure!(found == families, "families {found:?}, not {families:?}");
        families.iter().try_for_each(|family| self.compare(family))
    }
}

fn walk(iterator: &mut DbIterator, expected: &[(Vec<u8>, Vec<u8>)], backward: bool) -> Check {
    let mut left: Box<dyn Iterator<Item = &(Vec<u8>, Vec<u8>)>> = if backward {
        iterator.seek_to_last().map_err(text)?;
        Box::new(expected.iter().rev())
    } else {
        iterator.seek_to_first().map_err(text)?;
        Box::new(expected.iter())
    };
    while iterator.valid() {
        let Some((key, value)) = left.next() else {
            return Err(format!("too much: {:?}", iterator.key()));
        };
        ensure!(iterator.key() == key, "{:?}, not {key:?}", iterator.key());
        let found = iterator.value().map_err(text)?;
        ensure!(
            found == value,
            "value of {key:?}: {} bytes, not {}",
            found.len(),
            value.len()
        );
        if backward {
            iterator.prev()
        } else {
            iterator.next()
        }
        .map_err(text)?;
    }
    match left.next() {
        Some((key, _)) => Err(format!("missing: {key:?}, backward {backward}")),
        None => Ok(()),
    }
}

fn run(config: Config, seed: u64, ops: &[Op]) -> Check {
    let mut run = Run::new(config, seed)?;
    for (n, op) in ops.iter().enumerate() {
        run.apply(op)
            .map_err(|e| format!("operation {n}, {op}: {e}"))?;
    }
    run.apply(&Op::Reopen)
}

fn generator(seed: u64) -> Generator {
    let mut generator = Generator::with_seed(seed);
    generator.value_sizes = vec![0, 1, 1, 30, 99, 100, 101, 1000, 4095, 4096, 4097];
    generator.keys = if seed.is_multiple_of(2) { 60 } else { 400 };
    generator.weights.flush = 30;
    generator.weights.compact = 8;
    generator
}

/// Operations of one list: enough to fill levels, few enough to be reduced.
const LIST: usize = 3000;

fn check(config: Config, seed: u64) {
    let ops = generator(seed).ops(LIST).0;
    if let Err(e) = run(config, seed, &ops) {
        let mut shown = String::new();
        if std::env::var_os("TITAN_TEST_REDUCE").is_some() {
            // Background work makes some failures come and go: several attempts.
            let fails = |ops: &[Op]| (0..3).any(|_| run(config, seed, ops).is_err());
            shown = Ops(reduce(ops, fails)).to_string();
        }
        panic!("{}, seed {seed}: {e}\n{shown}", config.name);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Each configuration that `part` of three is for, with a few seeds or for as long as asked.
fn check_part(part: usize) {
    let start = number("TITAN_TEST_SEED").unwrap_or(1);
    let seconds = number("TITAN_TEST_SECONDS").unwrap_or(0);
    let until = Instant::now() + Duration::from_secs(seconds);
    for seed in start.. {
        for config in CONFIGS.iter().skip(part).step_by(3) {
            check(*config, seed);
        }
        if seed + 1 >= start + 6 && Instant::now() >= until {
            break;
        }
    }
}

#[test]
fn engine_and_model_agree_first_third() {
    check_part(0);
}

#[test]
fn engine_and_model_agree_second_third() {
    check_part(1);
}

#[test]
fn engine_and_model_agree_last_third() {
    check_part(2);
}
