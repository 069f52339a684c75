//! Missing, locked and foreign directories.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::FlockOperation;
use titan::{Db, ErrorKind, Options};

use super::{must_exist, small};
use crate::directory::{copy, files, files_ending};

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
    let e = Db::list_column_families(&file, &must_exist()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
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
/// Set if that process must open LOCK meanwhile, as a program that copies the directory does.
const LOOK: &str = "TITAN_TEST_LOOK_INTO_LOCK";

/// Not a test of its own: it runs as the other process of the next test.
#[test]
fn hold_a_database_open() {
    let Some(dir) = std::env::var_os(HOLD) else {
        return;
    };
    let db = Db::open(Path::new(&dir), &small()).unwrap();
    db.put(b"key", b"by the other process").unwrap();
    if std::env::var_os(LOOK).is_some() {
        assert_eq!(std::fs::read(Path::new(&dir).join("LOCK")).unwrap(), b"");
    }
    println!("\nopen");
    // Until the parent process closes the pipe.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    db.close().unwrap();
}

/// Runs `while_held` while another process has the database open.
fn while_another_process_holds(dir: &Path, look: bool, while_held: impl FnOnce()) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "bad_input::directories::hold_a_database_open",
        "--exact",
        "--nocapture",
    ]);
    command.env(HOLD, dir);
    if look {
        command.env(LOOK, "1");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "open"), "it did not open");
    while_held();
    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
}

