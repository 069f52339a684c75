//! WAL files in a separate directory: no missing file goes unnoticed, and nothing is created
//! without being asked for.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use titan::{Db, Error, ErrorKind, Options, Secondary};
use titan_tools::RepairTo;

use super::{must_exist, small};
use crate::directory::files_ending;

fn with(mut options: Options, wal_dir: &Path) -> Options {
    options.db.wal_dir = Some(wal_dir.to_owned());
    options
}

/// A database whose newest value is in a WAL file in `logs`.
fn database() -> (TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let (dir, logs) = (place.path().join("db"), place.path().join("logs"));
    let db = Db::open(&dir, &with(small(), &logs)).unwrap();
    db.put(b"key", b"value").unwrap();
    drop(db);
    assert_eq!(files_ending(&logs, ".log").len(), 1);
    (place, dir, logs)
}

fn value(db: &Db) -> Vec<u8> {
    db.get(b"key").unwrap().unwrap().to_vec()
}

fn options_file(dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let is_options = |p: &PathBuf| p.to_str().unwrap().contains("OPTIONS-");
    files.filter(is_options).max().unwrap()
}

#[test]
fn another_directory_than_the_one_with_the_logs_is_refused() {
    let (place, dir, logs) = database();
    let other = place.path().join("other");
    std::fs::create_dir(&other).unwrap();
    for stated in [&other, &dir, &dir.join("../db")] {
        let options = with(must_exist(), stated);
        let mut refused: Vec<Error> = vec![
            Db::open(&dir, &options).unwrap_err(),
            Db::destroy(&dir, &options).unwrap_err(),
        ];
        if *stated == other {
            refused.push(Db::open_read_only(&dir, &options).unwrap_err());
        }
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            for named in [&stated, &&logs] {
                let named = format!("{:?}", named.display().to_string());
                assert!(error.message().contains(&named), "{error}");
            }
        }
    }
    // A read-only opening may leave them out.
    let db = Db::open_read_only(&dir, &with(must_exist(), &dir)).unwrap();
    assert_eq!(db.get(b"key").unwrap(), None);
    drop(db);
    // Another path to the same directory is accepted.
    let db = Db::open(&dir, &with(must_exist(), &other.join("../logs"))).unwrap();
    assert_eq!(value(&db), b"value");
    let text = std::fs::read_to_string(options_file(&dir)).unwrap();
    let canonical = std::fs::canonicalize(&logs).unwrap();
    let line = format!("wal_dir={}\n", canonical.display());
    assert!(text.contains(&line), "{text}");
}

#[test]
fn a_missing_directory_is_not_created_where_a_database_is() {
    let (place, dir, logs) = database();
    let missing = place.path().join("missing");
    let options = with(small(), &missing);
    let to = RepairTo::Directory(place.path().join("repaired"));
    for error in [
        Db::open(&dir, &options).unwrap_err(),
        Db::open_read_only(&dir, &options).unwrap_err(),
        Secondary::open(&dir, &options).unwrap_err(),
        Db::destroy(&dir, &options).unwrap_err(),
        titan_tools::check(&dir, &options, &mut |_| {}).unwrap_err(),
        titan_tools::repair(&dir, &to, &options, &mut |_| {}).unwrap_err(),
        titan_tools::plan_downgrade(&dir, &options).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert_eq!(error.path(), Some(&*missing), "{error}");
    }
    // Nor is a directory accepted that does not exist, and it is not created.
    let nowhere = place.path().join("nowhere");
    for error in [
        Db::open_read_only(&nowhere, &options).unwrap_err(),
        Db::destroy(&nowhere, &options).unwrap_err(),
        titan_tools::plan_downgrade(&nowhere, &options).unwrap_err(),
        Db::open(&nowhere, &with(must_exist(), &missing)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    let mut options = with(small(), &logs);
    options.db.error_if_exists = true;
    let error = Db::open(&dir, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(!missing.exists() && !nowhere.exists());
}

#[test]
fn a_directory_of_logs_that_cannot_be_read_is_not_taken_for_empty() {
    let (_place, dir, logs) = database();
    std::fs::remove_dir_all(&logs).unwrap();
    assert!(Db::open_read_only(&dir, &must_exist()).is_ok());
    std::os::unix::fs::symlink(&logs, &logs).unwrap();
    for error in [
        Db::open(&dir, &must_exist()).unwrap_err(),
        Db::open_read_only(&dir, &must_exist()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(error.path(), Some(&*logs), "{error}");
    }
}

#[test]
fn without_current_the_logs_elsewhere_are_not_forgotten() {
    let (place, dir, _) = database();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let error = Db::open(&dir, &small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");

    let target = place.path().join("repaired");
    let to = RepairTo::Directory(target.clone());
    let report = titan_tools::repair(&dir, &to, &must_exist(), &mut |_| {}).unwrap();
    assert_eq!(report.replayed, 1);
    // The repaired database has its WAL files in its own directory.
    let text = std::fs::read_to_string(options_file(&target)).unwrap();
    assert!(!text.contains("wal_dir"), "{text}");
    let db = Db::open(&target, &must_exist()).unwrap();
    assert_eq!(value(&db), b"value");
}
