use super::*;
use crate::error::ErrorKind;

fn small_file(kind: CompressionType) -> (Vec<u8>, Vec<Pair>, Vec<BlobIndex>) {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    let pairs: Vec<Pair> = [(3, 60), (1, 0), (8, 25)]
        .map(|(key, len)| (vec![b'a' + key as u8; key], value(&mut rng, len)))
        .to_vec();
    let (summary, indexes) = write(dir.path(), 9, kind, &pairs);
    let bytes = std::fs::read(FileKind::Blob(summary.number).path(dir.path())).unwrap();
    (bytes, pairs, indexes)
}

/// Checks that each `get` returns the right value or a clean error. Returns whether the walk and
/// the gets noticed anything.
fn noticed(bytes: Vec<u8>, pairs: &[Pair], indexes: &[BlobIndex], what: &str) -> (bool, bool) {
    let r = match open_bytes(bytes) {
        Ok(r) => r,
        Err(e) => {
            assert!(
                matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Unsupported),
                "{what}: {e}"
            );
            return (true, true);
        }
    };
    let mut by_get = false;
    for ((key, value), index) in pairs.iter().zip(indexes) {
        match r.get(key, index) {
            Ok(v) => assert_eq!(v, value, "{what}"),
            Err(e) => {
                assert!(
                    e.is_corruption() && e.path().is_some() && e.offset().is_some(),
                    "{what}: {e}"
                );
                by_get = true;
            }
        }
    }
    let mut by_walk = false;
    for record in Records::of(&r) {
        match record {
            Ok(record) => {
                let (key, _) = pairs.iter().find(|(k, _)| record.key == k).unwrap();
                assert_eq!(record.key, key, "{what}");
                // Only this notices a damaged compression in the header.
                let _ = record.value(&r);
            }
            Err(e) => {
                let kind = e.kind();
                assert!(
                    matches!(kind, ErrorKind::Corruption | ErrorKind::Unsupported),
                    "{what}"
                );
                assert!(e.path().is_some() && e.offset().is_some(), "{what}: {e}");
                by_walk = true;
            }
        }
    }
    (by_walk, by_get)
}

