//! Checks of damaged volumes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use tifs::kv::{Commit, EngineKv, EngineOptions, Kv, Space};
use tifs::schema::Key;

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
        // One byte is in one block. The blocks depend on the time.
        content[at] ^= 0x55;
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
    // In the version of the format, between padding and the magic number.
    damage(&table, &[(length as f64 - 11.5) / length as f64]);
    let said = check(&dir, &[]).out;
    assert!(said.contains(".sst at offset"), "{said}");
    assert!(said.contains("the superblock cannot be read"), "{said}");
}

/// A volume as a process that was killed left it: with writes in its log, of which some were
/// synced.
fn killed(dir: &Path, to: &Path) {
    make(dir);
    let store = EngineKv::open(dir, &EngineOptions::default()).unwrap();
    let superblock = Key::Superblock.encode();
    let value = store.get(Space::Meta, &superblock).unwrap().unwrap();
    for n in 0..40 {
        let mut again = store.begin().unwrap();
        again.put(Space::Meta, &superblock, &value).unwrap();
        assert_eq!(again.commit().unwrap(), Commit::Committed);
        if n == 20 {
            store.sync().unwrap();
        }
    }
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn damage_in_the_log_of_a_killed_volume_is_told() {
    let home = tempfile::tempdir().unwrap();
    let (dir, left) = (home.path().join("volume"), home.path().join("left"));
    killed(&dir, &left);
    let log = largest(&left, "log");
    let content = std::fs::read(&log).unwrap();
    let written = content.iter().rposition(|&byte| byte != 0).unwrap();
    let flip = |at: usize| {
        let mut damaged = content.clone();
        damaged[at] ^= 1;
        std::fs::write(&log, damaged).unwrap();
    };

    flip(written / 4);
    let checked = check(&left, &[]);
    assert!(checked.said.contains("had been synced"), "{checked:?}");
    assert!(checked.said.contains("titan repair"), "{checked:?}");
    let report: Value = serde_json::from_str(&check(&left, &["--json"]).out).unwrap();
    assert_eq!(report["findings"][0]["problem"], "unreadable", "{report}");

    flip(written / 4 * 3);
    let checked = tifs(["fsck", left.to_str().unwrap()]);
    assert_eq!(checked.status, Some(0), "{checked:?}");
    let told = checked
        .out
        .contains("note: the log of the volume is damaged");
    assert!(
        told && checked.out.contains("were not replayed"),
        "{checked:?}"
    );
}
