use super::*;
use crate::ErrorKind;
use crate::collector::{CollectedReport, GarbageByMoment};
use crate::format::blob_index::BlobRefs;
use crate::format::coding::{put_length_prefixed, put_varint};
use crate::format::file_name::FileKind;
use crate::wal::TailMode;
use crate::wal::testing::{db_bench, read_whole_log};

fn encoded(edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::new();
    edit.encode(&mut out);
    out
}

fn bytes(rng: &mut fastrand::Rng, min: usize) -> Vec<u8> {
    let mut out = vec![0; rng.usize(min..min + 20)];
    rng.fill(&mut out);
    out
}

/// Numbers of all magnitudes.
fn number(rng: &mut fastrand::Rng) -> u64 {
    rng.u64(..) >> rng.u32(0..64)
}

fn maybe<T>(rng: &mut fastrand::Rng, make: impl FnOnce(&mut fastrand::Rng) -> T) -> Option<T> {
    rng.bool().then(|| make(rng))
}

fn some<T>(rng: &mut fastrand::Rng, mut make: impl FnMut(&mut fastrand::Rng) -> T) -> Vec<T> {
    (0..rng.usize(0..4)).map(|_| make(rng)).collect()
}

fn collected(rng: &mut fastrand::Rng) -> CollectedReport {
    let mut report = CollectedReport::default();
    for _ in 0..rng.usize(..3) {
        let value = some(rng, |r| r.u8(..));
        report.properties.insert(text(rng).into_bytes(), value);
    }
    let mut garbage = GarbageByMoment::default();
    for _ in 0..rng.usize(..3) {
        garbage.add(rng.u64(..1000), rng.u64(1..1 << 40));
    }
    report.garbage = garbage;
    if !report.is_empty() {
        report.seen = maybe(rng, |r| r.u64(..1 << 40));
    }
    report
}

fn text(rng: &mut fastrand::Rng) -> String {
    (0..rng.usize(0..12)).map(|_| rng.char(..)).collect()
}

fn sequence(rng: &mut fastrand::Rng) -> SequenceNumber {
    SequenceNumber(number(rng) >> 8)
}

fn random_file(rng: &mut fastrand::Rng) -> NewFile {
    NewFile {
        number: FileNumber(number(rng)),
        path_id: *rng.choice(&[0, 0, 1, 255]).unwrap(),
        size: number(rng),
        smallest: bytes(rng, 8),
        largest: bytes(rng, 8),
        smallest_seq: sequence(rng),
        largest_seq: sequence(rng),
        oldest_blob_file: maybe(rng, |r| BlobFileNumber(number(r))),
        oldest_ancester_time: number(rng),
        file_creation_time: number(rng),
        epoch_number: maybe(rng, number),
        unique_id: maybe(rng, |r| r.u128(..).to_le_bytes()),
        checksum: bytes(rng, 0),
        checksum_method: bytes(rng, 0),
        marked_for_compaction: rng.bool(),
        temperature: rng.u8(0..3),
        compensated_range_deletion_size: number(rng),
        tail_size: number(rng),
        user_defined_timestamps_persisted: rng.bool(),
        unknown: some(rng, |r| (*r.choice(&[17, 63, 128]).unwrap(), bytes(r, 0))),
    }
}

