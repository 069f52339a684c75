//! `load` and `dump`: directory trees in and out.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::{Place, file_of, tree};

fn odd_tree(place: &Place) {
    let big: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    place.write("tree/a b.txt", "with a space");
    place.write("tree/empty", "");
    place.write("tree/ünï/日本.txt", "名");
    place.write("tree/deep/er/est", vec![0, 255, 10, 13]);
    place.write("tree/-dash", "-");
    place.write("tree/new\nline", "n");
    place.write("tree/.hidden", "h");
    place.write("tree/big", big);
    place.write(
        Path::new("tree").join(OsStr::from_bytes(b"no\xffutf8")),
        "x",
    );
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let place = Place::new();
    odd_tree(&place);
    symlink("/etc/passwd", place.path("tree/link")).unwrap();
    let summary = place.json(&["load", "db", "./tree", "--json"]);
    fs::remove_file(place.path("tree/link")).unwrap();
    assert_eq!(
        (&summary["files"], &summary["failed"]),
        (&9.into(), &0.into())
    );
    assert_eq!(
        (&summary["skipped"], &summary["live"]["keys"]),
        (&1.into(), &9.into())
    );
    assert!(
        summary["disk"]["blob_bytes"].as_u64().unwrap() > 3_000_000,
        "{summary}"
    );

    assert_eq!(place.ok(&["get", "db", "tree/a b.txt"]), b"with a space");
    let text = place.text(&["dump", "db", "out"]);
    assert!(text.starts_with("9 files, 2.86 MiB"), "{text}");
    assert_eq!(tree(&place.path("out/tree")), tree(&place.path("tree")));

    // Existing files are left alone without --force.
    let said = place.refused(&["dump", "db", "out"]);
    assert!(said.contains("titan: already exists: write:"), "{said}");
    place.ok(&["dump", "db", "out", "--force"]);
    assert_eq!(tree(&place.path("out/tree")), tree(&place.path("tree")));
}

#[test]
fn absolute_paths_are_keys_and_restored_inside() {
    let place = Place::new();
    place.write("tree/x", "1");
    let absolute = place.path("tree");
    let summary = place.json(&["load", "db", absolute.to_str().unwrap(), "--json"]);
    assert_eq!(summary["files"], 1);
    let key = absolute.join("x");
    assert_eq!(place.ok(&["get", "db", key.to_str().unwrap()]), b"1");
    place.ok(&["dump", "db", "out"]);
    let restored = place.path("out").join(key.strip_prefix("/").unwrap());
    assert_eq!(fs::read(restored).unwrap(), b"1");
}

#[test]
fn what_cannot_be_loaded_is_reported_and_the_rest_is_loaded() {
    let place = Place::new();
    place.write("tree/x", "1");
    symlink("tree", place.path("link")).unwrap();
    let said = place.refused(&["load", "db", "missing", "link", "tree"]);
    assert!(said.contains("titan: not found: read: missing"), "{said}");
    assert!(said.contains("links are not followed: link"), "{said}");
    assert!(said.contains("2 not loaded"), "{said}");
    assert_eq!(place.ok(&["get", "db", "tree/x"]), b"1");
}

#[test]
fn the_database_does_not_load_itself() {
    let place = Place::new();
    place.write("x", "1");
    assert_eq!(place.json(&["load", "db", ".", "--json"])["files"], 1);
    assert_eq!(place.text(&["scan", "db"]), "x : 1\n");
}

#[test]
fn nothing_is_written_outside_the_directory_of_a_dump() {
    let place = Place::new();
    place.ok(&["put", "db", "../escaped", "1"]);
    place.ok(&["put", "db", "link/escaped", "1"]);
    place.ok(&["put", "db", "inside", "1"]);
    fs::create_dir_all(place.path("out")).unwrap();
    fs::create_dir_all(place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), place.path("out/link")).unwrap();
    let said = place.refused(&["dump", "db", "out"]);
    assert!(said.contains("`../escaped` contains `..`"), "{said}");
    assert!(said.contains("2 not restored"), "{said}");
    assert!(!place.path("escaped").exists());
    assert!(tree(&place.path("elsewhere")).is_empty());
    assert_eq!(fs::read(place.path("out/inside")).unwrap(), b"1");
}

