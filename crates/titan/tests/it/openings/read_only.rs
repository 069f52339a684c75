//! Read-only openings: everything can be read, nothing is changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use titan::vfs::{StdVfs, Vfs};
use titan::{
    CollectGarbageOptions, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, Options,
    ReadOptions, WriteOptions,
};
use titan_testkit::sim::{Loss, SimVfs};

use crate::directory::{Rows, contents, copy};
use crate::support::{DIR, files, key, manual, open, options, value};

/// The content of a database: relocated records, tables, entries that are only in the log, two
/// families.
fn fill(options: &Options, dir: &Path) -> Db {
    let db = Db::open(dir, options).unwrap();
    let pages = db.create_column_family("pages", collecting()).unwrap();
    for round in 0..3 {
        for n in 0..60 {
            db.put(&key(n), &value(n + round, 300)).unwrap();
            pages.put(&key(n), &value(n * round, 2000)).unwrap();
        }
        db.flush_all().unwrap();
        pages.delete(&key(round)).unwrap();
        pages
            .compact_range(None, None, &Default::default())
            .unwrap();
    }
    db.wait_idle().unwrap();
    db.put(b"logged", b"default").unwrap();
    pages.put(b"logged", &value(1, 5000)).unwrap();
    db.delete(&key(7)).unwrap();
    db
}

fn collecting() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        enable_blob_garbage_collection: true,
        blob_garbage_collection_low_threshold: 0.01,
        ..manual()
    }
}

/// Compares without printing everything.
fn same(db: &Db, expected: &[(String, Rows)]) {
    let mut expected = expected.to_vec();
    expected.sort();
    assert!(contents(db).unwrap() == expected, "other contents");
}

/// The bytes of all files.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let content = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        (name, std::fs::read(file.path()).unwrap())
    };
    files.map(content).collect()
}

#[test]
fn everything_is_read_and_every_change_refused() {
    let vfs = SimVfs::new();
    let options = options(&vfs, collecting());
    let db = fill(&options, Path::new(DIR));
    assert!(!files(&vfs, DIR, ".blobmap").is_empty());
    let expected = contents(&db).unwrap();
    db.sync_wal().unwrap();
    // Not closed: the content of the log is nowhere else.
    let journal = vfs.journal();
    let vfs = journal.crash_at(journal.len(), &Loss::All);
    let options = Options {
        db: titan::DbOptions {
            vfs: Arc::new(vfs.clone()),
            ..options.db
        },
        families: BTreeMap::from([("missing".to_owned(), manual())]),
        ..options
    };
    let before = vfs.journal().len();
    let db = Db::open_read_only(DIR, &options).unwrap();
    same(&db, &expected);
    let report = db.space_report().unwrap();
    assert!(report.total.live_blob_bytes > 0 && report.total.map_bytes > 0);

    let pages = db.column_family("pages").unwrap();
    let everything = CollectGarbageOptions::default();
    let refused = [
        ("put", db.put(b"k", b"v")),
        ("delete", pages.delete(b"k")),
        ("synced", {
            let mut batch = titan::WriteBatch::new();
            batch.put(&pages, b"k", b"v").unwrap();
            db.write(batch, &WriteOptions::synced())
        }),
        ("flush", db.flush_all()),
        (
            "compact",
            db.compact_range(None, None, &CompactRangeOptions::default()),
        ),
        (
            "collect",
            pages.collect_garbage(None, None, &everything).map(drop),
        ),
        ("create", db.create_column_family("c", manual()).map(drop)),
        ("drop", db.drop_column_family(&pages)),
        ("checkpoint", db.checkpoint("/copy").map(drop)),
        ("resume", db.resume()),
    ];
    for (what, outcome) in refused {
        let kind = outcome.map_err(|e| e.kind());
        assert_eq!(kind, Err(ErrorKind::ReadOnly), "{what}");
    }
    db.wait_idle().unwrap();
    assert!(db.background_error().is_none());
    let snapshot = db.snapshot();
    let mut iterator = db.iter(&ReadOptions::default()).unwrap();
    iterator.seek_to_first().unwrap();
    drop((iterator, snapshot, pages));
    same(&db, &expected);
    db.close().unwrap();
    assert_eq!(vfs.journal().len(), before, "something was written");

    let db = open(&options);
    same(
        &db,
        &[expected, vec![("missing".to_owned(), Rows::new())]].concat(),
    );
}

