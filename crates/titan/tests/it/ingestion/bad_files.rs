//! Files that are refused: the error names them, and nothing changes.

use std::sync::Arc;

use titan::{Db, ErrorKind, FileTransfer, IngestOptions, Options, ReverseBytewiseComparator};
use titan_testkit::sim::SimVfs;

use super::{MADE, get, made_of, manually};
use crate::support::{DIR, files};

/// Ingestion in each way fails with this error, and leaves everything as it was.
fn refused(db: &Db, vfs: &SimVfs, file: &str, kind: ErrorKind, why: &str) {
    let before = (vfs.list(DIR).unwrap(), db.latest_sequence_number());
    for transfer in [FileTransfer::Copy, FileTransfer::Link, FileTransfer::Move] {
        let settings = IngestOptions {
            transfer,
            ..IngestOptions::default()
        };
        let e = db.ingest(&[file], &settings).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        let text = e.to_string();
        assert!(text.contains(why), "{text}");
        assert!(text.contains(file), "{text}");
    }
    let after = (vfs.list(DIR).unwrap(), db.latest_sequence_number());
    assert_eq!(before.0.len(), after.0.len(), "{before:?} {after:?}");
    assert_eq!(before.1, after.1);
    assert_eq!(get(db, "k").as_deref(), Some("kept"));
    db.put("k", "kept").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
}

fn database() -> (SimVfs, Options, Db) {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    db.put("k", "kept").unwrap();
    db.flush().unwrap();
    (vfs, options, db)
}

#[test]
fn other_orders_of_keys_other_tables_and_missing_files_are_named() {
    let (vfs, options, db) = database();
    let mut reverse = options.clone();
    reverse.default.comparator = Arc::new(ReverseBytewiseComparator);
    let file = made_of(&reverse, "reverse.sst", &["b", "a"], "x");
    refused(
        &db,
        &vfs,
        &file,
        ErrorKind::InvalidOption,
        "ReverseBytewise",
    );
    // A table of a database.
    let table = files(&vfs, DIR, ".sst").remove(0);
    let bytes = vfs.read_all(format!("{DIR}/{table}")).unwrap();
    let file = format!("{MADE}/table.sst");
    vfs.write_all(&file, &bytes).unwrap();
    let why = "not made for ingestion";
    refused(&db, &vfs, &file, ErrorKind::InvalidArgument, why);
    let file = format!("{MADE}/none.sst");
    refused(&db, &vfs, &file, ErrorKind::NotFound, "");
    // The database's own files.
    let own = format!("{DIR}/{}", files(&vfs, DIR, ".sst").remove(0));
    let e = db.ingest(&[&own], &IngestOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    assert!(
        e.message().contains("directory of the database itself"),
        "{e}"
    );
    // The same file twice, by different paths.
    let file = made_of(&options, "a.sst", &["a"], "x");
    let other = format!("{MADE}/../made/a.sst");
    let e = db.ingest(&[&file, &other], &IngestOptions::default());
    let e = e.unwrap_err();
    assert!(e.message().contains("twice"), "{e}");
}

/// Every length of a file that is cut off.
#[test]
fn a_file_that_is_cut_off_anywhere_is_damaged() {
    let (vfs, options, db) = database();
    let whole = made_of(&options, "whole.sst", &["a", "b", "c"], "x");
    let bytes = vfs.read_all(&whole).unwrap();
    let file = format!("{MADE}/cut.sst");
    for len in (0..bytes.len()).step_by(7) {
        vfs.write_all(&file, &bytes[..len]).unwrap();
        let e = db.ingest(&[&file], &IngestOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{len}: {e}");
        assert!(e.to_string().contains(&file), "{len}: {e}");
    }
    assert_eq!(files(&vfs, DIR, ".sst").len(), 1);
}

/// A damaged bit is found by the call; without `verify_checksums` by the call, or when it is read.
#[test]
fn damage_is_found_before_unless_that_is_declined() {
    let (vfs, options, db) = database();
    let keys: Vec<String> = (0..500).map(|n| format!("a{n:05}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let file = made_of(&options, "file.sst", &keys, "a value of some length");
    let len = vfs.read_all(&file).unwrap().len() as u64;
    let unverified = IngestOptions {
        verify_checksums: false,
        ..IngestOptions::default()
    };
    let mut found_later = 0;
    for offset in (0..len - 60).step_by(509) {
        vfs.flip_bit(&file, offset).unwrap();
        let e = db.ingest(&[&file], &IngestOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{offset}: {e}");
        found_later += u64::from(db.ingest(&[&file], &unverified).is_ok());
        vfs.flip_bit(&file, offset).unwrap();
    }
    assert!(found_later > 0);
    db.ingest(&[&file], &IngestOptions::default()).unwrap();
    assert_eq!(
        get(&db, "a00123").as_deref(),
        Some("a value of some length")
    );
}