fn random_edit(rng: &mut fastrand::Rng) -> VersionEdit {
    VersionEdit {
        db_id: maybe(rng, text),
        comparator: maybe(rng, text),
        log_number: maybe(rng, |r| FileNumber(number(r))),
        prev_log_number: maybe(rng, |r| FileNumber(number(r))),
        next_file_number: maybe(rng, |r| FileNumber(number(r))),
        last_sequence: maybe(rng, sequence),
        min_log_number_to_keep: maybe(rng, |r| FileNumber(number(r))),
        max_column_family: maybe(rng, |r| ColumnFamilyId(r.u32(..))),
        column_family: ColumnFamilyId(rng.u32(0..3)),
        added_column_family: maybe(rng, text),
        dropped_column_family: rng.bool(),
        atomic_group_remaining: maybe(rng, |r| r.u32(..)),
        compact_cursors: some(rng, |r| (r.usize(0..7), bytes(r, 8))),
        deleted_files: some(rng, |r| (r.usize(0..256), FileNumber(number(r)))),
        new_files: some(rng, |r| (r.usize(0..7), random_file(r))),
        blob_additions: some(rng, |r| BlobFileAddition {
            number: BlobFileNumber(number(r)),
            count: number(r),
            total_bytes: number(r),
            checksum_method: bytes(r, 0),
            checksum_value: bytes(r, 0),
            unknown: some(r, |r| (r.u32(1..64), bytes(r, 0))),
        }),
        blob_garbage: some(rng, |r| BlobFileGarbage {
            number: BlobFileNumber(number(r)),
            count: number(r),
            bytes: number(r),
            unknown: some(r, |r| (r.u32(1..64), bytes(r, 0))),
        }),
        relocations: some(rng, |r| {
            let mut logical: Vec<_> = (0..r.usize(1..5))
                .map(|_| BlobFileNumber(number(r)))
                .collect();
            logical.sort();
            logical.dedup();
            Relocation {
                file: BlobFileNumber(number(r)),
                map: FileNumber(number(r)),
                count: number(r),
                total_bytes: number(r),
                logical,
            }
        }),
        wal_additions: some(rng, |r| WalAddition {
            number: FileNumber(number(r)),
            synced_size: maybe(r, number),
        }),
        wal_deletion: maybe(rng, |r| FileNumber(number(r))),
        persist_user_defined_timestamps: maybe(rng, |r| r.bool()),
        kept_settings: some(rng, |r| KeptSettings {
            family: maybe(r, |r| ColumnFamilyId(r.u32(..))),
            settings: some(r, |r| (text(r), text(r))),
        }),
        table_facts: some(rng, |r| {
            let foreign = r.bool();
            TableFacts {
                table: FileNumber(number(r)),
                num_entries: number(r),
                num_deletions: number(r),
                num_range_deletions: number(r),
                num_shadowed: match foreign || r.bool() {
                    true => 0,
                    false => number(r),
                },
                raw_key_bytes: number(r),
                shadowed_bytes: r.u64(..),
                raw_value_bytes: number(r),
                blob_refs: some(r, |r| BlobRefs {
                    file: BlobFileNumber(number(r)),
                    count: number(r),
                    bytes: number(r),
                }),
                collected: if foreign {
                    CollectedReport::default()
                } else {
                    collected(r)
                },
                foreign,
            }
        }),
        unlogged: some(rng, |r| (SequenceNumber(number(r)), FileNumber(number(r)))),
        synced_before: rng.bool().then(|| rng.u64(..1 << 40)),
        state_follows: rng.bool(),
        unknown: some(rng, |r| {
            (
                *r.choice(&[8198, 8203, 9000, 1 << 20 | 8192]).unwrap(),
                bytes(r, 0),
            )
        }),
    }
}

#[test]
fn edits_come_back() {
    assert!(encoded(&VersionEdit::default()).is_empty());
    for seed in 0..2000 {
        let edit = random_edit(&mut fastrand::Rng::with_seed(seed));
        assert_eq!(
            VersionEdit::decode(&encoded(&edit)).unwrap(),
            edit,
            "seed {seed}"
        );
    }
}

#[test]
fn damage_never_panics() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let edit = random_edit(&mut rng);
        let mut data = encoded(&edit);
        for cut in 0..data.len() {
            if let Ok(shorter) = VersionEdit::decode(&data[..cut]) {
                assert_ne!(shorter, edit, "seed {seed}, cut at {cut}");
            }
        }
        for i in 0..data.len() {
            for flip in [1, 0x80, 0xff, rng.u8(1..)] {
                data[i] ^= flip;
                // If it decodes, the result must be an edit that can be written.
                if let Ok(other) = VersionEdit::decode(&data) {
                    let again = VersionEdit::decode(&encoded(&other)).unwrap();
                    assert_eq!(again, other, "seed {seed}, byte {i} flipped by {flip:#x}");
                }
                data[i] ^= flip;
            }
        }
    }
}

