//! `titan top`: a page of a database that this process has open.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use titan::{Db, Options};

use crate::Place;

#[test]
fn one_page_shows_a_database_in_use() {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    for n in 0..10_u8 {
        db.put([n], [n; 20_000]).unwrap();
    }
    db.flush().unwrap();
    let page = place.json(&["top", "db", "--once", "--json"]);
    assert_eq!(page["moment"]["sequence"], 10, "{page}");
    assert_eq!(page["families"][0]["levels"][0]["files"], 1, "{page}");
    assert_eq!(page["families"][0]["blob_files"], 1, "{page}");
    assert!(page["rates"].is_null(), "{page}");
    let text = place.text(&["top", "db", "--once"]);
    assert!(text.contains("sequence number 10\n"), "{text}");
    assert!(
        text.contains("Column family default: keys about 10,"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    for n in 0..3 {
        db.create_column_family(&format!("empty{n}"), Default::default())
            .unwrap();
    }
    let text = place.text(&["top", "db", "--once", "--families", "2"]);
    assert_eq!(text.matches("Column family ").count(), 2, "{text}");
    assert!(text.contains("Column family default"), "{text}");
    assert!(
        text.ends_with("2 more column families, smaller ones\n"),
        "{text}"
    );
    db.close().unwrap();
    let page = place.json(&["top", "db", "--once", "--json"]);
    assert_eq!(page["moment"]["sequence"], 10, "{page}");
}

#[test]
fn an_interval_that_is_too_short_is_refused() {
    let place = Place::new();
    let said = place.fails(2, &["top", "db", "--interval", "10ms"]);
    assert!(said.contains("expected at least 100ms"), "{said}");
}

#[test]
fn pages_follow_one_another_with_the_rates_between_them() {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    db.put("k", "v").unwrap();
    let mut command = place.command(&["top", "db", "--interval", "100ms", "--json"]);
    let mut shown = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(shown.stdout.take().unwrap()).lines();
    let mut page = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert!(page()["rates"].is_null());
    db.put("k", "w").unwrap();
    // The page that follows may have been made before.
    let (mut before, mut written) = (1, 0.0);
    while written == 0.0 {
        let next = page();
        let sequence = next["moment"]["sequence"].as_u64().unwrap();
        let rates = &next["rates"];
        let operations = rates["operations"].as_f64().unwrap();
        let seconds = rates["seconds"].as_f64().unwrap();
        assert!(seconds >= 0.1, "{next}");
        let between = operations * seconds;
        assert!(
            (between - (sequence - before) as f64).abs() < 1e-6,
            "{next}"
        );
        (before, written) = (sequence, operations);
    }
    assert_eq!(before, 2);
    shown.kill().unwrap();
    shown.wait().unwrap();
    db.put("k", "x").unwrap();
    db.close().unwrap();
}

/// As while a log is deleted each time that somebody looks.
#[test]
fn a_busy_database_is_shown_as_busy_until_there_is_a_page() {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let gone = place.path("db").join("000099.log");
    std::os::unix::fs::symlink("nowhere", &gone).unwrap();
    let said = place.refused(&["top", "db", "--once"]);
    assert!(said.contains("titan: busy: "), "{said}");

    let mut command = place.command(&["top", "db", "--interval", "100ms"]);
    let mut shown = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(shown.stdout.take().unwrap()).lines();
    let busy = lines.next().expect("it goes on").unwrap();
    assert!(busy.contains("change faster than"), "{busy}");
    fs::remove_file(&gone).unwrap();
    let page = lines.find(|line| line.as_ref().unwrap().contains("sequence number 1"));
    page.expect("it goes on").unwrap();
    shown.kill().unwrap();
    shown.wait().unwrap();
}
