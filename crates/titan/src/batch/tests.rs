use super::view::HEADER_SIZE;
use super::*;
use crate::ErrorKind;
use crate::format::numbers::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::wal::TailMode;
use crate::wal::testing::{db_bench, read_whole_log};

const CF0: ColumnFamilyId = ColumnFamilyId::DEFAULT;
const CF9: ColumnFamilyId = ColumnFamilyId(900);

fn ops(batch: &WriteBatch) -> Vec<BatchOp<'_>> {
    batch.iter().map(|op| op.unwrap()).collect()
}

fn one_of_each() -> WriteBatch {
    let mut batch = WriteBatch::new();
    for cf in [CF0, CF9] {
        batch.put(cf, b"key", b"value").unwrap();
        batch.delete(cf, b"key").unwrap();
        batch.single_delete(cf, b"").unwrap();
        batch.delete_range(cf, b"a", b"z").unwrap();
        batch.put_blob_index(cf, b"key", b"index").unwrap();
    }
    batch.put_log_data(b"note").unwrap();
    batch
}

#[test]
fn the_encoding_is_rocksdbs() {
    let mut batch = WriteBatch::new();
    assert!(batch.is_empty());
    assert_eq!(batch.data(), [0; 12]);
    batch.set_sequence(SequenceNumber(0x0102));
    batch.put(CF0, b"k", b"v1").unwrap();
    batch.delete(ColumnFamilyId(300), b"k").unwrap();
    let expected = b"\x02\x01\0\0\0\0\0\0\x02\0\0\0\x01\x01k\x02v1\x04\xac\x02\x01k";
    assert_eq!(batch.data(), expected);
    assert_eq!((batch.count(), batch.size_bytes()), (2, expected.len()));
    assert_eq!(batch.sequence(), SequenceNumber(0x0102));
}

#[test]
fn operations_come_back_in_order() {
    let batch = one_of_each();
    let mut expected = Vec::new();
    for cf in [CF0, CF9] {
        let key: &[u8] = b"key";
        expected.push(BatchOp::Put {
            cf,
            key,
            value: b"value",
        });
        expected.push(BatchOp::Delete { cf, key });
        expected.push(BatchOp::SingleDelete { cf, key: b"" });
        expected.push(BatchOp::DeleteRange {
            cf,
            begin: b"a",
            end: b"z",
        });
        expected.push(BatchOp::BlobIndex {
            cf,
            key,
            index: b"index",
        });
    }
    expected.push(BatchOp::LogData { data: b"note" });
    assert_eq!(ops(&batch), expected);
    assert_eq!(batch.count(), 10);
    assert_eq!(WriteBatch::from_data(batch.data()).unwrap(), batch);
    for op in &batch {
        let op = op.unwrap();
        assert_eq!(op.takes_sequence(), !matches!(op, BatchOp::LogData { .. }));
    }
}

#[test]
fn all_tags_of_rocksdb_are_read() {
    let mut data = vec![0; HEADER_SIZE];
    data[8] = 6;
    data.extend(
        b"\x09\x12\x13\x0d\x02\x01k\x01m\x06\x05\x01k\x01m\x16\x01k\x01e\x17\x05\x01k\x01e",
    );
    data.extend(b"\x18\x01k\x09v\x07\0\0\0\0\0\0\0\x19\x05\x01k\x08\x08\0\0\0\0\0\0\0");
    data.extend(b"\x0a\x01x\x0b\x01x\x0c\x01x\x15\x01t\x01x");
    let batch = WriteBatch::from_data(data.clone()).unwrap();
    let (key, xid): (&[u8], &[u8]) = (b"k", b"x");
    let cf = ColumnFamilyId(5);
    let expected = [
        BatchOp::BeginPrepare,
        BatchOp::BeginPersistedPrepare,
        BatchOp::BeginUnprepare,
        BatchOp::Noop,
        BatchOp::Merge {
            cf: CF0,
            key,
            operand: b"m",
        },
        BatchOp::Merge {
            cf,
            key,
            operand: b"m",
        },
        BatchOp::PutEntity {
            cf: CF0,
            key,
            entity: b"e",
        },
        BatchOp::PutEntity {
            cf,
            key,
            entity: b"e",
        },
        BatchOp::TimedPut {
            cf: CF0,
            key,
            value: b"v",
            write_time: 7,
        },
        BatchOp::TimedPut {
            cf,
            key,
            value: b"",
            write_time: 8,
        },
        BatchOp::EndPrepare { xid },
        BatchOp::Commit { xid },
        BatchOp::Rollback { xid },
        BatchOp::CommitWithTimestamp {
            timestamp: b"t",
            xid,
        },
    ];
    assert_eq!(ops(&batch), expected);
    data[8] = 5;
    assert!(WriteBatch::from_data(data).unwrap_err().is_corruption());
}

