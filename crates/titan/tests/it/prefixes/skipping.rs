//! Skipping keys that begin with a prefix, with any extractor of the family.

use std::collections::BTreeMap;
use std::ops::Bound;

use titan::merge::builtin;
use titan::prefix::{capped, fixed};
use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, DbIterator, ErrorKind, Options, ReadOptions,
    ReverseBytewiseComparator,
};
use titan_testkit::sim::SimVfs;

use crate::rocksdb_tools::{ldb_scan, run};
use crate::support::{manual, open, options, scaled};

/// Random keys of few different bytes, spread over memtables, level 0 and deeper levels.
#[test]
fn skipping_a_prefix_ends_at_the_first_key_without_it() {
    for seed in 0..30 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = SimVfs::new();
        let family = titan::ColumnFamilyOptions {
            block_size: 256,
            target_file_size_base: 1 << 10,
            min_blob_size: [20, 4096][rng.usize(..2)],
            ..manual()
        };
        let db = open(&options(&vfs, family));
        let mut model = BTreeMap::new();
        for _ in 0..rng.usize(10..600) {
            let bytes = [0, b'a', 0xff];
            let len = rng.usize(..9);
            let key: Vec<u8> = (0..len).map(|_| bytes[rng.usize(..3)]).collect();
            match rng.u32(..50) {
                0 => db.flush().unwrap(),
                1 => {
                    let all = CompactRangeOptions::default();
                    db.compact_range(None, None, &all).unwrap();
                }
                2..10 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                _ => {
                    let value = vec![b'v'; rng.usize(..40)];
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        let mut iter = db.iter(&ReadOptions::default()).unwrap();
        for _ in 0..200 {
            let Some(target) = rng.choice(model.keys()) else {
                continue;
            };
            iter.seek(target).unwrap();
            // From anywhere, in any state of the iterator.
            for _ in 0..rng.usize(..4) {
                if rng.bool() && iter.valid() {
                    iter.value().unwrap();
                }
                match rng.bool() {
                    true => iter.next().unwrap(),
                    false => iter.prev().unwrap(),
                }
            }
            for _ in 0..3 {
                if !iter.valid() {
                    break;
                }
                if rng.bool() {
                    iter.value().unwrap();
                }
                let key = iter.key().to_vec();
                let prefix = &key[..rng.usize(..=key.len())];
                let after = (Bound::Excluded(&*key), Bound::Unbounded);
                let mut later = model.range::<[u8], _>(after);
                let expected = later.find(|(key, _)| !key.starts_with(prefix));
                iter.skip_prefix(prefix).unwrap();
                let found = iter.valid().then(|| iter.key().to_vec());
                assert_eq!(found.as_ref(), expected.map(|it| it.0), "seed {seed}");
                if let Some((_, value)) = expected {
                    assert_eq!(iter.value().unwrap(), value, "seed {seed}");
                    // The key does not begin with that prefix.
                    iter.skip_prefix(prefix).unwrap();
                    assert_eq!(Some(iter.key().to_vec()), found, "seed {seed}");
                }
            }
        }
    }
}

/// Short keys of few different bytes, so that prefixes begin one another, and rows of many keys.
fn some_key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let bytes = [0, b'a', 0xff];
    let is_row = rng.u8(..4) > 0;
    let len = if is_row { 2 } else { rng.usize(..9) };
    let mut key: Vec<u8> = (0..len).map(|_| bytes[rng.usize(..3)]).collect();
    if is_row {
        key.extend_from_slice(b"row");
        key.extend_from_slice(&rng.u16(..2000).to_be_bytes());
    }
    key
}

/// Rule for a key: one key in so many ends the skip.
fn some_rule(key: &[u8], salt: u64, one_in: u64) -> Option<usize> {
    let random = key.iter().fold(salt, |hash, byte| {
        let hash = (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash.rotate_left(23)
    });
    let lengths = [2, 5, key.len(), key.len() + 1, key.len().saturating_sub(1)];
    (!(random >> 16).is_multiple_of(one_in)).then_some(lengths[random as usize % 5])
}

/// Skips by steps. Returns the keys about which the rule was asked.
fn plain_skip(iter: &mut DbIterator, rule: impl Fn(&[u8]) -> Option<usize>) -> Vec<Vec<u8>> {
    let mut asked = Vec::new();
    while iter.valid() {
        let key = iter.key().to_vec();
        let skipped = rule(&key);
        asked.push(key.clone());
        let Some(len) = skipped else {
            break;
        };
        while iter.valid() && iter.key().starts_with(&key[..len.min(key.len())]) {
            iter.next().unwrap();
        }
    }
    asked
}

/// Deletions, range deletions, operands, values in blob files, snapshots and bounds, in all levels.
#[test]
fn skips_by_a_rule_ask_about_the_keys_that_steps_show_and_end_where_they_end() {
    for seed in 0..scaled(40) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = SimVfs::new();
        let extractors = [None, Some(fixed(2)), Some(capped(4)), Some(fixed(5))];
        let family = ColumnFamilyOptions {
            block_size: [256, 1024][rng.usize(..2)],
            target_file_size_base: 4 << 10,
            min_blob_size: [20, 4096][rng.usize(..2)],
            prefix_extractor: extractors[rng.usize(..4)].clone(),
            merge_operator: Some(builtin::by_name("stringappend").unwrap()),
            ..manual()
        };
        let db = open(&options(&vfs, family));
        let mut snapshots = vec![None];
        let rare = rng.u32(2..10);
        for _ in 0..rng.usize(10..1500) {
            let key = some_key(&mut rng);
            match rng.u32(..300) {
                0..2 => db.flush().unwrap(),
                2 => {
                    let all = CompactRangeOptions::default();
                    db.compact_range(None, None, &all).unwrap();
                }
                3..5 => snapshots.push(Some(db.snapshot())),
                5..7 => {
                    let end = some_key(&mut rng);
                    if key < end {
                        db.delete_range(&key, &end).unwrap();
                    }
                }
                n if n < 10 * rare => db.delete(&key).unwrap(),
                n if n < 12 * rare => db.merge(&key, b"more").unwrap(),
                _ => db.put(&key, &vec![b'v'; rng.usize(..40)]).unwrap(),
            }
        }
        for _ in 0..20 {
            let mut bound = || rng.bool().then(|| some_key(&mut rng));
            let (lower_bound, upper_bound) = (bound(), bound());
            let read = ReadOptions {
                lower_bound,
                upper_bound,
                snapshot: rng.choice(&snapshots).cloned().flatten(),
                ..ReadOptions::default()
            };
            let (mut iter, mut plain) = (db.iter(&read).unwrap(), db.iter(&read).unwrap());
            for _ in 0..10 {
                let target = some_key(&mut rng);
                iter.seek(&target).unwrap();
                plain.seek(&target).unwrap();
                // Several skips, each from any state of the iterator.
                for _ in 0..4 {
                    for _ in 0..rng.usize(..4) {
                        if iter.valid() && rng.bool() {
                            assert_eq!(iter.value().unwrap(), plain.value().unwrap());
                        }
                        let forward = rng.bool();
                        for iter in [&mut iter, &mut plain] {
                            match forward {
                                true => iter.next().unwrap(),
                                false => iter.prev().unwrap(),
                            }
                        }
                    }
                    let (salt, one_in) = (rng.u64(..), rng.u64(1..100));
                    let mut asked = Vec::new();
                    iter.skip_prefixes(|key| {
                        asked.push(key.to_vec());
                        some_rule(key, salt, one_in)
                    })
                    .unwrap();
                    let expected = plain_skip(&mut plain, |key| some_rule(key, salt, one_in));
                    assert_eq!(asked, expected, "seed {seed}");
                    assert_eq!(iter.key(), plain.key(), "seed {seed}");
                    if plain.valid() {
                        assert_eq!(iter.value().unwrap(), plain.value().unwrap(), "seed {seed}");
                    }
                }
            }
        }
    }
}

/// Prefixes with so many keys that each fills blocks, and RocksDB reads the tables.
#[test]
fn rocksdb_reads_tables_whose_blocks_end_with_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut options = Options::default();
    options.default.prefix_extractor = Some(fixed(8));
    let db = Db::open(&path, &options).unwrap();
    let mut expected = Vec::new();
    let mut rng = fastrand::Rng::with_seed(1);
    for row in 0..40_u64 {
        for version in 0..rng.u16(1..400) {
            let key = [&row.to_be_bytes()[..], &version.to_be_bytes()].concat();
            let value = vec![b'v'; 100];
            db.put(&key, &value).unwrap();
            expected.push((key, value));
        }
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    for row in 0..40_u64 {
        assert_eq!(iter.key()[..8], row.to_be_bytes());
        iter.next_prefix().unwrap();
    }
    assert!(!iter.valid());
    drop(iter);
    db.close().unwrap();
    if run("ldb", &["--version"]).is_some() {
        assert!(ldb_scan(&path, "default") == expected);
    }
}

#[test]
fn a_skip_opens_no_table_that_has_only_the_prefix() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        target_file_size_base: 4 << 10,
        ..manual()
    };
    let options = options(&vfs, family);
    let db = open(&options);
    // Two tables that overlap, so that a compaction divides them anew.
    for parity in 0..2 {
        for n in 0..2000_u32 {
            let key = [&b"a"[..], &(2 * n + parity).to_be_bytes()].concat();
            db.put(&key, &[b'v'; 90]).unwrap();
        }
        db.put(b"b", b"").unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.close().unwrap();
    let db = open(&options);
    let before = db.metrics();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    iter.skip_prefix(b"a").unwrap();
    assert_eq!(iter.key(), b"b");
    let after = db.metrics();
    let opened = after.open_files - before.open_files;
    let read = after.block_cache_misses - before.block_cache_misses;
    assert!(
        opened <= 4 && read <= 4,
        "{opened} tables opened, {read} blocks read"
    );
}

