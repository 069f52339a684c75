//! The laws of modules (`titan_testkit::law`).

use titan_testkit::law::{Crate, assert_none};

fn sources() -> Crate {
    Crate::read("titan-ime", env!("CARGO_MANIFEST_DIR")).unwrap()
}

#[test]
fn modules_use_only_lower_ones() {
    assert_none(sources().breaches_of_order(), &[]);
}

#[test]
fn files_are_in_no_circle() {
    assert_none(sources().breaches_of_circles(), &[]);
}

/// Structs that are data, not parts of the program.
const RECORDS: [&str; 1] = ["Stats"];

#[test]
fn structs_files_and_folders_are_small() {
    assert_none(sources().breaches_of_sizes(&RECORDS).unwrap(), &[]);
}
