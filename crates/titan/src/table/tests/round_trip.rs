//! Everything that is written is read back, by every way of reading.

use super::*;

#[test]
fn what_is_written_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000007.sst");
    for seed in 0..24u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let count = 1 + rng.usize(..3000);
        let model = random_model(&mut rng, count);
        let mut options = writer_options();
        options.compression = ALL[seed as usize % 4];
        options.block_size = [256, 1024, 4096][seed as usize % 3];
        options.restart_interval = 1 + seed as usize % 17;
        options.bloom_bits_per_key = if seed % 5 == 4 { 0.0 } else { 10.0 };
        let summary = write_model(&path, &model, options);
        let table = open(&path).unwrap();

        let check = verify(&table).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(check.entries, model.len() as u64, "seed {seed}");
        assert_eq!(check.deletions, summary.num_deletions, "seed {seed}");
        let expected: Vec<_> = model
            .iter()
            .map(|(k, v)| (k.0.clone(), v.clone()))
            .collect();
        assert_eq!(summary.smallest, expected[0].0);
        assert_eq!(summary.largest, expected[expected.len() - 1].0);
        assert_eq!(summary.file_size, std::fs::metadata(&path).unwrap().len());
        for readahead in [0, 10_000] {
            for fill_cache in [false, true] {
                let options = TableIterOptions {
                    fill_cache,
                    readahead,
                };
                assert!(
                    entries_of(&table, options).unwrap() == expected,
                    "seed {seed}"
                );
            }
        }

        let scanned = table.scan_blob_refs().unwrap();
        assert_eq!(scanned.totals(), summary.blob_refs, "seed {seed}");
        assert_eq!(
            summary.oldest_blob_file(),
            summary.blob_refs.first().map(|r| r.file)
        );
        match table.liveness().unwrap() {
            Some(liveness) => assert_eq!(liveness, scanned, "seed {seed}"),
            None => assert!(scanned.is_empty(), "seed {seed}"),
        }

        for _ in 0..300 {
            let key = if rng.bool() {
                user_key(&expected[rng.usize(..expected.len())].0).to_vec()
            } else {
                random_user_key(&mut rng)
            };
            let target = seek_key(&key, SequenceNumber(rng.u64(..1 << 20)));
            let want = model.range(OrderedKey(target.clone())..).next();
            let want = want.filter(|(k, _)| user_key(&k.0) == key).map(|(_, v)| v);
            let got = table.get(&target, rng.bool()).unwrap();
            assert_eq!(
                got.map(|e| e.value.to_vec()).as_ref(),
                want,
                "seed {seed} key {key:?}"
            );
        }
    }
}

#[test]
fn cursors_agree_with_a_map_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000007.sst");
    for seed in 100..112u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let model = random_model(&mut rng, 800);
        let options = TableWriterOptions {
            block_size: 256,
            ..writer_options()
        };
        write_model(&path, &model, options);
        let table = open(&path).unwrap();
        let readahead = if rng.bool() { 0 } else { 1000 };
        let mut iter = table.iter(TableIterOptions {
            fill_cache: rng.bool(),
            readahead,
        });
        let entries: Vec<_> = model.iter().collect();
        let mut position: Option<usize> = None;
        for step in 0..3000 {
            let current = position.filter(|p| *p < entries.len());
            match (rng.u8(..20), current) {
                (0, _) => {
                    iter.seek_to_first().unwrap();
                    position = Some(0);
                }
                (1, _) => {
                    iter.seek_to_last().unwrap();
                    position = entries.len().checked_sub(1);
                }
                (2..=4, _) => {
                    let t = internal_key(
                        &random_user_key(&mut rng),
                        SequenceNumber(rng.u64(..1 << 20)),
                        1,
                    );
                    iter.seek(&t).unwrap();
                    position =
                        Some(entries.partition_point(|e| order().compare(&e.0.0, &t).is_lt()));
                }
                (5..=7, _) => {
                    let t = internal_key(
                        &random_user_key(&mut rng),
                        SequenceNumber(rng.u64(..1 << 20)),
                        1,
                    );
                    iter.seek_for_prev(&t).unwrap();
                    position = entries
                        .partition_point(|e| order().compare(&e.0.0, &t).is_le())
                        .checked_sub(1);
                }
                (8..=13, Some(p)) => {
                    iter.next().unwrap();
                    position = Some(p + 1);
                }
                (_, Some(p)) => {
                    iter.prev().unwrap();
                    position = p.checked_sub(1);
                }
                _ => {}
            }
            let want = position.and_then(|p| entries.get(p));
            assert_eq!(iter.valid(), want.is_some(), "seed {seed} step {step}");
            if let Some((key, value)) = want {
                assert_eq!(
                    (iter.key(), iter.value()),
                    (&key.0[..], &value[..]),
                    "seed {seed} step {step}"
                );
            }
        }
    }
}

