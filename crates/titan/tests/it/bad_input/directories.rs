//! Missing, locked and foreign directories.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use titan::{Db, ErrorKind, Options};

use super::{must_exist, small};
use crate::directory::files;

#[test]
fn a_missing_database_is_not_created_unless_asked_for() {
    let parent = tempfile::tempdir().unwrap();
    let missing = parent.path().join("a/b");
    let empty = parent.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for dir in [&missing, &empty] {
        let e = Db::open(dir, &must_exist()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
        assert_eq!(e.path(), Some(dir.as_path()), "{e}");
        let e = Db::list_column_families(dir, &must_exist()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
        let e = Db::destroy(dir, &must_exist()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
    }
    assert!(!parent.path().join("a").exists());
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    Db::open(&missing, &small()).unwrap().close().unwrap();

    let mut fresh_only = small();
    fresh_only.db.error_if_exists = true;
    let e = Db::open(&missing, &fresh_only).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}");
    Db::open(&missing, &must_exist()).unwrap();
}

#[test]
fn a_file_in_the_place_of_the_directory_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, b"mine").unwrap();
    for options in [small(), must_exist()] {
        let e = Db::open(&file, &options).unwrap_err();
        assert!(e.path().is_some_and(|p| p.starts_with(&file)), "{e}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn this_process_opens_a_database_once_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let linked = tempfile::tempdir().unwrap();
    let link = linked.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    for path in [dir.path(), &link] {
        let e = Db::open(path, &small()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
        assert!(e.path().is_some_and(|p| p.ends_with("LOCK")), "{e}");
        let e = Db::destroy(path, &small()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
    }
    db.put(b"still", b"there").unwrap();
    // A handle of a family keeps the database open.
    let family = db.column_families().remove(0);
    drop(db);
    let e = Db::open(dir.path(), &small()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
    drop(family);
    let db = Db::open(dir.path(), &small()).unwrap();
    assert_eq!(db.get(b"still").unwrap().unwrap(), "there");
    db.close().unwrap();
    assert_eq!(db.get(b"still").unwrap_err().kind(), ErrorKind::Closed);
    Db::open(dir.path(), &small()).unwrap();
}

/// Names the directory that the process of [`hold_a_database_open`] opens.
const HOLD: &str = "TITAN_TEST_HOLD_OPEN";

/// Not a test of its own: the other process of the next test.
#[test]
fn hold_a_database_open() {
    let Some(dir) = std::env::var_os(HOLD) else {
        return;
    };
    let db = Db::open(Path::new(&dir), &small()).unwrap();
    db.put(b"key", b"by the other process").unwrap();
    println!("\nopen");
    // Until the other side closes the pipe.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    db.close().unwrap();
}

#[test]
fn another_process_keeps_the_database_locked() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "bad_input::directories::hold_a_database_open",
            "--exact",
            "--nocapture",
        ])
        .env(HOLD, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "open"), "it did not open");
    let e = Db::open(dir.path(), &small()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
    let e = Db::destroy(dir.path(), &small()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    let db = Db::open(dir.path(), &small()).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), "by the other process");
}

#[test]
fn what_is_not_the_engine_s_is_never_touched() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = [
        "README",
        "notes.sst.bak",
        "x.log",
        "12ab.sst",
        "MANIFEST-",
        "OPTIONS-x",
        "LOG",
        ".hidden",
        "000004.ldb.txt",
    ];
    for name in foreign {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    std::fs::create_dir(dir.path().join("archive")).unwrap();
    std::fs::write(dir.path().join("archive/000001.log"), b"mine").unwrap();
    for _ in 0..3 {
        let db = Db::open(dir.path(), &small()).unwrap();
        for i in 0..500 {
            db.put(format!("{i}").as_bytes(), &[1; 300]).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
    }
    let check = || {
        for name in foreign {
            assert_eq!(
                std::fs::read(dir.path().join(name)).unwrap(),
                name.as_bytes()
            );
        }
        assert_eq!(
            std::fs::read(dir.path().join("archive/000001.log")).unwrap(),
            b"mine"
        );
    };
    check();
    Db::destroy(dir.path(), &small()).unwrap();
    check();
    assert_eq!(
        files(dir.path()).len(),
        foreign.len(),
        "{:?}",
        files(dir.path())
    );
    let e = Db::destroy(dir.path(), &small()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
    Db::open(dir.path(), &small()).unwrap();
    check();
}

#[test]
fn destroying_removes_everything() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("db");
    let db = Db::open(&dir, &small()).unwrap();
    db.put(b"key", &[1; 1000]).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    Db::destroy(&dir, &Options::default()).unwrap();
    assert!(!dir.exists());
}

/// What lies elsewhere, or is laid out by other rules, is refused, not missed.
#[test]
fn databases_with_parts_elsewhere_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    drop(db);

    std::fs::create_dir(dir.path().join("titandb")).unwrap();
    let error = Db::open(dir.path(), &must_exist()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.path().is_some_and(|path| path.ends_with("titandb")));
    std::fs::remove_dir(dir.path().join("titandb")).unwrap();

    // The WAL files go elsewhere, and OPTIONS says so.
    let logs = tempfile::tempdir().unwrap();
    let mut newest = None;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".log") {
            std::fs::rename(&path, logs.path().join(&name)).unwrap();
        } else if name.starts_with("OPTIONS-") && newest.as_ref().is_none_or(|n| *n < path) {
            newest = Some(path);
        }
    }
    let path = newest.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let place = format!("[DBOptions]\n  wal_dir={}\n", logs.path().display());
    std::fs::write(&path, text.replacen("[DBOptions]\n", &place, 1)).unwrap();
    let error = Db::open(dir.path(), &must_exist()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(
        error
            .to_string()
            .contains(&logs.path().display().to_string()),
        "{error}"
    );
}
