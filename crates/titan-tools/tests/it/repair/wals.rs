//! WAL files as RocksDB leaves them: recycled, and without predecessor records.

use titan::vfs::Vfs;
use titan_tools::{RepairReport, RepairTo};

use super::{REPAIRED, empty};
use titan_testkit::setup::DIR;

/// A WAL record with one batch of one operation, as RocksDB writes it. If files are recycled, it
/// has this log number, and 1 KiB so that no record crosses the end of a block.
fn record_of_rocksdb(recycled: Option<u32>, sequence: u64) -> Vec<u8> {
    let mut batch = sequence.to_le_bytes().to_vec();
    batch.extend([1, 0, 0, 0, 1, 5]);
    batch.extend(format!("k{sequence:04}").as_bytes());
    batch.extend([0xe0, 0x07]);
    batch.resize(batch.len() + 992, b'v');
    let (kind, number) = recycled.map_or((1, vec![]), |n| (5, n.to_le_bytes().to_vec()));
    let body = [&[kind], &number[..], &batch].concat();
    let mut crc = !0_u32;
    for byte in &body {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    let masked = (!crc).rotate_right(15).wrapping_add(0xa282_ead8);
    let size = (batch.len() as u16).to_le_bytes();
    [&masked.to_le_bytes()[..], &size, &body].concat()
}

fn sequences_lost(report: &RepairReport) -> Vec<Option<(u64, u64)>> {
    report.lost.iter().map(|loss| loss.sequences).collect()
}

#[test]
fn damage_in_the_middle_of_a_recycled_wal_is_told_and_passed() {
    let (case, wal) = empty();
    let mut bytes: Vec<u8> = (1..=100)
        .flat_map(|n| record_of_rocksdb(Some(wal), n))
        .collect();
    bytes.extend((1..=100).flat_map(|n| record_of_rocksdb(Some(wal - 1), n)));
    for (at, lost) in [
        (None, vec![]),
        (Some(40 * 1024 + 300), vec![Some((41, 41))]),
        (Some(40 * 1024 + 4), vec![Some((41, 64))]),
    ] {
        let case = case.on_a_copy();
        let mut damaged = bytes.clone();
        at.into_iter().for_each(|at| damaged[at] ^= 1);
        let path = format!("{DIR}/{wal:06}.log");
        case.vfs.write_all(&path, &damaged).unwrap();
        let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
        assert_eq!(sequences_lost(&report), lost, "{report:#?}");
        let gone: u64 = lost.iter().flatten().map(|(a, b)| b - a + 1).sum();
        assert_eq!(case.contents(REPAIRED).len() as u64, 100 - gone);
    }
}

#[test]
fn rocksdb_may_have_closed_a_database_without_a_wal() {
    for is_lost in [true, false] {
        let (case, wal) = empty();
        let wal = format!("{DIR}/{wal:06}.log");
        case.vfs.remove(wal.as_ref()).unwrap();
        let names = case.vfs.list(DIR).unwrap();
        let newest = { names.iter() }.filter(|name| name.starts_with("OPTIONS"));
        let path = format!("{DIR}/{}", newest.max().unwrap());
        let text = String::from_utf8(case.vfs.read_all(&path).unwrap()).unwrap();
        let option = format!("[DBOptions]\n  optimize_manifest_for_recovery={}", !is_lost);
        let changed = text.replacen("[DBOptions]", &option, 1);
        assert_ne!(changed, text);
        case.vfs.write_all(&path, changed.as_bytes()).unwrap();
        let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
        assert_eq!(!report.lost.is_empty(), is_lost, "{report:#?}");
        let is_told = report
            .notes
            .iter()
            .any(|note| note.contains("if the program was killed"));
        assert_eq!(is_told, !is_lost, "{report:#?}");
    }
}

#[test]
fn a_wal_of_rocksdb_that_is_missing_in_between_is_told() {
    let (case, wal) = empty();
    for (wal, sequences) in [(wal, 1..=10), (wal + 7, 11..=20), (wal + 9, 25..=30)] {
        let bytes: Vec<u8> = sequences.flat_map(|n| record_of_rocksdb(None, n)).collect();
        let path = format!("{DIR}/{wal:06}.log");
        case.vfs.write_all(&path, &bytes).unwrap();
    }
    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    assert_eq!(sequences_lost(&report), [Some((21, 24))], "{report:#?}");
    assert_eq!(case.contents(REPAIRED).len(), 26);
}
