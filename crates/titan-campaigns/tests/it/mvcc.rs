use titan_campaigns::Run;
use titan_campaigns::mvcc::Mvcc;

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
    let seen = small.run(&run);
    run.finish(120_000);
    let counts = [
        seen.conflicts,
        seen.blocked,
        seen.rolled_back,
        seen.pushed,
        seen.waits,
        seen.deadlocks,
        seen.refused,
    ];
    assert!(counts.iter().all(|n| *n > 0), "{seen:?}");
}
