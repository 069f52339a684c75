//! Prefixes: the first key of a prefix against a model, with every extractor; filters with prefixes
//! in both directions between RocksDB and Titan; extractors that are missing or others than the
//! recorded one.

mod panics;
mod skipping;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use titan::prefix::{self, PrefixExtractor};
use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, Options, ReadOptions, Snapshot, Stated,
};
use titan_testkit::sim::SimVfs;

use crate::rocksdb_tools::{run, table_properties};
use crate::support::{DIR, manual, open, options, scaled, value};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Prefix up to a colon, with it. No such prefix begins another one.
struct ToColon;

impl PrefixExtractor for ToColon {
    fn name(&self) -> &str {
        "to-colon"
    }

    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        Some(1 + key.iter().position(|byte| *byte == b':')?)
    }

    fn is_whole(&self, prefix: &[u8]) -> bool {
        prefix.contains(&b':')
    }
}

fn extractors() -> [Option<Arc<dyn PrefixExtractor>>; 5] {
    [
        None,
        Some(prefix::fixed(3)),
        Some(prefix::capped(3)),
        Some(prefix::fixed(0)),
        Some(Arc::new(ToColon)),
    ]
}

fn with(extractor: Option<Arc<dyn PrefixExtractor>>) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        prefix_extractor: extractor,
        min_blob_size: 100,
        ..manual()
    }
}

/// Keys such as `ab:3`, some of them too short for a prefix.
fn any_key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let letter = |rng: &mut fastrand::Rng| *rng.choice(b"abc").unwrap();
    let mut key = vec![letter(rng), letter(rng), b':'];
    key.extend((0..rng.usize(..3)).map(|_| rng.u8(b'0'..=b'3')));
    key.truncate(rng.usize(1..8));
    key
}

fn assert_first(
    db: &Db,
    options: &ReadOptions,
    model: &Model,
    rng: &mut fastrand::Rng,
    what: &str,
) {
    for _ in 0..12 {
        let mut prefix = any_key(rng);
        prefix.truncate(rng.usize(..5));
        let from = match rng.u8(..4) {
            0 => prefix.clone(),
            1 => any_key(rng),
            _ => [&*prefix, &[rng.u8(b'0'..=b'3')]].concat(),
        };
        let expected = model
            .range(from.clone()..)
            .find(|(k, _)| k.starts_with(&prefix));
        let found = db.first_in_prefix_with(&from, &prefix, options).unwrap();
        let found = found.map(|(key, value)| (key.to_vec(), value.fetch().unwrap().to_vec()));
        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
        assert_eq!(found, expected, "{what}: from {from:?} in {prefix:?}");
    }
}

#[test]
fn the_first_key_of_a_prefix_is_what_a_model_has() {
    for (seed, extractor) in (0..scaled(15)).zip(extractors().iter().cycle()) {
        let vfs = SimVfs::new();
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = options(&vfs, with(extractor.clone()));
        let mut db = open(&options);
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..200 {
            let key = any_key(&mut rng);
            match rng.u8(..10) {
                0 => {
                    let end = [&*key, b"\xff"].concat();
                    model.retain(|k, _| *k < key || *k >= end);
                    db.delete_range(&key, &end).unwrap();
                }
                1..=3 => {
                    model.remove(&key);
                    db.delete(&key).unwrap();
                }
                _ => {
                    let written = value(rng.usize(..1000), rng.usize(8..150));
                    db.put(&key, &written).unwrap();
                    model.insert(key, written);
                }
            }
            match rng.u8(..25) {
                0 | 1 => db.flush().unwrap(),
                2 => {
                    let plain = CompactRangeOptions::default();
                    db.compact_range(None, None, &plain).unwrap();
                }
                3 => snapshots.push((db.snapshot(), model.clone())),
                4 if !snapshots.is_empty() => drop(snapshots.pop()),
                5 => {
                    snapshots.clear();
                    db.close().unwrap();
                    db = open(&options);
                }
                _ => {}
            }
            let what = format!("seed {seed}, step {step}");
            assert_first(&db, &ReadOptions::default(), &model, &mut rng, &what);
            for (snapshot, model) in &snapshots {
                let at = ReadOptions {
                    snapshot: Some(snapshot.clone()),
                    ..ReadOptions::default()
                };
                assert_first(&db, &at, model, &mut rng, &what);
            }
        }
        let asked = db.statistics().prefix_filter_probes();
        assert_eq!(asked > 0, extractor.is_some(), "seed {seed}");
    }
}

