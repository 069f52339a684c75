//! `stats`, `check`, `inspect`: commands that change nothing.

use std::fs;

use serde_json::Value;

use crate::{Place, file_of};

#[test]
fn stats_are_told() {
    let place = Place::new();
    place.write("tree/x", vec![7; 100_000]);
    place.ok(&["load", "db", "tree"]);
    let text = place.text(&["stats", "db"]);
    assert!(text.contains("Column family default"), "{text}");
    assert!(text.contains("blob files 1, 97.69 KiB"), "{text}");
    assert!(
        text.contains("(100.0 %), of that shadowed data about 0 B"),
        "{text}"
    );
    let json = place.json(&["stats", "db", "--json"]);
    assert_eq!(json["families"][0]["estimated_keys"], 1, "{json}");
    assert!(json["disk"]["sst_bytes"].as_u64().unwrap() > 0, "{json}");
    assert!(json["counters"]["gets"].is_u64(), "{json}");
}

#[test]
fn stats_say_what_the_families_count_that_only_the_log_has() {
    let place = Place::new();
    place.write("tree/x", vec![7; 100_000]);
    place.ok(&["load", "db", "tree"]);
    let note = "as if it were flushed";
    let text = place.text(&["stats", "db"]);
    assert!(!text.contains(note), "{text}");
    place.ok(&["put", "db", "key", "value"]);
    let text = place.text(&["stats", "db"]);
    assert!(text.contains(note), "{text}");
}

#[test]
fn stats_and_space_tell_of_shadowed_data_alike() {
    let place = Place::new();
    place.write(
        "kept.toml",
        "[default]\ndisable_auto_compactions = true\nbloom_bits_per_key = 10.0\n",
    );
    place.write("tree/x", vec![7; 100_000]);
    for _ in 0..2 {
        place.ok(&["load", "db", "tree", "--config", "kept.toml"]);
    }
    let look = |command| place.json(&[command, "db", "--json", "--config", "kept.toml"]);
    let shadowed = |report: &Value| {
        report["families"][0]["shadowed_blob_bytes"]
            .as_u64()
            .unwrap()
    };
    let stats = look("stats");
    assert!(shadowed(&stats) > 90_000, "{stats}");
    assert_eq!(shadowed(&stats), shadowed(&look("space")));
    let text = place.text(&["stats", "db", "--config", "kept.toml"]);
    assert!(text.contains("of that shadowed data about 97."), "{text}");
    let text = place.text(&["space", "db", "--config", "kept.toml"]);
    assert!(text.contains("\n  shadowed data, about 97."), "{text}");
    place.ok(&["compact", "db", "--config", "kept.toml"]);
    assert_eq!(shadowed(&look("stats")), 0);
    let text = place.text(&["space", "db", "--config", "kept.toml"]);
    assert!(!text.contains("Worth doing"), "{text}");
}

#[test]
fn check_names_what_is_damaged() {
    let place = Place::new();
    place.write("tree/small", "s");
    place.write("tree/large", vec![7; 100_000]);
    place.ok(&["load", "db", "tree"]);
    assert!(place.text(&["check", "db"]).ends_with("no damage found\n"));
    let report = place.json(&["check", "db", "--json"]);
    assert_eq!(
        (&report["ok"], &report["pointers"]),
        (&true.into(), &1.into()),
        "{report}"
    );

    let blob = file_of(&place.path("db"), ".blob");
    let mut bytes = fs::read(&blob).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let output = place.run(&["check", "db"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert!(
        said.contains("corruption: ") && said.contains(blob.file_name().unwrap().to_str().unwrap()),
        "{said}"
    );
    let output = place.run(&["check", "db", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert_eq!(report["ok"], false);
    let path = report["problems"][0]["file"].as_str().unwrap();
    assert!(path.ends_with(".blob"), "{report}");
}

#[test]
fn inspect_shows_every_kind_of_file() {
    let place = Place::new();
    place.write("tree/small", "s");
    place.write("tree/large", vec![7; 100_000]);
    place.ok(&["load", "db", "tree"]);
    place.ok(&["put", "db", "logged", "v"]);
    for ending in [".sst", ".blob", ".log", "MANIFEST"] {
        let file = file_of(&place.path("db"), ending);
        let file = file.to_str().unwrap();
        assert!(!place.text(&["inspect", file]).is_empty(), "{ending}");
        for line in place.text(&["inspect", file, "--json"]).lines() {
            let item: Value = serde_json::from_str(line).unwrap();
            assert!(
                item["kind"].is_string() && item["fields"].is_object(),
                "{ending}: {item}"
            );
        }
    }
    place.write("foreign", "no file of a database");
    assert!(
        place
            .refused(&["inspect", "foreign"])
            .starts_with("titan: ")
    );
}

/// MyRocks's name for bytewise order.
struct Named;

impl titan::Comparator for Named {
    fn name(&self) -> &str {
        "RocksDB_SE_v3.10"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.cmp(b)
    }
}

#[test]
fn an_order_of_another_name_is_told() {
    let place = Place::new();
    let mut options = titan::Options::default();
    options.default.comparator = std::sync::Arc::new(Named);
    let db = titan::Db::open(place.path("db"), &options).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    drop(db);
    let said = place.refused(&["get", "db", "key"]);
    assert!(said.contains("RocksDB_SE_v3.10"), "{said}");
    let order = ["--comparator", "RocksDB_SE_v3.10=bytewise"];
    let value = place.ok(&[&["get", "db", "key"], &order[..]].concat());
    assert_eq!(value, b"value");
    place.ok(&[&["put", "db", "more", "values"], &order[..]].concat());
    place.ok(&[&["check", "db"], &order[..]].concat());
    let said = place.fails(2, &["get", "db", "key", "--comparator", "name=sideways"]);
    assert!(said.contains("NAME=bytewise"), "{said}");
}