#[test]
fn a_skip_says_what_it_stepped_over() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    // Five keys of each prefix, in a table, a table above it and the memtable; one of them is
    // overwritten, one is deleted.
    for part in 0..3_u8 {
        for prefix in *b"abcd" {
            match part {
                0 => (0..4).for_each(|n| db.put(&[prefix, n], b"v").unwrap()),
                1 => db.put(&[prefix, 4], b"v").unwrap(),
                _ => {
                    db.put(&[prefix, 1], b"newer").unwrap();
                    db.delete(&[prefix, 2]).unwrap();
                }
            }
        }
        if part < 2 {
            db.flush().unwrap();
        }
    }
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    let stepped = iter
        .skip_prefixes(|key| (key[0] < b'c').then_some(1))
        .unwrap();
    assert_eq!(iter.key(), [b'c', 0]);
    // Seven entries of each of two prefixes.
    assert_eq!(stepped, 14);
    // Entries that are jumped over do not count.
    for n in 0..10_000_u32 {
        db.put(&[&b"e"[..], &n.to_be_bytes()].concat(), b"v")
            .unwrap();
    }
    db.put(b"f", b"v").unwrap();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek(b"e").unwrap();
    let stepped = iter
        .skip_prefixes(|key| (key[0] == b'e').then_some(1))
        .unwrap();
    assert_eq!(iter.key(), b"f");
    assert!((1..100).contains(&stepped), "{stepped}");
    iter.seek(b"f").unwrap();
    assert_eq!(iter.skip_prefixes(|_| None).unwrap(), 0);
}

#[test]
fn skipping_needs_an_order_in_which_prefixes_are_together() {
    let vfs = SimVfs::new();
    let family = titan::ColumnFamilyOptions {
        comparator: std::sync::Arc::new(ReverseBytewiseComparator),
        ..manual()
    };
    let db = open(&options(&vfs, family));
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    let refused = iter.skip_prefix(b"a").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}
