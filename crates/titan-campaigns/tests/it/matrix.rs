//! A part of the directories of the oldest and the newest release of RocksDB.

use std::path::Path;

use titan_campaigns::Run;
use titan_campaigns::matrix::{Matrix, VERSIONS};
use titan_testkit::requirement;

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
    "timed-puts",
    "named-as-leveldb",
    "one-path-elsewhere",
    "killed-many-logs",
    "compressed-log-killed",
    "logs-elsewhere",
    "committed-after-a-kill",
    "prepared-undecided",
    "families with different options",
    "followed-by-a-secondary",
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
    // Releases are fetched only if the test must not be skipped.
    let missing = sample.missing();
    let fetched = match missing.is_empty() || requirement::all_required() {
        true => None,
        false => Some(format!("cargo xtask rocksdb-matrix fetches {missing:?}")),
    };
    let needed = "releases of RocksDB, Java and Maven";
    if requirement::met(needed, fetched.map_or(Ok(()), Err)).is_none() {
        return;
    }
    let run = Run::once(1);
    let Some(releases) = requirement::met(needed, sample.fetch(&run)) else {
        return;
    };
    sample.run(&run, releases);
    run.finish(30);
}
