use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::error::{Error, Result};
use crate::format::numbers::FileNumber;
use crate::fuzzing::MemoryFile;
use crate::vfs::{ReadableFile, WritableFile};

/// A file in memory whose appends and syncs fail while `failing` is set. A failed append leaves
/// half of its data.
#[derive(Clone, Default)]
struct MemFile {
    bytes: Arc<Mutex<Vec<u8>>>,
    appended: usize,
    failing: Arc<Mutex<bool>>,
}

impl MemFile {
    fn outcome(&self) -> Result<()> {
        match *self.failing.lock() {
            true => Err(Error::new(crate::ErrorKind::Io, "injected failure")),
            false => Ok(()),
        }
    }
}

impl WritableFile for MemFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let outcome = self.outcome();
        let written = match outcome {
            Ok(()) => data,
            Err(_) => &data[..data.len() / 2],
        };
        self.bytes.lock().extend_from_slice(written);
        outcome?;
        self.appended += data.len();
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        self.outcome()
    }
    fn cut_failed_append(&mut self) -> Result<()> {
        self.bytes.lock().truncate(self.appended);
        Ok(())
    }
}

const LOG: FileNumber = FileNumber(7);

fn path() -> PathBuf {
    PathBuf::from("000007.log")
}

fn written(payloads: &[Vec<u8>]) -> Vec<u8> {
    let file = MemFile::default();
    let mut writer = LogWriter::new(Box::new(file.clone()), &path());
    for payload in payloads {
        writer.add_record(payload).unwrap();
        assert_eq!(writer.file_size(), file.bytes.lock().len() as u64);
    }
    file.bytes.lock().clone()
}

type Read = (Vec<(u64, Vec<u8>)>, Result<LogEnd>);

fn read(bytes: &[u8], mode: TailMode) -> Read {
    let mut reader = LogReader::new(MemoryFile::open(bytes.to_vec()), &path(), LOG, mode);
    let mut records = Vec::new();
    loop {
        assert!(reader.end().is_none());
        match reader.next() {
            Ok(Some(record)) => records.push((record.offset, record.payload.to_vec())),
            Ok(None) => {
                assert!(reader.next().unwrap().is_none());
                return (records, Ok(reader.end().unwrap().clone()));
            }
            Err(error) => {
                assert_eq!(reader.next().unwrap_err().to_string(), error.to_string());
                return (records, Err(error));
            }
        }
    }
}

fn payloads_of(read: &Read) -> Vec<Vec<u8>> {
    read.0.iter().map(|(_, payload)| payload.clone()).collect()
}

fn random(rng: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

fn small_log(rng: &mut fastrand::Rng) -> (Vec<Vec<u8>>, Vec<u8>) {
    let payloads: Vec<_> = [40, 0, 13, 100, 1, 77]
        .iter()
        .map(|&n| random(rng, n))
        .collect();
    let bytes = written(&payloads);
    (payloads, bytes)
}

/// A log whose records cross a block border, so that types 1 to 4 and a trailer occur.
fn crossing_log(rng: &mut fastrand::Rng) -> (Vec<Vec<u8>>, Vec<u8>) {
    let sizes = [32_700, 30, 10, 2 * BLOCK_SIZE, 50];
    let payloads: Vec<_> = sizes.iter().map(|&n| random(rng, n)).collect();
    let bytes = written(&payloads);
    (payloads, bytes)
}

fn physical(record_type: u8, log_number: Option<u32>, payload: &[u8]) -> Vec<u8> {
    let mut body = log_number
        .map(|n| n.to_le_bytes().to_vec())
        .unwrap_or_default();
    body.extend_from_slice(payload);
    let mut out = record_crc(record_type, &body).to_le_bytes().to_vec();
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.push(record_type);
    out.extend_from_slice(&body);
    out
}

const MODES: [TailMode; 2] = [TailMode::PointInTime, TailMode::Strict];

#[test]
fn records_of_all_sizes_come_back() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut payloads = vec![vec![], vec![9]];
    payloads.extend((32_740..=32_790).map(|n| random(&mut rng, n)));
    payloads.push(random(&mut rng, 100 << 10));
    payloads.push(random(&mut rng, 1 << 20));
    for _ in 0..300 {
        let n = rng.usize(0..5000);
        payloads.push(random(&mut rng, n));
    }
    let bytes = written(&payloads);
    for mode in MODES {
        let result = read(&bytes, mode);
        assert_eq!(payloads_of(&result), payloads);
        assert_eq!(result.1.unwrap(), LogEnd::Clean);
        assert!(result.0.is_sorted_by_key(|r| r.0));
    }
}

