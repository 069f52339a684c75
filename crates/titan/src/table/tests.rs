//! Whole tables: written, read, damaged, and exchanged with RocksDB.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::cache::BlockCache;
use crate::error::{ErrorKind, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::comparator::by_name;
use crate::format::internal_key::{
    InternalKeyComparator, ValueType, internal_key, seek_key, user_key,
};
use crate::format::range_tombstone::RangeTombstone;
use crate::format::{
    BlobFileNumber, BytewiseComparator, ColumnFamilyId, CompressionType, FileNumber, SequenceNumber,
};
use crate::iterator::InternalIterator;
use crate::vfs::{Access, ReadableFile, StdVfs, Vfs};

const ALL: [CompressionType; 4] = [
    CompressionType::None,
    CompressionType::Snappy,
    CompressionType::Lz4,
    CompressionType::Zstd,
];

fn order() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(BytewiseComparator))
}

fn writer_options() -> TableWriterOptions {
    TableWriterOptions {
        comparator: order(),
        block_size: 4096,
        restart_interval: 16,
        bloom_bits_per_key: 10.0,
        compression: CompressionType::Lz4,
        column_family_id: ColumnFamilyId(0),
        column_family_name: "default".to_owned(),
        db_id: "8fa2f0e2-2c4b-4b4d-9a1f-1f8f0f9e7a11".to_owned(),
        db_session_id: "TW647Q8MF846I9KJZYFI".to_owned(),
        file_number: FileNumber(7),
        creation_time: 1_700_000_000,
        bytes_per_sync: 64 << 10,
    }
}

fn writer(path: &Path, options: TableWriterOptions) -> TableWriter {
    TableWriter::new(StdVfs.create(path).unwrap(), path, options)
}

fn reader_options(file_size: u64) -> TableReaderOptions {
    TableReaderOptions {
        file_number: FileNumber(7),
        file_size,
        comparator: order(),
        block_cache: Arc::new(BlockCache::new(1 << 20)),
        largest_seq: None,
    }
}

fn open(path: &Path) -> Result<Arc<TableReader>> {
    let file = StdVfs.open(path, Access::Random)?;
    let options = reader_options(file.size()?);
    TableReader::open(file, path, options)
}

fn entries_of(
    table: &Arc<TableReader>,
    options: TableIterOptions,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut iter = table.iter(options);
    let mut found = Vec::new();
    iter.seek_to_first()?;
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next()?;
    }
    Ok(found)
}

/// Sorted as internal keys are: by user key, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OrderedKey(Vec<u8>);

impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        order().compare(&self.0, &other.0)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

type Model = BTreeMap<OrderedKey, Vec<u8>>;

fn random_user_key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let len = if rng.u8(..20) == 0 {
        rng.usize(..300)
    } else {
        rng.usize(..10)
    };
    (0..len).map(|_| rng.u8(b'a'..=b'f')).collect()
}

fn random_model(rng: &mut fastrand::Rng, entries: usize) -> Model {
    let mut model = Model::new();
    // Few user keys give many versions, so that some straddle blocks.
    let narrow = rng.bool();
    for _ in 0..entries {
        let key = if narrow {
            vec![rng.u8(b'a'..=b'h')]
        } else {
            random_user_key(rng)
        };
        let (value_type, value) = match rng.u8(..10) {
            0 => (ValueType::Deletion, vec![]),
            1 => (ValueType::SingleDeletion, vec![]),
            2 | 3 => {
                let mut value = Vec::new();
                let index = BlobIndex {
                    file: BlobFileNumber(rng.u64(10..14)),
                    offset: 400 + rng.u64(..1 << 40),
                    size: rng.u64(..1 << 20),
                    compression: CompressionType::None,
                };
                index.encode(&mut value);
                (ValueType::BlobIndex, value)
            }
            4 => (ValueType::Merge, b"operand".to_vec()),
            _ => (ValueType::Value, vec![rng.u8(..); rng.usize(..200)]),
        };
        let ikey = internal_key(&key, SequenceNumber(rng.u64(1..1 << 20)), value_type as u8);
        model.insert(OrderedKey(ikey), value);
    }
    model
}

fn write_model(path: &Path, model: &Model, options: TableWriterOptions) -> TableSummary {
    let mut w = writer(path, options);
    for (key, value) in model {
        w.add(&key.0, value).unwrap();
    }
    let estimate = w.file_size();
    assert_eq!(w.num_entries(), model.len() as u64);
    let referenced = w.referenced_blob_bytes();
    let summary = w.finish().unwrap();
    assert!(
        summary.file_size + 4096 > estimate / 2,
        "{} {estimate}",
        summary.file_size
    );
    assert!(referenced <= summary.blob_refs.iter().map(|r| r.bytes).sum());
    summary
}

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

        let check = table
            .verify()
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
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
            summary.oldest_blob_file,
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

