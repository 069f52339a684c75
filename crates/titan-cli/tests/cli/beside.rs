//! Commands on a database that another process, this one, has open.

use std::path::Path;

use titan::{ColumnFamilyOptions, Db, Options};
use titan_campaigns::beside::{Writer, look};

use crate::Place;

#[test]
fn what_is_read_under_full_load_is_one_moment() {
    let place = Place::new();
    let path = place.path("db");
    let writer = Writer::start(&path).unwrap();
    for view in 0..3 {
        let titan = Path::new(env!("CARGO_BIN_EXE_titan"));
        let looks = look(titan, &path, &writer);
        assert!(looks.is_ok(), "view {view}: {}", looks.unwrap_err());
    }
}

#[test]
fn who_reads_is_told_the_moment_and_who_writes_is_refused() {
    let place = Place::new();
    let options = Options {
        default: ColumnFamilyOptions::default(),
        ..Options::default()
    };
    let db = Db::open(place.path("db"), &options).unwrap();
    db.put(b"a", b"1").unwrap();
    for (command, expected) in [
        (&["get", "db", "a"][..], "1"),
        (&["scan", "db"], "a : 1\n"),
        (&["stats", "db"], "last sequence number 1\n"),
        (&["space", "db"], "Column family default"),
        (&["check", "db"], "no damage found\n"),
    ] {
        let output = place.run(command);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, complaints) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{command:?}: {complaints}");
        assert!(out.contains(expected), "{command:?}: {out}");
        let note = "titan: another process has the database open; shown as of sequence number 1 in MANIFEST-";
        assert!(complaints.starts_with(note), "{command:?}: {complaints}");
        assert_eq!(complaints.lines().count(), 1, "{command:?}: {complaints}");
    }
    for command in ["stats", "space", "check"] {
        let output = place.run(&[command, "db", "--json"]);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["moment"]["sequence"], 1, "{command}: {document}");
        let told: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(told["moment"], document["moment"], "{command}: {told}");
    }
    for command in [
        &["put", "db", "a", "2"][..],
        &["delete", "db", "a"],
        &["compact", "db"],
        &["ingest", "db", "1.sst"],
        &["checkpoint", "db", "copy"],
    ] {
        let complaints = place.refused(command);
        assert!(complaints.contains("in use"), "{command:?}: {complaints}");
    }
    db.put(b"b", b"2").unwrap();
    db.close().unwrap();
    assert_eq!(place.text(&["scan", "db"]), "a : 1\nb : 2\n");
    let stats = place.json(&["stats", "db", "--json"]);
    assert!(stats["moment"].is_null(), "{stats}");
}
