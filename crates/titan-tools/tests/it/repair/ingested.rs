//! Tables that were ingested: only the MANIFEST has their sequence numbers.

use std::path::Path;

use titan::vfs::Vfs;
use titan::{Db, IngestOptions, Options, SstFileWriter};
use titan_tools::RepairTo;

use super::{Case, REPAIRED, empty};
use titan_testkit::setup::DIR;

const FILE: &str = "/made.sst";

fn ingest(db: &Db, options: &Options, changes: &[(&str, Option<&str>)]) {
    let mut file = SstFileWriter::create(FILE, options).unwrap();
    for (key, value) in changes {
        match value {
            Some(value) => file.put(key, value).unwrap(),
            None => file.delete(key).unwrap(),
        }
    }
    file.finish().unwrap();
    db.ingest(&[FILE], &IngestOptions::default()).unwrap();
}

/// Each key says which of its values is the newest.
fn filled() -> Case {
    let (case, _) = empty();
    let db = case.open(DIR);
    let put = |key: &str, value: &str| db.put(key, value).unwrap();
    ingest(
        &db,
        &case.options,
        &[("a", Some("1 old")), ("e", Some("1 new"))],
    );
    put("a", "2 new");
    put("b", "2 old");
    put("c", "2 old");
    put("d", "2 old");
    db.flush().unwrap();
    let second = [("b", Some("3 new")), ("c", None), ("d", Some("3 old"))];
    ingest(&db, &case.options, &second);
    ingest(
        &db,
        &case.options,
        &[("d", Some("4 new")), ("f", Some("4 old"))],
    );
    put("f", "5 new");
    db.close().unwrap();
    case
}

const NEWEST: [(&str, &str); 5] = [
    ("a", "2 new"),
    ("b", "3 new"),
    ("d", "4 new"),
    ("e", "1 new"),
    ("f", "5 new"),
];

fn assert_is_newest(case: &Case, what: &str) {
    let found: Vec<(String, String)> = case
        .contents(REPAIRED)
        .into_iter()
        .map(|((_, key), value)| [key, value].map(|text| String::from_utf8(text).unwrap()))
        .map(|[key, value]| (key, value))
        .collect();
    let expected = NEWEST.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(found, expected, "{what}");
}

#[test]
fn without_a_manifest_a_table_is_newer_than_those_before_it_and_older_than_later_writes() {
    let case = filled();
    case.vfs.remove(Path::new(&case.manifest())).unwrap();
    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    assert_is_newest(&case, &format!("{report:#?}"));
    let of_tables = report
        .notes
        .iter()
        .filter(|note| note.contains("was ingested"));
    assert_eq!(of_tables.count(), 3, "{report:#?}");
}

#[test]
fn with_its_manifest_a_table_keeps_its_place() {
    let case = filled();
    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    assert_is_newest(&case, &format!("{report:#?}"));
    assert!(report.lost.is_empty(), "{report:#?}");
    assert!(report.notes.is_empty(), "{report:#?}");
}