#[test]
fn damaged_batches_are_refused_or_other_batches() {
    let mut rng = fastrand::Rng::with_seed(1);
    let batch = one_of_each();
    let mut data = batch.data().to_vec();
    for cut in 0..data.len() {
        // Log data takes no number, so a batch that lacks only it is whole.
        let whole = cut == data.len() - 6;
        assert_eq!(
            WriteBatch::from_data(&data[..cut]).is_ok(),
            whole,
            "cut at {cut}"
        );
    }
    for i in 0..data.len() {
        for flip in [1, 0x80, 0xff, rng.u8(1..)] {
            data[i] ^= flip;
            match WriteBatch::from_data(data.as_slice()) {
                Ok(other) => assert_ne!(other, batch),
                Err(e) => assert!(e.is_corruption(), "byte {i}: {e}"),
            }
            data[i] ^= flip;
        }
    }
    let last = SequenceNumber::MAX.0 - 9;
    data[..8].copy_from_slice(&last.to_le_bytes());
    assert!(WriteBatch::from_data(data.as_slice()).is_ok());
    data[..8].copy_from_slice(&(last + 1).to_le_bytes());
    assert!(WriteBatch::from_data(data).unwrap_err().is_corruption());
}

#[test]
fn iteration_ends_at_the_first_error() {
    let read: Vec<_> = BatchOps::new(b"\x0d\x14\x0d").collect();
    assert_eq!(read.len(), 2);
    let error = read[1].as_ref().unwrap_err();
    assert!(error.to_string().contains("at byte 13"), "{error}");
}

