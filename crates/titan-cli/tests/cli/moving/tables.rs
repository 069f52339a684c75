//! Tables made elsewhere.

use std::process::Command;

use titan::{Options, SstFileWriter};
use titan_testkit::requirement;

use crate::Place;

/// Makes a table of these entries.
fn table(place: &Place, name: &str, entries: &[(&str, &str)]) {
    let mut file = SstFileWriter::create(place.path(name), &Options::default()).unwrap();
    for (key, value) in entries {
        file.put(key, value).unwrap();
    }
    file.finish().unwrap();
}

#[test]
fn tables_are_added_copied_moved_or_linked() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "old"]);
    table(&place, "1.sst", &[("a", "new"), ("b", "1")]);
    table(&place, "2.sst", &[("b", "2")]);
    let said = place.text(&["ingest", "db", "1.sst", "2.sst"]);
    assert!(said.starts_with("2 files, "), "{said}");
    let before = place.text(&["scan", "db"]);
    assert_eq!(place.ok(&["get", "db", "a"]), b"new");
    assert_eq!(place.ok(&["get", "db", "b"]), b"2");
    table(&place, "3.sst", &[("c", "3")]);
    let said = place.json(&["ingest", "db", "3.sst", "--move", "--json"]);
    assert_eq!(said["files"], 1, "{said}");
    assert!(said["bytes"].as_u64().unwrap() > 0, "{said}");
    assert!(!place.path("3.sst").exists() && place.path("1.sst").exists());
    table(&place, "4.sst", &[("d", "4")]);
    place.ok(&["ingest", "db", "4.sst", "--link"]);
    assert!(place.path("4.sst").exists());
    assert_eq!(place.ok(&["get", "db", "d"]), b"4");
    place.ok(&["check", "db"]);
    let after = place.text(&["scan", "db"]);
    assert!(after.starts_with(&before), "{before} {after}");
}

#[test]
fn a_file_that_cannot_be_added_is_named_and_changes_nothing() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "old"]);
    place.write("notes.sst", "no table");
    let said = place.refused(&["ingest", "db", "notes.sst"]);
    assert!(said.contains("notes.sst"), "{said}");
    assert!(
        !said.contains("titan repair"),
        "the database is whole: {said}"
    );
    let said = place.refused(&["ingest", "db", "none.sst"]);
    assert!(said.contains("none.sst"), "{said}");
    table(&place, "1.sst", &[("a", "new")]);
    let said = place.refused(&["ingest", "db", "1.sst", "notes.sst"]);
    assert!(said.contains("notes.sst"), "{said}");
    let said = place.refused(&["ingest", "db", "1.sst", "--cf", "none"]);
    assert!(said.contains("none"), "{said}");
    let said = place.fails(2, &["ingest", "db", "1.sst", "--move", "--link"]);
    assert!(said.contains("usage"), "{said}");
    assert_eq!(place.ok(&["get", "db", "a"]), b"old");
    assert!(place.path("1.sst").exists());
}

/// RocksDB's tool makes the file, and reads the database afterwards.
#[test]
fn tables_of_rocksdb_are_added() {
    let place = Place::new();
    let lines = "0x61 ==> 0x31\n0x62 ==> 0x32\n";
    place.write("lines", lines);
    let written = Command::new("ldb")
        .args(["--db=none", "--create_if_missing", "--hex"])
        .args(["write_extern_sst", "made.sst"])
        .current_dir(place.path(""))
        .stdin(std::fs::File::open(place.path("lines")).unwrap())
        .output();
    let Some(written) = requirement::met(requirement::ROCKSDB_TOOLS, written) else {
        return;
    };
    assert!(written.status.success(), "{written:?}");
    place.ok(&["put", "db", "a", "old"]);
    place.ok(&["ingest", "db", "made.sst"]);
    assert_eq!(place.ok(&["get", "db", "a"]), b"1");
    assert_eq!(place.ok(&["get", "db", "b"]), b"2");
}
