//! `checkpoint` and `downgrade`: the same database in another directory, and in other files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use titan::{ColumnFamilyOptions, Db, Options};

use crate::{Place, tree};

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let place = Place::new();
    for i in 0..20_u8 {
        place.write(format!("tree/file{i:02}"), vec![i; 20_000]);
    }
    place.ok(&["load", "db", "tree"]);
    let said = place.text(&["checkpoint", "db", "copies/first"]);
    assert!(
        said.starts_with("copies/first has ") && said.contains("0 B copied"),
        "{said}"
    );
    let keys = place.text(&["scan", "db", "--keys-only"]);
    let before = tree(&place.path("copies/first"));
    let again = place.refused(&["checkpoint", "db", "copies/first"]);
    assert!(again.contains("already exists"), "{again}");
    assert_eq!(tree(&place.path("copies/first")), before);
    place.refused(&["checkpoint", "nothing", "copies/second"]);

    place.ok(&["delete", "db", "tree/file07"]);
    place.ok(&["compact", "db", "--force"]);
    assert_eq!(place.text(&["scan", "copies/first", "--keys-only"]), keys);
    let whole = place.text(&["check", "copies/first"]);
    assert!(whole.ends_with("no damage found\n"), "{whole}");
    let summary = place.json(&["checkpoint", "db", "copies/second", "--json"]);
    assert_eq!(summary["copied_bytes"], 0, "{summary}");
    assert!(
        summary["linked_bytes"].as_u64().unwrap() > 300_000,
        "{summary}"
    );
}

#[test]
fn a_checkpoint_may_be_of_a_checkpoint_but_not_within_a_database() {
    let place = Place::new();
    place.write("tree/file", vec![7; 20_000]);
    place.ok(&["load", "db", "tree"]);
    place.ok(&["checkpoint", "db", "first"]);
    fs::create_dir(place.path("db/sub")).unwrap();
    symlink("db", place.path("link")).unwrap();
    for dir in [
        "db/inside",
        "db/000099.sst",
        "db/a/b",
        "first/inside",
        "first/../db/inside",
        "new/../db/inside",
        "link/inside",
    ] {
        let said = place.refused(&["checkpoint", "db", dir]);
        assert!(said.starts_with("titan: invalid argument: "), "{said}");
        assert!(said.contains("inside a database's directory"), "{said}");
    }
    let from = |dir: &str, args: [&str; 3]| {
        let mut command = place.command(&args);
        let output = command.current_dir(place.path(dir)).output().unwrap();
        output.status.code()
    };
    for (dir, db) in [("db", "."), ("db/sub", "..")] {
        assert_eq!(from(dir, ["checkpoint", db, "inside"]), Some(1), "{dir}");
        assert!(!place.path(dir).join("inside").exists(), "{dir}");
    }
    assert!(!place.path("db/a").exists());
    fs::remove_dir(place.path("db/sub")).unwrap();

    // A path that only passes through the database is not inside it.
    assert_eq!(from("db", ["checkpoint", ".", "../beside"]), Some(0));
    place.ok(&["checkpoint", "db", "db/../beside too"]);

    place.ok(&["checkpoint", "first", "second"]);
    place.ok(&["put", "first", "more", "1"]);
    let keys = |db| place.text(&["scan", db, "--keys-only"]);
    assert_eq!(keys("second"), keys("db"));
    assert!(keys("first").starts_with("more\n"));
    for db in ["db", "first", "second", "beside", "beside too"] {
        assert!(place.text(&["check", db]).ends_with("no damage found\n"));
    }
}

#[test]
fn a_downgrade_says_what_it_does_and_changes_nothing_else() {
    let place = Place::new();
    let options = Options {
        default: ColumnFamilyOptions {
            blob_file_size: 64 << 10,
            enable_blob_garbage_collection: true,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(place.path("db"), &options).unwrap();
    for round in 0..4_u8 {
        for i in (0..40_u8).filter(|i| round == 0 || i % 4 != round) {
            let mut value = vec![i; 10_000];
            value[0] = round;
            db.put(format!("key{i:02}").as_bytes(), &value).unwrap();
        }
        db.compact_range(None, None, &Default::default()).unwrap();
        db.wait_idle().unwrap();
    }
    db.close().unwrap();
    let maps = || {
        let names = tree(&place.path("db")).into_keys();
        let is_map = |name: &PathBuf| name.to_string_lossy().ends_with(".blobmap");
        names.filter(is_map).count()
    };
    assert!(maps() > 0, "nothing was moved");
    let entries = place.text(&["scan", "db"]);
    let before = tree(&place.path("db"));
    let said = place.text(&["downgrade", "db", "--dry-run"]);
    assert!(said.starts_with("RocksDB refuses this database"), "{said}");
    assert!(said.contains("\nto be written: "), "{said}");
    assert!(said.ends_with("nothing was changed\n"), "{said}");
    let planned = place.json(&["downgrade", "db", "--dry-run", "--json"]);
    assert_eq!(planned["plan"]["needed"], true, "{planned}");
    assert_eq!(tree(&place.path("db")), before);

    let said = place.text(&["downgrade", "db"]);
    assert!(said.contains("\ndone: "), "{said}");
    assert!(said.contains("\nRocksDB 7 and later opens it"), "{said}");
    assert_eq!(maps(), 0);
    assert!(place.text(&["check", "db"]).ends_with("no damage found\n"));
    let said = place.json(&["downgrade", "db", "--json"]);
    assert_eq!(said["plan"]["needed"], false, "{said}");
    for args in [
        &["downgrade", "db"][..],
        &["downgrade", "db", "--dry-run"][..],
    ] {
        let said = place.text(args);
        assert!(said.starts_with("nothing to do"), "{said}");
        assert_eq!(said.matches("nothing").count(), 1, "{said}");
    }
    assert_eq!(place.text(&["scan", "db"]), entries);
    assert!(
        place
            .refused(&["downgrade", "nothing"])
            .contains("not found")
    );
}