#[test]
fn every_distance_to_the_block_end_works() {
    for gap in 0..=24 {
        let first = BLOCK_SIZE - HEADER_SIZE - gap;
        let payloads = vec![vec![1; first], vec![2; 100], vec![]];
        let result = read(&written(&payloads), TailMode::Strict);
        assert_eq!(payloads_of(&result), payloads, "gap {gap}");
        let second = if gap < HEADER_SIZE {
            BLOCK_SIZE
        } else {
            BLOCK_SIZE - gap
        };
        assert_eq!(result.0[1].0, second as u64);
    }
}

#[test]
fn parts_are_one_record() {
    let mut rng = fastrand::Rng::with_seed(2);
    let whole = random(&mut rng, 100_000);
    let file = MemFile::default();
    let mut writer = LogWriter::new(Box::new(file.clone()), &path());
    writer
        .add_record_parts(&[&whole[..12], &[], &whole[12..40_000], &whole[40_000..]])
        .unwrap();
    writer.add_record_parts(&[]).unwrap();
    writer.sync().unwrap();
    let bytes = file.bytes.lock().clone();
    assert_eq!(bytes, written(&[whole, vec![]]));
}

#[test]
fn the_first_error_is_final() {
    for fail_sync in [false, true] {
        let file = MemFile::default();
        let mut writer = LogWriter::new(Box::new(file.clone()), &path());
        writer.add_record(b"one").unwrap();
        *file.failing.lock() = true;
        let error = if fail_sync {
            writer.sync()
        } else {
            writer.add_record(b"two")
        }
        .unwrap_err();
        assert_eq!(error.path(), Some(path().as_path()));
        *file.failing.lock() = false;
        let size = file.bytes.lock().len();
        assert_eq!(
            writer.add_record(b"three").unwrap_err().to_string(),
            error.to_string()
        );
        assert_eq!(writer.sync().unwrap_err().to_string(), error.to_string());
        assert_eq!(file.bytes.lock().len(), size);
    }
}

#[test]
fn a_log_whose_append_failed_ends_with_the_record_before() {
    let file = MemFile::default();
    let mut writer = LogWriter::new(Box::new(file.clone()), &path());
    writer.add_record(b"one").unwrap();
    *file.failing.lock() = true;
    writer.add_record(b"two").unwrap_err();
    assert_ne!(*file.bytes.lock(), written(&[b"one".to_vec()]));
    *file.failing.lock() = false;
    writer.end_after_failed_append().unwrap();
    assert_eq!(*file.bytes.lock(), written(&[b"one".to_vec()]));
    writer.add_record(b"three").unwrap_err();
}

/// The records that are whole within the first `cut` bytes.
fn whole_before(starts: &[u64], ends: &[u64], cut: u64) -> (usize, u64) {
    let whole = ends.iter().filter(|&&end| end <= cut).count();
    (whole, starts.get(whole).copied().unwrap_or(cut))
}

