//! `repair`: what survives is kept, losses are reported, and nothing else is made up.

mod damage;
mod directories;
mod ingested;
mod interrupted;
mod manifest;
mod orphans;
mod wals;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use titan::vfs::Vfs;
use titan::{ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, Options, WriteBatch};
use titan_testkit::sim::SimVfs;
use titan_tools::{RepairReport, RepairTo, check, repair};

use titan_testkit::setup::{DIR, options};

const REPAIRED: &str = "/repaired";

type Key = (String, Vec<u8>);

/// A database, and everything that its keys ever had.
struct Case {
    vfs: SimVfs,
    options: Options,
    /// Every value a key had, newest last; `None` while it did not exist.
    history: BTreeMap<Key, Vec<Option<Vec<u8>>>>,
}

fn small() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        target_file_size_base: 4 << 10,
        max_bytes_for_level_base: 8 << 10,
        block_size: 256,
        min_blob_size: 100,
        blob_file_size: 64 << 10,
        disable_auto_compactions: true,
        enable_blob_garbage_collection: false,
        ..ColumnFamilyOptions::default()
    }
}

impl Case {
    /// A database with everything that one can have: several levels, tombstones of each kind, blob
    /// files with garbage, WAL files that are still needed.
    fn with_seed(seed: u64) -> Case {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = SimVfs::new();
        let mut options = options(&vfs, small());
        options.default.compression = [CompressionType::None, CompressionType::Lz4][rng.usize(..2)];
        options.default.blob_compression_type =
            [CompressionType::None, CompressionType::Zstd][rng.usize(..2)];
        if rng.bool() {
            options
                .families
                .insert("second".to_owned(), options.default.clone());
        }
        let mut case = Case {
            vfs,
            options,
            history: BTreeMap::new(),
        };
        let mut db = case.open(DIR);
        for _ in 0..rng.usize(100..600) {
            match rng.u32(..200) {
                0..=2 => db.flush_all().unwrap(),
                3 => {
                    for family in db.column_families() {
                        let all = CompactRangeOptions::default();
                        family.compact_range(None, None, &all).unwrap();
                    }
                }
                4 => {
                    db.close().unwrap();
                    db = case.open(DIR);
                }
                5 if db.column_family("late").is_none() => {
                    let options = case.options.default.clone();
                    db.create_column_family("late", options).unwrap();
                }
                _ => case.write(&db, &mut rng),
            }
        }
        db.close().unwrap();
        case
    }

    fn open(&self, dir: &str) -> Db {
        Db::open(dir, &self.options).unwrap()
    }

    /// The current MANIFEST.
    fn manifest(&self) -> String {
        let current = self.vfs.read_all(format!("{DIR}/CURRENT")).unwrap();
        format!("{DIR}/{}", String::from_utf8_lossy(&current).trim())
    }

    fn write(&mut self, db: &Db, rng: &mut fastrand::Rng) {
        let mut batch = WriteBatch::new();
        for _ in 0..rng.usize(1..4) {
            let families = db.column_families();
            let family = &families[rng.usize(..families.len())];
            let key = |n: usize| format!("key{n:03}").into_bytes();
            let n = rng.usize(..80);
            let mut set = |n: usize, value: Option<Vec<u8>>| {
                let values = self.history.entry((family.name().to_owned(), key(n)));
                values.or_insert_with(|| vec![None]).push(value);
            };
            match rng.u32(..10) {
                0 => {
                    batch.delete(family.id(), key(n)).unwrap();
                    set(n, None);
                }
                1 if rng.bool() => {
                    let end = (n + rng.usize(1..6)).min(80);
                    batch.delete_range(family.id(), key(n), key(end)).unwrap();
                    (n..end).for_each(|n| set(n, None));
                }
                _ => {
                    let mut value = vec![0; [10, 60, 150, 400][rng.usize(..4)]];
                    rng.fill(&mut value);
                    batch.put(family.id(), key(n), &value).unwrap();
                    set(n, Some(value));
                }
            }
        }
        db.write(batch, &titan::WriteOptions::default()).unwrap();
    }

