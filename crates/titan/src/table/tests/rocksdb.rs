//! Exchange with RocksDB: it reads our tables. Its tables (`testdata/README.md` says how they were
//! written) are read, and their filters used.

use super::*;
use crate::table::filter::FilterBuilder;

fn open_with(name: &str, largest_seq: Option<u64>) -> Result<Arc<TableReader>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/table/testdata")
        .join(name);
    let file = StdVfs.open(&PathBuf::from(&path), Access::Random)?;
    let options = TableReaderOptions {
        identity: TableIdentity {
            number: FileNumber(1),
            size: file.size()?,
            largest_seq: largest_seq.map(SequenceNumber),
            unique_id: None,
        },
        comparator: InternalKeyComparator::new(Arc::new(BytewiseComparator)),
        block_cache: Arc::new(BlockCache::new(1 << 20)),
    };
    TableReader::open(file, &path, options)
}

fn fixture(name: &str) -> Arc<TableReader> {
    open_with(name, None).unwrap()
}

fn key(i: usize) -> Vec<u8> {
    (0..i).map(|j| (31 * i + 7 * j) as u8).collect()
}

/// Checks that the table has the keys `0..count`, forwards, backwards and by lookup.
fn holds_keys(table: &Arc<TableReader>, count: usize) {
    let check = verify(table).unwrap();
    assert_eq!(check.entries, count as u64);
    let mut want: Vec<_> = (0..count)
        .map(|i| (key(i), format!("value {i}").into_bytes()))
        .collect();
    want.sort();
    let mut iter = table.iter(TableIterOptions {
        fill_cache: true,
        readahead: 3000,
    });
    iter.seek_to_first().unwrap();
    for (key, value) in &want {
        assert_eq!((user_key(iter.key()), iter.value()), (&key[..], &value[..]));
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    for (key, _) in want.iter().rev() {
        assert_eq!(user_key(iter.key()), key);
        iter.prev().unwrap();
    }
    assert!(!iter.valid());
    for (key, value) in &want {
        let found = table
            .get(&seek_key(key, SequenceNumber::MAX), true)
            .unwrap()
            .unwrap();
        assert_eq!(&found.value[..], value);
    }
    assert_eq!(
        table
            .get(&seek_key(b"absent", SequenceNumber::MAX), true)
            .unwrap(),
        None
    );
}

#[test]
fn every_version_checksum_index_and_codec() {
    for (name, count) in [
        ("fv2_crc32c_snappy.sst", 121),
        ("fv3_partitioned_xxh32.sst", 121),
        ("fv4_hash_xxh64.sst", 61),
        ("fv5_bloom_zstd.sst", 301),
        ("fv6_partitioned_lz4.sst", 121),
        ("fv6_nochecksum.sst", 121),
    ] {
        let table = fixture(name);
        println!("{name}");
        holds_keys(&table, count);
        assert!(table.liveness().unwrap().is_none());
        assert!(table.scan_blob_refs().unwrap().is_empty());
    }
    let tombstones = fixture("fv2_crc32c_snappy.sst").range_tombstones().to_vec();
    let ranges: Vec<_> = tombstones
        .iter()
        .map(|t| (t.start.to_vec(), t.end.to_vec()))
        .collect();
    assert_eq!(ranges, [(vec![0x10], vec![0x20]), (key(5), key(6))]);
}

#[test]
fn an_index_with_first_keys() {
    let table = fixture("fv5_first_key.sst");
    let check = verify(&table).unwrap();
    assert_eq!((check.entries, check.data_blocks), (100, 17));
    assert_eq!(table.properties().num_data_blocks, 17);
}

#[test]
fn filters_are_rocksdbs_own_bit_for_bit() {
    let long = [
        256, 512, 1023, 1024, 1025, 1087, 1088, 1089, 2047, 2048, 2049, 3000,
    ];
    for (name, bits, lengths) in [
        ("fv5_bloom_zstd.sst", 10.0, (0..301).collect()),
        ("fv5_bloom_long_keys.sst", 10.0, long.to_vec()),
        ("fv6_nochecksum.sst", 14.5, (0..121).collect::<Vec<_>>()),
    ] {
        let table = fixture(name);
        let mut builder = FilterBuilder::new(bits).unwrap();
        for i in &lengths {
            assert!(table.may_contain(&key(*i)), "{name}: length {i}");
            builder.add(&key(*i));
        }
        assert_eq!(builder.len(), lengths.len());
        let ours = builder.finish().unwrap();
        let theirs = table.filter.as_ref().unwrap();
        assert!(
            theirs.block() == ours,
            "{name}: the same keys give another filter"
        );
        let mut rng = fastrand::Rng::with_seed(1);
        let passed = (0..20_000)
            .filter(|i| {
                let absent: Vec<u8> = (0..1 + i % 300).map(|_| rng.u8(..)).collect();
                table.may_contain(&absent)
            })
            .count();
        assert!(passed < 400, "{name}: {passed} of 20000 absent keys pass");
    }
}

#[test]
fn filters_in_other_formats_are_done_without() {
    for name in ["fv2_crc32c_snappy.sst", "fv6_partitioned_lz4.sst"] {
        let table = fixture(name);
        assert!(table.filter.is_none(), "{name}");
        assert!(table.may_contain(b"anything"));
    }
}

#[test]
fn ingested_files_have_one_sequence_number() {
    let table = open_with("ingested_sequence_in_manifest.sst", Some(41)).unwrap();
    holds_keys(&table, 61);
    let get = |table: &TableReader, key: &[u8], snapshot: u64| {
        table
            .get(&seek_key(key, SequenceNumber(snapshot)), true)
            .unwrap()
    };
    for i in [0, 1, 7, 60] {
        assert_eq!(get(&table, &key(i), 41).unwrap().sequence.0, 41);
        assert_eq!(
            get(&table, &key(i), 40),
            None,
            "older snapshots do not see key {i}"
        );
    }

    for largest in [None, Some(6)] {
        let table = open_with("ingested_sequence_in_file.sst", largest).unwrap();
        assert_eq!(verify(&table).unwrap().entries, 3);
        assert_eq!(&get(&table, b"k3", 6).unwrap().value[..], b"new3");
        assert_eq!(get(&table, b"k3", 6).unwrap().sequence.0, 6);
        assert_eq!(get(&table, b"k3", 5), None);
    }
    let e = open_with("ingested_sequence_in_file.sst", Some(9)).unwrap_err();
    assert_eq!(
        e.kind(),
        ErrorKind::Corruption,
        "it contradicts the MANIFEST"
    );
}

#[test]
fn rocksdb_reads_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000007.sst");
    for (seed, compression) in ALL.into_iter().enumerate() {
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let mut model = random_model(&mut rng, 2000);
        // sst_dump prints merge operands and blob pointers as it pleases; count them only.
        model.retain(|_, value| !value.is_empty());
        let options = TableWriterOptions {
            compression,
            ..writer_options()
        };
        let mut w = writer(&path, options);
        for (key, value) in &model {
            w.add(&key.0, value).unwrap();
        }
        w.add_range_tombstone(&tombstone("b", "d", 8)).unwrap();
        w.finish().unwrap();
        verify(&open(&path).unwrap()).unwrap();
        sst_dump(&path, "verify");
        let Some(scan) = sst_dump(&path, "scan") else {
            return;
        };
        let lines = scan.lines().filter(|line| line.contains(" => ")).count();
        assert_eq!(lines, model.len(), "seed {seed}");
        sst_dump(&path, "check");
    }
}