#[test]
fn many_may_look_while_nobody_writes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        default: collecting(),
        ..Options::default()
    };
    let writer = fill(&options, dir.path());
    let expected = contents(&writer).unwrap();
    let locked = |opened: titan::Result<Db>| {
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::Locked);
    };
    locked(Db::open_read_only(dir.path(), &options));
    writer.close().unwrap();

    let before = bytes(dir.path());
    let readers = [(); 3].map(|()| Db::open_read_only(dir.path(), &options).unwrap());
    for reader in &readers {
        same(reader, &expected);
    }
    let [first, second, third] = readers;
    first.close().unwrap();
    locked(Db::open(dir.path(), &options));
    drop(second);
    locked(Db::open(dir.path(), &options));
    same(&third, &expected);
    third.close().unwrap();
    assert_eq!(bytes(dir.path()), before);

    // If there is no lock file, no process has written since it was removed.
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    let reader = Db::open_read_only(dir.path(), &options).unwrap();
    same(&reader, &expected);
    reader.close().unwrap();
    assert!(!dir.path().join("LOCK").exists());
    let writer = Db::open(dir.path(), &options).unwrap();
    same(&writer, &expected);
}

#[test]
fn a_directory_of_rocksdb_stays_its_own() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut opened = 0;
    for fixture in std::fs::read_dir(fixtures).unwrap() {
        let fixture = fixture.unwrap().path();
        if !fixture.join("CURRENT").exists() {
            continue;
        }
        // A copy, so that the fixture is not destroyed if the test fails.
        let looked_at = copy(&fixture);
        let before = bytes(looked_at.path());
        let db = Db::open_read_only(looked_at.path(), &Options::default()).unwrap();
        let found = contents(&db).unwrap();
        db.close().unwrap();
        let what = fixture.display();
        assert!(bytes(looked_at.path()) == before, "{what}");
        let db = Db::open(looked_at.path(), &Options::default()).unwrap();
        same(&db, &found);
        opened += 1;
    }
    assert!(opened >= 12, "{opened}");
}

#[test]
fn what_is_not_there_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default();
    for path in [dir.path().join("none"), dir.path().to_owned()] {
        let missing = Db::open_read_only(&path, &options).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    }
    assert_eq!(files(&StdVfs, dir.path(), "").len(), 0);
}

#[test]
fn a_directory_without_its_head_is_damaged() {
    let vfs = SimVfs::new();
    let options = options(&vfs, collecting());
    let db = open(&options);
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    vfs.remove(Path::new(&format!("{DIR}/CURRENT"))).unwrap();
    let damaged = Db::open_read_only(DIR, &options).unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::Corruption, "{damaged}");
}

#[test]
fn what_is_only_in_the_log_takes_no_space_but_the_log_s() {
    let vfs = SimVfs::new();
    let options = options(&vfs, collecting());
    let db = open(&options);
    db.put(&key(1), &value(1, 5000)).unwrap();
    db.sync_wal().unwrap();
    let journal = vfs.journal();
    let vfs = journal.crash_at(journal.len(), &Loss::All);
    let options = crate::support::options(&vfs, collecting());
    let db = Db::open_read_only(DIR, &options).unwrap();
    assert_eq!(db.get(&key(1)).unwrap().unwrap(), value(1, 5000));
    let report = db.space_report().unwrap();
    assert!(report.disk.wal_bytes > 5000, "{report:#?}");
    assert_eq!(report.total.live_blob_bytes, 0);
    assert_eq!(report.total.blob_bytes, 0);
}
