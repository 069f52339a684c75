//! `scan`: what it selects and how it prints it.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;

use titan::merge::MergeOperator;
use titan::{Db, Options};
use titan_testkit::requirement;

use crate::Place;

#[test]
fn scan_selects_and_shows() {
    let place = Place::new();
    for (key, value) in [
        ("a", "1"),
        ("b1", "2"),
        ("b2", "3"),
        ("c", "4"),
        ("0x64ff", "0x0a7f"),
    ] {
        place.ok(&["put", "db", key, value]);
    }
    let scan = |args: &[&str]| place.text(&[&["scan", "db"], args].concat());
    assert_eq!(
        scan(&[]),
        "a : 1\nb1 : 2\nb2 : 3\nc : 4\nd\\xFF : \\n\\x7F\n"
    );
    assert_eq!(scan(&["--from", "b", "--to", "b2"]), "b1 : 2\n");
    assert_eq!(scan(&["--from", "b2", "--limit", "2"]), "b2 : 3\nc : 4\n");
    assert_eq!(scan(&["--prefix", "b"]), "b1 : 2\nb2 : 3\n");
    assert_eq!(scan(&["--prefix", "b", "--reverse"]), "b2 : 3\nb1 : 2\n");
    assert_eq!(scan(&["--prefix", "b", "--from", "b2"]), "b2 : 3\n");
    assert_eq!(
        scan(&["--reverse", "--keys-only", "--to", "c", "--limit", "2"]),
        "b2\nb1\n"
    );
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--prefix", "x"]), "");
    assert_eq!(
        scan(&["--from", "c", "--hex"]),
        "0x63 : 0x34\n0x64FF : 0x0A7F\n"
    );
    assert_eq!(
        scan(&["--from", "c", "--json"]),
        "{\"key\":\"c\",\"value\":\"4\"}\n{\"key_hex\":\"0x64FF\",\"value\":\"\\n\u{7f}\"}\n"
    );
    assert_eq!(
        scan(&["--prefix", "a", "--json", "--hex"]),
        "{\"key_hex\":\"0x61\",\"value_hex\":\"0x31\"}\n"
    );
    assert_eq!(
        scan(&["--prefix", "a", "--json", "--keys-only"]),
        "{\"key\":\"a\"}\n"
    );
}

#[test]
fn scan_in_hexadecimal_is_what_ldb_prints() {
    let place = Place::new();
    for (key, value) in [("a", ""), ("0x00ff", "0xdeadbeef"), ("日", "n")] {
        place.ok(&["put", "db", key, value]);
    }
    let ldb = Command::new("ldb")
        .args(["scan", "--hex"])
        .arg(format!("--db={}", place.path("db").display()))
        .output();
    let Some(ldb) = requirement::met(requirement::ROCKSDB_TOOLS, ldb) else {
        return;
    };
    assert!(ldb.status.success(), "{ldb:?}");
    let ours = place.text(&["scan", "db", "--hex"]);
    assert_eq!(ours, String::from_utf8_lossy(&ldb.stdout));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    place.write(
        "records",
        "{\"k\":\"".to_owned() + &"x".repeat(20_000) + "\"}\n",
    );
    for i in 0..20 {
        place.ok(&["put", "db", &format!("{i:02}"), "--file", "records"]);
    }
    let mut scan = place
        .command(&["scan", "db"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    scan.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = scan.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

/// Keeps the last operand.
struct Own;

impl MergeOperator for Own {
    fn name(&self) -> &str {
        "own::Last"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.last().map(|last| last.to_vec())
    }
}

#[test]
fn scan_goes_on_after_a_value_that_cannot_be_read() {
    let place = Place::new();
    let mut options = Options::default();
    options.default.merge_operator = Some(Arc::new(Own));
    let db = Db::open(place.path("db"), &options).unwrap();
    db.put(b"a", b"1").unwrap();
    db.merge(b"b", b"2").unwrap();
    db.put(b"c", b"3").unwrap();
    db.close().unwrap();
    for (order, printed) in [
        (None, "a : 1\nc : 3\n"),
        (Some("--reverse"), "c : 3\na : 1\n"),
    ] {
        let args: Vec<_> = ["scan", "db"].into_iter().chain(order).collect();
        let output = place.run(&args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
        let said = String::from_utf8_lossy(&output.stderr);
        for part in [
            "value of `b`",
            "own::Last",
            "1 values not read",
            "--keys-only",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert_eq!(place.text(&["scan", "db", "--keys-only"]), "a\nb\nc\n");
    // Whose operator that is, the options say.
    let options = place.text(&["options", "db"]);
    assert!(
        options.contains("# default: merge_operator own::Last"),
        "{options}"
    );
    let options = place.json(&["options", "db", "--json"]);
    assert_eq!(
        options["recorded_names"]["default"]["merge_operator"],
        "own::Last"
    );
}

/// The default column is the value; the others are printed as JSON, and what cannot be read stops
/// nothing.
#[test]
fn scan_goes_through_wide_columns() {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put_entity(b"b", [("", "2"), ("age", "41"), ("town", "Ulm")])
        .unwrap();
    db.put_entity(b"c", [("", "only")]).unwrap();
    db.put(b"d", b"4").unwrap();
    db.close().unwrap();
    let scan = |args: &[&str]| place.text(&[&["scan", "db"], args].concat());
    let printed = place.run(&["scan", "db"]);
    assert!(printed.status.success(), "{printed:?}");
    assert_eq!(printed.stdout, b"a : 1\nb : 2\nc : only\nd : 4\n");
    let said = String::from_utf8(printed.stderr).unwrap();
    assert!(said.contains("several columns; --json"), "{said}");
    assert_eq!(scan(&["--keys-only"]), "a\nb\nc\nd\n");
    assert_eq!(
        scan(&["--json", "--from", "b", "--to", "d"]),
        "{\"columns\":{\"age\":\"41\",\"town\":\"Ulm\"},\"key\":\"b\",\"value\":\"2\"}\n\
         {\"key\":\"c\",\"value\":\"only\"}\n"
    );
    let got = place.run(&["get", "db", "b"]);
    assert_eq!((got.status.code(), &got.stdout[..]), (Some(0), &b"2"[..]));
    let said = String::from_utf8(got.stderr).unwrap();
    assert!(said.contains("several columns; --json"), "{said}");
    let object = "{\"columns\":{\"age\":\"41\",\"town\":\"Ulm\"},\"key\":\"b\",\"value\":\"2\"}\n";
    assert_eq!(place.text(&["get", "db", "b", "--json"]), object);
    let two = place.text(&["get", "db", "b", "d", "--json"]);
    assert!(two.starts_with(object), "{two}");
    // A file has one column, and a dump that loses the others says so.
    let dumped = place.run(&["dump", "db", "files"]);
    assert_eq!(dumped.status.code(), Some(1), "{dumped:?}");
    let said = String::from_utf8(dumped.stderr).unwrap();
    assert!(said.contains("columns left out of 1"), "{said}");
    assert_eq!(std::fs::read(place.path("files/b")).unwrap(), b"2");
}