#[test]
fn another_process_keeps_the_database_locked() {
    let dir = tempfile::tempdir().unwrap();
    for look in [false, true] {
        while_another_process_holds(dir.path(), look, || {
            let e = Db::open(dir.path(), &small()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
            let e = Db::open_read_only(dir.path(), &small()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
            let e = Db::destroy(dir.path(), &small()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
        });
        let db = Db::open(dir.path(), &small()).unwrap();
        assert_eq!(db.get(b"key").unwrap().unwrap(), "by the other process");
    }
}

/// RocksDB locks LOCK for its process.
#[test]
fn the_lock_and_that_of_rocksdb_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    drop(Db::open(dir.path(), &small()).unwrap());
    let lock = dir.path().join("LOCK");
    let opened = || {
        let options = File::options().read(true).write(true).open(&lock);
        options.unwrap()
    };
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    let refused = |e: rustix::io::Errno| e == rustix::io::Errno::AGAIN;

    let open = || Db::open(dir.path(), &small()).err();
    let look = || Db::open_read_only(dir.path(), &small()).err();
    for attempt in [&open as &dyn Fn() -> _, &look] {
        // A lock of a process is released when the process closes the file, as our attempt does.
        let theirs = opened();
        rustix::fs::fcntl_lock(&theirs, exclusive).unwrap();
        let e: titan::Error = attempt().unwrap();
        assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
    }

    let db = Db::open(dir.path(), &small()).unwrap();
    let e = rustix::fs::fcntl_lock(opened(), exclusive).unwrap_err();
    assert!(refused(e), "{e}");
    db.close().unwrap();
    drop(db);
    let readers = [(); 2].map(|()| Db::open_read_only(dir.path(), &small()).unwrap());
    for reader in readers {
        let e = rustix::fs::fcntl_lock(opened(), exclusive).unwrap_err();
        assert!(refused(e), "{e}");
        drop(reader);
    }
    rustix::fs::fcntl_lock(opened(), exclusive).unwrap();
}

/// Numbers continue from the largest one found; above one this large too few are left.
#[test]
fn names_with_numbers_out_of_reach_are_refused_or_nobody_s() {
    for (number, is_refused) in [
        ((1_u64 << 60) - 1, true),
        (1 << 59, true),
        (1 << 60, false),
        (1 << 63, false),
    ] {
        for suffix in ["sst", "log", "blob"] {
            let dir = tempfile::tempdir().unwrap();
            let db = Db::open(dir.path(), &small()).unwrap();
            db.put(b"key", b"value").unwrap();
            db.flush().unwrap();
            db.close().unwrap();
            drop(db);
            let stray = dir.path().join(format!("{number}.{suffix}"));
            std::fs::write(&stray, b"stray").unwrap();
            if is_refused {
                let errors = [
                    Db::open(dir.path(), &small()).unwrap_err(),
                    Db::open_read_only(dir.path(), &small()).unwrap_err(),
                    titan_tools::check(dir.path(), &small(), &mut |_| {}).unwrap_err(),
                    titan_tools::repair(
                        dir.path(),
                        &titan_tools::RepairTo::Directory(dir.path().join("repaired")),
                        &small(),
                        &mut |_| {},
                    )
                    .unwrap_err(),
                ];
                for e in errors {
                    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
                    assert_eq!(e.path(), Some(&*stray), "{e}");
                }
                std::fs::rename(&stray, dir.path().join("elsewhere")).unwrap();
            }
            for _ in 0..2 {
                let db = Db::open(dir.path(), &small()).unwrap();
                assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
                db.put(b"more", b"value").unwrap();
                db.flush().unwrap();
                db.close().unwrap();
            }
            assert_eq!(stray.exists(), !is_refused);
        }
    }
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

/// The removal of LOCK may fail when all else is gone.
#[test]
fn the_rest_of_a_deleted_database_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("LOCK"), "").unwrap();
    Db::destroy(&path, &small()).unwrap();
    assert!(!path.exists());
}

/// RocksDB creates a database with a MANIFEST that names no comparator, and replaces it afterwards.
#[test]
fn a_directory_that_rocksdb_was_killed_in_while_creating_it_opens_empty() {
    let manifest = b"\xc4\xc1\x9f\x5b\x06\x00\x01\x02\x00\x03\x02\x04\x00";
    let current = b"MANIFEST-000001\n";
    let files: [(&str, &[u8]); 4] = [
        ("IDENTITY", b"7a3c4dd5-5b4c-43a5-8f9b-5c8d7b0f2a11"),
        ("MANIFEST-000001", manifest),
        ("CURRENT", current),
        ("000004.log", b""),
    ];
    for there in 0..=files.len() {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in &files[..there] {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let opens = Db::open_read_only(dir.path(), &small());
        let checked = titan_tools::check(dir.path(), &small(), &mut |_| {});
        if there < 3 {
            assert!(opens.is_err_and(|e| e.is_not_found()), "{there} files");
            assert!(checked.is_err_and(|e| e.is_not_found()), "{there} files");
        } else {
            drop(opens.unwrap());
            assert_eq!(checked.unwrap().problems.len(), 0, "{there} files");
        }
        for _ in 0..2 {
            let db = Db::open(dir.path(), &small()).unwrap();
            db.put(b"key", b"value").unwrap();
            db.close().unwrap();
        }
        let db = Db::open(dir.path(), &must_exist()).unwrap();
        assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
    }
}

/// RocksDB does not record its `db_paths` anywhere.
#[test]
fn tables_in_other_directories_are_not_taken_for_lost_ones() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let dir = copy(&fixtures.join("rocksdb-7.8-default"));
    let elsewhere = tempfile::tempdir().unwrap();
    for table in files_ending(dir.path(), ".sst") {
        let to = elsewhere.path().join(table.file_name().unwrap());
        std::fs::rename(table, to).unwrap();
    }
    let options = must_exist();
    for error in [
        Db::open(dir.path(), &options).unwrap_err(),
        Db::open_read_only(dir.path(), &options).unwrap_err(),
        titan_tools::check(dir.path(), &options, &mut |_| {}).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("db_paths"), "{error}");
    }
    for table in files_ending(elsewhere.path(), ".sst") {
        let to = dir.path().join(table.file_name().unwrap());
        std::fs::rename(table, to).unwrap();
    }
    Db::open(dir.path(), &options).unwrap();
}

#[derive(Default)]
struct Told(Mutex<Vec<PathBuf>>);

