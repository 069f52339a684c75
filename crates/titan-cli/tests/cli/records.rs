//! `load --format`: records of one file as entries.

use crate::Place;

#[test]
fn records_of_lines_of_json() {
    let place = Place::new();
    let lines =
        "{\"id\": 7, \"name\": \"é\"}\n\n  {\"id\":\"x\"}\r\n{\"name\":1}\nnonsense\n{\"id\":true}";
    place.write("records.jsonl", lines);
    let said = place.refused(&[
        "load",
        "db",
        "records.jsonl",
        "--format",
        "jsonl",
        "--key",
        "id",
    ]);
    assert!(
        said.contains("line 4: no field id: records.jsonl"),
        "{said}"
    );
    assert!(
        said.contains("line 5: ") && said.contains("2 not loaded"),
        "{said}"
    );
    assert_eq!(
        place.text(&["scan", "db"]),
        "7 : {\"id\": 7, \"name\": \"é\"}\ntrue : {\"id\":true}\nx : {\"id\":\"x\"}\n"
    );
}

#[test]
fn records_of_comma_separated_values() {
    let place = Place::new();
    let rows = "name,email,\"a \"\"note\"\"\"\nBob,b@x,\"one\ntwo\"\nshort,row\nAnn,a@x,\"1,2\"\n";
    place.write("in/people.csv", rows);
    let said = place.refused(&["load", "db", "in", "--format", "csv", "--key", "email"]);
    assert!(
        said.contains("2 fields, but 3 names: in/people.csv"),
        "{said}"
    );
    assert_eq!(
        place.text(&["scan", "db"]),
        "a@x : {\"name\":\"Ann\",\"email\":\"a@x\",\"a \\\\\"note\\\\\"\":\"1,2\"}\n\
         b@x : {\"name\":\"Bob\",\"email\":\"b@x\",\"a \\\\\"note\\\\\"\":\"one\\\\ntwo\"}\n"
    );
    let said = place.refused(&["load", "db", "in", "--format", "csv", "--key", "mail"]);
    assert!(said.contains("no field mail"), "{said}");
    assert!(
        place
            .fails(2, &["load", "db", "in", "--format", "csv"])
            .contains("--key")
    );
}

#[test]
fn numbers_of_any_size_stay_apart() {
    let place = Place::new();
    let numbers = [
        "-9223372036854775809",
        "-9223372036854775810",
        "1.50",
        "18446744073709551616",
        "18446744073709551617",
        "1e400",
    ];
    let lines: String = numbers.map(|n| format!("{{\"id\": {n}}}\n")).concat();
    place.write("numbers.jsonl", &lines);
    let args = [
        "load",
        "db",
        "numbers.jsonl",
        "--format",
        "jsonl",
        "--key",
        "id",
    ];
    place.text(&args);
    let expected: String = numbers.map(|n| format!("{n} : {{\"id\": {n}}}\n")).concat();
    let lines = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&place.text(&["scan", "db"])), lines(&expected));
}
