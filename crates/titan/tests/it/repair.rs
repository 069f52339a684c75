//! `repair`: what survives is there, what is gone is told, and nothing else is made up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use titan::tools::{RepairReport, RepairTo, check, repair};
use titan::vfs::Vfs;
use titan::{
    ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, ErrorKind, Options, WriteBatch,
};
use titan_testkit::sim::{Errno, Fault, Loss as CrashLoss, OpKind, SimVfs};

use crate::support::{DIR, options};

const REPAIRED: &str = "/repaired";

type Key = (String, Vec<u8>);

/// A database, and everything that its keys ever were.
struct Case {
    vfs: SimVfs,
    options: Options,
    /// Every value a key had, newest last; `None` while it was not there.
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
        ..ColumnFamilyOptions::default()
    }
}

impl Case {
    /// A database with all that can be in one: several levels, tombstones of each kind, blob files
    /// with garbage, WAL files that are still needed.
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

    /// The repaired database is sound, holds nothing but what once was, and differs from the newest
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
                // Without a MANIFEST a family's name may be gone.
                assert!(
                    known || family.starts_with("recovered"),
                    "{place}: never had this value"
                );
            }
            // Without a MANIFEST nothing is lost but the knowledge of what was deleted, and names.
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

/// Damages one file; returns what was done, and whether that leaves no trace: the end of the
/// newest WAL is whatever it is.
fn damage(vfs: &SimVfs, rng: &mut fastrand::Rng) -> (String, bool) {
    let mut names = vfs.list(DIR).unwrap();
    names.retain(|name| name != "LOCK");
    let wals = names.iter().filter(|name| name.ends_with(".log"));
    let newest_wal = wals.max().cloned();
    let name = names[rng.usize(..names.len())].clone();
    let path = format!("{DIR}/{name}");
    let mut bytes = vfs.read_all(&path).unwrap();
    let mut traceless = Some(&name) == newest_wal.as_ref();
    let what = match rng.u32(..4) {
        0 => {
            vfs.remove(Path::new(&path)).unwrap();
            vfs.sync_all().unwrap();
            return (format!("{name} removed"), traceless);
        }
        1 => {
            let len = rng.usize(..=bytes.len());
            bytes.truncate(len);
            format!("{name} cut to {len}")
        }
        2 if !bytes.is_empty() => {
            traceless = false;
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u8(..8);
            format!("{name} flipped at {at}")
        }
        _ => {
            let at = rng.usize(..=bytes.len());
            let end = (at + rng.usize(1..600)).min(bytes.len());
            bytes[at..end].fill(0);
            format!("{name} zeroed {at}..{end}")
        }
    };
    vfs.write_all(&path, &bytes).unwrap();
    (what, traceless)
}

/// Flips a bit in the middle of the newest WAL.
fn damage_wal(vfs: &SimVfs) -> String {
    let names = vfs.list(DIR).unwrap();
    let wals = names.into_iter().filter(|name| name.ends_with(".log"));
    let name = wals.max().unwrap();
    let path = format!("{DIR}/{name}");
    let at = vfs.read_all(&path).unwrap().len() as u64 / 2;
    vfs.flip_bit(&path, at).unwrap();
    format!("{name} flipped at {at}")
}

#[test]
fn an_undamaged_database_keeps_everything() {
    for seed in 0..12 {
        let case = Case::with_seed(seed);
        let before = case.vfs.list(DIR).unwrap();
        let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
        assert!(report.lost.is_empty(), "seed {seed}: {:?}", report.lost);
        assert!(report.salvaged.is_empty() && report.merged_tables == 0);
        assert_eq!(case.vfs.list(DIR).unwrap(), before, "nothing was changed");
        assert_eq!(case.contents(REPAIRED), case.newest(), "seed {seed}");
        let report = case.repair(&RepairTo::InPlace);
        assert!(report.lost.is_empty(), "seed {seed}: {:?}", report.lost);
        case.verify(DIR, &report, &format!("seed {seed}"));
        assert_eq!(case.contents(DIR), case.newest(), "seed {seed}");
    }
}