impl titan::EventListener for Told {
    fn deletion_failed(&self, error: &titan::Error) {
        let path = error.path().unwrap().to_owned();
        self.0.lock().unwrap().push(path);
    }
}

/// A directory cannot be deleted like a file.
#[test]
fn a_leftover_that_cannot_be_deleted_blocks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    drop(Db::open(dir.path(), &small()).unwrap());
    for name in ["000001.log", "000002.sst", "000777.sst", "000003.dbtmp"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let mut options = small();
    for opening in 0..2 {
        let told = Arc::new(Told::default());
        options.db.listeners = vec![Arc::clone(&told) as _];
        let db = Db::open(dir.path(), &options).unwrap();
        assert_eq!(told.0.lock().unwrap().len(), 4, "opening {opening}");
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        drop(db);
        let report = titan_tools::check(dir.path(), &options, &mut |_| {}).unwrap();
        assert_eq!(report.problems.len(), 0, "{:?}", report.problems);
    }
    let db = Db::open(dir.path(), &options).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
}

#[test]
fn a_database_is_only_destroyed_if_nobody_has_opened_it_since() {
    let dir = tempfile::tempdir().unwrap();
    let (path, options) = (dir.path().join("db"), Options::default());
    let names = || {
        let names = std::fs::read_dir(&path).unwrap();
        let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    let db = Db::open(&path, &options).unwrap();
    let known = names();
    db.close().unwrap();
    drop(db);
    let other = Db::open(&path, &options).unwrap();
    other.put(b"theirs", b"value").unwrap();
    other.close().unwrap();
    drop(other);
    assert!(!Db::destroy_if_unchanged(&path, &options, &known).unwrap());
    let db = Db::open(&path, &options).unwrap();
    assert_eq!(db.get(b"theirs").unwrap().as_deref(), Some(&b"value"[..]));
    let known = names();
    db.close().unwrap();
    drop(db);
    assert!(Db::destroy_if_unchanged(&path, &options, &known).unwrap());
    assert!(!path.exists());
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

/// Files in other directories, or with another layout, cause a refusal; they are not ignored.
#[test]
fn databases_with_parts_elsewhere_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    db.put(b"key", b"newer").unwrap();
    drop(db);

    std::fs::create_dir(dir.path().join("titandb")).unwrap();
    let error = Db::open(dir.path(), &must_exist()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.path().is_some_and(|path| path.ends_with("titandb")));
    std::fs::remove_dir(dir.path().join("titandb")).unwrap();

    // The WAL files are moved elsewhere, and OPTIONS says so.
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

    // A read-only opening finds them there; an opening for writing must state where they are.
    let there = |dir: &Path| files_ending(dir, ".log").len();
    let value = |db: &Db| db.get(b"key").unwrap().unwrap();
    let mut stated = must_exist();
    stated.db.wal_dir = Some(logs.path().to_owned());
    for options in [must_exist(), stated.clone()] {
        let db = Db::open_read_only(dir.path(), &options).unwrap();
        assert_eq!(value(&db), "newer");
        let report = titan_tools::check(dir.path(), &options, &mut |_| {}).unwrap();
        assert_eq!(report.problems.len(), 0, "{:?}", report.problems);
        assert_eq!(report.wal_files, 1);
    }
    for n in 0..3_u8 {
        let db = Db::open(dir.path(), &stated).unwrap();
        assert_eq!(value(&db), "newer");
        for n in 0..n {
            assert_eq!(db.get(&[n]).unwrap().unwrap(), "value");
        }
        db.put(&[n], b"value").unwrap();
        db.close().unwrap();
        assert_eq!((there(dir.path()), there(logs.path())), (0, 1), "{n}");
    }
    let error = Db::open(dir.path(), &must_exist()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    Db::destroy(dir.path(), &stated).unwrap();
    assert_eq!((dir.path().exists(), there(logs.path())), (false, 0));
    let error = Db::open(dir.path(), &stated).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    std::fs::create_dir(dir.path()).unwrap();
}
