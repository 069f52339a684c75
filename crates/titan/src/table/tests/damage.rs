//! Damaged files: an error or the same content, never a panic.

use super::*;
use crate::fuzzing::MemoryFile;
use crate::iterator::prefix_skip::PrefixSkip;
use crate::table::liveness::LivenessBlock;

fn open_bytes(bytes: Vec<u8>, size: u64) -> Result<Arc<TableReader>> {
    let path = PathBuf::from("/damaged.sst");
    TableReader::open(MemoryFile::open(bytes), &path, reader_options(size))
}

/// Opens, verifies and reads a whole table; returns the content that a reader sees.
#[allow(clippy::type_complexity)]
fn read_all(
    bytes: Vec<u8>,
) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, Vec<RangeTombstone>, LivenessBlock)> {
    let size = bytes.len() as u64;
    let table = open_bytes(bytes, size)?;
    verify(&table)?;
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
        let _ = verify(&table);
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
    let file = MemoryFile::open(whole);
    let e = TableReader::open(file, Path::new("x.sst"), options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidOption);
}

#[test]
fn a_skip_through_keys_that_are_out_of_order_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000009.sst");
    let options = TableWriterOptions {
        compression: CompressionType::None,
        ..writer_options()
    };
    let key = |k: &str| internal_key(k.as_bytes(), SequenceNumber(1), ValueType::Value as u8);
    let mut w = writer(&path, options);
    w.add(&key("!"), b"").unwrap();
    for n in 10..22 {
        w.add(&key(&format!("a{n}")), b"").unwrap();
    }
    w.finish().unwrap();
    let mut damaged = std::fs::read(&path).unwrap();
    // Without checksums, the first key becomes larger than all others.
    let footer = damaged.len() - 53;
    damaged[footer] = 0;
    assert_eq!(damaged[3], b'!');
    damaged[3] = b'b';
    let size = damaged.len() as u64;
    let table = open_bytes(damaged, size).unwrap();
    let mut iter = table.iter(TableIterOptions::default());
    iter.seek_to_first().unwrap();
    let mut asked = 0;
    let mut rule = |_: &[u8]| {
        asked += 1;
        assert!(asked < 1000, "the skip goes round and round");
        Some(1)
    };
    let order = order();
    let mut skip = PrefixSkip::new(b"b", &mut rule, &order, Default::default());
    let _ = iter.skip_prefixes(&mut skip);
}