#[test]
fn save_points_nest_and_appends_add_up() {
    let mut batch = WriteBatch::new();
    assert_eq!(
        batch.rollback_to_save_point().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        batch.pop_save_point().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    batch.put(CF0, b"a", b"1").unwrap();
    let first = batch.clone();
    batch.set_save_point();
    batch.append(&one_of_each()).unwrap();
    assert_eq!(batch.count(), 11);
    let second = batch.data().to_vec();
    batch.set_save_point();
    batch.delete(CF9, b"b").unwrap();
    batch.set_save_point();
    batch.delete(CF9, b"c").unwrap();
    batch.pop_save_point().unwrap();
    assert_eq!(batch.count(), 13);
    batch.rollback_to_save_point().unwrap();
    assert_eq!(batch.data(), second);
    batch.rollback_to_save_point().unwrap();
    assert_eq!(batch, first);
    batch.set_save_point();
    batch.clear();
    assert_eq!(batch, WriteBatch::new());
    assert!(batch.rollback_to_save_point().is_err());
}

#[test]
fn large_keys_and_values_work() {
    let key = vec![7; 8 << 20];
    let value = vec![8; 64 << 20];
    let mut batch = WriteBatch::new();
    batch.put(CF9, &key, &value).unwrap();
    let back = WriteBatch::from_data(batch.data()).unwrap();
    assert_eq!(
        ops(&back),
        [BatchOp::Put {
            cf: CF9,
            key: &key,
            value: &value
        }]
    );
}

#[test]
fn a_batch_that_would_exceed_4_gib_refuses_and_stays_as_it_was() {
    // Checked without 4 GiB of memory: only the sum of the fields counts.
    let value = vec![0u8; 1 << 20];
    let fields: Vec<&[u8]> = vec![&value; 4096];
    let mut batch = WriteBatch::new();
    let error = batch.add(op::PUT, Some(CF0.into()), &fields).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(batch, WriteBatch::new());
}

#[test]
fn random_batches_come_back() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut batch = WriteBatch::with_capacity(rng.usize(0..1000));
        let mut expected = Vec::new();
        for _ in 0..rng.usize(0..50) {
            let cf = ColumnFamilyId(rng.u32(..) >> rng.u32(0..32));
            let mut field = || {
                let mut bytes = vec![0; rng.usize(0..300)];
                rng.fill(&mut bytes);
                bytes
            };
            let (a, b) = (field(), field());
            let kind = rng.u8(0..4);
            match kind {
                0 => batch.put(cf, &a, &b),
                1 => batch.delete(cf, &a),
                2 => batch.single_delete(cf, &a),
                _ => batch.delete_range(cf, &a, &b),
            }
            .unwrap();
            expected.push((kind, cf, a, b));
        }
        let back = WriteBatch::from_data(batch.data()).unwrap();
        let expected: Vec<_> = expected
            .iter()
            .map(|(kind, cf, a, b)| match (kind, *cf) {
                (0, cf) => BatchOp::Put {
                    cf,
                    key: a,
                    value: b,
                },
                (1, cf) => BatchOp::Delete { cf, key: a },
                (2, cf) => BatchOp::SingleDelete { cf, key: a },
                (_, cf) => BatchOp::DeleteRange {
                    cf,
                    begin: a,
                    end: b,
                },
            })
            .collect();
        assert_eq!(ops(&back), expected, "seed {seed}");
    }
}

/// All batches in the WALs of a directory, in the order of their numbers.
fn batches_in(dir: &std::path::Path) -> Vec<WriteBatch> {
    let mut numbers: Vec<u64> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|e| {
            e.unwrap()
                .file_name()
                .to_str()?
                .strip_suffix(".log")?
                .parse()
                .ok()
        })
        .collect();
    numbers.sort_unstable();
    let mut batches = Vec::new();
    for number in numbers {
        let path = dir.join(format!("{number:06}.log"));
        for payload in read_whole_log(&path, FileNumber(number), TailMode::PointInTime) {
            batches.push(WriteBatch::from_data(payload).unwrap());
        }
    }
    batches
}

#[test]
fn rocksdb_wals_are_read() {
    for (value_size, batch_size) in [("100", "1"), ("100000", "3")] {
        let dir = tempfile::tempdir().unwrap();
        let args = [
            "--benchmarks=fillseq,deleteseq",
            "--num=300",
            "--num_column_families=3",
            &format!("--value_size={value_size}"),
            &format!("--batch_size={batch_size}"),
        ];
        if !db_bench(dir.path(), &args) {
            return;
        }
        let (mut puts, mut deletes) = (0, 0);
        let mut families = std::collections::BTreeSet::new();
        let mut next = None;
        for batch in batches_in(dir.path()) {
            // A sequence number that no operation took would be a batch that was missed.
            assert!(next.is_none_or(|n| n == batch.sequence()), "{batch:?}");
            next = Some(batch.sequence().plus(batch.count().into()));
            let mut again = WriteBatch::new();
            for op in &batch {
                match op.unwrap() {
                    BatchOp::Put { cf, key, value } => {
                        puts += 1;
                        families.insert(cf);
                        assert_eq!((key.len(), value.len()), (16, value_size.parse().unwrap()));
                        again.put(cf, key, value).unwrap();
                    }
                    BatchOp::Delete { cf, key } => {
                        deletes += 1;
                        again.delete(cf, key).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            }
            again.set_sequence(batch.sequence());
            assert_eq!(again, batch);
        }
        assert_eq!((puts, deletes), (300, 300));
        assert!(!families.is_empty());
    }
}