#[test]
fn a_log_cut_anywhere_yields_the_whole_records_before() {
    let mut rng = fastrand::Rng::with_seed(3);
    for (payloads, bytes) in [small_log(&mut rng), crossing_log(&mut rng)] {
        let full = read(&bytes, TailMode::Strict);
        let starts: Vec<u64> = full.0.iter().map(|r| r.0).collect();
        let ends: Vec<u64> = (1..=payloads.len())
            .map(|n| written(&payloads[..n]).len() as u64)
            .collect();
        let step = if bytes.len() > 10_000 { 7 } else { 1 };
        for cut in (0..bytes.len()).step_by(step) {
            let (whole, start) = whole_before(&starts, &ends, cut as u64);
            for mode in MODES {
                let result = read(&bytes[..cut], mode);
                assert_eq!(
                    payloads_of(&result),
                    payloads[..whole],
                    "cut at {cut}, {mode:?}"
                );
                let end = result.1.unwrap();
                let between = ends.contains(&(cut as u64)) || (cut as u64) <= start;
                if between {
                    assert_eq!(end, LogEnd::Clean, "cut at {cut}");
                } else {
                    assert_eq!(end, LogEnd::Truncated { offset: start }, "cut at {cut}");
                }
            }
        }
    }
}

#[test]
fn a_flipped_byte_never_yields_anything_but_a_prefix() {
    let mut rng = fastrand::Rng::with_seed(4);
    for (payloads, mut bytes) in [small_log(&mut rng), crossing_log(&mut rng)] {
        let last = read(&bytes, TailMode::Strict).0.last().unwrap().0;
        // All bytes of a small log; of a large one those around block borders and some others.
        let near_border = |i: usize| (i + 80) % BLOCK_SIZE < 160;
        let large = bytes.len() > BLOCK_SIZE;
        for i in (0..bytes.len()).filter(|&i| !large || near_border(i) || i % 307 == 0) {
            for flip in [0x01, 0x04, 0x80, 0xff, rng.u8(1..)] {
                bytes[i] ^= flip;
                for mode in MODES {
                    let result = read(&bytes, mode);
                    let got = payloads_of(&result);
                    let at = format!("byte {i} flipped by {flip:#x}, {mode:?}");
                    assert!(payloads.starts_with(&got), "{at}");
                    match (mode, result.1) {
                        (TailMode::PointInTime, Err(e)) => panic!("{at}: {e}"),
                        (TailMode::PointInTime, Ok(LogEnd::Stale { .. })) => panic!("{at}: stale"),
                        (TailMode::Strict, Err(e)) => {
                            assert!(e.is_corruption(), "{at}");
                            assert_eq!(e.path(), Some(path().as_path()));
                            assert!(e.offset().unwrap() <= i as u64, "{at}");
                        }
                        // All records can survive only a flip in a block's trailer.
                        (_, Ok(LogEnd::Clean)) => assert_eq!(got.len(), payloads.len(), "{at}"),
                        (TailMode::Strict, Ok(_)) => {
                            assert!(i as u64 >= last, "{at}: damage passed off as the end");
                        }
                        (TailMode::PointInTime, Ok(_)) => assert!(got.len() < payloads.len()),
                    }
                }
                bytes[i] ^= flip;
            }
        }
    }
}

#[test]
fn random_bytes_do_not_panic() {
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..2000 {
        let len = rng.usize(0..200);
        let bytes = random(&mut rng, len);
        for mode in MODES {
            assert!(read(&bytes, mode).0.is_empty());
        }
    }
}

#[test]
fn preallocated_zeros_are_the_end() {
    let mut rng = fastrand::Rng::with_seed(6);
    let (payloads, bytes) = small_log(&mut rng);
    for zeros in [1, 6, 7, 500, 3 * BLOCK_SIZE] {
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + zeros, 0);
        for mode in MODES {
            let result = read(&longer, mode);
            assert_eq!(payloads_of(&result), payloads);
            assert_eq!(result.1.unwrap(), LogEnd::Clean, "{zeros} zeros");
        }
    }
    // Zeros that other bytes follow are not preallocated space.
    let mut hole = bytes.clone();
    hole.resize(2 * BLOCK_SIZE, 0);
    hole.extend_from_slice(&physical(TYPE_FULL, None, b"behind"));
    let offset = bytes.len() as u64;
    let result = read(&hole, TailMode::PointInTime);
    assert_eq!(payloads_of(&result), payloads);
    assert!(matches!(result.1.unwrap(), LogEnd::Corrupt { offset: o, .. } if o == offset));
    let error = read(&hole, TailMode::Strict).1.unwrap_err();
    assert!(error.is_corruption());
    assert_eq!(error.offset(), Some(offset));
}