#[test]
fn what_survives_damage_is_there_and_what_does_not_is_told() {
    // To look further: REPAIR_SEED=1000 REPAIR_ROUNDS=5000.
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let first = number("REPAIR_SEED").unwrap_or(0);
    let rounds = first..first + number("REPAIR_ROUNDS").unwrap_or(100);
    // Seeds that found something: the number of a lost blob file was given to a new one.
    for seed in rounds.chain([2366]) {
        let mut case = Case::with_seed(seed / 3);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let mut what = format!("seed {seed}");
        let mut traceless = false;
        for _ in 0..rng.usize(1..4) {
            let (done, silent) = damage(&case.vfs, &mut rng);
            what += &format!(", {done}");
            traceless |= silent;
        }
        let to = match rng.bool() {
            true => RepairTo::Directory(REPAIRED.into()),
            false => RepairTo::InPlace,
        };
        let dir = match &to {
            RepairTo::InPlace => DIR,
            RepairTo::Directory(_) => REPAIRED,
        };
        // Families whose name is lost get the default options.
        case.options.families.clear();
        let mut report = match repair(Path::new(DIR), &to, &case.options, &mut |_| {}) {
            Ok(report) => report,
            Err(e) => panic!("{what}: {e}"),
        };
        if traceless {
            report.lost.push(titan::tools::Loss::default());
        }
        case.verify(dir, &report, &what);
    }
}

#[test]
fn an_interrupted_repair_in_place_can_be_run_again() {
    let mut points = 0;
    for seed in 0..9 {
        let mut case = Case::with_seed(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (done, traceless) = match seed {
            // The MANIFEST stays good, and what was replayed must not speak against it.
            6.. => (damage_wal(&case.vfs), true),
            _ => damage(&case.vfs, &mut rng),
        };
        case.options.families.clear();
        let case = case.on_a_copy();
        case.vfs.mark(1);
        let mut report = case.repair(&RepairTo::InPlace);
        if traceless {
            report.lost.push(titan::tools::Loss::default());
        }
        let journal = case.vfs.journal();
        let uninterrupted = case.contents(DIR);
        for point in journal.crash_points() {
            if point.acknowledged() == 0 {
                continue; // still copying
            }
            points += 1;
            for loss in [CrashLoss::All, CrashLoss::None, CrashLoss::Random(seed)] {
                let after = case.on(point.crash(&loss));
                let what = format!("seed {seed}, {done}, crash {} {loss:?}", point.index());
                let again = repair(
                    Path::new(DIR),
                    &RepairTo::InPlace,
                    &after.options,
                    &mut |_| {},
                );
                let mut again = again.unwrap_or_else(|e| panic!("{what}: {e}"));
                let doubted = |report: &RepairReport| {
                    report.lost.iter().any(|l| l.file.starts_with("MANIFEST"))
                };
                assert!(doubted(&report) || !doubted(&again), "{what}: {again:#?}");
                // What the first run lost and told is not found missing again.
                again.lost.extend(report.lost.clone());
                after.verify(DIR, &again, &what);
                assert_eq!(after.contents(DIR), uninterrupted, "{what}");
                let names = after.vfs.list(DIR).unwrap();
                assert!(
                    !names.contains(&"repairing".to_owned()),
                    "{what}: {names:?}"
                );
            }
        }
    }
    assert!(points > 100, "{points}");
}

#[test]
fn writes_to_a_family_that_the_manifest_does_not_know_yet_are_kept() {
    let vfs = SimVfs::new();
    let options = options(&vfs, small());
    let case = Case {
        vfs: vfs.clone(),
        options: options.clone(),
        history: BTreeMap::new(),
    };
    let db = case.open(DIR);
    db.put(b"k", b"default").unwrap();
    // A copy of a database in use, its MANIFEST taken before its WAL.
    let current = vfs.read_all(format!("{DIR}/CURRENT")).unwrap();
    let manifest = format!("{DIR}/{}", String::from_utf8_lossy(&current).trim());
    let early = vfs.read_all(&manifest).unwrap();
    let late = db.create_column_family("late", small()).unwrap();
    late.put(b"k", b"late").unwrap();
    db.close().unwrap();
    vfs.write_all(&manifest, &early).unwrap();
    let refused = Db::open(DIR, &options).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption);

    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    assert!(!report.lost.is_empty(), "the MANIFEST is not all there was");
    let contents: Vec<(Key, Vec<u8>)> = case.contents(REPAIRED).into_iter().collect();
    let key = |family: &str| (family.to_owned(), b"k".to_vec());
    assert_eq!(
        contents,
        [
            (key("default"), b"default".to_vec()),
            (key("recovered-1"), b"late".to_vec())
        ],
        "{report:#?}"
    );
}

