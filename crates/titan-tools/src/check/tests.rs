//! For each kind of damage that whole files can have: the check names it and the place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::internals::format::{ChecksumType, FileKind, ValueType, internal_key};
use titan::internals::version::{VersionEdit, WalAddition, read_current};
use titan::internals::write::Predecessor;
use titan::vfs::{Access, StdVfs, Vfs};
use titan::{
    BlobFileNumber, ColumnFamilyId, ColumnFamilyOptions, CompressionType, Db, Error, FileNumber,
    Options, SequenceNumber, WalRecoveryMode, WriteBatch,
};

use super::check;
use crate::forensics::dissect::{Part, Role, dissect};
use crate::testing::{records, write_records};

/// A database with two tables at level 0 that share keys, blob files, tombstones and a WAL.
fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &options()).unwrap();
    for round in 0..2 {
        for i in 0..50 {
            let value = vec![round; [10, 200][i % 2]];
            db.put(format!("key{i:02}").as_bytes(), &value).unwrap();
        }
        db.delete_range(b"key20", b"key23").unwrap();
        db.delete(b"key30").unwrap();
        db.flush().unwrap();
    }
    for i in 0..20 {
        db.put(format!("log{i:02}").as_bytes(), b"value").unwrap();
    }
    db.close().unwrap();
    dir
}

