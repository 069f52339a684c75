//! `checkpoint`: the same database, in another directory.

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
    let again = place.fails(1, &["checkpoint", "db", "copies/first"]);
    assert!(again.contains("already exists"), "{again}");
    assert_eq!(tree(&place.path("copies/first")), before);
    place.fails(1, &["checkpoint", "nothing", "copies/second"]);

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
