//! A part of the directories of the oldest and the newest release of RocksDB.

use std::path::Path;

use titan_campaigns::Run;
use titan_campaigns::matrix::{Matrix, VERSIONS};

/// If it is set, RocksDB must be available, and is fetched if it is not.
const REQUIRED: &str = "TITAN_TEST_REQUIRES_ROCKSDB";

/// At least one directory of each kind, and some that must be refused.
const SAMPLE: &[&str] = &[
    "defaults",
    "format-version-0",
    "dictionary-zstd-trained",
    "keys-apart-from-values",
    "filter-ribbon-partitioned",
    "blobs-collected",
    "range-deletions-over-blobs",
    "order-by-another-name",
    "twenty-families",
    "ingested-killed",
    "restored-backup",
    "merge-operands",
    "wide-columns",
    "one-path-elsewhere",
    "killed-many-logs",
    "compressed-log-killed",
    "logs-elsewhere",
    "committed-after-a-kill",
    "prepared-undecided",
    "families with different options",
];

#[test]
fn directories_of_the_oldest_and_the_newest_release_are_read() {
    let jars = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("rocksdbjni");
    let ends = [VERSIONS.first(), VERSIONS.last()];
    let sample = Matrix {
        versions: ends.into_iter().flatten().map(|&v| v.to_owned()).collect(),
        only: SAMPLE.iter().map(|&name| name.to_owned()).collect(),
        ..Matrix::new(&jars)
    };
    let required = std::env::var_os(REQUIRED).is_some();
    let missing = sample.missing();
    if !required && !missing.is_empty() {
        println!("left out: cargo xtask rocksdb-matrix fetches RocksDB {missing:?}");
        return;
    }
    let run = Run::once(1);
    match sample.fetch(&run) {
        Ok(releases) => sample.run(&run, releases),
        Err(what) if required => panic!("{what}"),
        Err(what) => return println!("left out: {what}"),
    }
    run.finish(30);
}
