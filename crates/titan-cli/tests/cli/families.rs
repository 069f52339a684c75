//! Column families: listed, created, dropped.

use serde_json::json;

use crate::Place;

#[test]
fn families_are_created_listed_and_dropped() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place.write(
        "few.toml",
        "[families.few]\nnum_levels = 3\n[families.other]\nnum_levels = 4\n",
    );
    place.ok(&["families", "create", "db", "few", "--config", "few.toml"]);
    place.ok(&["families", "create", "db", "more"]);
    let names = ["default", "few", "more"];
    let listed = place.text(&["families", "list", "db"]);
    assert_eq!(listed.lines().collect::<Vec<_>>(), names);
    assert_eq!(
        place.json(&["families", "list", "db", "--json"]),
        json!(names)
    );
    let kept = place.json(&["options", "db", "--json"]);
    assert_eq!(kept["options"]["families"]["few"]["num_levels"], 3);
    let named = ["families", "create", "store", "few", "--config", "few.toml"];
    place.ok(&["mvcc", "put", "store", "k", "v"]);
    let before = place.text(&["families", "list", "store"]);
    place.fails(1, &named);
    place.fails(
        1,
        &[
            "families", "drop", "store", "versions", "--config", "few.toml",
        ],
    );
    assert_eq!(place.text(&["families", "list", "store"]), before);
    let said = place.fails(1, &["families", "create", "db", "few"]);
    assert!(
        said.starts_with("titan: already exists: column family few"),
        "{said}"
    );

    place.ok(&["put", "db", "--cf", "few", "k", "v"]);
    let said = place.fails(1, &["families", "drop", "db", "few"]);
    assert!(
        said.contains("--yes confirms to drop column family few"),
        "{said}"
    );
    assert_eq!(place.ok(&["get", "db", "--cf", "few", "k"]), b"v");
    place.ok(&["families", "drop", "db", "few", "--yes"]);
    place.fails(5, &["get", "db", "--cf", "few", "k"]);
    place.fails(5, &["families", "drop", "db", "few", "--yes"]);
    let said = place.fails(1, &["families", "drop", "db", "default", "--yes"]);
    assert!(said.contains("default"), "{said}");
    place.fails(5, &["families", "list", "nowhere"]);
    place.fails(5, &["families", "create", "nowhere", "few"]);
    assert!(!place.path("nowhere").exists());
}

/// An empty name is that of a variable which is not set.
#[test]
fn a_name_that_no_list_can_show_is_refused() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    let long = "n".repeat(256);
    for (name, why) in [
        ("", "is empty"),
        ("two\nlines", "control character"),
        (&*long, "more than 255 bytes"),
    ] {
        let said = place.fails(2, &["families", "create", "db", name]);
        assert!(said.contains(why), "{said}");
        // The family of an entry is created, too.
        let said = place.fails(1, &["put", "db", "--cf", name, "k", "v"]);
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(place.text(&["families", "list", "db"]), "default\n");
    place.ok(&["families", "create", "db", &long[1..]]);
}

#[test]
fn families_of_a_store_are_not_changed_by_accident() {
    let place = Place::new();
    place.ok(&["mvcc", "put", "store", "k", "v"]);
    for args in [
        &["families", "create", "store", "mine"][..],
        &["families", "drop", "store", "versions", "--yes"],
    ] {
        let said = place.fails(1, args);
        assert!(said.contains("a store of versions"), "{said}");
    }
    place.ok(&["mvcc", "check", "store"]);
}

#[test]
fn a_missing_subcommand_is_an_object_for_programs() {
    let place = Place::new();
    let said = place.fails(2, &["--json", "families"]);
    let said: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    let help = json!("titan families --help");
    assert_eq!(
        (&said["error"]["kind"], &said["error"]["help"]),
        (&json!("usage"), &help)
    );
    let said = place.fails(2, &["families"]);
    assert!(said.contains("Usage: titan families"), "{said}");
}
