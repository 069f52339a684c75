//! `titan space`: what occupies disk space, for people, programs and browsers.

use std::fs;

use titan::{ColumnFamilyOptions, Db, Options};

use crate::Place;

/// A database with a blob file of which half is garbage.
fn half_dead(place: &Place) {
    place.write("tree/a", vec![1; 50_000]);
    place.write("tree/b", vec![2; 50_000]);
    place.ok(&["load", "db", "tree"]);
    place.ok(&["delete", "db", "tree/a"]);
    place.ok(&["compact", "db", "--config", place.collects_nothing()]);
}

#[test]
fn numbers_are_the_same_for_people_and_programs() {
    let place = Place::new();
    half_dead(&place);
    let report = place.json(&[
        "space",
        "db",
        "--json",
        "--config",
        place.collects_nothing(),
    ]);
    let number = |at: &str| {
        let value = report.pointer(at).and_then(serde_json::Value::as_u64);
        value.unwrap_or_else(|| panic!("{at}: {report:#}"))
    };
    let parts = ["sst", "blob", "map", "wal", "manifest", "other"];
    let sum: u64 = parts
        .map(|p| number(&format!("/disk/{p}_bytes")))
        .iter()
        .sum();
    let files = fs::read_dir(place.path("db")).unwrap();
    let lengths = files.map(|file| file.unwrap().metadata().unwrap().len());
    // Closing truncates the preallocated part of the log.
    let after_closing: u64 = lengths.sum();
    let wal = number("/disk/wal_bytes");
    assert!(
        (sum - wal..=sum).contains(&after_closing),
        "{after_closing} {report:#}"
    );
    let file = &report["families"][0]["blob_files"][0];
    assert_eq!(file["status"], "off", "{report:#}");
    assert_eq!(number("/total/garbage_blob_bytes"), 50_000 + 32 + 6);
    assert_eq!(number("/total/live_blob_bytes"), 50_000 + 32 + 6);
    assert!(report["holders"].as_array().unwrap().is_empty());

    let text = place.text(&["space", "db", "--config", place.collects_nothing()]);
    for expected in [
        "live values",
        "known garbage",
        "Column family default",
        "█",
        "░",
        "collection is off",
        "Worth doing",
        "and its collection is off: titan gc frees it",
        "The options bound no space",
        "Snapshots and iterators of a program that has the database open are not in its files",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let short = place.text(&["space", "db", "--worst", "0"]);
    assert!(short.contains("more files, garbage"), "{short}");
}

#[test]
fn a_page_needs_nothing_else() {
    let place = Place::new();
    place.write(
        "names.toml",
        "[default]\nenable_blob_garbage_collection = false\n[families.\"<b>\"]\n",
    );
    half_dead(&place);
    place.ok(&["compact", "db", "--config", "names.toml"]);
    place.ok(&[
        "space",
        "db",
        "--html",
        "space.html",
        "--config",
        "names.toml",
    ]);
    let page = fs::read_to_string(place.path("space.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(
        page.contains("Column family &lt;b&gt;") && !page.contains("<b>"),
        "{page}"
    );
    for outside in ["http", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}: {page}");
    }
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
    assert!(
        page.contains("class=\"live\"") && page.contains("class=\"garbage\""),
        "{page}"
    );
    assert!(
        page.contains("<h2>Worth doing</h2>\n<ul>\n<li>known garbage"),
        "{page}"
    );
    let said = place.refused(&["space", "db", "--html", "none/space.html"]);
    assert!(said.starts_with("titan: not found: "), "{said}");
}

/// A database remembers no report; the file of the user does.
#[test]
fn a_page_shows_how_space_went() {
    let place = Place::new();
    let args = ["space", "db", "--record", "space.jsonl", "--html", "x.html"];
    place.write("tree/a", vec![1; 50_000]);
    place.ok(&["load", "db", "tree"]);
    place.ok(&["compact", "db"]);
    place.ok(&args);
    place.write("more/b", vec![2; 90_000]);
    place.ok(&["load", "db", "more"]);
    place.ok(&["compact", "db"]);
    place.ok(&args);
    let recorded = fs::read_to_string(place.path("space.jsonl")).unwrap();
    let samples: Vec<serde_json::Value> = recorded
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let blobs = |n: usize| samples[n]["blob_bytes"].as_u64().unwrap();
    assert_eq!(samples.len(), 2, "{recorded}");
    assert!(
        blobs(0) > 50_000 && blobs(1) > blobs(0) + 90_000,
        "{recorded}"
    );
    let page = fs::read_to_string(place.path("x.html")).unwrap();
    assert!(
        page.contains("<h2>How it went</h2>\n<p>2 samples from "),
        "{page}"
    );
    assert_eq!(page.matches("<polygon").count(), 5, "{page}");
    for outside in ["http", "src=", "href=", "url(", "<script", "NaN"] {
        assert!(!page.contains(outside), "{outside}: {page}");
    }

    fs::write(place.path("space.jsonl"), "no sample\n").unwrap();
    let said = place.refused(&args);
    assert!(said.contains("line 1 is no sample"), "{said}");
    let said = place.fails(2, &["space", "db", "--every", "1s"]);
    assert!(said.contains("--record"), "{said}");
}

#[test]
fn holes_are_a_part_of_their_own() {
    let place = Place::new();
    let options = Options {
        default: ColumnFamilyOptions {
            blob_garbage_collection_punch_holes: true,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(place.path("db"), &options).unwrap();
    for n in 0..40_u8 {
        db.put(&[n], &[n; 50_000]).unwrap();
    }
    db.flush().unwrap();
    for n in (0..40).step_by(2) {
        db.delete(&[n]).unwrap();
    }
    db.compact_range(None, None, &Default::default()).unwrap();
    db.wait_idle().unwrap();
    let holes = db.statistics().counters();
    let holes = holes.iter().find(|(name, _)| *name == "gc_hole_bytes");
    let punched = holes.unwrap().1 > 0;
    db.close().unwrap();
    if !punched {
        eprintln!("the file system has no holes; not looked at");
        return;
    }
    place.write(
        "punch.toml",
        "[default]\nblob_garbage_collection_punch_holes = true\n",
    );
    let args = ["space", "db", "--config", "punch.toml", "--html", "x.html"];
    let text = place.text(&args);
    assert!(text.contains("holes ·") && text.contains("░·"), "{text}");
    assert!(!text.contains("Worth doing"), "{text}");
    let page = fs::read_to_string(place.path("x.html")).unwrap();
    assert!(page.contains("<i class=\"hole\""), "{page}");
}
