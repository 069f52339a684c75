use titan_campaigns::Run;
use titan_campaigns::mvcc::configurations::{CONFIGURATIONS, Configuration};
use titan_campaigns::mvcc::{Coverage, Mvcc};

#[test]
fn histories_of_versions_are_as_the_model_says() {
    let run = Run::tonight();
    let small = Mvcc {
        operations: 60_000,
        ..Mvcc::default()
    };
    small.run(&run);
    run.finish(60_000);
}

/// With one seed, so that no day lacks a rare event by chance.
#[test]
fn histories_of_versions_test_much() {
    let run = Run::once(1);
    let small = Mvcc {
        operations: 120_000,
        ..Mvcc::default()
    };
    let coverage = small.run(&run);
    println!("{coverage}");
    run.finish(120_000);
    are_deep(&coverage, &CONFIGURATIONS);
    let seen = coverage.sum();
    let counts = [
        seen.conflicts,
        seen.blocked,
        seen.rolled_back,
        seen.returned,
        seen.pushed,
        seen.waits,
        seen.deadlocks,
        seen.refused,
    ];
    assert!(counts.iter().all(|n| *n > 0), "{seen:?}");
}

/// Each configuration fills what it is about: levels, blob files that are collected, and crashes.
pub fn are_deep(coverage: &Coverage, configurations: &[Configuration]) {
    for of in configurations {
        let seen = coverage.0[of.name];
        let depth = seen.depth;
        let is_separated = of.min_blob_size < of.value_size as u64;
        let is_collected = is_separated && of.safe_point_lag.is_some();
        // What few keys have fits in few tables.
        let is_wide = of.small_tables && of.keys >= 100;
        let wanted = [
            (depth.flushes, 10),
            (depth.compactions, 5),
            (depth.levels, if is_wide { 2 } else { 1 }),
            (depth.tables, if is_wide { 6 } else { 2 }),
            (depth.blob_files, if is_separated { 6 } else { 0 }),
            (depth.collections, u64::from(is_collected)),
            (seen.crashes, if of.crashes { 3 } else { 0 }),
        ];
        let is_deep = wanted.iter().all(|(found, least)| found >= least);
        assert!(is_deep, "{}: {seen:?}", of.name);
    }
}
