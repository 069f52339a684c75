//! Records of the MANIFEST that this version does not know.

use std::io::Write;
use std::path::Path;

use titan::{Db, Error, ErrorKind};

use super::{must_exist, small};
use crate::directory::{copy, file_starting};

/// Appends a record in the log format: masked CRC32c of type and payload, length, type.
fn append_record(dir: &Path, payload: &[u8]) {
    const FULL: u8 = 1;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[FULL]), payload);
    let masked = crc.rotate_right(15).wrapping_add(0xa282_ead8);
    let len = u16::try_from(payload.len()).unwrap();
    let mut record = masked.to_le_bytes().to_vec();
    record.extend_from_slice(&len.to_le_bytes());
    record.push(FULL);
    record.extend_from_slice(payload);
    let path = file_starting(dir, "MANIFEST-");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(&record).unwrap();
}

fn varint(mut n: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [varint(text.len() as u32), text.as_bytes().to_vec()].concat()
}

fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    db.put(b"key", &[1; 500]).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    dir
}

#[test]
fn fields_that_must_be_known_are_refused_and_named() {
    let dir = database();
    for tag in [8_u32, 11, 99, 104, 402, 4096, 1 << 14] {
        let damaged = copy(dir.path());
        append_record(damaged.path(), &[varint(tag), text("?")].concat());
        let e = Db::open(damaged.path(), &must_exist()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        assert!(e.message().contains(&format!("tag {tag}")), "{e}");
        let manifest = file_starting(damaged.path(), "MANIFEST-");
        assert_eq!(e.path(), Some(manifest.as_path()), "{e}");
        assert!(e.offset().is_some_and(|offset| offset > 0), "{e}");
    }
}

#[test]
fn fields_that_may_be_unknown_are_kept() {
    let dir = database();
    let tag = (1 << 13) | 77;
    append_record(
        dir.path(),
        &[varint(tag), text("of somebody else")].concat(),
    );
    for _ in 0..3 {
        let db = Db::open(dir.path(), &must_exist()).unwrap();
        assert_eq!(db.get(b"key").unwrap().unwrap(), &[1; 500][..]);
        db.close().unwrap();
        drop(db);
        let manifest = std::fs::read(file_starting(dir.path(), "MANIFEST-")).unwrap();
        let kept = manifest.windows(16).filter(|w| *w == b"of somebody else");
        assert_eq!(kept.count(), 1);
    }
}

#[test]
fn records_that_make_no_sense_are_corruption_with_place() {
    let dir = database();
    let number = |n: u32| varint(n);
    for (payload, what) in [
        (vec![0xff; 20], "an endless number"),
        (
            [number(6), number(0), number(999_999)].concat(),
            "the deletion of no table",
        ),
        (
            [number(6), number(60), number(1)].concat(),
            "a level that is not there",
        ),
        (
            [number(6), number(100_000), number(1)].concat(),
            "level 100,000",
        ),
        (
            [number(200), number(9), number(202)].concat(),
            "a drop of no family",
        ),
        (
            [number(200), number(9), number(6), number(0), number(1)].concat(),
            "no family",
        ),
        (
            [number(401), number(99), number(1), number(1), number(0)].concat(),
            "no blob file",
        ),
        ([number(1), number(200)].concat(), "a name cut short"),
        (
            [number(200), number(0), number(201), text("default")].concat(),
            "default again",
        ),
    ] {
        refused(dir.path(), &payload, what);
    }
}

/// The error of opening a copy of a database with another edit: the MANIFEST is corrupt.
fn refused(dir: &Path, edit: &[u8], what: &str) -> Error {
    let damaged = copy(dir);
    append_record(damaged.path(), edit);
    let e = Db::open(damaged.path(), &must_exist()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
    let manifest = file_starting(damaged.path(), "MANIFEST-");
    assert_eq!(e.path(), Some(manifest.as_path()), "{what}: {e}");
    e
}

/// A table in an edit, under its tag: level, number, size, bounds, sequence numbers, no fields.
fn new_table(level: u32, number: u32) -> Vec<u8> {
    let bound = [&[9][..], b"k", &[1, 1, 0, 0, 0, 0, 0, 0]].concat();
    let numbers = [103, level, number, 1000].map(varint).concat();
    let sequences = [0, 1, 1].map(varint).concat();
    [numbers, bound.clone(), bound, sequences].concat()
}

#[test]
fn a_table_that_is_there_twice_is_corruption_with_its_place() {
    let dir = database();
    let tables = std::fs::read_dir(dir.path()).unwrap();
    let mut tables = tables.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let table = tables
        .find_map(|name| name.strip_suffix(".sst")?.parse().ok())
        .unwrap();
    let family = [varint(200), varint(7)].concat();
    let added = [
        varint(201),
        text("other"),
        varint(1),
        text("leveldb.BytewiseComparator"),
    ];
    let in_other_family = [family, added.concat(), new_table(1, table)].concat();
    for (payload, what, is_placed) in [
        (new_table(3, table), "at another level", true),
        (new_table(0, table), "in its level", true),
        (
            [new_table(2, 900), new_table(2, 900)].concat(),
            "new, twice in one level",
            true,
        ),
        (
            [new_table(1, 900), new_table(5, 900)].concat(),
            "new, on two levels",
            true,
        ),
        (
            [
                varint(6),
                varint(0),
                varint(table),
                new_table(1, table),
                new_table(2, table),
            ]
            .concat(),
            "moved to two levels",
            true,
        ),
        (in_other_family, "in another family", false),
    ] {
        let e = refused(dir.path(), &payload, what);
        assert_eq!(e.offset().is_some(), is_placed, "{what}: {e}");
    }
}

#[test]
fn a_family_of_an_unknown_order_is_refused_and_named() {
    let dir = database();
    let payload = [
        varint(200),
        varint(7),
        varint(201),
        text("timestamped"),
        varint(1),
        text("leveldb.BytewiseComparator.u64ts"),
    ];
    append_record(dir.path(), &payload.concat());
    let e = Db::open(dir.path(), &must_exist()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    assert!(
        e.message().contains("leveldb.BytewiseComparator.u64ts"),
        "{e}"
    );
    assert!(e.message().contains("timestamped"), "{e}");
}

#[test]
fn a_hole_that_later_appends_followed_is_corruption() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let complete = std::fs::metadata(file_starting(dir.path(), "MANIFEST-"))
        .unwrap()
        .len();
    let mut starts = Vec::new();
    for i in 0..6u8 {
        starts.push(
            std::fs::metadata(file_starting(dir.path(), "MANIFEST-"))
                .unwrap()
                .len(),
        );
        db.put(&[i], &[i; 500]).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let last = *starts.last().unwrap() as usize;
    let whole = std::fs::read(file_starting(dir.path(), "MANIFEST-")).unwrap();
    for from in (0..last).step_by(13) {
        let mut bytes = whole.clone();
        let to = (from + 64).min(last);
        bytes[from..to].fill(0);
        let damaged = copy(dir.path());
        std::fs::write(file_starting(damaged.path(), "MANIFEST-"), bytes).unwrap();
        let e = Db::open(damaged.path(), &must_exist()).unwrap_err();
        assert_eq!(
            e.kind(),
            ErrorKind::Corruption,
            "zeros from {from}, state to {complete}: {e}"
        );
    }
}