#[test]
fn every_flipped_bit_is_noticed() {
    for kind in KINDS {
        let (bytes, pairs, indexes) = small_file(kind);
        assert_eq!(
            noticed(bytes.clone(), &pairs, &indexes, "whole"),
            (false, false)
        );
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let what = format!("{kind:?}, byte {at} bit {bit}");
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let (by_walk, by_get) = noticed(bad, &pairs, &indexes, &what);
                let in_footer = at >= bytes.len() - 32;
                match at {
                    // The family's number is compared by callers that know it.
                    8..=11 => assert!(!by_walk && !by_get, "{what}"),
                    13 => assert!(by_get, "{what}"),
                    _ => assert!(by_walk && (by_get || in_footer), "{what}"),
                }
            }
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    for kind in KINDS {
        let (bytes, pairs, indexes) = small_file(kind);
        let records_end = bytes.len() - 32;
        for len in 0..bytes.len() {
            let what = format!("{kind:?}, {len} of {} bytes", bytes.len());
            let (by_walk, by_get) = noticed(bytes[..len].to_vec(), &pairs, &indexes, &what);
            assert!(by_walk, "{what}");
            assert_eq!(by_get, len < records_end, "{what}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(noticed(longer, &pairs, &indexes, "longer").0);
    }
}

#[test]
fn an_unsealed_file_gives_its_records_and_says_so() {
    let (mut bytes, pairs, _) = small_file(CompressionType::Lz4);
    bytes.truncate(bytes.len() - 32);
    let r = open_bytes(bytes).unwrap();
    let items: Vec<_> = Records::of(&r).collect();
    assert_eq!(items.len(), pairs.len() + 1);
    assert!(items[0].as_ref().unwrap_err().is_corruption());
    assert!(items[1..].iter().all(Result::is_ok));
}

#[test]
fn the_walk_goes_on_behind_a_damaged_value() {
    let (mut bytes, pairs, indexes) = small_file(CompressionType::None);
    bytes[indexes[0].offset as usize] ^= 1;
    let r = open_bytes(bytes).unwrap();
    let items: Vec<_> = Records::of(&r).collect();
    assert_eq!(items.len(), pairs.len());
    assert_eq!(
        items[0].as_ref().unwrap_err().offset(),
        Some(30),
        "the record's offset"
    );
    assert!(items[1..].iter().all(Result::is_ok));
    assert_eq!(
        r.get(&pairs[0].0, &indexes[0]).unwrap_err().offset(),
        Some(30)
    );
}

#[test]
fn a_wrong_count_in_a_valid_footer_is_noticed() {
    let (mut bytes, pairs, _) = small_file(CompressionType::None);
    let footer = bytes.len() - 32;
    let wrong = layout::FileFooter {
        count: pairs.len() as u64 + 1,
    };
    bytes[footer..].copy_from_slice(&wrong.encode());
    let r = open_bytes(bytes).unwrap();
    let e = Records::of(&r).last().unwrap().unwrap_err();
    assert!(
        e.is_corruption() && e.message().contains("footer says 4"),
        "{e}"
    );
}

#[test]
fn pointers_that_lie_are_corruption() {
    let (bytes, pairs, indexes) = small_file(CompressionType::None);
    let size = bytes.len() as u64;
    let r = open_bytes(bytes).unwrap();
    let (key, good) = (&pairs[0].0[..], indexes[0]);
    let lies = [
        ("other key", b"zzz".to_vec(), good),
        ("longer key", b"ddddd".to_vec(), good),
        ("shorter key", b"d".to_vec(), good),
        (
            "shorter",
            key.to_vec(),
            BlobIndex {
                size: good.size - 1,
                ..good
            },
        ),
        (
            "longer",
            key.to_vec(),
            BlobIndex {
                size: good.size + 1,
                ..good
            },
        ),
        (
            "other record",
            key.to_vec(),
            BlobIndex {
                offset: indexes[2].offset,
                ..good
            },
        ),
        (
            "in the header",
            key.to_vec(),
            BlobIndex { offset: 20, ..good },
        ),
        ("at zero", key.to_vec(), BlobIndex { offset: 0, ..good }),
        (
            "at the end",
            key.to_vec(),
            BlobIndex {
                offset: size - good.size,
                ..good
            },
        ),
        (
            "after the end",
            key.to_vec(),
            BlobIndex {
                offset: size,
                ..good
            },
        ),
        (
            "far away",
            key.to_vec(),
            BlobIndex {
                offset: u64::MAX,
                ..good
            },
        ),
        // Would abort the process if it were believed.
        (
            "huge",
            key.to_vec(),
            BlobIndex {
                size: 1 << 62,
                ..good
            },
        ),
        (
            "overflowing",
            key.to_vec(),
            BlobIndex {
                size: u64::MAX,
                ..good
            },
        ),
        (
            "compressed",
            key.to_vec(),
            BlobIndex {
                compression: CompressionType::Zstd,
                ..good
            },
        ),
    ];
    for (what, key, index) in lies {
        let e = r.get(&key, &index).unwrap_err();
        assert!(
            e.is_corruption() && e.path().is_some() && e.offset().is_some(),
            "{what}: {e}"
        );
    }
    assert_eq!(r.get(key, &good).unwrap(), pairs[0].1);
}

#[test]
fn a_false_uncompressed_size_reserves_no_memory() {
    // Valid checksums over a value that claims to be 4 GiB long.
    for (kind, claim) in [
        (CompressionType::Lz4, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0][..]),
        (
            CompressionType::Zstd,
            &[0xff, 0xff, 0xff, 0xff, 0x0f, 0][..],
        ),
        (
            CompressionType::Snappy,
            &[0xff, 0xff, 0xff, 0xff, 0x0f, 0][..],
        ),
    ] {
        let header = layout::FileHeader {
            column_family: CF,
            compression: kind,
        };
        let record = layout::RecordHeader::of(b"k", claim);
        let bytes = [&header.encode()[..], &record.encode(), b"k", claim].concat();
        let index = BlobIndex {
            file: BlobFileNumber(9),
            offset: 63,
            size: claim.len() as u64,
            compression: kind,
        };
        let e = open_bytes(bytes).unwrap().get(b"k", &index).unwrap_err();
        assert!(
            e.is_corruption() && e.message().contains("limit"),
            "{kind:?}: {e}"
        );
    }
}

#[test]
fn files_of_other_kinds_are_refused() {
    let (bytes, ..) = small_file(CompressionType::None);
    let kind_with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        open_bytes(bytes).err().unwrap().kind()
    };
    assert_eq!(kind_with(0, 1), ErrorKind::Corruption, "magic");
    assert_eq!(kind_with(4, 2), ErrorKind::Unsupported, "version");
    assert_eq!(kind_with(12, 1), ErrorKind::Unsupported, "expiry");
    assert_eq!(kind_with(13, 6), ErrorKind::Unsupported, "xpress");
    assert_eq!(
        kind_with(13, 99),
        ErrorKind::Corruption,
        "no compression at all"
    );
}