#[test]
fn filters_rule_out_tables_without_the_prefix() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, with(Some(prefix::fixed(3)))));
    // Each table has every second prefix of the range.
    for table in 0..4_u32 {
        for n in 0..50 {
            let key = format!("{:03}/{table}", 2 * n + table % 2);
            db.put(key.as_bytes(), b"v").unwrap();
        }
        db.flush().unwrap();
    }
    let absent = db.first_in_prefix(b"", b"101").unwrap();
    assert!(absent.is_none());
    let found = db.first_in_prefix(b"", b"010").unwrap().unwrap();
    assert_eq!(found.0, "010/0");
    let statistics = db.statistics();
    let (asked, no) = (
        statistics.prefix_filter_probes(),
        statistics.prefix_filter_negatives(),
    );
    // The first search is beyond the keys of all tables; in the second, two of four have the
    // prefix.
    assert_eq!(asked, 4);
    assert!(no >= 1, "{no} of {asked}");
}

/// So many bytes; wrongly, the name does not tell how many.
struct Unstable(usize);

impl PrefixExtractor for Unstable {
    fn name(&self) -> &str {
        "unstable"
    }

    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        (key.len() >= self.0).then_some(self.0)
    }

    fn is_whole(&self, prefix: &[u8]) -> bool {
        prefix.len() >= self.0
    }
}

/// Filters that are wrong, since the extractor has changed, harm only readers by prefix: such a
/// reader does not tell others that keys are dead that it has not seen.
#[test]
fn reads_without_a_prefix_do_not_depend_on_filters() {
    for by_iterator in [false, true] {
        let vfs = SimVfs::new();
        let extracting = |len| options(&vfs, with(Some(Arc::new(Unstable(len)))));
        let db = open(&extracting(3));
        db.put(b"a20", b"v").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        drop(db);

        let db = open(&extracting(1));
        for n in (0..40).filter(|n| *n != 20) {
            db.delete(format!("a{n:02}").as_bytes()).unwrap();
        }
        let found = match by_iterator {
            false => db.first_in_prefix(b"", b"a").unwrap().is_some(),
            true => {
                let within = ReadOptions {
                    prefix: Some(b"a".to_vec()),
                    ..ReadOptions::default()
                };
                let mut iter = db.iter(&within).unwrap();
                iter.seek_to_first().unwrap();
                iter.valid()
            }
        };
        assert!(!found, "the filter rules out the table");
        let mut iter = db.iter(&ReadOptions::default()).unwrap();
        iter.seek_to_first().unwrap();
        assert_eq!(iter.key(), b"a20");
        iter.seek_to_last().unwrap();
        assert_eq!(iter.key(), b"a20");
    }
}

#[test]
fn what_is_too_new_for_a_snapshot_is_not_searched_beyond_the_prefix() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, with(None)));
    db.put(b"zzz", b"old").unwrap();
    let snapshot = db.snapshot();
    let add = |begin: u32| {
        for n in begin..begin + 2000 {
            let key = format!("{n:06}");
            db.put(key.as_bytes(), &value(7, 50)).unwrap();
        }
        db.flush().unwrap();
    };
    add(1000);
    add(0);
    let options = ReadOptions {
        snapshot: Some(snapshot),
        fill_cache: false,
        ..ReadOptions::default()
    };
    // The first search opens the tables.
    for _ in 0..2 {
        vfs.reset_counters();
        let found = db.first_in_prefix_with(b"", b"0015", &options).unwrap();
        assert!(found.is_none());
    }
    // One table has nothing that the snapshot sees. In the other, the 100 keys with the prefix are
    // in two or three blocks of 4 KiB.
    let read = vfs.bytes_read(".sst");
    assert!(read > 0 && read < 5 * 4096, "{read}");
}