    fn newest(&self) -> BTreeMap<Key, Vec<u8>> {
        let newest = self.history.iter();
        newest
            .filter_map(|(key, values)| Some((key.clone(), values.last()?.clone()?)))
            .collect()
    }

    /// The same on another file system: a copy of the directory, all of it durable.
    fn on_a_copy(&self) -> Case {
        let vfs = SimVfs::new();
        vfs.create_dir_all(Path::new(DIR)).unwrap();
        for name in self.vfs.list(DIR).unwrap() {
            let path = format!("{DIR}/{name}");
            vfs.write_all(&path, &self.vfs.read_all(&path).unwrap())
                .unwrap();
        }
        vfs.sync_all().unwrap();
        self.on(vfs)
    }

    fn on(&self, vfs: SimVfs) -> Case {
        let mut options = self.options.clone();
        options.db.vfs = Arc::new(vfs.clone());
        Case {
            vfs,
            options,
            history: self.history.clone(),
        }
    }

    fn repair(&self, to: &RepairTo) -> RepairReport {
        repair(Path::new(DIR), to, &self.options, &mut |_| {}).unwrap()
    }

    fn contents(&self, dir: &str) -> BTreeMap<Key, Vec<u8>> {
        let db = self.open(dir);
        let mut all = BTreeMap::new();
        for family in db.column_families() {
            let mut iter = family.iter(&titan::ReadOptions::default()).unwrap();
            iter.seek_to_first().unwrap();
            while iter.valid() {
                let value = iter.value().unwrap().to_vec();
                let key = iter.key().to_vec();
                assert_eq!(family.get(&key).unwrap().as_deref(), Some(&value[..]));
                all.insert((family.name().to_owned(), key), value);
                iter.next().unwrap();
            }
        }
        db.close().unwrap();
        all
    }

    /// The repaired database is sound, has nothing that never existed, and differs from the newest
    /// state only where the report says so.
    fn verify(&self, dir: &str, report: &RepairReport, what: &str) {
        let checked = check(Path::new(dir), &self.options, &mut |_| {}).unwrap();
        assert!(
            checked.problems.is_empty(),
            "{what}: {:?}",
            checked.problems
        );
        let contents = self.contents(dir);
        let newest = self.newest();
        let keys: BTreeSet<&Key> = contents.keys().chain(newest.keys()).collect();
        for (family, key) in keys {
            let id = (family.clone(), key.clone());
            let (found, expected) = (contents.get(&id), newest.get(&id));
            if found == expected {
                continue;
            }
            let place = format!("{what}: {family} {}", key.escape_ascii());
            if let Some(found) = found {
                let known = self
                    .history
                    .get(&id)
                    .is_some_and(|values| values.iter().any(|value| value.as_ref() == Some(found)));
                // Without a MANIFEST a family's name may be lost.
                assert!(
                    known || family.starts_with("recovered"),
                    "{place}: never had this value"
                );
            }
            // Without a MANIFEST nothing is lost but names and the knowledge of what was deleted.
            let nameless = contents
                .keys()
                .any(|(name, _)| name.starts_with("recovered"));
            let told = report.lost.iter().any(|loss| {
                let is_manifest = loss.file.starts_with("MANIFEST");
                (!is_manifest || expected.is_none() || nameless)
                    && loss.family.as_ref().is_none_or(|name| name == family)
                    && loss.from.as_ref().is_none_or(|from| from <= key)
                    && loss.to.as_ref().is_none_or(|to| to >= key)
            });
            assert!(told, "{place}: not told of\n{report:#?}");
        }
    }
}

/// An empty database, and the number of its WAL.
fn empty() -> (Case, u32) {
    let vfs = SimVfs::new();
    let options = options(&vfs, small());
    let case = Case {
        vfs,
        options,
        history: BTreeMap::new(),
    };
    case.open(DIR).close().unwrap();
    let names = case.vfs.list(DIR).unwrap();
    let wal = names.iter().find_map(|name| name.strip_suffix(".log"));
    (case, wal.unwrap().parse().unwrap())
}