fn tombstone(start: &'static str, end: &'static str, sequence: u64) -> RangeTombstone {
    RangeTombstone {
        start: Bytes::from_static(start.as_bytes()),
        end: Bytes::from_static(end.as_bytes()),
        sequence: SequenceNumber(sequence),
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
    assert_eq!((s.smallest_seq.0, s.largest_seq.0), (3, 9));
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
    assert_eq!(table.verify().unwrap().range_tombstones, 3);
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
    table.verify().unwrap();
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
    let size = w.finish().unwrap().file_size;
    let table = open(&path).unwrap();
    assert_eq!(table.file_number(), FileNumber(7));
    assert!(table.memory_usage() > 20_000 * 10 / 8);
    let offset = |k: &str| {
        table
            .approximate_offset_of(&seek_key(k.as_bytes(), SequenceNumber::MAX))
            .unwrap()
    };
    assert_eq!(offset(""), 0);
    let middle = offset("00010000");
    assert!(
        middle > size * 4 / 10 && middle < size * 6 / 10,
        "{middle} of {size}"
    );
    assert!(offset("9") > size * 9 / 10 && offset("9") < size);

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

/// A file in memory, to damage.
struct Memory(Bytes);

impl ReadableFile for Memory {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }
}

fn open_bytes(bytes: Vec<u8>, size: u64) -> Result<Arc<TableReader>> {
    let path = PathBuf::from("/damaged.sst");
    TableReader::open(
        Arc::new(Memory(Bytes::from(bytes))),
        &path,
        reader_options(size),
    )
}

/// Opens, verifies and reads all; what a reader sees of a table.
#[allow(clippy::type_complexity)]
fn read_all(
    bytes: Vec<u8>,
) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, Vec<RangeTombstone>, LivenessBlock)> {
    let size = bytes.len() as u64;
    let table = open_bytes(bytes, size)?;
    table.verify()?;
    let entries = entries_of(&table, TableIterOptions::default())?;
    for (key, value) in &entries {
        let found = table.get(key, true)?.map(|e| e.value.to_vec());
        assert!(
            found.is_none_or(|found| found == *value),
            "a get that differs from the scan"
        );
    }
    let liveness = table.liveness()?.unwrap_or_default();
    Ok((entries, table.range_tombstones().to_vec(), liveness))
}

fn small_table(dir: &Path, compression: CompressionType) -> Vec<u8> {
    let path = dir.join("000009.sst");
    let mut rng = fastrand::Rng::with_seed(9);
    let options = TableWriterOptions {
        block_size: 300,
        compression,
        ..writer_options()
    };
    let mut w = writer(&path, options);
    for (key, value) in &random_model(&mut rng, 40) {
        w.add(&key.0, value).unwrap();
    }
    w.add_range_tombstone(&tombstone("b", "d", 8)).unwrap();
    w.finish().unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn every_flipped_byte_is_an_error_or_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for compression in ALL {
        let whole = small_table(dir.path(), compression);
        let sound = read_all(whole.clone()).unwrap();
        let mut unnoticed = 0;
        for at in 0..whole.len() {
            for bits in [0xff, 1 << (at % 8)] {
                let mut damaged = whole.clone();
                damaged[at] ^= bits;
                if let Ok(found) = read_all(damaged) {
                    assert!(
                        found == sound,
                        "{compression:?}: byte {at} changed what is read"
                    );
                    unnoticed += 1;
                }
            }
        }
        // Only the footer's padding is covered by no checksum.
        assert!(
            unnoticed <= 2 * 40,
            "{compression:?}: {unnoticed} flips unnoticed"
        );
    }
}

#[test]
fn every_truncation_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let whole = small_table(dir.path(), CompressionType::Lz4);
    for cut in 0..whole.len() {
        assert!(read_all(whole[..cut].to_vec()).is_err(), "cut at {cut}");
        let e = open_bytes(whole[..cut].to_vec(), whole.len() as u64).unwrap_err();
        assert!(e.is_corruption(), "{e}");
    }
}

#[test]
fn random_bytes_with_a_valid_footer_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    let whole = small_table(dir.path(), CompressionType::None);
    for seed in 0..500u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut damaged = whole.clone();
        // Without checksums, damage reaches the decoders.
        let footer = damaged.len() - 53;
        damaged[footer] = 0;
        for _ in 0..1 + rng.usize(..8) {
            let at = rng.usize(..footer);
            damaged[at] = rng.u8(..);
        }
        let size = damaged.len() as u64;
        let Ok(table) = open_bytes(damaged, size) else {
            continue;
        };
        let _ = table.verify();
        let _ = table.liveness();
        let mut iter = table.iter(TableIterOptions::default());
        let mut step = iter.seek_to_last();
        for _ in 0..1000 {
            if step.is_err() || !iter.valid() {
                break;
            }
            let _ = table.get(iter.key(), false);
            step = iter.prev();
        }
    }
}

#[test]
fn another_comparator_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let whole = small_table(dir.path(), CompressionType::None);
    let mut options = reader_options(whole.len() as u64);
    let reverse = by_name("rocksdb.ReverseBytewiseComparator").unwrap();
    options.comparator = InternalKeyComparator::new(reverse);
    let file = Arc::new(Memory(Bytes::from(whole)));
    let e = TableReader::open(file, Path::new("x.sst"), options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidOption);
}

/// Runs RocksDB's own checker, where it is installed; returns its output.
fn sst_dump(path: &Path, command: &str) -> Option<String> {
    let arguments = [
        format!("--file={}", path.display()),
        format!("--command={command}"),
    ];
    match Command::new("sst_dump")
        .args(arguments)
        .arg("--output_hex")
        .output()
    {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            let bad = ["orruption", "not a valid", "mismatch", "rror:"];
            assert!(
                output.status.success() && !bad.iter().any(|b| text.contains(b)),
                "sst_dump {command}: {text}"
            );
            Some(text)
        }
        Err(_) => {
            println!("sst_dump is not installed: RocksDB did not read this table");
            None
        }
    }
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
        open(&path).unwrap().verify().unwrap();
        sst_dump(&path, "verify");
        let Some(scan) = sst_dump(&path, "scan") else {
            return;
        };
        let lines = scan.lines().filter(|line| line.contains(" => ")).count();
        assert_eq!(lines, model.len(), "seed {seed}");
        sst_dump(&path, "check");
    }
}