fn options() -> Options {
    Options {
        default: ColumnFamilyOptions {
            disable_auto_compactions: true,
            min_blob_size: 100,
            block_size: 512,
            compression: CompressionType::None,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

/// The problems of a database after `damage` was applied to it.
fn problems(damage: impl FnOnce(&Path)) -> Vec<Error> {
    let dir = database();
    let run = || check(dir.path(), &options(), &mut |_| {}).unwrap().problems;
    assert!(run().is_empty(), "{:?}", run());
    damage(dir.path());
    run()
}

/// Asserts that some problem says `text` and names a file that ends in `file`.
#[track_caller]
fn found(problems: &[Error], text: &str, file: &str) {
    let found = problems.iter().any(|e| {
        let path = e.path().map(|path| path.to_string_lossy().into_owned());
        e.to_string().contains(text) && path.is_some_and(|path| path.contains(file))
    });
    assert!(found, "'{text}' in {file}: {problems:?}");
}

/// Rewrites the MANIFEST with changed edits.
fn edit(dir: &Path, change: impl Fn(&mut VersionEdit)) {
    let (number, path) = read_current(&StdVfs, dir).unwrap();
    let records = records(&path, number);
    let changed = records.iter().map(|record| {
        let mut edit = VersionEdit::decode(record).unwrap();
        change(&mut edit);
        let mut out = Vec::new();
        edit.encode(&mut out);
        out
    });
    let changed: Vec<_> = changed.collect();
    assert_ne!(changed, records, "something was changed");
    write_records(&path, &changed);
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    let mut tables: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "sst"))
        .collect();
    tables.sort();
    tables
}

fn wal(dir: &Path) -> (PathBuf, FileNumber) {
    let names = StdVfs.read_dir(dir).unwrap();
    let wals = names.iter().filter_map(|name| match FileKind::parse(name) {
        Some(FileKind::Wal(number)) => Some(number),
        _ => None,
    });
    let number = wals.max().unwrap();
    (FileKind::Wal(number).path(dir), number)
}

/// Changes a block of the first table that is stored uncompressed, and corrects its checksum.
fn patch(dir: &Path, wanted: impl Fn(&Role) -> bool, change: impl FnOnce(&mut [u8])) {
    let path = tables(dir).remove(0);
    let file = StdVfs.open(&path, Access::Sequential).unwrap();
    let mut place = None;
    let _ = dissect(Arc::clone(&file), &path, &mut |at, part| {
        if let Part::Block { role, .. } = part
            && wanted(role)
        {
            place.get_or_insert(at);
        }
        std::ops::ControlFlow::Continue(())
    });
    let at = place.expect("a block of this kind");
    let mut bytes = std::fs::read(&path).unwrap();
    let block = &mut bytes[at.offset as usize..(at.offset + at.size) as usize];
    let (payload, trailer) = block.split_at_mut(at.size as usize - 5);
    change(payload);
    let sum = ChecksumType::Xxh3.block_checksum(payload, trailer[0]);
    trailer[1..].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn bounds_that_are_not_those_of_the_table() {
    let narrow = problems(|dir| {
        edit(dir, |edit| {
            for (_, table) in &mut edit.new_files {
                table.smallest = internal_key(b"key05", SequenceNumber(9), 1);
            }
        });
    });
    found(&narrow, "outside the range", ".sst");
    found(&narrow, "the smallest key is 'key00'", ".sst");
    let wide = problems(|dir| {
        edit(dir, |edit| {
            for (_, table) in &mut edit.new_files {
                table.largest = internal_key(b"zzz", SequenceNumber(9), 1);
            }
        });
    });
    found(&wide, "the largest key is 'key49'", ".sst");
    let sequences = problems(|dir| {
        edit(dir, |edit| {
            for (_, table) in &mut edit.new_files {
                table.largest_seq = SequenceNumber(table.largest_seq.0 + 1);
            }
        });
    });
    found(&sequences, "the sequence numbers are", ".sst");
    let too_few = problems(|dir| {
        edit(dir, |edit| {
            for (_, table) in &mut edit.new_files {
                table.smallest_seq = table.largest_seq;
            }
        });
    });
    found(&too_few, "is outside the MANIFEST's", ".sst");
}

#[test]
fn accounts_that_do_not_agree() {
    let facts = problems(|dir| {
        edit(dir, |edit| {
            edit.table_facts
                .iter_mut()
                .for_each(|facts| facts.num_entries += 1);
        });
    });
    found(&facts, "the MANIFEST says TableFacts", ".sst");
    let oldest = problems(|dir| {
        edit(dir, |edit| {
            for (_, table) in &mut edit.new_files {
                table.oldest_blob_file = None;
            }
        });
    });
    found(&oldest, "the oldest blob file the table points to", ".sst");
    let count = problems(|dir| {
        edit(dir, |edit| {
            edit.blob_additions
                .iter_mut()
                .for_each(|blob| blob.count += 1)
        });
    });
    found(&count, "records of", ".blob");
    let bytes = problems(|dir| {
        edit(dir, |edit| {
            edit.blob_additions
                .iter_mut()
                .for_each(|b| b.total_bytes += 1)
        });
    });
    found(&bytes, "bytes, ", ".blob");
    let size = problems(|dir| {
        edit(dir, |edit| {
            edit.new_files
                .iter_mut()
                .for_each(|(_, table)| table.size += 1)
        });
    });
    found(&size, "expected", ".sst");
}

#[test]
fn numbers_that_are_too_small() {
    let next = problems(|dir| {
        edit(dir, |edit| {
            edit.next_file_number = edit.next_file_number.map(|_| FileNumber(2));
            for (_, table) in &mut edit.new_files {
                table.unknown.clear();
            }
        });
        // The MANIFEST's own number counts too: this replaces it with one of a smaller number.
        let (_, path) = read_current(&StdVfs, dir).unwrap();
        std::fs::rename(path, dir.join("MANIFEST-000001")).unwrap();
        std::fs::write(dir.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    });
    found(&next, "the next file number is 2", "MANIFEST-000001");
    let last = problems(|dir| {
        edit(dir, |edit| {
            edit.last_sequence = edit.last_sequence.map(|_| SequenceNumber(3));
        });
    });
    found(&last, "or beyond the last, 3", ".sst");
}

#[test]
fn tables_in_the_wrong_order() {
    let level0 = problems(|dir| {
        edit(dir, |edit| {
            for (_, table) in &mut edit.new_files {
                table.epoch_number = Some(1_000_000 - table.number.0);
            }
        });
    });
    found(&level0, "which has newer entries of the same keys", ".sst");
    let overlapping = problems(|dir| {
        edit(dir, |edit| {
            edit.new_files.iter_mut().for_each(|(level, _)| *level = 3);
        });
    });
    found(&overlapping, "of level 3 overlap", "MANIFEST");
}

#[test]
fn blocks_that_are_whole_and_wrong() {
    let filter = problems(|dir| {
        let is_filter = |role: &Role| matches!(role, Role::Filter(_));
        patch(dir, is_filter, |payload| {
            let bits = payload.len() - 5;
            payload[..bits].fill(0);
        });
    });
    found(&filter, "filter denies a key that is there", ".sst");
    let ranges = problems(|dir| {
        let is_ranges = |role: &Role| *role == Role::RangeDeletions;
        patch(dir, is_ranges, |payload| {
            let end = payload.windows(5).rposition(|w| w == b"key23").unwrap();
            payload[end + 3] = b'0';
        });
    });
    found(&ranges, "ends before it starts", ".sst");
    let counts = problems(|dir| {
        let is_properties = |role: &Role| *role == Role::Properties;
        patch(dir, is_properties, |payload| {
            let name = b"ata.blocks";
            let at = payload.windows(name.len()).position(|w| w == name).unwrap();
            payload[at + name.len()] += 1;
        });
    });
    found(&counts, "rocksdb.num.data.blocks is", ".sst");
    let liveness = problems(|dir| {
        let is_liveness = |role: &Role| *role == Role::Liveness;
        patch(dir, is_liveness, |payload| {
            // The first record's gap: the record is claimed to start one byte later.
            let at = payload.len() - 1;
            payload[at] ^= 1;
        });
    });
    found(&liveness, "liveness block", ".sst");
}

#[test]
fn logs_that_do_not_continue() {
    let again = problems(|dir| {
        let (path, number) = wal(dir);
        let mut records = records(&path, number);
        // The last one is a sync record.
        records.push(records[records.len() - 2].clone());
        write_records(&path, &records);
    });
    found(&again, "a batch starts with sequence number", ".log");
    let family = problems(|dir| {
        let (path, number) = wal(dir);
        let mut records = records(&path, number);
        let mut batch = WriteBatch::new();
        batch.put(ColumnFamilyId(7), b"k", b"v").unwrap();
        let mut batch = batch.data().to_vec();
        // It begins with its sequence number.
        batch[..8].copy_from_slice(&10_000_u64.to_le_bytes());
        records.push(batch);
        write_records(&path, &records);
    });
    found(&family, "column family 7, which is unknown", ".log");
    let missing = problems(|dir| {
        let (_, number) = wal(dir);
        let before = FileNumber(number.0 + 100);
        let next = FileNumber(number.0 + 101);
        let predecessor = Predecessor {
            number: before,
            last_sequence: SequenceNumber(20_000),
        };
        let record = predecessor.encode(SequenceNumber(20_001)).unwrap();
        write_records(&FileKind::Wal(next).path(dir), &[record]);
    });
    found(&missing, "a WAL file the database needs is missing", ".log");
    let batch = problems(|dir| {
        let (path, number) = wal(dir);
        let mut records = records(&path, number);
        let last = records.last_mut().unwrap();
        last.push(ValueType::Deletion as u8);
        write_records(&path, &records);
    });
    assert_eq!(batch.len(), 1, "{batch:?}");
    found(&batch, "write batch", ".log");
}

/// RocksDB's option `enable_blob_direct_write` writes such operations.
#[test]
fn a_log_with_operations_that_opening_refuses() {
    let dir = database();
    let (path, number) = wal(dir.path());
    let mut records = records(&path, number);
    let mut batch = 10_000_u64.to_le_bytes().to_vec();
    // One operation: a blob pointer.
    batch.extend([1, 0, 0, 0, 0x11, 1, b'k', 3, 0, 0, 0]);
    records.push(batch);
    write_records(&path, &records);
    let blob = FileKind::Blob(BlobFileNumber(999));
    std::fs::write(blob.path(dir.path()), b"values").unwrap();
    let refused = Db::open(dir.path(), &options()).unwrap_err();
    assert!(refused.to_string().contains("blob pointer"), "{refused}");
    let report = check(dir.path(), &options(), &mut |_| {}).unwrap();
    found(&report.problems, "a blob pointer in a write batch", ".log");
    let note = report.notes.iter().find(|note| note.contains(&blob.name()));
    assert!(
        note.unwrap().contains("needed by a WAL"),
        "{:?}",
        report.notes
    );
}

#[test]
fn small_files_that_do_not_fit() {
    let newest_options = |dir: &Path| {
        let names = StdVfs.read_dir(dir).unwrap();
        let newest = names
            .iter()
            .filter(|name| name.starts_with("OPTIONS"))
            .max();
        dir.join(newest.unwrap())
    };
    let broken = problems(|dir| std::fs::write(newest_options(dir), "[Version\n").unwrap());
    found(&broken, "OPTIONS", "OPTIONS");
    let comparator = problems(|dir| {
        let path = newest_options(dir);
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace(
            "leveldb.BytewiseComparator",
            "rocksdb.ReverseBytewiseComparator",
        );
        std::fs::write(&path, text).unwrap();
    });
    found(&comparator, "names comparator", "OPTIONS");
    let identity = problems(|dir| std::fs::write(dir.join("IDENTITY"), "another").unwrap());
    found(&identity, "IDENTITY says 'another'", "IDENTITY");
    let current = problems(|dir| std::fs::write(dir.join("CURRENT"), "MANIFEST-0000").unwrap());
    found(&current, "CURRENT does not name a MANIFEST", "CURRENT");
    let gone = problems(|dir| std::fs::remove_file(tables(dir).remove(0)).unwrap());
    found(&gone, "a file the database needs is missing", ".sst");
    let pointed = problems(|dir| {
        edit(dir, |edit| {
            for (_, table) in &mut edit.new_files {
                table.oldest_blob_file = table.oldest_blob_file.map(|_| BlobFileNumber(99));
            }
            for blob in &mut edit.blob_additions {
                blob.number = BlobFileNumber(99 + blob.number.0 % 2);
            }
        });
    });
    assert!(!pointed.is_empty(), "a MANIFEST of other blob files");
}

/// Adds to the MANIFEST that so many bytes of the newest WAL file, or of a `later` one, had been
/// synced.
fn track(dir: &Path, later: u64, size: u64) {
    let number = FileNumber(wal(dir).1.0 + later);
    let addition = WalAddition {
        number,
        synced_size: Some(size),
    };
    edit(dir, |edit| {
        edit.wal_additions
            .extend(edit.state_follows.then_some(addition));
    });
}

/// Forgets the WAL files before the one with the number `first`.
fn forget_tracked(dir: &Path, first: FileNumber) {
    edit(dir, |edit| edit.wal_deletion = Some(first));
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Where RocksDB tracks WAL files, its MANIFEST says which there are and how much of them was
/// synced.
#[test]
fn wals_that_rocksdb_tracked() {
    let whole = problems(|dir| track(dir, 0, length(&wal(dir).0)));
    assert!(whole.is_empty(), "{whole:?}");
    let short = problems(|dir| track(dir, 0, length(&wal(dir).0) + 1));
    found(&short, "had been synced", ".log");
    let missing = problems(|dir| track(dir, 1, 100));
    found(&missing, "a WAL file the database needs is missing", ".log");
    let obsolete = problems(|dir| {
        track(dir, 1, 100);
        forget_tracked(dir, FileNumber(wal(dir).1.0 + 2));
    });
    assert!(obsolete.is_empty(), "{obsolete:?}");
}

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::TolerateCorruptedTailRecords,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::PointInTimeRecovery,
    WalRecoveryMode::SkipAnyCorruptedRecords,
];

/// The number of operations of the WAL that an opening of a copy of the database finds, by mode.
/// One that fails names the WAL file.
fn replayed(dir: &Path) -> [Option<usize>; 4] {
    MODES.map(|mode| {
        let copy = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(dir).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        let mut options = options();
        options.db.wal_recovery_mode = mode;
        match Db::open(copy.path(), &options) {
            Ok(db) => {
                let is_there = |i: &usize| db.get(format!("log{i:02}")).unwrap().is_some();
                Some((0..20).filter(is_there).count())
            }
            Err(e) => {
                assert!(e.is_corruption(), "{mode:?}: {e}");
                let named = e.path().unwrap().to_string_lossy().into_owned();
                assert!(named.ends_with(".log"), "{mode:?}: {e}");
                None
            }
        }
    })
}

/// Openings believe what RocksDB tracked, as the check does.
#[test]
fn wals_that_rocksdb_tracked_are_opened_if_all_that_was_synced_is_there() {
    let opened = |damage: &dyn Fn(&Path)| {
        let dir = database();
        let dir = dir.path();
        // RocksDB's have no records without operations, which say where Titan's were synced.
        let (path, number) = wal(dir);
        let mut records = records(&path, number);
        records.retain(|record| record[8..12] != [0; 4]);
        assert_eq!(records.len(), 20);
        write_records(&path, &records);
        damage(dir);
        replayed(dir)
    };
    let all = [Some(20); 4];
    let only_skipping = |n| [None, None, None, Some(n)];
    assert_eq!(opened(&|_| {}), all);
    assert_eq!(opened(&|dir| track(dir, 0, length(&wal(dir).0))), all);
    let short = opened(&|dir| track(dir, 0, length(&wal(dir).0) + 1));
    assert_eq!(short, only_skipping(20));
    assert_eq!(opened(&|dir| track(dir, 1, 100)), only_skipping(20));
    let obsolete = opened(&|dir| {
        track(dir, 1, 100);
        forget_tracked(dir, FileNumber(wal(dir).1.0 + 2));
    });
    assert_eq!(obsolete, all);

    // Record 10 ends here, and the one after it is damaged, or all from its middle on is missing.
    let place = |dir: &Path| {
        let (path, _) = wal(dir);
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(5).position(|part| part == b"log11").unwrap();
        (path, bytes, at)
    };
    let flip = |dir: &Path| {
        let (path, mut bytes, at) = place(dir);
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
        at as u64
    };
    let cut = |dir: &Path| {
        let (path, bytes, at) = place(dir);
        std::fs::write(path, &bytes[..at]).unwrap();
        at as u64
    };
    let flipped = [None, None, Some(11), Some(19)];
    assert_eq!(
        opened(&|dir| {
            flip(dir);
        }),
        flipped
    );
    let above = opened(&|dir| {
        let at = flip(dir);
        track(dir, 0, at - 40);
    });
    assert_eq!(above, flipped);
    let below = opened(&|dir| {
        let at = flip(dir);
        track(dir, 0, at + 10);
    });
    assert_eq!(below, only_skipping(19));
    let torn = [Some(11), None, Some(11), Some(11)];
    assert_eq!(
        opened(&|dir| {
            cut(dir);
        }),
        torn
    );
    let above = opened(&|dir| {
        let at = cut(dir);
        track(dir, 0, at - 40);
    });
    assert_eq!(above, torn);
    let below = opened(&|dir| {
        let at = cut(dir);
        track(dir, 0, at + 10);
    });
    assert_eq!(below, only_skipping(11));
}
