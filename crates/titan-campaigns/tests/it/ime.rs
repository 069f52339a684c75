use titan_campaigns::Run;
use titan_campaigns::ime::Ime;
use titan_campaigns::ime::configurations::CONFIGURATIONS;
use titan_campaigns::mvcc::Mvcc;

use crate::mvcc::are_deep;

#[test]
fn histories_with_a_range_cache_are_as_the_model_says() {
    let run = Run::tonight();
    let small = Ime(Mvcc {
        operations: 50_000,
        ..Mvcc::default()
    });
    small.run(&run);
    run.finish(50_000);
}

/// With one seed, so that no day lacks a rare event by chance.
#[test]
fn histories_with_a_range_cache_test_much() {
    let run = Run::once(1);
    let small = Ime(Mvcc {
        operations: 100_000,
        ..Mvcc::default()
    });
    let coverage = small.run(&run);
    println!("{coverage}");
    run.finish(100_000);
    are_deep(&coverage, &CONFIGURATIONS);
    let seen = coverage.sum();
    // The scheduler decides whether a read meets writes that are not applied.
    let by_chance = 6;
    let counts = seen.cache.iter().enumerate();
    let nothing = counts.filter(|(event, n)| *event != by_chance && **n == 0);
    assert_eq!(nothing.count(), 0, "{seen:?}");
}
