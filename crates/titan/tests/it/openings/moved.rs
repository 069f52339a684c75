//! A database whose directory is moved while it is open, and one whose lock file is removed.

use std::path::Path;

use titan::{CollectGarbageOptions, CompactRangeOptions, Db, Error, ErrorKind, Options, Secondary};

use crate::directory;

/// Options with which a few values fill memtables and separate.
fn options() -> Options {
    let mut options = Options::default();
    options.default.min_blob_size = 100;
    options.default.write_buffer_size = 64 << 10;
    options
}

fn value(round: usize, key: usize) -> Vec<u8> {
    vec![(round * 31 + key) as u8; 2000]
}

/// Writes, flushes, compacts and collects: uses every kind of file.
fn use_all_files(db: &Db, round: usize) {
    for key in 0..200 {
        db.put(format!("{key:04}").as_bytes(), &value(round, key))
            .unwrap();
    }
    db.flush_all().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let all = CollectGarbageOptions::default();
    db.collect_garbage(None, None, &all).unwrap();
}

fn check_round(db: &Db, round: usize) {
    for key in 0..200 {
        let found = db.get(format!("{key:04}").as_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&value(round, key)[..]), "{key}");
    }
}

fn is_locked<T>(opened: titan::Result<T>) {
    let refused: Option<Error> = opened.err();
    assert_eq!(refused.unwrap().kind(), ErrorKind::Locked);
}

#[test]
fn a_database_without_its_lock_file_is_locked_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &options()).unwrap();
    use_all_files(&db, 1);
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    for _ in 0..2 {
        is_locked(Db::open(dir.path(), &options()));
        is_locked(Db::open_read_only(dir.path(), &options()));
        is_locked(Db::destroy(dir.path(), &options()));
        // Another program makes the file anew.
        std::fs::write(dir.path().join("LOCK"), "").unwrap();
    }
    // A reader beside the writer is not hindered.
    check_round(&Secondary::open(dir.path(), &options()).unwrap().db(), 1);
    let checked = titan_tools::check(dir.path(), &options(), &mut |_| {}).unwrap();
    assert!(checked.problems.is_empty(), "{checked:?}");
    use_all_files(&db, 2);
    db.close().unwrap();
    check_round(&Db::open(dir.path(), &options()).unwrap(), 2);
}

#[test]
fn readers_share_a_database_without_a_lock_file() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &options()).unwrap();
    use_all_files(&db, 1);
    db.close().unwrap();
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    let reading = Db::open_read_only(dir.path(), &options()).unwrap();
    check_round(&Db::open_read_only(dir.path(), &options()).unwrap(), 1);
    is_locked(Db::open(dir.path(), &options()));
    drop(reading);
    Db::open(dir.path(), &options()).unwrap();
}

/// Moves `here` away and puts a copy of it in its place, as a restore of a backup does.
fn swap(here: &Path, there: &Path) {
    std::fs::rename(here, there).unwrap();
    std::fs::create_dir(here).unwrap();
    for file in directory::files(there) {
        std::fs::copy(&file, here.join(file.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_database_goes_on_where_it_was_moved_and_leaves_another_in_its_place_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let db = Db::open(&here, &options()).unwrap();
    use_all_files(&db, 1);
    swap(&here, &there);
    let names = |dir: &Path| -> Vec<_> {
        let names = directory::files(dir).into_iter();
        names
            .map(|path| path.file_name().unwrap().to_owned())
            .collect()
    };
    let before = names(&here);
    use_all_files(&db, 2);
    db.set_options(&[("max_total_wal_size", "1000000")])
        .unwrap();
    db.checkpoint(dir.path().join("checkpoint")).unwrap();
    assert!(db.space_report().unwrap().disk.sst_bytes > 0);
    check_round(&db, 2);
    // Nothing was deleted or made in the other, and it can be opened beside.
    assert_eq!(names(&here), before);
    check_round(&Db::open(&here, &options()).unwrap(), 1);
    is_locked(Db::open(&there, &options()));
    db.close().unwrap();
    for place in [&there, &dir.path().join("checkpoint")] {
        check_round(&Db::open(place, &options()).unwrap(), 2);
    }
}

#[test]
fn a_database_that_is_open_for_reading_is_read_where_it_was_moved() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let db = Db::open(&here, &options()).unwrap();
    use_all_files(&db, 1);
    db.close().unwrap();
    let db = Db::open_read_only(&here, &options()).unwrap();
    std::fs::rename(&here, &there).unwrap();
    check_round(&db, 1);
    assert!(db.space_report().unwrap().disk.sst_bytes > 0);
}