#[test]
fn a_dump_tells_of_each_damaged_place_once() {
    let place = Place::new();
    for i in 0..30_u8 {
        place.write(format!("tree/{i:02}"), vec![i; 20_000]);
    }
    place.ok(&["load", "db", "tree"]);
    let blob = file_of(&place.path("db"), ".blob");
    let whole = fs::read(&blob).unwrap();
    let mut bytes = whole.clone();
    for damaged in [7, 9] {
        let at = bytes.windows(16).position(|w| w == [damaged; 16]).unwrap();
        bytes[at..at + 100].fill(0xee);
    }
    fs::write(&blob, &bytes).unwrap();
    let output = place.run(&["dump", "db", "out", "--json"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["files"], 28, "{summary}");
    assert_eq!(summary["unreadable"], 2, "{summary}");
    assert_eq!(summary["all_keys_seen"], true, "{summary}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 4, "{said}");
    assert!(said.contains("value of `tree/07`: "), "{said}");
    assert!(said.contains("2 not restored, see above"), "{said}");
    assert!(said.contains("titan repair"), "{said}");
    assert_eq!(tree(&place.path("out")).len(), 28);

    // A file with no readable value is one place.
    bytes[0] ^= 1;
    fs::write(&blob, &bytes).unwrap();
    let said = place.refused(&["dump", "db", "none"]);
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(said.contains("30 not restored"), "{said}");

    // Keys after damage in a table are not seen.
    fs::write(&blob, &whole).unwrap();
    let sst = file_of(&place.path("db"), ".sst");
    let mut bytes = fs::read(&sst).unwrap();
    bytes[100] ^= 1;
    fs::write(&sst, bytes).unwrap();
    let said = place.refused(&["dump", "db", "none"]);
    assert!(said.contains("nor the keys from the failure on"), "{said}");
    assert!(said.contains(".sst at offset"), "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
}

/// A dump reads ahead, but not past what it can restore.
#[test]
fn a_dump_restores_every_key_before_a_damaged_block() {
    let place = Place::new();
    for i in 0..100_u8 {
        place.write(format!("tree/{i:03}"), vec![i; 5000]);
    }
    place.write(
        "small.toml",
        "[default]\nblock_size = 1024\ncompression = \"none\"\nmin_blob_size = 1000\n",
    );
    place.ok(&["load", "db", "tree", "--config", "small.toml"]);
    let sst = file_of(&place.path("db"), ".sst");
    let mut bytes = fs::read(&sst).unwrap();
    bytes[1500] ^= 1;
    fs::write(&sst, bytes).unwrap();
    let scanned = place.run(&["scan", "db", "--keys-only"]).stdout;
    let readable = String::from_utf8(scanned).unwrap().lines().count();
    assert!((10..90).contains(&readable), "{readable}");
    let output = place.run(&["dump", "db", "out", "--json"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["files"], readable, "{summary}");
    assert_eq!(summary["all_keys_seen"], false, "{summary}");
    assert_eq!(tree(&place.path("out")).len(), readable);
    let said = String::from_utf8(output.stderr).unwrap();
    let last = format!("keys after `tree/{:03}`", readable - 1);
    assert!(
        said.contains(&last) && said.contains("titan repair"),
        "{said}"
    );
}

#[test]
fn what_is_no_damage_is_not_called_so() {
    let place = Place::new();
    place.write("small.toml", "[default]\nmin_blob_size = 100\n");
    place.write("tree/a", vec![1; 500]);
    place.ok(&["load", "db", "tree", "--config", "small.toml"]);
    let blob = file_of(&place.path("db"), ".blob");
    fs::remove_file(&blob).unwrap();
    // A directory whose size is larger than the file's was, on any file system.
    let name = blob.strip_prefix(place.path("")).unwrap().to_owned();
    for n in 0..300 {
        place.write(name.join(format!("entry{n:03}")), "");
    }
    let said = place.refused(&["dump", "db", "out"]);
    assert!(said.contains("titan: io error: 1 not restored"), "{said}");
    assert!(!said.contains("repair"), "{said}");
}

#[test]
fn of_many_failures_the_first_are_told() {
    let place = Place::new();
    for i in 0..120 {
        place.write(format!("tree/{i}"), "");
    }
    place.ok(&["load", "db", "tree"]);
    place.ok(&["dump", "db", "out"]);
    let said = place.refused(&["dump", "db", "out"]);
    assert_eq!(said.lines().count(), 102, "{said}");
    assert!(said.contains("more failures, only counted"), "{said}");
    assert!(
        said.ends_with("120 not restored, see above; --force replaces files that exist\n"),
        "{said}"
    );
}

#[test]
fn a_key_below_another_one_is_told() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "1"]);
    place.ok(&["put", "db", "a/b", "2"]);
    let said = place.fails(1, &["dump", "db", "out"]);
    assert!(
        said.contains("a file is where the key needs a directory: out/a"),
        "{said}"
    );
}