#[test]
fn what_must_be_known_is_refused_by_number() {
    for tag in [8u32, 11, 101, 104, 301, 402, 4096, 16384] {
        let mut data = Vec::new();
        put_varint(&mut data, tag.into());
        put_length_prefixed(&mut data, b"future");
        let error = VersionEdit::decode(&data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let expected = format!("the MANIFEST uses a feature this version does not know: tag {tag}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    let file = NewFile {
        smallest: vec![0; 8],
        largest: vec![0; 8],
        unknown: vec![(66, vec![1])],
        ..NewFile::default()
    };
    let edit = VersionEdit {
        new_files: vec![(0, file)],
        ..VersionEdit::default()
    };
    let error = VersionEdit::decode(&encoded(&edit)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("field 66"), "{error}");
}

#[test]
fn older_forms_are_read() {
    let mut data = Vec::new();
    let put = |data: &mut Vec<u8>, numbers: &[u64]| {
        numbers.iter().for_each(|n| put_varint(data, *n));
    };
    let keys = |data: &mut Vec<u8>| {
        put_length_prefixed(data, b"a12345678");
        put_length_prefixed(data, b"b12345678");
    };
    put(&mut data, &[7, 1, 10, 1000]);
    keys(&mut data);
    put(&mut data, &[100, 2, 11, 1001]);
    keys(&mut data);
    put(&mut data, &[5, 6]);
    put(&mut data, &[102, 3, 12, 2, 1002]);
    keys(&mut data);
    put(&mut data, &[7, 8]);
    // A minimal file of today, with the field in which RocksDB once stored tag 10.
    put(&mut data, &[103, 0, 13, 1003]);
    keys(&mut data);
    put(&mut data, &[9, 10, 3, 8, 77, 0, 0, 0, 0, 0, 0, 0, 1]);
    put(&mut data, &[8194, 20, 2, 200, 0, 0, 0, 8195, 20, 1, 100, 0]);
    put(&mut data, &[8196, 30, 2, 4000, 1, 8197, 29]);
    let edit = VersionEdit::decode(&data).unwrap();
    let seen: Vec<_> = edit
        .new_files
        .iter()
        .map(|(l, f)| {
            (
                *l,
                f.number.0,
                f.path_id,
                f.size,
                f.smallest_seq.0,
                f.largest_seq.0,
            )
        })
        .collect();
    let expected = [
        (1, 10, 0, 1000, 0, SequenceNumber::MAX.0),
        (2, 11, 0, 1001, 5, 6),
        (3, 12, 2, 1002, 7, 8),
        (0, 13, 0, 1003, 9, 10),
    ];
    assert_eq!(seen, expected);
    assert_eq!(edit.min_log_number_to_keep, Some(FileNumber(77)));
    assert_eq!(
        (
            edit.blob_additions[0].total_bytes,
            edit.blob_garbage[0].bytes
        ),
        (200, 100)
    );
    let wal = WalAddition {
        number: FileNumber(30),
        synced_size: Some(4000),
    };
    assert_eq!(
        (edit.wal_additions[0], edit.wal_deletion),
        (wal, Some(FileNumber(29)))
    );
}

#[test]
fn impossible_content_is_corruption() {
    let short_key = NewFile {
        smallest: vec![0; 7],
        largest: vec![0; 8],
        ..NewFile::default()
    };
    let late = SequenceNumber(1 << 56);
    for edit in [
        VersionEdit {
            deleted_files: vec![(256, FileNumber(1))],
            ..VersionEdit::default()
        },
        VersionEdit {
            last_sequence: Some(late),
            ..VersionEdit::default()
        },
        VersionEdit {
            new_files: vec![(0, short_key)],
            ..VersionEdit::default()
        },
    ] {
        assert!(
            VersionEdit::decode(&encoded(&edit))
                .unwrap_err()
                .is_corruption()
        );
    }
    // Facts that claim billions of references, and facts of a later version.
    let mut facts = vec![2, 9, 0, 0, 0, 0, 0, 0];
    put_varint(&mut facts, u64::MAX);
    assert!(TableFacts::decode(&facts).unwrap_err().is_corruption());
    let future = VersionEdit {
        unknown: vec![(12289, vec![6, 9])],
        ..VersionEdit::default()
    };
    assert_eq!(VersionEdit::decode(&encoded(&future)).unwrap(), future);
}

#[test]
fn rocksdb_manifests_are_read_and_written_back_alike() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--benchmarks=fillrandom,overwrite,compact",
        "--num=3000",
        "--value_size=400",
        "--num_column_families=3",
        "--write_buffer_size=200000",
        "--enable_blob_files=true",
        "--min_blob_size=100",
        "--enable_blob_garbage_collection=true",
        "--blob_garbage_collection_age_cutoff=0.9",
    ];
    if !db_bench(dir.path(), &args) {
        return;
    }
    let mut families = Vec::new();
    let mut live = std::collections::BTreeSet::new();
    let mut blobs = std::collections::BTreeSet::new();
    let mut garbage = 0;
    for name in std::fs::read_dir(dir.path()).unwrap() {
        let name = name.unwrap().file_name().into_string().unwrap();
        let Some(number) = name.strip_prefix("MANIFEST-") else {
            continue;
        };
        let number = FileNumber(number.parse().unwrap());
        for payload in read_whole_log(&dir.path().join(&name), number, TailMode::Strict) {
            let edit = VersionEdit::decode(&payload).unwrap();
            assert!(edit.unknown.is_empty(), "{:?}", edit.unknown);
            let mut again = encoded(&edit);
            assert_eq!(VersionEdit::decode(&again).unwrap(), edit);
            assert_eq!(again.len(), payload.len(), "{edit:?}");
            // The same fields, perhaps in another order.
            let mut original = payload.clone();
            original.sort_unstable();
            again.sort_unstable();
            assert_eq!(again, original, "{edit:?}");
            families.extend(edit.added_column_family);
            edit.deleted_files
                .iter()
                .for_each(|(_, n)| assert!(live.remove(n)));
            for (_, file) in edit.new_files {
                assert!(file.oldest_blob_file.is_some());
                assert!(file.smallest_seq <= file.largest_seq && file.smallest <= file.largest);
                live.insert(file.number);
            }
            blobs.extend(edit.blob_additions.iter().map(|b| b.number));
            garbage += edit.blob_garbage.len();
        }
    }
    assert_eq!(
        families,
        ["column_family_name_000001", "column_family_name_000002"]
    );
    assert!(live.len() >= 3 && blobs.len() > 3 && garbage > 0);
    for table in live {
        assert!(FileKind::Table(table).path(dir.path()).exists(), "{table}");
    }
}
