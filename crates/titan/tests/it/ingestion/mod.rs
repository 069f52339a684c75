//! Files made elsewhere that join a database.

mod bad_files;
mod calls;
mod conflicts;
mod crashes;
mod exports;
mod faults;
mod file_deletions;
mod followers;
mod links;
mod model;
mod places;
mod threads;
mod with_rocksdb;
mod writer;

use std::collections::BTreeMap;

use titan::{ColumnFamily, ColumnFamilyOptions, Db, Options, ReadOptions, SstFileWriter};
use titan_testkit::sim::SimVfs;

use crate::support::{manual, options};

/// Where files are made.
const MADE: &str = "/made";

fn manually(vfs: &SimVfs) -> Options {
    options(vfs, family())
}

/// A family whose values of 1000 bytes are separated, and of 200 are not.
fn family() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        min_blob_size: 500,
        ..manual()
    }
}

/// A change of a key.
#[derive(Clone, Debug)]
enum Change<'a> {
    Put(&'a str, Vec<u8>),
    Delete(&'a str),
    DeleteRange(&'a str, &'a str),
}

fn put<'a>(key: &'a str, value: &str) -> Change<'a> {
    Change::Put(key, value.into())
}

/// Makes the file `name` and returns its path.
fn made(options: &Options, name: &str, changes: &[Change<'_>]) -> String {
    options.db.vfs.create_dir_all(MADE.as_ref()).unwrap();
    let path = format!("{MADE}/{name}");
    let mut file = SstFileWriter::create(&path, options).unwrap();
    for change in changes {
        match change {
            Change::Put(key, value) => file.put(key, value).unwrap(),
            Change::Delete(key) => file.delete(key).unwrap(),
            Change::DeleteRange(begin, end) => file.delete_range(begin, end).unwrap(),
        }
    }
    file.finish().unwrap();
    path
}

/// Makes a file with the same value for each key.
fn made_of(options: &Options, name: &str, keys: &[&str], value: &str) -> String {
    let changes: Vec<_> = keys.iter().map(|key| put(key, value)).collect();
    made(options, name, &changes)
}

type Rows = BTreeMap<String, Vec<u8>>;

/// All rows of a family.
fn rows(family: &ColumnFamily) -> Rows {
    rows_with(family, &ReadOptions::default())
}

fn rows_with(family: &ColumnFamily, options: &ReadOptions) -> Rows {
    let found = family.range_with(.., options);
    let found = found.map(|entry| {
        let (key, value) = entry.unwrap();
        (String::from_utf8(key.to_vec()).unwrap(), value.to_vec())
    });
    let found: Rows = found.collect();
    // Point reads agree with the scan.
    for (key, value) in &found {
        let read = family.get_with(key, options).unwrap();
        assert_eq!(read.as_deref(), Some(&value[..]), "{key}");
    }
    found
}

fn get(db: &ColumnFamily, key: &str) -> Option<String> {
    let found = db.get(key).unwrap();
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// The levels that have tables, with their number.
fn levels(db: &Db) -> Vec<(usize, usize)> {
    let metrics = db.metrics();
    let levels = metrics.families[0].levels.iter().enumerate();
    levels
        .map(|(level, found)| (level, found.files))
        .filter(|(_, files)| *files > 0)
        .collect()
}