#[test]
fn an_extractor_is_kept_and_another_one_is_refused() {
    let vfs = SimVfs::new();
    let mut options = options(&vfs, with(Some(prefix::capped(2))));
    let db = open(&options);
    db.put(b"abc", b"v").unwrap();
    db.close().unwrap();
    // One that has a name of RocksDB need not be given again.
    options.default.prefix_extractor = None;
    let db = open(&options);
    db.flush().unwrap();
    assert!(db.first_in_prefix(b"", b"ab").unwrap().is_some());
    assert_eq!(db.statistics().prefix_filter_probes(), 1);
    db.close().unwrap();
    options.default.prefix_extractor = Some(Arc::new(ToColon));
    let other = Db::open(DIR, &options).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidArgument);
    for part in ["rocksdb.CappedPrefix.2", "to-colon", "stated"] {
        assert!(other.to_string().contains(part), "{other}");
    }
    // Replaced on purpose. The filters of older tables are not used.
    options.default.stated = Stated::fields(&["prefix_extractor"]);
    let db = open(&options);
    db.put(b"x:y", b"v").unwrap();
    db.flush().unwrap();
    let probes = || db.statistics().prefix_filter_probes();
    assert!(db.first_in_prefix(b"", b"ab:").unwrap().is_none());
    assert_eq!(probes(), 0);
    assert!(db.first_in_prefix(b"", b"x:").unwrap().is_some());
    assert_eq!(probes(), 1);
    db.close().unwrap();
    // An own one that is not given again leaves everything readable, without its filters.
    options.default.prefix_extractor = None;
    options.default.stated = Stated::default();
    let db = open(&options);
    assert!(db.first_in_prefix(b"", b"x:").unwrap().is_some());
    assert_eq!(db.statistics().prefix_filter_probes(), 0);
    assert!(db.options().prefix_extractor.is_none());
    // A call that cannot do without it says so.
    let within = ReadOptions {
        prefix_same_as_start: true,
        ..ReadOptions::default()
    };
    let e = db.iter(&within).map(drop).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    let e = iter.next_prefix().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    drop(iter);
    db.close().unwrap();
}

/// Prefix before the colon, so one prefix may begin another.
struct BeforeColon;

impl PrefixExtractor for BeforeColon {
    fn name(&self) -> &str {
        "before-colon"
    }

    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        key.iter().position(|byte| *byte == b':')
    }
}

#[test]
fn a_prefix_that_begins_another_ends_where_the_other_begins() {
    for extractor in [
        Arc::new(BeforeColon) as Arc<dyn PrefixExtractor>,
        prefix::capped(2),
    ] {
        let vfs = SimVfs::new();
        let family = ColumnFamilyOptions {
            prefix_extractor: Some(extractor.clone()),
            ..manual()
        };
        let db = open(&options(&vfs, family));
        let mut keys: Vec<Vec<u8>> = Vec::new();
        keys.extend((0..20).map(|n| format!("a:{n:02}").into_bytes()));
        keys.extend((0..20).map(|n| format!("ab:{n:02}").into_bytes()));
        keys.extend([b"b".to_vec(), b"b:".to_vec(), b"ba".to_vec()]);
        for key in &keys {
            db.put(key, b"v").unwrap();
        }
        let own_prefix = |key: &[u8]| extractor.prefix_len(key).map(|len| key[..len].to_vec());
        let mut iter = db.iter(&ReadOptions::default()).unwrap();
        let within = ReadOptions {
            prefix_same_as_start: true,
            ..ReadOptions::default()
        };
        let mut bounded = db.iter(&within).unwrap();
        for (at, key) in keys.iter().enumerate() {
            let Some(own) = own_prefix(key) else {
                continue;
            };
            iter.seek(key).unwrap();
            iter.next_prefix().unwrap();
            let mut rest = keys[at..].iter();
            let next = rest.find(|other| own_prefix(other).as_ref() != Some(&own));
            assert_eq!(iter.valid().then(|| iter.key().to_vec()).as_ref(), next);

            bounded.seek(key).unwrap();
            for other in keys[at..]
                .iter()
                .take_while(|k| own_prefix(k).as_ref() == Some(&own))
            {
                assert_eq!(bounded.key(), other);
                bounded.next().unwrap();
            }
            assert!(!bounded.valid(), "{:?}", bounded.key());
        }
    }
}

fn db_bench(dir: &Path, args: &[&str]) -> Option<String> {
    let db = format!("--db={}", dir.display());
    let common = [
        db.as_str(),
        "--prefix_size=8",
        "--keys_per_prefix=10",
        "--bloom_bits=10",
        "--compression_type=none",
    ];
    let output = run("db_bench", &[&common[..], args].concat())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "db_bench {args:?}: {text}");
    Some(text)
}