#[test]
fn recycled_logs_end_where_the_old_content_starts() {
    let old: Vec<u8> = (0..2000)
        .flat_map(|_| physical(5, Some(3), b"old content"))
        .collect();
    for junk in 0..30 {
        let mut log = physical(5, Some(7), b"one");
        let long = vec![5; BLOCK_SIZE - log.len() - RECYCLABLE_HEADER_SIZE - junk];
        log.extend(physical(6, Some(7), &long[..10]));
        log.extend(physical(
            8,
            Some(7),
            &long[10..long.len() - RECYCLABLE_HEADER_SIZE],
        ));
        // The rest of the block is smaller than a header and zero, or old.
        let trailer = BLOCK_SIZE - log.len();
        if trailer < RECYCLABLE_HEADER_SIZE {
            log.resize(BLOCK_SIZE, 0);
            log.extend(physical(5, Some(7), b"two"));
        }
        let mut expected = vec![
            b"one".to_vec(),
            long[..long.len() - RECYCLABLE_HEADER_SIZE].to_vec(),
        ];
        if trailer < RECYCLABLE_HEADER_SIZE {
            expected.push(b"two".to_vec());
        }
        let offset = log.len() as u64;
        log.extend_from_slice(&old[junk..]);
        let result = read(&log, TailMode::PointInTime);
        assert_eq!(payloads_of(&result), expected, "{junk}");
        assert_eq!(result.1.unwrap(), LogEnd::Stale { offset }, "{junk}");
    }
    let result = read(&old, TailMode::PointInTime);
    assert!(result.0.is_empty());
    assert_eq!(result.1.unwrap(), LogEnd::Stale { offset: 0 });
    assert!(read(&old, TailMode::Strict).1.unwrap_err().is_corruption());
}

#[test]
fn damage_in_a_recycled_log_can_be_passed() {
    // Records of 1 KiB, so that no block has one that starts in the block before.
    let record = |log: u32, n: u8| physical(5, Some(log), &vec![n; 1024 - RECYCLABLE_HEADER_SIZE]);
    let mut log: Vec<u8> = (0..100).flat_map(|n| record(7, n)).collect();
    log.extend((0..400).flat_map(|_| record(3, 200)));
    let resumed = |at: usize| {
        let mut damaged = log.clone();
        damaged[at] ^= 1;
        let file = MemoryFile::open(damaged);
        let mut reader = LogReader::new(file, &path(), LOG, TailMode::PointInTime);
        let mut seen = Vec::new();
        loop {
            while let Some(record) = reader.next().unwrap() {
                seen.push(record.payload[0]);
            }
            if !reader.resume(Search::Certain).unwrap() {
                return seen;
            }
        }
    };
    let all_but = |gone: Range<u8>| (0..100).filter(|n| !gone.contains(n)).collect::<Vec<_>>();
    assert_eq!(resumed(log.len() - 1), all_but(0..0));
    assert_eq!(resumed(40 * 1024 + 500), all_but(40..41));
    assert_eq!(resumed(40 * 1024 + 4), all_but(40..64), "the length");
}

#[test]
fn resuming_comes_to_an_end_at_a_record_of_another_log() {
    let log = physical(5, Some(3), b"other");
    for mode in MODES {
        let mut reader = LogReader::new(MemoryFile::open(log.clone()), &path(), LOG, mode);
        assert!(reader.next().unwrap().is_none());
        assert!(!reader.resume(Search::Certain).unwrap(), "{mode:?}");
    }
}

