//! `repair`: what is saved, and that lost data is named.

use std::fs;

use serde_json::Value;

use crate::{Place, file_of, tree};

#[test]
fn repair_saves_what_is_left_and_names_what_is_gone() {
    let place = Place::new();
    for i in 0..20_u8 {
        place.write(format!("tree/file{i:02}"), vec![i; 20_000]);
    }
    place.ok(&["load", "db", "tree"]);
    let said = place.text(&["repair", "db"]);
    assert!(said.ends_with("nothing was lost\n"), "{said}");
    let keys = place.text(&["scan", "db", "--keys-only"]);
    assert_eq!(place.text(&["scan", "db.repaired", "--keys-only"]), keys);
    assert!(
        place
            .text(&["check", "db.repaired"])
            .ends_with("no damage found\n")
    );
    // Not into an existing directory with files, and not with both ways at once.
    assert!(place.refused(&["repair", "db"]).contains("not empty"));
    place.fails(2, &["repair", "db", "--in-place", "--into", "other"]);

    let blob = file_of(&place.path("db"), ".blob");
    let mut bytes = fs::read(&blob).unwrap();
    let at = bytes.windows(16).position(|w| w == [7; 16]).unwrap();
    bytes[at] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let before = tree(&place.path("db"));
    let output = place.run(&["repair", "db", "--into", "rescued", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(report["complete"], false);
    let lost = report["lost"].as_array().unwrap();
    assert_eq!(lost.len(), 1, "{report}");
    assert_eq!(lost[0]["from"], lost[0]["to"]);
    assert!(
        lost[0]["from"].as_str().unwrap().ends_with("file07"),
        "{report}"
    );
    assert_eq!(lost[0]["entries"], 1);
    assert_eq!(
        tree(&place.path("db")),
        before,
        "the damaged one is as it was"
    );
    assert!(
        place
            .text(&["check", "rescued"])
            .ends_with("no damage found\n")
    );
    let said = place.run(&["repair", "db", "--in-place"]);
    assert_eq!(said.status.code(), Some(3), "{said:?}");
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("lost: ") && said.contains("file07"), "{said}");
    assert!(said.ends_with("something was lost, in 1 place\n"), "{said}");
    assert!(place.text(&["check", "db"]).ends_with("no damage found\n"));
    assert!(place.path("db/lost").is_dir());
}

#[test]
fn repair_of_the_working_directory_puts_the_result_beside_it() {
    let place = Place::new();
    place.write("tree/file", "x");
    place.ok(&["load", "db", "tree"]);
    let before = tree(&place.path("db"));
    let mut command = place.command(&["repair", "."]);
    let output = command.current_dir(place.path("db")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tree(&place.path("db")), before);
    assert_eq!(
        place.text(&["scan", "db.repaired"]),
        place.text(&["scan", "db"])
    );
}