#[test]
fn range_tombstones_widen_the_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000007.sst");
    let mut w = writer(&path, writer_options());
    assert!(w.is_empty());
    w.add_range_tombstone(&tombstone("m", "z", 9)).unwrap();
    w.add(&internal_key(b"k", SequenceNumber(5), 1), b"v")
        .unwrap();
    w.add_range_tombstone(&tombstone("a", "c", 3)).unwrap();
    w.add_range_tombstone(&tombstone("a", "c", 4)).unwrap();
    let e = w.add_range_tombstone(&tombstone("c", "c", 4)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    let s = w.finish().unwrap();
    assert_eq!(s.smallest, internal_key(b"a", SequenceNumber(4), 0xf));
    assert_eq!(s.largest, internal_key(b"z", SequenceNumber::MAX, 0xf));
    assert_eq!((s.sequences.0.0, s.sequences.1.0), (3, 9));
    assert_eq!(
        (s.num_entries, s.num_deletions, s.num_range_deletions),
        (1, 0, 3)
    );
    let table = open(&path).unwrap();
    let want = [
        tombstone("a", "c", 4),
        tombstone("a", "c", 3),
        tombstone("m", "z", 9),
    ];
    assert_eq!(table.range_tombstones(), want);
    assert_eq!(verify(&table).unwrap().range_tombstones, 3);
    assert_eq!(table.properties().num_entries, 4);
}

#[test]
fn a_table_of_tombstones_alone_is_a_table_and_an_empty_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000007.sst");
    let e = writer(&path, writer_options()).finish().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    let mut w = writer(&path, writer_options());
    w.add_range_tombstone(&tombstone("b", "d", 8)).unwrap();
    let summary = w.finish().unwrap();
    assert_eq!(summary.smallest, internal_key(b"b", SequenceNumber(8), 0xf));
    let table = open(&path).unwrap();
    verify(&table).unwrap();
    assert_eq!(table.range_tombstones(), [tombstone("b", "d", 8)]);
    let mut iter = table.iter(TableIterOptions::default());
    iter.seek_to_first().unwrap();
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    assert!(!iter.valid());
    iter.seek(&seek_key(b"c", SequenceNumber::MAX)).unwrap();
    assert!(!iter.valid());
    assert_eq!(
        table
            .get(&seek_key(b"c", SequenceNumber::MAX), true)
            .unwrap(),
        None
    );
    sst_dump(&path, "verify");
}

#[test]
fn entries_out_of_order_or_undecodable_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut w = writer(&dir.path().join("000007.sst"), writer_options());
    let key = |k: &[u8], seq: u64, t: u8| internal_key(k, SequenceNumber(seq), t);
    w.add(&key(b"b", 5, 1), b"").unwrap();
    for bad in [key(b"a", 5, 1), key(b"b", 5, 1), key(b"b", 6, 1)] {
        assert!(w.add(&bad, b"").unwrap_err().is_corruption());
    }
    assert!(w.add(b"short", b"").is_err());
    assert!(
        w.add(&key(b"c", 1, 0x0f), b"d")
            .unwrap_err()
            .is_corruption()
    );
    assert!(
        w.add(&key(b"c", 1, 0x11), b"no pointer")
            .unwrap_err()
            .is_corruption()
    );
    w.add(&key(b"b", 4, 1), b"").unwrap();
}

