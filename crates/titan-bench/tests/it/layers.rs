//! The laws of modules (`titan_testkit::law`).

use titan_testkit::law::{Crate, assert_none};

fn sources() -> Crate {
    Crate::read("titan-bench", env!("CARGO_MANIFEST_DIR")).unwrap()
}

#[test]
fn modules_use_only_lower_ones() {
    assert_none(sources().breaches_of_order(), &[]);
}

#[test]
fn files_are_in_no_circle() {
    assert_none(
        sources().breaches_of_circles(),
        &[
            "compare: judgements -> mod",
            "compare: mod -> rankings",
            "engine: fjall -> mod",
            "engine: lmdb -> mod",
            "engine: mod -> redb",
            "engine: mod -> rocksdb",
            "engine: mod -> titan",
            "features: counters -> mod",
            "features: hook -> mod",
            "features: mod -> mvcc",
            "features: mod -> prefixes",
            "features: mod -> transactions",
            "ime: results -> targets",
            "report/content: mod -> steps",
            "report/content: mod -> verdicts",
            "report/content: charts -> steps",
            "report/plots: mod -> style",
            "run: mod -> process",
            "work: catalog -> profile",
            "worker: db_bench -> mod",
            "worker: mod -> step",
        ],
    );
}

/// Structs that are data, not parts of the program.
const RECORDS: [&str; 3] = ["Figures", "Measured", "Report"];

#[test]
fn structs_files_and_folders_are_small() {
    assert_none(sources().breaches_of_sizes(&RECORDS).unwrap(), &[]);
}
