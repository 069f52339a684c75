//! The levels at which files join.

use titan::{CompactRangeOptions, Db, IngestOptions, Options};
use titan_testkit::sim::SimVfs;

use super::{levels, made_of, manually, rows};
use crate::support::DIR;

fn ingest(db: &Db, options: &Options, keys: &[&str]) {
    let file = made_of(options, "file.sst", keys, "x");
    db.ingest(&[file], &IngestOptions::default()).unwrap();
}

#[test]
fn a_file_goes_as_low_as_its_keys_allow() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    ingest(&db, &options, &["d", "f"]);
    ingest(&db, &options, &["a", "c"]);
    ingest(&db, &options, &["g", "k"]);
    assert_eq!(levels(&db), [(6, 3)]);
    // It overlaps one of the last level, in a gap between its keys.
    ingest(&db, &options, &["e"]);
    assert_eq!(levels(&db), [(0, 1), (6, 3)]);
    ingest(&db, &options, &["e"]);
    assert_eq!(levels(&db), [(0, 2), (6, 3)]);
    ingest(&db, &options, &["m"]);
    assert_eq!(levels(&db), [(0, 2), (6, 4)]);
    // The entries of a memtable go to level 0 first.
    db.put("n", "x").unwrap();
    ingest(&db, &options, &["n"]);
    assert_eq!(levels(&db), [(0, 4), (6, 4)]);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(rows(&db).len(), 9);
}

#[test]
fn files_of_one_call_that_overlap_go_above_each_other() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    let files = [
        made_of(&options, "1.sst", &["a", "z"], "first"),
        made_of(&options, "2.sst", &["b", "c"], "second"),
        made_of(&options, "3.sst", &["d"], "third"),
    ];
    db.ingest(&files, &IngestOptions::default()).unwrap();
    assert_eq!(levels(&db), [(0, 2), (6, 1)]);
    assert_eq!(rows(&db).len(), 5);
}