#[test]
fn offsets_grow_with_keys_and_the_cache_serves_repeats() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000007.sst");
    let mut rng = fastrand::Rng::with_seed(5);
    let mut w = writer(&path, writer_options());
    for i in 0..20_000u32 {
        let value: Vec<u8> = (0..50).map(|_| rng.u8(..)).collect();
        w.add(
            &internal_key(format!("{i:08}").as_bytes(), SequenceNumber(1), 1),
            &value,
        )
        .unwrap();
    }
    w.finish().unwrap();
    let table = open(&path).unwrap();
    assert!(table.memory_usage() > 20_000 * 10 / 8);
    let cache = &table.options.block_cache;
    let target = seek_key(b"00012345", SequenceNumber::MAX);
    for (fill, hits) in [(false, 0), (true, 0), (true, 1)] {
        let before = cache.hits();
        assert!(table.get(&target, fill).unwrap().is_some());
        assert_eq!(cache.hits() - before, hits);
    }
    // Absent keys mostly cost no block: the filter lets about one percent through.
    let before = cache.hits() + cache.misses();
    for i in 0..10_000u32 {
        let absent = seek_key(format!("{i:08}x").as_bytes(), SequenceNumber::MAX);
        assert!(table.get(&absent, true).unwrap().is_none());
    }
    let passed = cache.hits() + cache.misses() - before;
    assert!(
        (20..250).contains(&passed),
        "{passed} of 10000 absent keys passed the filter"
    );
}

#[test]
fn other_orders_of_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000007.sst");
    let reverse = InternalKeyComparator::new(by_name("rocksdb.ReverseBytewiseComparator").unwrap());
    let comparator = reverse.clone();
    let mut w = writer(
        &path,
        TableWriterOptions {
            comparator,
            ..writer_options()
        },
    );
    let key = |i: u32| internal_key(format!("key {i:05}").as_bytes(), SequenceNumber(3), 1);
    for i in (0..5000).rev() {
        w.add(&key(i), &i.to_le_bytes()).unwrap();
    }
    let summary = w.finish().unwrap();
    assert_eq!((summary.smallest, summary.largest), (key(4999), key(0)));
    let file = StdVfs.open(&path, Access::Random).unwrap();
    let mut options = reader_options(summary.file_size);
    options.comparator = reverse;
    let table = TableReader::open(file, &path, options).unwrap();
    assert_eq!(verify(&table).unwrap().entries, 5000);
    for i in (0..5000).step_by(7) {
        let found = table.get(&key(i), true).unwrap().unwrap();
        assert_eq!(found.value[..], i.to_le_bytes());
    }
}

#[test]
fn a_prefix_with_many_entries_begins_a_block() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000007.sst");
    let mut writer = writer(
        &path,
        TableWriterOptions {
            prefix_extractor: Some(crate::format::prefix::fixed(2)),
            compression: CompressionType::None,
            ..writer_options()
        },
    );
    let key = |row: u16, version: u16| {
        let key = [row.to_be_bytes(), version.to_be_bytes()].concat();
        internal_key(&key, SequenceNumber(1), ValueType::Value as u8)
    };
    // 4 blocks, and then one entry.
    let versions = |row: u16| if row < 10 { 140 } else { 1 };
    for row in 0..60 {
        for version in 0..versions(row) {
            writer.add(&key(row, version), &[0; 100]).unwrap();
        }
    }
    let size = writer.finish().unwrap().file_size;
    let table = open(&path).unwrap();
    let mut iter = table.iter(TableIterOptions::default());
    let mut begins_block = |row: u16| {
        iter.seek(&key(row, 0)).unwrap();
        let (at, key) = (iter.block_offset(), iter.key().to_vec());
        iter.prev().unwrap();
        let before = iter.block_offset();
        iter.seek(&key).unwrap();
        before != at
    };
    for row in 1..=10 {
        assert!(begins_block(row), "row {row}");
    }
    // Short ones share blocks.
    let begun = (11..60).filter(|row| begins_block(*row)).count();
    assert!(begun <= 2, "{begun} of 49");
    assert!(size < 1500 * 130, "{size}");
}