#[test]
fn rocksdb_and_titan_use_each_others_prefix_filters() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    // 2,000 prefixes, most of which no key has.
    let fill = [
        "--benchmarks=fillrandom,compact",
        "--num=20000",
        "--writes=1000",
    ];
    let filled = db_bench(&path, &fill);
    if filled.is_none() {
        return;
    }
    let db = Db::open(&path, &Options::default()).unwrap();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    let mut keys = Vec::new();
    while iter.valid() {
        keys.push(iter.key().to_vec());
        iter.next().unwrap();
    }
    for number in 0..2000_u64 {
        let prefix = number.to_be_bytes();
        let expected = keys.iter().find(|key| key.starts_with(&prefix));
        let found = db.first_in_prefix(&prefix, &prefix).unwrap();
        assert_eq!(found.map(|(key, _)| key.to_vec()).as_ref(), expected);
    }
    let statistics = db.statistics();
    let no = statistics.prefix_filter_negatives();
    assert!(no > 1000, "{no}");
    // Now the tables are ours.
    let force = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &force).unwrap();
    db.close().unwrap();
    let dumped = table_properties(&path).unwrap();
    let named = "prefix extractor name: rocksdb.FixedPrefix.8";
    assert!(dumped.contains(named), "{dumped}");
    let sought = [
        "--use_existing_db=1",
        "--benchmarks=seekrandom",
        "--num=20000",
        "--reads=2000",
        "--statistics",
    ];
    let text = db_bench(&path, &sought).unwrap();
    let useful = text
        .lines()
        .find_map(|line| line.strip_prefix("rocksdb.bloom.filter.prefix.useful COUNT : "));
    let useful: u64 = useful.unwrap().trim().parse().unwrap();
    assert!(useful > 500, "{useful}");
}

/// Compares an iterator with the keys of a model, from one key on, as long as they have a prefix.
fn assert_walk(iter: &mut titan::DbIterator, expected: Vec<&Vec<u8>>, forward: bool, what: &str) {
    for key in expected {
        assert_eq!(iter.key(), key, "{what}");
        match forward {
            true => iter.next().unwrap(),
            false => iter.prev().unwrap(),
        }
    }
    assert!(!iter.valid(), "{what}: {:?}", iter.key());
}

#[test]
fn iterators_stay_within_a_prefix_and_step_over_it() {
    for (seed, extractor) in (0..scaled(12)).zip(extractors()[1..].iter().cycle()) {
        let extractor = extractor.clone().unwrap();
        let vfs = SimVfs::new();
        let mut rng = fastrand::Rng::with_seed(seed);
        let db = open(&options(&vfs, with(Some(Arc::clone(&extractor)))));
        let mut model = Model::new();
        for _ in 0..200 {
            let key = any_key(&mut rng);
            match rng.u8(..8) {
                0 => {
                    model.remove(&key);
                    db.delete(&key).unwrap();
                }
                _ => {
                    let written = value(rng.usize(..1000), rng.usize(8..150));
                    db.put(&key, &written).unwrap();
                    model.insert(key, written);
                }
            }
            if rng.u8(..20) == 0 {
                db.flush().unwrap();
            }
        }
        let prefix_of = |key: &[u8]| extractor.prefix_len(key).map(|len| key[..len].to_vec());
        let same = ReadOptions {
            prefix_same_as_start: true,
            ..ReadOptions::default()
        };
        let mut iter = db.iter(&same).unwrap();
        for _ in 0..60 {
            let target = any_key(&mut rng);
            let what = format!("seed {seed}, {}, {target:?}", extractor.name());
            let prefix = prefix_of(&target);
            let within = |key: &&Vec<u8>| prefix.as_ref().is_none_or(|p| key.starts_with(p));
            let keys = model.keys();
            iter.seek(&target).unwrap();
            let from = keys.clone().filter(|key| **key >= target).filter(within);
            assert_walk(&mut iter, from.collect(), true, &what);
            iter.seek_for_prev(&target).unwrap();
            let to = keys
                .clone()
                .rev()
                .filter(|key| **key <= target)
                .filter(within);
            assert_walk(&mut iter, to.collect(), false, &what);
        }
        iter.seek_to_first().unwrap();
        assert_walk(&mut iter, model.keys().collect(), true, "all");

        let mut iter = db.iter(&ReadOptions::default()).unwrap();
        iter.seek_to_first().unwrap();
        let mut last: Option<Vec<u8>> = None;
        for key in model.keys() {
            let prefix = prefix_of(key);
            let is_same = last
                .as_ref()
                .is_some_and(|last| prefix.is_some() && prefix_of(last) == prefix);
            if is_same {
                continue;
            }
            assert_eq!(iter.key(), key, "seed {seed}, {}", extractor.name());
            if rng.bool() {
                iter.value().unwrap();
            }
            iter.next_prefix().unwrap();
            last = Some(key.clone());
        }
        assert!(!iter.valid());
    }
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, with(None)));
    db.put(b"k", b"v").unwrap();
    let same = ReadOptions {
        prefix_same_as_start: true,
        ..ReadOptions::default()
    };
    assert_eq!(
        db.iter(&same).err().unwrap().kind(),
        ErrorKind::InvalidArgument
    );
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    let refused = iter.next_prefix().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}
