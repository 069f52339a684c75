//! Refusals of commands, and exit statuses that tell why.

use std::fs;
use std::process::Command;

use serde_json::Value;
use titan::{Db, Options};

use crate::{Place, file_of, tree};

#[test]
fn a_missing_key_a_missing_database_and_damage_have_statuses_of_their_own() {
    let place = Place::new();
    place.write("one.toml", "[default]\nmin_blob_size = 10\n");
    let value = "longer than ten bytes";
    place.ok(&["put", "db", "k", value, "--config", "one.toml"]);
    place.ok(&["compact", "db", "--config", "one.toml"]);
    place.ok(&["mvcc", "put", "store", "k", value]);
    for args in [
        &["get", "db", "no"][..],
        &["mvcc", "get", "store", "no"],
        &["mvcc", "versions", "store", "no"],
    ] {
        let said = place.fails(4, args);
        assert!(said.starts_with("titan: not found: key no"), "{said}");
    }
    for args in [
        &["get", "nowhere", "k"][..],
        &["get", "db", "k", "--cf", "no"],
        &["check", "nowhere"],
        &["mvcc", "get", "nowhere", "k"],
        &["mvcc", "check", "nowhere"],
    ] {
        place.fails(5, args);
    }
    // What is missing is not the database.
    place.fails(1, &["get", "db", "k", "--config", "no.toml"]);
    place.ok(&["check", "db"]);
    let blob = file_of(&place.path("db"), ".blob");
    let mut bytes = fs::read(&blob).unwrap();
    let at = bytes.windows(6).position(|w| w == b"longer").unwrap();
    bytes[at] ^= 1;
    fs::write(&blob, bytes).unwrap();
    place.fails(6, &["get", "db", "k"]);
    let output = place.run(&["check", "db"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    for help in [&["get", "--help"][..], &["check", "--help"], &["--help"]] {
        let help = place.text(help);
        assert!(
            help.contains("exit status") || help.contains("Exit status"),
            "{help}"
        );
    }
}

#[test]
fn a_check_of_what_has_no_current_says_so_in_both_forms() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    fs::remove_file(place.path("db/CURRENT")).unwrap();
    let output = place.run(&["check", "db", "--json"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    let problem = &report["problems"][0];
    assert_eq!(problem["kind"], "corruption", "{report}");
    assert!(
        problem["message"].as_str().unwrap().contains("CURRENT"),
        "{report}"
    );
    let output = place.run(&["check", "db"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("CURRENT"));
}

#[test]
fn errors_are_objects_where_data_are() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place.write("bad.toml", "[db]\nblok = 1\n");
    for (args, status, kind, file) in [
        (&["get", "db", "none"][..], 4, "not found", None),
        (&["get", "nowhere", "k"], 5, "not found", Some("nowhere")),
        (
            &["get", "db", "k", "--config", "bad.toml"],
            1,
            "invalid option",
            Some("bad.toml"),
        ),
        (&["delete", "db", "--to", "x"], 1, "invalid argument", None),
        (&["get"], 2, "usage", None),
    ] {
        let said = place.fails(status, &[args, &["--json"]].concat());
        let said: Value = serde_json::from_str(&said).unwrap();
        let error = &said["error"];
        assert_eq!(error["kind"], kind, "{args:?}: {said}");
        let message = error["message"].as_str().unwrap();
        assert_ne!(message, "", "{args:?}: {said}");
        assert_eq!(error["file"].as_str(), file, "{args:?}: {said}");
    }
    let said = place.fails(2, &["get", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["error"]["help"], "titan get --help");
}

/// A volume of TiFS, as far as a command sees it: its family of blocks, and its superblock.
fn make_volume(place: &Place) {
    let db = Db::open(place.path("volume"), &Options::default()).unwrap();
    db.create_column_family("data", Default::default()).unwrap();
    let mut superblock = vec![1];
    superblock.extend([7; 24]);
    db.put(b"S", &superblock).unwrap();
    db.close().unwrap();
}

#[test]
fn stores_of_versions_and_volumes_are_not_written_by_accident() {
    let place = Place::new();
    place.ok(&["mvcc", "put", "store", "k", "v"]);
    make_volume(&place);
    place.write("tree/x", "1");
    for (db, what) in [
        ("store", "a store of versions"),
        ("volume", "a volume of TiFS"),
    ] {
        for args in [
            &["put", db, "k", "v"][..],
            &["put", db, "k", "v", "--cf", "new"],
            &["delete", db, "k"],
            &["load", db, "tree"],
            &["ingest", db, "1.sst"],
        ] {
            let said = place.fails(1, args);
            assert!(
                said.contains(what) && said.contains("--force"),
                "{args:?}: {said}"
            );
        }
        let families = place.json(&["stats", db, "--json"]);
        let families = families["families"].as_array().unwrap();
        assert!(families.iter().all(|family| family["name"] != "new"));
    }
    place.ok(&["mvcc", "check", "store"]);
    place.ok(&["put", "store", "mine", "v", "--force"]);
    assert_eq!(place.ok(&["get", "store", "mine"]), b"v");
    // No file is damaged, so nothing can be repaired.
    place.ok(&["put", "store", "mine", "v", "--force", "--cf", "versions"]);
    let said = place.fails(6, &["mvcc", "scan", "store"]);
    assert!(!said.contains("titan repair"), "{said}");
    assert!(said.contains("titan delete --force"), "{said}");
    place.ok(&["delete", "store", "mine", "--force", "--cf", "versions"]);
    place.ok(&["delete", "store", "mine", "--force"]);
    place.ok(&["mvcc", "check", "store"]);
}

#[test]
fn an_empty_line_of_a_list_is_no_key() {
    let place = Place::new();
    place.ok(&["put", "db", "", "of the empty key"]);
    place.ok(&["put", "db", "a", "1"]);
    place.write("list", "\na\n\n");
    let said = place.text(&["delete", "db", "--from-file", "list"]);
    assert!(said.starts_with("1 keys deleted"), "{said}");
    assert_eq!(place.ok(&["get", "db", ""]), b"of the empty key");
    place.fails(4, &["get", "db", "a"]);
    place.write("list", "0x\n");
    place.ok(&["delete", "db", "--from-file", "list"]);
    place.fails(4, &["get", "db", ""]);
}

#[test]
fn what_never_ends_is_refused() {
    let place = Place::new();
    let said = place.fails(1, &["inspect", "/dev/zero"]);
    assert!(said.contains("no regular file"), "{said}");
    place.ok(&["put", "db", "empty", "--file", "/dev/null"]);
    assert_eq!(place.ok(&["get", "db", "empty"]), b"");
    for args in [
        &["put", "db", "k", "--file", "/dev/zero"][..],
        &["put", "new", "k", "--file", "/dev/zero"],
        &["mvcc", "put", "new", "k", "--file", "/dev/zero"],
        &["delete", "db", "--from-file", "/dev/zero"],
    ] {
        let said = place.fails(1, args);
        assert!(said.contains("a device that does not end"), "{said}");
    }
    assert!(!place.path("new").exists());
    // By another name, too.
    for args in [
        &["put", "new", "k", "-"][..],
        &["delete", "db", "--from-file", "-"],
    ] {
        let endless = fs::File::open("/dev/zero").unwrap();
        let output = place.command(args).stdin(endless).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("a device that does not end"), "{said}");
    }
    assert!(!place.path("new").exists());
    place.write("line", vec![b'x'; (16 << 20) + 4]);
    let said = place.fails(1, &["delete", "db", "--from-file", "line"]);
    assert!(said.contains("a line of more than"), "{said}");
}

#[test]
fn a_put_that_fails_leaves_nothing() {
    let place = Place::new();
    place.write("value", vec![7; 16 << 20]);
    let failing = |args: &[&str]| {
        let mut put = Command::new("sh");
        let titan = env!("CARGO_BIN_EXE_titan");
        // No file may have more than 4 MiB.
        let script = r#"trap "" XFSZ; ulimit -f 8192; exec "$0" "$@""#;
        put.arg("-c").arg(script).arg(titan).args(args);
        let output = put.current_dir(place.path(".")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    failing(&["put", "db", "k", "--file", "value"]);
    assert!(!place.path("db").exists());
    let said = place.fails(1, &["put", "db", "k", "v", "--cf", ""]);
    assert!(said.contains("no column family is created"), "{said}");
    assert!(!place.path("db").exists());
    place.ok(&["put", "db", "k", "v"]);
    failing(&["put", "db", "k", "--file", "value", "--cf", "new"]);
    failing(&["put", "db", "k", "--file", "value"]);
    let stats = place.json(&["stats", "db", "--json"]);
    assert_eq!(stats["families"].as_array().unwrap().len(), 1);
    assert_eq!(place.ok(&["get", "db", "k"]), b"v");
}

#[test]
fn names_and_keys_of_options_may_begin_with_a_dash() {
    let place = Place::new();
    place.ok(&["put", "db", "--cf", "-x", "k", "v"]);
    assert_eq!(place.ok(&["get", "db", "--cf", "-x", "k"]), b"v");
    assert_eq!(place.text(&["scan", "db", "--cf", "-x"]), "k : v\n");
    place.ok(&["put", "db", "--", "-5", "minus"]);
    assert_eq!(
        place.text(&["scan", "db", "--from", "-6", "--to", "-4"]),
        ""
    );
    assert_eq!(
        place.text(&["scan", "db", "--from", "-4", "--to", "-6"]),
        "-5 : minus\n"
    );
    assert_eq!(
        place.text(&["scan", "db", "--prefix", "-5"]),
        "-5 : minus\n"
    );
    place.ok(&["compact", "db", "--from", "-4", "--to", "-6"]);
    let said = place.fails(1, &["compact", "db", "--from", "b", "--to", "a"]);
    assert!(said.contains("ends before it begins"), "{said}");
    let said = place.fails(1, &["gc", "db", "--from", "b", "--to", "a"]);
    assert!(said.contains("ends before it begins"), "{said}");
}

#[test]
fn a_load_of_nothing_leaves_nothing() {
    let place = Place::new();
    place.write("people.csv", "name,email\nAnn,a@x\n");
    place.write("people.jsonl", "{\"name\":\"Ann\"}\n");
    for (file, format) in [("people.csv", "csv"), ("people.jsonl", "jsonl")] {
        let args = ["load", "db", file, "--format", format, "--key", "mail"];
        let said = place.fails(1, &args);
        assert!(
            said.contains("no field mail") && said.contains("nothing loaded"),
            "{said}"
        );
        assert!(!place.path("db").exists(), "{file}");
    }
    place.fails(1, &["load", "db", "nowhere"]);
    assert!(!place.path("db").exists());
    place.ok(&["put", "db", "k", "v"]);
    let args = [
        "load",
        "db",
        "people.csv",
        "--format",
        "csv",
        "--key",
        "mail",
        "--cf",
        "new",
    ];
    place.fails(1, &args);
    assert_eq!(
        place.json(&["stats", "db", "--json"])["families"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(place.ok(&["get", "db", "k"]), b"v");
}

#[test]
fn keys_that_name_one_file_are_not_written_over_each_other() {
    let place = Place::new();
    for (key, value) in [
        ("x/y", "1"),
        ("x//y", "2"),
        ("/x/y", "3"),
        ("./z", "4"),
        ("z/.", "5"),
    ] {
        place.ok(&["put", "db", key, value]);
    }
    place.write("out/x/y", "from before");
    for force in [true, false] {
        let mut args = vec!["dump", "db", if force { "out" } else { "new" }, "--json"];
        args.extend(force.then_some("--force"));
        let output = place.run(&args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&summary["files"], &summary["failed"]),
            (&2.into(), &3.into())
        );
        let said = String::from_utf8(output.stderr).unwrap();
        for key in [
            "`x//y` names the same file as `x/y`",
            "`/x/y` names",
            "`z/.` names",
        ] {
            assert!(said.contains(key), "{said}");
        }
        let found = tree(&place.path(args[2]));
        let found: Vec<_> = found.values().map(Vec::as_slice).collect();
        assert_eq!(found, [b"1", b"4"]);
    }
}

#[test]
fn a_cache_larger_than_memory_is_refused() {
    let place = Place::new();
    place.write(
        "huge.toml",
        "[db]\nblock_cache_size = 1152921504606846976\n",
    );
    let said = place.fails(1, &["put", "db", "k", "v", "--config", "huge.toml"]);
    assert!(
        said.contains("block_cache_size must be no more than"),
        "{said}"
    );
    assert!(!place.path("db").exists());
}
