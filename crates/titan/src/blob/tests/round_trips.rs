use super::*;
use crate::format::checksum::{crc32c, mask};

fn pairs(seed: u64) -> Vec<Pair> {
    let mut rng = fastrand::Rng::with_seed(seed);
    // The writer's buffer and the walk's window are 256 KiB: lengths on both sides of that.
    let lens = [
        0,
        1,
        100,
        4096,
        0,
        262_000,
        (256 << 10) - 32,
        256 << 10,
        (3 << 20) + 5,
        17,
        70_000,
    ];
    let mut pairs: Vec<Pair> = (0..)
        .zip(lens)
        .map(|(i, len)| (format!("key{i:03}").into_bytes(), value(&mut rng, len)))
        .collect();
    pairs.push((Vec::new(), b"under the empty key".to_vec()));
    pairs.push((vec![b'k'; 300 << 10], b"under a long key".to_vec()));
    pairs.push((vec![b'l'; 8 << 20], Vec::new()));
    for _ in 0..200 {
        let len = rng.usize(..9000);
        pairs.push((vec![rng.u8(..); rng.usize(1..40)], value(&mut rng, len)));
    }
    pairs
}

#[test]
fn values_come_back_with_every_compression() {
    let dir = tempfile::tempdir().unwrap();
    let pairs = pairs(1);
    for (n, kind) in (1..).zip(KINDS) {
        let (summary, indexes) = write(dir.path(), n, kind, &pairs);
        let r = open(dir.path(), n).unwrap();
        assert_eq!(
            (r.compression(), r.column_family(), r.size()),
            (kind, CF, summary.file_size)
        );
        assert_eq!(r.verify_footer().unwrap(), pairs.len() as u64);
        assert_eq!(
            (summary.number, summary.count),
            (BlobFileNumber(n), pairs.len() as u64)
        );
        let stored: u64 = pairs
            .iter()
            .zip(&indexes)
            .map(|((k, _), i)| 32 + k.len() as u64 + i.size)
            .sum();
        assert_eq!(summary.total_bytes, stored, "{kind:?}");
        assert_eq!(summary.file_size, 30 + stored + 32, "{kind:?}");

        let records = all(&r).unwrap();
        assert_eq!(records.len(), pairs.len());
        for (((key, value), index), record) in pairs.iter().zip(&indexes).zip(&records) {
            assert!(r.get(key, index).unwrap() == value, "{kind:?} {index:?}");
            assert!(
                record.key == key && record.index(&r) == *index,
                "{kind:?} {index:?}"
            );
            assert_eq!(record.offset, index.offset - key.len() as u64 - 32);
            assert!(record.value(&r).unwrap() == value, "{kind:?} {index:?}");
        }
    }
}

#[test]
fn file_size_is_what_will_have_been_written() {
    let dir = tempfile::tempdir().unwrap();
    let n = BlobFileNumber(1);
    let mut w =
        BlobFileWriter::create(&StdVfs, dir.path(), n, CF, CompressionType::None, false).unwrap();
    assert_eq!(w.file_size(), 30);
    w.add(b"key", &vec![1; 1_000_000]).unwrap();
    assert_eq!(w.file_size(), 30 + 32 + 3 + 1_000_000);
    assert_eq!(w.finish().unwrap().file_size, 30 + 32 + 3 + 1_000_000 + 32);
}

#[test]
fn every_byte_of_the_layout_is_where_it_belongs() {
    let mut expected = Vec::new();
    expected.extend_from_slice(&[0x37, 0x8f, 0x24, 0x00]); // magic
    expected.extend_from_slice(&[1, 0, 0, 0]); // version
    expected.extend_from_slice(&[7, 0, 0, 0]); // column family
    expected.extend_from_slice(&[0, 0]); // flags, compression
    expected.extend_from_slice(&[0; 16]); // expiration
    for (key, value) in [(&b"ab"[..], &b"first"[..]), (b"c", b"")] {
        let mut header = vec![key.len() as u8, 0, 0, 0, 0, 0, 0, 0];
        header.extend_from_slice(&[value.len() as u8, 0, 0, 0, 0, 0, 0, 0]);
        header.extend_from_slice(&[0; 8]); // expiration
        expected.extend_from_slice(&header);
        expected.extend_from_slice(&mask(crc32c(&header)).to_le_bytes());
        expected.extend_from_slice(&mask(crc32c(&[key, value].concat())).to_le_bytes());
        expected.extend_from_slice(key);
        expected.extend_from_slice(value);
    }
    let mut footer = vec![0x37, 0x8f, 0x24, 0x00, 2, 0, 0, 0, 0, 0, 0, 0];
    footer.extend_from_slice(&[0; 16]); // expiration
    expected.extend_from_slice(&footer);
    expected.extend_from_slice(&mask(crc32c(&footer)).to_le_bytes());

    let dir = tempfile::tempdir().unwrap();
    let pairs = [
        (b"ab".to_vec(), b"first".to_vec()),
        (b"c".to_vec(), Vec::new()),
    ];
    let (summary, indexes) = write(dir.path(), 12, CompressionType::None, &pairs);
    assert_eq!(
        std::fs::read(dir.path().join("000012.blob")).unwrap(),
        expected
    );
    assert_eq!(indexes[0].offset, 30 + 32 + 2);
    assert_eq!(indexes[1].offset, 30 + 32 + 2 + 5 + 32 + 1);
    assert_eq!(
        (summary.total_bytes, summary.file_size),
        (39 + 33, expected.len() as u64)
    );

    let r = open_bytes(expected).unwrap();
    assert_eq!(r.get(b"ab", &indexes[0]).unwrap(), "first");
    assert_eq!(r.get(b"c", &indexes[1]).unwrap(), "");
}

#[test]
fn a_small_value_does_not_keep_a_large_read_alive() {
    let dir = tempfile::tempdir().unwrap();
    let pairs = [
        (vec![b'k'; 1 << 20], b"small".to_vec()),
        (b"k".to_vec(), vec![1; 1 << 20]),
    ];
    let (_, indexes) = write(dir.path(), 1, CompressionType::None, &pairs);
    let r = open(dir.path(), 1).unwrap();
    // A value alone in its memory converts into a buffer of its own size.
    let small = r
        .get(&pairs[0].0, &indexes[0])
        .unwrap()
        .try_into_mut()
        .unwrap();
    assert!(small.capacity() < 1024, "{}", small.capacity());
    assert_eq!(r.get(&pairs[1].0, &indexes[1]).unwrap(), pairs[1].1);
}
