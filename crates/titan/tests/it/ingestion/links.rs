//! Files that have several names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use titan::{Db, ErrorKind, FileTransfer, IngestOptions, Options, SstFileWriter};
use titan_testkit::sim::SimVfs;

use super::{get, made_of, manually, rows};
use crate::support::{DIR, manual};

fn options() -> Options {
    Options {
        default: manual(),
        ..Options::default()
    }
}

fn with(transfer: FileTransfer) -> IngestOptions {
    IngestOptions {
        transfer,
        ..IngestOptions::default()
    }
}

fn make(path: &Path, value: &str) {
    let mut file = SstFileWriter::create(path, &options()).unwrap();
    file.put("k", value).unwrap();
    file.finish().unwrap();
}

/// The table is the file itself: it stays if the symbolic link, or the file's own name, goes.
#[test]
fn a_symbolic_link_brings_the_file_to_which_it_leads() {
    for transfer in [FileTransfer::Copy, FileTransfer::Link, FileTransfer::Move] {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("made")).unwrap();
        make(&at("made/1.sst"), "x");
        symlink(at("made/1.sst"), at("leads.sst")).unwrap();
        symlink(at("made"), at("folder")).unwrap();
        let db = Db::open(at("db"), &options()).unwrap();
        // By two links, it is one file.
        let both = [at("leads.sst"), at("folder/1.sst")];
        let e = db.ingest(&both, &with(transfer)).unwrap_err();
        assert!(e.message().contains("twice"), "{e}");
        db.ingest(&[at("leads.sst")], &with(transfer)).unwrap();
        let is_moved = transfer == FileTransfer::Move;
        assert_eq!(at("made/1.sst").exists(), !is_moved, "{transfer:?}");
        let link = fs::symlink_metadata(at("leads.sst"));
        assert_eq!(link.is_ok(), !is_moved, "{transfer:?}");
        for entry in fs::read_dir(at("db")).unwrap() {
            let entry = entry.unwrap();
            assert!(!entry.file_type().unwrap().is_symlink(), "{entry:?}");
        }
        let _ = fs::remove_file(at("made/1.sst"));
        let _ = fs::remove_file(at("leads.sst"));
        db.close().unwrap();
        let db = Db::open(at("db"), &options()).unwrap();
        assert_eq!(get(&db, "k").as_deref(), Some("x"), "{transfer:?}");
        symlink(at("nowhere"), at("leads.sst")).unwrap();
        let e = db.ingest(&[at("leads.sst")], &with(transfer)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
        let e = db.ingest(&[at("folder")], &with(transfer)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{e}");
        // A link to a table of the database, too.
        let mut tables = fs::read_dir(at("db")).unwrap().map(|e| e.unwrap().path());
        let own = tables.find(|path| path.extension().is_some_and(|e| e == "sst"));
        symlink(own.unwrap(), at("own.sst")).unwrap();
        let e = db.ingest(&[at("own.sst")], &with(transfer)).unwrap_err();
        assert!(e.message().contains("directory of the database"), "{e}");
    }
}

/// A writer that uses the name again does not touch the table.
#[test]
fn a_file_that_was_linked_may_be_written_anew() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("1.sst");
    let db = Db::open(place.path().join("db"), &options()).unwrap();
    make(&file, "first");
    db.ingest(&[&file], &with(FileTransfer::Link)).unwrap();
    let before = db.snapshot();
    // It is removed if it is not finished.
    let mut unfinished = SstFileWriter::create(&file, &options()).unwrap();
    unfinished.put("k", "unfinished").unwrap();
    drop(unfinished);
    assert_eq!(get(&db, "k").as_deref(), Some("first"));
    make(&file, "second");
    db.ingest(&[&file], &with(FileTransfer::Link)).unwrap();
    assert_eq!(get(&db, "k").as_deref(), Some("second"));
    assert_eq!(
        before.get(&db, "k").unwrap().as_deref(),
        Some(&b"first"[..])
    );
    db.close().unwrap();
    let db = Db::open(place.path().join("db"), &options()).unwrap();
    assert_eq!(get(&db, "k").as_deref(), Some("second"));
}

#[test]
fn a_file_may_be_ingested_again() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    let file = made_of(&options, "1.sst", &["a", "b"], "x");
    for _ in 0..3 {
        db.ingest(&[&file], &with(FileTransfer::Link)).unwrap();
        assert_eq!(rows(&db).len(), 2);
        db.put("a", "y").unwrap();
        assert_eq!(get(&db, "a").as_deref(), Some("y"));
    }
    db.compact_range(None, None, &Default::default()).unwrap();
    db.close().unwrap();
    let db = Db::open(DIR, &options).unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("y"));
    assert_eq!(get(&db, "b").as_deref(), Some("x"));
}