/// A WAL record with one batch of one operation, as RocksDB writes it: of a log with this number if
/// files are recycled. 1 KiB if so, so that none crosses the border of a block.
fn record_of_rocksdb(recycled: Option<u32>, sequence: u64) -> Vec<u8> {
    let mut batch = sequence.to_le_bytes().to_vec();
    batch.extend([1, 0, 0, 0, 1, 5]);
    batch.extend(format!("k{sequence:04}").as_bytes());
    batch.extend([0xe0, 0x07]);
    batch.resize(batch.len() + 992, b'v');
    let (kind, number) = recycled.map_or((1, vec![]), |n| (5, n.to_le_bytes().to_vec()));
    let body = [&[kind], &number[..], &batch].concat();
    let mut crc = !0_u32;
    for byte in &body {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    let masked = (!crc).rotate_right(15).wrapping_add(0xa282_ead8);
    let size = (batch.len() as u16).to_le_bytes();
    [&masked.to_le_bytes()[..], &size, &body].concat()
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

fn sequences_lost(report: &RepairReport) -> Vec<Option<(u64, u64)>> {
    report.lost.iter().map(|loss| loss.sequences).collect()
}

#[test]
fn damage_in_the_middle_of_a_recycled_wal_is_told_and_passed() {
    let (case, wal) = empty();
    let mut bytes: Vec<u8> = (1..=100)
        .flat_map(|n| record_of_rocksdb(Some(wal), n))
        .collect();
    bytes.extend((1..=100).flat_map(|n| record_of_rocksdb(Some(wal - 1), n)));
    for (at, lost) in [
        (None, vec![]),
        (Some(40 * 1024 + 300), vec![Some((41, 41))]),
        (Some(40 * 1024 + 4), vec![Some((41, 64))]),
    ] {
        let case = case.on_a_copy();
        let mut damaged = bytes.clone();
        at.into_iter().for_each(|at| damaged[at] ^= 1);
        let path = format!("{DIR}/{wal:06}.log");
        case.vfs.write_all(&path, &damaged).unwrap();
        let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
        assert_eq!(sequences_lost(&report), lost, "{report:#?}");
        let gone: u64 = lost.iter().flatten().map(|(a, b)| b - a + 1).sum();
        assert_eq!(case.contents(REPAIRED).len() as u64, 100 - gone);
    }
}

#[test]
fn a_wal_of_rocksdb_that_is_missing_in_between_is_told() {
    let (case, wal) = empty();
    for (wal, sequences) in [(wal, 1..=10), (wal + 7, 11..=20), (wal + 9, 25..=30)] {
        let bytes: Vec<u8> = sequences.flat_map(|n| record_of_rocksdb(None, n)).collect();
        let path = format!("{DIR}/{wal:06}.log");
        case.vfs.write_all(&path, &bytes).unwrap();
    }
    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    assert_eq!(sequences_lost(&report), [Some((21, 24))], "{report:#?}");
    assert_eq!(case.contents(REPAIRED).len(), 26);
}

#[test]
fn what_an_interrupted_repair_replaced_is_not_purged_at_opening() {
    let case = Case::with_seed(3).on_a_copy();
    let table = |name: &&String| name.ends_with(".log") || name.starts_with("MANIFEST");
    let before = case.vfs.list(DIR).unwrap();
    let originals: Vec<&String> = before.iter().filter(table).collect();
    case.vfs.mark(1);
    case.repair(&RepairTo::InPlace);
    for point in case.vfs.journal().crash_points() {
        if point.acknowledged() == 0 {
            continue;
        }
        let after = case.on(point.crash(&CrashLoss::All));
        let current = |case: &Case| case.vfs.read_all(format!("{DIR}/CURRENT")).unwrap();
        if current(&after) != current(&case) {
            continue;
        }
        after.open(DIR).close().unwrap();
        let lost = after.vfs.list(format!("{DIR}/lost")).unwrap();
        for name in &originals {
            assert!(lost.contains(name), "{}: {name}: {lost:?}", point.index());
        }
    }
}

#[test]
fn a_damaged_table_whose_edit_is_missing_is_told() {
    let (case, _) = empty();
    let manifest = || {
        let current = case.vfs.read_all(format!("{DIR}/CURRENT")).unwrap();
        format!("{DIR}/{}", String::from_utf8_lossy(&current).trim())
    };
    let db = case.open(DIR);
    for n in 0..100 {
        db.put(format!("key{n:03}").as_bytes(), &[7; 50]).unwrap();
    }
    let (path, early) = (manifest(), case.vfs.read_all(manifest()).unwrap());
    db.flush_all().unwrap();
    db.close().unwrap();
    case.vfs.write_all(&path, &early).unwrap();
    let names = case.vfs.list(DIR).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    case.vfs.flip_bit(format!("{DIR}/{table}"), 100).unwrap();
    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    let told = report.lost.iter().any(|loss| loss.file == *table);
    assert!(told, "{report:#?}");
}

#[test]
fn a_read_only_database_can_be_repaired_into_another_directory() {
    let case = Case::with_seed(1);
    let denied = |errno| {
        let fault = Fault::on(OpKind::ALL.iter().copied()).error(errno);
        case.vfs
            .inject(fault.path(&format!("{DIR}/LOCK")).forever());
    };
    for errno in [Errno(30), Errno(13)] {
        denied(errno);
        let in_place = repair(
            Path::new(DIR),
            &RepairTo::InPlace,
            &case.options,
            &mut |_| {},
        );
        assert_eq!(in_place.unwrap_err().kind(), ErrorKind::Io);
        let target = format!("{REPAIRED}-{}", errno.0);
        let report = case.repair(&RepairTo::Directory((&target).into()));
        assert!(report.notes.iter().any(|note| note.contains("not locked")));
        case.vfs.clear_faults();
        assert_eq!(case.contents(&target), case.newest());
    }
}

#[test]
fn a_repair_into_a_directory_that_failed_can_be_run_again() {
    let case = Case::with_seed(1);
    let to = RepairTo::Directory(REPAIRED.into());
    for n in 0.. {
        let kinds = [OpKind::Create, OpKind::Link, OpKind::Sync, OpKind::Rename];
        let fault = Fault::on(kinds).path(&format!("{REPAIRED}/*")).skip(n);
        let hit = case.vfs.inject(fault);
        let outcome = repair(Path::new(DIR), &to, &case.options, &mut |_| {});
        case.vfs.clear_faults();
        if hit.hits() == 0 {
            assert!(n > 5, "{n}");
            outcome.unwrap();
            break;
        }
        outcome.unwrap_err();
        let done = case.vfs.exists(&Path::new(REPAIRED).join("CURRENT"));
        assert!(!done.unwrap(), "{n}");
    }
    assert_eq!(case.contents(REPAIRED), case.newest());
    // Done, it is not touched again.
    let again = repair(Path::new(DIR), &to, &case.options, &mut |_| {});
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn what_must_be_refused_is() {
    let case = Case::with_seed(1);
    let refused = |path: &str, to: &RepairTo| {
        let e = repair(Path::new(path), to, &case.options, &mut |_| {});
        e.unwrap_err().kind()
    };
    let elsewhere = RepairTo::Directory(REPAIRED.into());
    assert_eq!(refused("/nothing", &elsewhere), ErrorKind::NotFound);
    let itself = RepairTo::Directory(DIR.into());
    assert_eq!(refused(DIR, &itself), ErrorKind::AlreadyExists);
    let db = case.open(DIR);
    assert_eq!(refused(DIR, &elsewhere), ErrorKind::Locked);
    assert_eq!(refused(DIR, &RepairTo::InPlace), ErrorKind::Locked);
    db.close().unwrap();
}

/// Two tables of one size, one in each of two families whose names are of one length, with their
/// places exchanged.
#[test]
fn tables_that_changed_places_are_noticed_and_put_right() {
    let (case, _) = empty();
    let families = ["default", "another"];
    let options = case.options.default.clone();
    let db = case.open(DIR);
    db.create_column_family("another", options).unwrap();
    for family in families {
        let family = db.column_family(family).unwrap();
        for n in 0..100 {
            let value = format!("{} {n:03}", family.name());
            family
                .put(format!("key{n:03}").as_bytes(), value.as_bytes())
                .unwrap();
        }
        db.flush_all().unwrap();
    }
    db.close().unwrap();
    let names = case.vfs.list(DIR).unwrap();
    let tables: Vec<_> = names.iter().filter(|name| name.ends_with(".sst")).collect();
    let [a, b] = [0, 1].map(|n: usize| format!("{DIR}/{}", tables[n]));
    let [in_a, in_b] = [&a, &b].map(|path| case.vfs.read_all(path).unwrap());
    assert_eq!(in_a.len(), in_b.len(), "they have to be of one size");
    case.vfs.write_all(&a, &in_b).unwrap();
    case.vfs.write_all(&b, &in_a).unwrap();

    let db = case.open(DIR);
    for family in families {
        let error = db.column_family(family).unwrap().get(b"key007");
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("another table"), "{error}");
    }
    drop(db);
    case.repair(&RepairTo::Directory(REPAIRED.into()));
    let db = case.open(REPAIRED);
    for family in families {
        let value = db.column_family(family).unwrap().get(b"key007").unwrap();
        assert_eq!(value.as_deref(), Some(format!("{family} 007").as_bytes()));
    }
}
