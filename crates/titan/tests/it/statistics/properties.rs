//! Properties by RocksDB's names.

use titan::StatsLevel;
use titan_testkit::sim::SimVfs;

use super::{at_level, filled};
use crate::support::key;

#[test]
fn properties_have_rocksdbs_names_and_forms() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::All));
    db.delete(key(60)).unwrap();
    let snapshot = db.snapshot();
    let property = |name: &str| {
        let found = db.property(&format!("rocksdb.{name}"));
        found.unwrap_or_else(|| panic!("{name} is not known"))
    };
    for (name, expected) in [
        ("num-immutable-mem-table", "0"),
        ("mem-table-flush-pending", "0"),
        ("num-entries-active-mem-table", "41"),
        ("num-entries-imm-mem-tables", "0"),
        ("num-deletes-active-mem-table", "1"),
        ("num-deletes-imm-mem-tables", "0"),
        ("num-files-at-level0", "1"),
        ("num-files-at-level6", "1"),
        ("num-blob-files", "2"),
        ("num-running-compactions", "0"),
        ("num-running-flushes", "0"),
        ("compaction-pending", "0"),
        ("num-snapshots", "1"),
        ("is-write-stopped", "0"),
        ("is-write-stalled", "0"),
        ("actual-delayed-write-rate", "0"),
        ("background-errors", "0"),
    ] {
        assert_eq!(property(name), expected, "{name}");
    }
    let sequence = snapshot.sequence().0.to_string();
    assert_eq!(property("oldest-snapshot-sequence"), sequence);
    let number = |name: &str| property(name).parse::<u64>().unwrap();
    assert!(number("oldest-snapshot-time") > 0);
    assert!(number("cur-size-active-mem-table") > 0);
    assert_eq!(
        number("size-all-mem-tables"),
        number("cur-size-active-mem-table")
    );
    assert_eq!(
        number("estimate-live-data-size"),
        number("live-sst-files-size") + number("live-blob-file-size"),
    );
    let levels = property("levelstats");
    assert_eq!(levels.lines().count(), 2 + 7, "{levels}");
    assert!(property("blob-stats").starts_with("Number of blob files: 2\n"));
    let statistics = property("options-statistics");
    assert!(
        statistics.contains("\nrocksdb.memtable.hit COUNT : 0\n"),
        "{statistics}"
    );
    let flushes = "rocksdb.db.flush.micros P50 : ";
    assert!(
        statistics.lines().any(|line| line.starts_with(flushes)),
        "{statistics}"
    );
    // A small table has more than its entries.
    let ratio: f64 = property("compression-ratio-at-level0").parse().unwrap();
    assert!(0.01 < ratio && ratio < 10.0, "{ratio}");
    assert_eq!(property("compression-ratio-at-level3"), "-1.000000");
    let family = property("cfstats");
    assert!(
        family.contains("** Compaction Stats [default] **"),
        "{family}"
    );
    let files = |level: &str| {
        let line = family.lines().find(|line| line.trim().starts_with(level));
        let files = line.unwrap().split_whitespace().nth(1).unwrap();
        files.parse::<u64>().unwrap()
    };
    assert_eq!(
        (files("L0"), files("L6"), files("Sum")),
        (1, 1, 2),
        "{family}"
    );
    assert!(family.contains("\nBlob file count: 2,"), "{family}");
    let database = property("dbstats");
    let writes = format!(
        "Cumulative writes: {} writes",
        db.statistics().keys_written()
    );
    assert!(database.contains(&writes), "{database}");
    assert_eq!(property("stats"), family + &database);
    drop(snapshot);
    assert_eq!(property("oldest-snapshot-time"), "0");
    for unknown in [
        "rocksdb.no-such",
        "rocksdb.compression-ratio-at-level7",
        "num-snapshots",
        "rocksdb.num-files-at-level7",
    ] {
        assert_eq!(db.property(unknown), None, "{unknown}");
    }
}
