//! A separate directory of WAL files: it is locked, and used where it is moved.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use titan::{Db, ErrorKind, Options, Secondary};
use titan_tools::RepairTo;

use crate::directory::files_ending;

struct Place {
    place: TempDir,
    db: PathBuf,
    logs: PathBuf,
}

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let (db, logs) = (place.path().join("db"), place.path().join("logs"));
        Place { place, db, logs }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

fn with_logs(logs: &Path) -> Options {
    let mut options = Options::default();
    options.db.wal_dir = Some(logs.to_owned());
    options
}

/// Writes so that each of many WAL files is started and deleted.
fn use_many_logs(db: &Db, round: u8) {
    for key in 0..20 {
        db.put([key], [round; 100]).unwrap();
        db.flush_all().unwrap();
    }
    db.put(b"last", [round]).unwrap();
}

fn last(db: &Db) -> u8 {
    db.get(b"last").unwrap().unwrap()[0]
}

fn is_in_use<T>(opened: titan::Result<T>, path: &Path) {
    let refused = opened.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    assert_eq!(refused.path(), Some(path), "{refused}");
}

#[test]
fn logs_are_written_where_their_directory_was_moved() {
    let place = Place::new();
    let db = Db::open(&place.db, &with_logs(&place.logs)).unwrap();
    use_many_logs(&db, 1);
    let there = place.path("there");
    std::fs::rename(&place.logs, &there).unwrap();
    // Another takes its name, with files that are not the database's.
    std::fs::create_dir(&place.logs).unwrap();
    let others = place.logs.join("000001.log");
    std::fs::write(&others, "of somebody else").unwrap();
    use_many_logs(&db, 2);
    assert_eq!(last(&db), 2);
    assert_eq!(files_ending(&place.logs, ""), [others]);
    assert!(!files_ending(&there, ".log").is_empty());
    assert!(files_ending(&place.db, ".log").is_empty());
    db.checkpoint(place.path("checkpoint")).unwrap();
    db.close().unwrap();
    assert_eq!(
        last(&Db::open(place.path("checkpoint"), &Options::default()).unwrap()),
        2
    );
    assert_eq!(last(&Db::open(&place.db, &with_logs(&there)).unwrap()), 2);
}

#[test]
fn both_directories_may_be_moved() {
    for inside in [false, true] {
        let place = Place::new();
        let logs = if inside {
            place.db.join("logs")
        } else {
            place.logs.clone()
        };
        let db = Db::open(&place.db, &with_logs(&logs)).unwrap();
        use_many_logs(&db, 1);
        let (moved, mut moved_logs) = (place.path("moved"), place.path("moved/logs"));
        std::fs::rename(&place.db, &moved).unwrap();
        if !inside {
            moved_logs = place.path("logs of moved");
            std::fs::rename(&logs, &moved_logs).unwrap();
        }
        use_many_logs(&db, 2);
        db.close().unwrap();
        assert!(!place.db.exists() && !place.logs.exists());
        assert_eq!(last(&Db::open(&moved, &with_logs(&moved_logs)).unwrap()), 2);
    }
}

#[test]
fn two_databases_do_not_share_a_directory_of_logs() {
    let place = Place::new();
    let options = with_logs(&place.logs);
    let db = Db::open(&place.db, &options).unwrap();
    use_many_logs(&db, 1);
    let other = place.path("other");
    is_in_use(Db::open(&other, &options), &place.logs);
    is_in_use(Db::open(&place.db, &options), &place.db.join("LOCK"));
    // The directory of another database is locked, too.
    is_in_use(
        Db::open(place.path("third"), &with_logs(&place.db)),
        &place.db,
    );
    // No file of a lock appears.
    let logs = files_ending(&place.logs, ".log");
    assert_eq!(files_ending(&place.logs, ""), logs);
    drop(db);
    let db = Db::open_read_only(&place.db, &options).unwrap();
    assert_eq!(last(&Db::open_read_only(&place.db, &options).unwrap()), 1);
    drop(db);
    Db::open(&place.db, &options).unwrap();
}

#[test]
fn the_directory_of_a_new_database_may_be_stated_in_another_spelling() {
    let place = Place::new();
    let options = with_logs(&place.place.path().join(".").join("db"));
    for round in 1..3 {
        let db = Db::open(&place.db, &options).unwrap();
        use_many_logs(&db, round);
        assert_eq!(last(&db), round);
        db.close().unwrap();
    }
}

#[test]
fn a_handle_that_outlives_the_database_locks_nothing() {
    let place = Place::new();
    let options = with_logs(&place.logs);
    let db = Db::open(&place.db, &options).unwrap();
    use_many_logs(&db, 1);
    db.close().unwrap();
    assert_eq!(last(&Db::open(&place.db, &options).unwrap()), 1);
    drop(db);
}

#[test]
fn readers_and_tools_work_beside_the_writer_and_after_it() {
    let place = Place::new();
    let options = with_logs(&place.logs);
    let stated = [options.clone(), Options::default()];
    let db = Db::open(&place.db, &options).unwrap();
    use_many_logs(&db, 1);
    for options in &stated {
        assert_eq!(last(&Secondary::open(&place.db, options).unwrap().db()), 1);
        let checked = titan_tools::check(&place.db, options, &mut |_| {}).unwrap();
        assert!(checked.problems.is_empty(), "{checked:?}");
    }
    db.close().unwrap();
    for (index, options) in stated.iter().enumerate() {
        assert_eq!(last(&Db::open_read_only(&place.db, options).unwrap()), 1);
        let checked = titan_tools::check(&place.db, options, &mut |_| {}).unwrap();
        assert!(checked.problems.is_empty(), "{checked:?}");
        titan_tools::plan_downgrade(&place.db, options).unwrap();
        let target = place.path(&format!("repaired{index}"));
        let to = RepairTo::Directory(target.clone());
        titan_tools::repair(&place.db, &to, options, &mut |_| {}).unwrap();
        assert_eq!(last(&Db::open(&target, &Options::default()).unwrap()), 1);
    }
    Db::destroy(&place.db, &options).unwrap();
    assert!(!place.db.exists());
}
