//! Former failures and fragile cases: every file in `regressions/`.

use std::path::Path;

use titan_campaigns::{case, crash, faults, metamorphic, mvcc};
use titan_testkit::failure::{CheckFailure, Doing};

/// Runs all files of a folder and of those in it.
fn all(folder: &str, replay: impl Fn(&str) -> Result<u64, CheckFailure>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("regressions")
        .join(folder);
    let mut files = 0;
    let mut waiting = vec![folder.clone()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        match replay(&text).doing(path.display()) {
            Ok(passed) => assert!(passed > 0, "{} tests nothing", path.display()),
            Err(failure) => panic!("{failure}"),
        }
        files += 1;
    }
    assert!(files > 0, "{} is empty", folder.display());
}

#[test]
fn crashes() {
    all("crash", |text| crash::replay(&text.parse()?));
}

#[test]
fn failing_operations() {
    all("faults", |text| faults::replay(&text.parse()?));
}

#[test]
fn configurations() {
    all(
        "metamorphic",
        case::replay::<metamorphic::configurations::Configuration>,
    );
}

#[test]
fn versions() {
    all("mvcc", case::replay::<mvcc::configurations::Configuration>);
}

#[test]
fn range_cache() {
    all("ime", case::replay::<mvcc::configurations::Configuration>);
}
