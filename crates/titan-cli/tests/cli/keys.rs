//! `put`, `get`, `delete`: single keys, lists of them, column families.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::Place;

#[test]
fn put_get_delete() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    assert_eq!(place.ok(&["get", "db", "k"]), b"v");
    assert_eq!(place.ok(&["get", "db", "0x6b"]), b"v");
    place.ok(&["put", "db", "0x00FF", "0x0001ff"]);
    assert_eq!(place.ok(&["get", "db", "0x00ff"]), [0, 1, 255]);
    let json = place.json(&["get", "db", "0x00ff", "--json"]);
    assert_eq!(
        json.to_string(),
        r#"{"key_hex":"0x00FF","value_hex":"0x0001FF"}"#
    );

    place.write("file", vec![7; 100_000]);
    place.ok(&["put", "db", "large", "--file", "file"]);
    assert_eq!(place.ok(&["get", "db", "large"]), vec![7; 100_000]);

    // Longer than what is read at once.
    let long: Vec<u8> = (0..3_000_017_u32).map(|n| (n >> 3) as u8).collect();
    place.write("long", &long);
    place.ok(&["put", "db", "long", "--file", "long"]);
    assert!(place.ok(&["get", "db", "long"]) == long);
    place.ok(&["check", "db"]);
    let said = place.fails(1, &["put", "db", "long", "--file", "."]);
    assert!(
        said.contains("Is a directory") && said.contains(": ."),
        "{said}"
    );
    assert!(place.ok(&["get", "db", "long"]) == long);

    let mut put = place
        .command(&["put", "db", "piped", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    put.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(place.ok(&["get", "db", "piped"]), b"from a pipe");

    place.ok(&["delete", "db", "k"]);
    assert_eq!(
        place.refused(&["get", "db", "k"]),
        "titan: not found: key k\n"
    );
    assert!(
        place
            .refused(&["get", "db", "0xf"])
            .starts_with("titan: invalid argument: 0xf")
    );
}

#[test]
fn listed_keys_are_deleted() {
    let place = Place::new();
    for number in 0..2000 {
        place.write(format!("tree/{number:04}"), number.to_string());
    }
    place.ok(&["load", "db", "tree"]);
    place.ok(&["put", "db", "0x0aff", "no text"]);
    let odd = (1..2000).step_by(2).map(|n| format!("tree/{n:04}\n"));
    place.write("list", odd.collect::<String>() + "nowhere\n0x0AFF");
    assert_eq!(
        place.text(&["delete", "db", "--from-file", "list"]),
        "1,002 keys deleted, or not there\n"
    );
    let left = place.text(&["scan", "db", "--keys-only"]);
    let even = (0..2000).step_by(2).map(|n| format!("tree/{n:04}\n"));
    assert_eq!(left, even.collect::<String>());

    // An invalid line is found before anything is deleted.
    place.write("wrong", "tree/0000\n0x0\n");
    let told = place.refused(&["delete", "db", "--from-file", "wrong"]);
    assert!(told.contains("line 2: 0x0 is not"), "{told}");
    assert_eq!(place.ok(&["get", "db", "tree/0000"]), b"0");

    let mut delete = place
        .command(&["delete", "db", "--from-file", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let all = place.ok(&["scan", "db", "--keys-only", "--hex"]);
    delete.stdin.take().unwrap().write_all(&all).unwrap();
    let output = delete.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["keys"], 1000, "{output:?}");
    assert_eq!(place.text(&["scan", "db"]), "");
}

#[test]
fn column_families_are_apart() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "default"]);
    place.ok(&["put", "db", "k", "other", "--cf", "pages"]);
    assert_eq!(place.ok(&["get", "db", "k"]), b"default");
    assert_eq!(place.ok(&["get", "db", "k", "--cf", "pages"]), b"other");
    assert_eq!(place.text(&["scan", "db", "--cf", "pages"]), "k : other\n");
    let said = place.refused(&["get", "db", "k", "--cf", "pagse"]);
    assert_eq!(
        said,
        "titan: not found: column family pagse; there are: default, pages\n"
    );
    let stats = place.json(&["stats", "db", "--json"]);
    assert_eq!(stats["families"][1]["name"], "pages");
}