#[test]
fn other_record_types() {
    for mode in MODES {
        let mut log = physical(130, None, &[0; 24]);
        log.extend(physical(10, None, &[0; 6]));
        log.extend(physical(TYPE_FIRST, None, b"o"));
        log.extend(physical(0xc1, None, b"from the future"));
        log.extend(physical(TYPE_LAST, None, b"ne"));
        log.extend(physical(11, Some(7), &[0; 6]));
        log.extend(physical(131, Some(7), &[0; 24]));
        let result = read(&log, mode);
        assert_eq!(payloads_of(&result), [b"one".to_vec()]);
        assert_eq!(result.1.unwrap(), LogEnd::Clean);
        for (record_type, text) in [(9, "another method"), (12, "record type 12")] {
            let mut refused = log.clone();
            refused.extend(physical(record_type, None, &4u32.to_le_bytes()));
            let error = read(&refused, mode).1.unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(error.offset(), Some(log.len() as u64));
        }
    }
}

#[test]
fn fragments_out_of_order_are_damage() {
    let full = physical(TYPE_FULL, None, b"full");
    let first = physical(TYPE_FIRST, None, b"first");
    let empty_first = physical(TYPE_FIRST, None, b"");
    let last = physical(TYPE_LAST, None, b"last");
    for (log, valid_until) in [
        ([full.clone(), last.clone()].concat(), full.len()),
        (
            [full.clone(), first.clone(), full.clone()].concat(),
            full.len(),
        ),
        (
            [full.clone(), first.clone(), first.clone(), last.clone()].concat(),
            full.len(),
        ),
    ] {
        let result = read(&log, TailMode::PointInTime);
        assert_eq!(payloads_of(&result), [b"full".to_vec()]);
        let end = result.1.unwrap();
        assert!(
            matches!(end, LogEnd::Corrupt { offset, .. } if offset == valid_until as u64),
            "{end:?}"
        );
        assert!(read(&log, TailMode::Strict).1.unwrap_err().is_corruption());
    }
    // Old writers could leave an empty first fragment at the end of a block.
    let result = read(&[empty_first, full].concat(), TailMode::Strict);
    assert_eq!(payloads_of(&result), [b"full".to_vec()]);
}

#[test]
fn a_failing_read_is_an_error_in_both_modes() {
    struct Unreadable;
    impl ReadableFile for Unreadable {
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
            Err(Error::new(crate::ErrorKind::Io, "bad sector"))
        }
        fn size(&self) -> Result<u64> {
            Ok(1)
        }
    }
    for mode in MODES {
        let mut reader = LogReader::new(Arc::new(Unreadable), Path::new("x"), LOG, mode);
        assert_eq!(reader.next().unwrap_err().kind(), crate::ErrorKind::Io);
    }
}

#[test]
fn compressed_logs_of_rocksdb_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--benchmarks=fillseq",
        "--num=50",
        "--value_size=50000",
        "--wal_compression=zstd",
        "--write_buffer_size=1000000000",
    ];
    if !testing::db_bench(dir.path(), &args) {
        return;
    }
    let logs = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path());
    let log = logs
        .filter(|p| p.extension().is_some_and(|e| e == "log"))
        .max()
        .unwrap();
    let bytes = std::fs::read(&log).unwrap();
    let (records, end) = read(&bytes, TailMode::PointInTime);
    assert_eq!(end.unwrap(), LogEnd::Clean);
    assert_eq!(records.len(), 50);
    for (_, record) in records {
        assert!(record.len() > 50_000);
        crate::WriteBatch::from_data(record).unwrap();
    }
}

#[test]
fn a_compressed_record_that_is_no_frame_is_damage() {
    let mut log = physical(9, None, &7u32.to_le_bytes());
    let good = zstd::bulk::compress(b"good", 3).unwrap();
    log.extend(physical(TYPE_FULL, None, &good));
    let end = log.len() as u64;
    for bad in [&good[..good.len() - 1], b"no frame", b""] {
        let mut log = log.clone();
        log.extend(physical(TYPE_FULL, None, bad));
        log.extend(physical(TYPE_FULL, None, &good));
        let (records, found) = read(&log, TailMode::PointInTime);
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].1, b"good");
        let is_bad = matches!(found.unwrap(), LogEnd::Corrupt { offset, .. } if offset == end);
        assert!(is_bad || bad.is_empty());
        if is_bad {
            let error = read(&log, TailMode::Strict).1.unwrap_err();
            assert!(error.is_corruption(), "{error}");
        }
    }
}
