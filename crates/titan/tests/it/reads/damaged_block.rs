//! Scans that go on after a damaged block.

use std::collections::BTreeSet;
use std::path::PathBuf;

use titan::{ColumnFamilyOptions, Db, Error, Options, ReadOptions};

use crate::support::key;

const KEYS: usize = 4000;

/// A database with one table at the last level, and an open one above it with a part of the keys.
fn filled(dir: &std::path::Path) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.default = ColumnFamilyOptions {
        disable_auto_compactions: true,
        ..ColumnFamilyOptions::default()
    };
    let db = Db::open(dir, &options).unwrap();
    for n in 0..KEYS {
        db.put(&key(n), format!("value {n}").as_bytes()).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    for n in (0..KEYS).step_by(100) {
        db.put(&key(n), b"newer").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    options
}

/// The largest table.
fn table(dir: &std::path::Path) -> PathBuf {
    let files = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|found| found == "sst"));
    tables
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap()
}

fn damage(path: &std::path::Path, places: &[usize]) {
    let mut content = std::fs::read(path).unwrap();
    places.iter().for_each(|at| content[*at] ^= 1);
    std::fs::write(path, content).unwrap();
}

/// Scans, and after each error seeks the key after the last unreadable one. Returns the keys found,
/// and the errors.
fn scan(db: &Db) -> (BTreeSet<Vec<u8>>, Vec<Error>) {
    let (mut found, mut errors) = (BTreeSet::new(), Vec::<Error>::new());
    let mut from = Vec::new();
    loop {
        let mut iter = db.iter(&ReadOptions::default()).unwrap();
        let mut step = iter.seek(&from);
        while step.is_ok() && iter.valid() {
            assert!(found.insert(iter.key().to_vec()));
            step = iter.next();
        }
        let Err(e) = step else { return (found, errors) };
        let last = db.last_unreadable_key(&e).unwrap();
        assert!(last >= from, "it goes back: {e}");
        from = [&last, &[0][..]].concat();
        errors.push(e);
    }
}

#[test]
fn a_scan_gets_past_each_damaged_block_and_misses_no_more_than_its_keys() {
    let home = tempfile::tempdir().unwrap();
    let options = filled(home.path());
    let table = table(home.path());
    let length = table.metadata().unwrap().len() as usize;
    damage(
        &table,
        &[length / 5, length / 2, length / 2 + 1, length * 3 / 4],
    );
    let db = Db::open_read_only(home.path(), &options).unwrap();
    let (found, errors) = scan(&db);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors.iter().all(|e| e.path() == Some(&*table)),
        "{errors:?}"
    );
    // A block has 4 KiB of keys and values of about 20 bytes.
    let missing = KEYS - found.len();
    assert!((1..3 * 400).contains(&missing), "{missing}");
}

#[test]
fn a_scan_gets_past_a_table_that_cannot_be_opened() {
    let home = tempfile::tempdir().unwrap();
    let options = filled(home.path());
    let table = table(home.path());
    let length = table.metadata().unwrap().len() as usize;
    damage(&table, &[length - 1]);
    let db = Db::open_read_only(home.path(), &options).unwrap();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    let e = iter.seek_to_first().unwrap_err();
    assert_eq!(db.last_unreadable_key(&e), Some(key(KEYS - 1)));
}

#[test]
fn only_damage_of_a_table_of_the_family_can_be_passed() {
    let home = tempfile::tempdir().unwrap();
    let options = filled(home.path());
    let db = Db::open_read_only(home.path(), &options).unwrap();
    let table = table(home.path());
    for error in [
        Error::corruption("elsewhere").at(&home.path().join("999999.sst"), 0),
        Error::corruption("nowhere"),
        Error::internal("no damage").at(&table, 0),
    ] {
        assert_eq!(db.last_unreadable_key(&error), None, "{error}");
    }
    // Where no block begins, all of the table is.
    let error = Error::corruption("between blocks").at(&table, 1);
    assert_eq!(db.last_unreadable_key(&error), Some(key(KEYS - 1)));
}
