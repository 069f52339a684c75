//! Checks of damaged volumes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Ended, FILES, make, tifs};

/// The largest file of a volume with an extension.
fn largest(dir: &Path, extension: &str) -> PathBuf {
    let files = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    files
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap()
}

/// Changes bytes of a file, at these parts of its length.
fn damage(path: &Path, parts: &[f64]) {
    let mut content = std::fs::read(path).unwrap();
    for part in parts {
        let at = (content.len() as f64 * part) as usize;
        content[at..]
            .iter_mut()
            .take(12)
            .for_each(|byte| *byte ^= 0x55);
    }
    std::fs::write(path, content).unwrap();
}

fn check(dir: &Path, options: &[&str]) -> Ended {
    let checked = tifs([&["fsck", dir.to_str().unwrap()][..], options].concat());
    assert_eq!(checked.status, Some(4), "{checked:?}");
    checked
}

#[test]
fn a_check_goes_on_after_damaged_blocks_and_names_what_cannot_be_read() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("volume");
    make(&dir);
    damage(&largest(&dir, "sst"), &[0.4, 0.6, 0.8]);
    for options in [&["--json"][..], &["--json", "--content"]] {
        let report: Value = serde_json::from_str(&check(&dir, options).out).unwrap();
        let findings = report["findings"].as_array().unwrap();
        assert!(
            findings
                .iter()
                .all(|finding| finding["problem"] == "unreadable"),
            "{report}"
        );
        let places = findings.iter().filter(|finding| finding["inode"].is_null());
        let places: Vec<&str> = places
            .map(|place| place["detail"].as_str().unwrap())
            .collect();
        let is_place = |place: &&&str| place.contains(".sst at offset");
        assert_eq!(places.iter().filter(is_place).count(), 3, "{places:?}");
        // Every name was read, and every file that was not is named.
        assert_eq!(report["entries"], FILES + 1);
        let inodes = findings
            .iter()
            .filter_map(|finding| finding["inode"].as_u64());
        let inodes: BTreeSet<u64> = inodes.collect();
        let read = report["inodes"].as_u64().unwrap();
        assert!(inodes.len() > 3 && read > FILES / 2, "{report}");
        // In the last one before a damaged block, only the content may be missing.
        let known = FILES + 2 - read;
        assert!(
            (known..=known + 3).contains(&(inodes.len() as u64)),
            "{report}"
        );
    }
    let said = check(&dir, &[]).out;
    assert!(
        said.contains("titan check") && said.contains("titan repair"),
        "{said}"
    );
}

#[test]
fn names_that_cannot_be_read_are_no_wrong_links() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("volume");
    make(&dir);
    // Names are before attributes.
    damage(&largest(&dir, "sst"), &[0.1]);
    let report: Value = serde_json::from_str(&check(&dir, &["--json"]).out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert!(
        findings
            .iter()
            .all(|finding| finding["problem"] == "unreadable"),
        "{report}"
    );
    assert_eq!(report["inodes"], FILES + 2);
    let nameless = FILES + 1 - report["entries"].as_u64().unwrap();
    assert!(nameless > 0);
    // And one for the block.
    assert_eq!(findings.len() as u64, nameless + 1, "{report}");
    let first = findings[0]["detail"].as_str().unwrap();
    assert!(
        first.contains("some names in directories 1 cannot be read"),
        "{first}"
    );
}

#[test]
fn a_table_that_cannot_be_opened_is_a_problem_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("volume");
    make(&dir);
    let table = largest(&dir, "sst");
    let length = table.metadata().unwrap().len();
    damage(&table, &[(length - 20) as f64 / length as f64]);
    let said = check(&dir, &[]).out;
    assert!(said.contains(".sst at offset"), "{said}");
    assert!(said.contains("the superblock cannot be read"), "{said}");
}
