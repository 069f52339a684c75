//! Deletions of ranges, and reads of several keys.

use std::process::Stdio;
use std::sync::Arc;

use titan::{ColumnFamilyOptions, Db, Options};

use crate::Place;

/// A database with these keys, each its own value.
fn with_keys(keys: &[&str]) -> Place {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    for key in keys {
        db.put(key, key).unwrap();
    }
    db.close().unwrap();
    place
}

fn keys(place: &Place) -> String {
    let listed = place.text(&["scan", "db", "--keys-only"]);
    listed.lines().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_range_is_deleted_with_its_first_key_and_without_its_end() {
    let all = ["", "a", "b1", "b2", "b3", "c", "d"];
    for (range, left) in [
        (&["--prefix", "b"][..], " a c d"),
        (&["--from", "b2", "--to", "c"], " a b1 c d"),
        (&["--from", "b3"], " a b1 b2"),
        (&["--to", "b1"], "b1 b2 b3 c d"),
        (&["--from", "0x", "--to", "0"], "a b1 b2 b3 c d"),
        (&["--prefix", "b", "--from", "b2"], " a b1 c d"),
        (&["--prefix", "no"], " a b1 b2 b3 c d"),
        (&["--prefix", "0x"], ""),
    ] {
        let place = with_keys(&all);
        let args = [&["delete", "db", "--yes"], range].concat();
        assert_eq!(place.text(&args), "");
        assert_eq!(keys(&place), left, "{range:?}");
        place.ok(&["check", "db"]);
    }
}

#[test]
fn the_last_key_of_a_reverse_order_is_deleted_too() {
    let place = Place::new();
    let mut options = Options::default();
    let reverse = ColumnFamilyOptions {
        comparator: Arc::new(titan::ReverseBytewiseComparator),
        ..ColumnFamilyOptions::default()
    };
    options.families.insert("reverse".to_owned(), reverse);
    let db = Db::open(place.path("db"), &options).unwrap();
    let family = db.column_family("reverse").unwrap();
    for key in ["a", "b", "b\0", "c"] {
        family.put(key, "").unwrap();
    }
    db.close().unwrap();
    drop((family, db));
    let range = ["--from", "0x6200", "--to", "a"];
    place.ok(&[&["delete", "db", "--cf", "reverse", "--yes"][..], &range].concat());
    let listed = place.text(&["scan", "db", "--cf", "reverse", "--keys-only"]);
    assert_eq!(listed, "c\na\n");
}

#[test]
fn a_range_is_not_deleted_without_consent() {
    let place = with_keys(&["a", "b", "c"]);
    let said = place.fails(1, &["delete", "db", "--from", "b"]);
    assert!(
        said.contains("--yes confirms to delete all keys from b to c"),
        "{said}"
    );
    // An answer that does not come from a terminal is none.
    let mut asked = place.command(&["delete", "db", "--from", "b"]);
    let asked = asked.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    assert_eq!(
        asked.unwrap().wait_with_output().unwrap().status.code(),
        Some(1)
    );
    assert_eq!(keys(&place), "a b c");
    for wrong in [
        &["delete", "db"][..],
        &["delete", "db", "a", "--prefix", "b"],
        &["delete", "db", "--from-file", "list", "--to", "b"],
        // A variable that is not set must not delete everything.
        &["delete", "db", "--yes", "--prefix", ""],
        &["delete", "db", "--yes", "--from", ""],
    ] {
        place.fails(2, wrong);
    }
    assert_eq!(keys(&place), "a b c");
    place.ok(&["mvcc", "put", "store", "k", "v"]);
    let said = place.fails(1, &["delete", "store", "--prefix", "k", "--yes"]);
    assert!(said.contains("a store of versions"), "{said}");
}

#[test]
fn several_keys_are_read_in_their_order() {
    let place = with_keys(&["a", "b", "c"]);
    assert_eq!(place.ok(&["get", "db", "b"]), b"b");
    assert_eq!(place.text(&["get", "db", "c", "a"]), "c : c\na : a\n");
    assert_eq!(
        place.text(&["get", "db", "0x61", "c", "--json"]),
        "{\"key\":\"a\",\"value\":\"a\"}\n{\"key\":\"c\",\"value\":\"c\"}\n"
    );
    let output = place.run(&["get", "db", "a", "no", "c", "none"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(output.stdout, b"a : a\nc : c\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "titan: not found: key no\ntitan: not found: key none\n"
    );
}
