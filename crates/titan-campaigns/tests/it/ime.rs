use titan_campaigns::Run;
use titan_campaigns::ime::Ime;
use titan_campaigns::mvcc::Mvcc;

#[test]
fn histories_with_a_range_cache_are_as_the_model_says() {
    let run = Run::tonight();
    let small = Ime(Mvcc {
        operations: 100_000,
        ..Mvcc::default()
    });
    let seen = small.run(&run);
    run.finish(100_000);
    println!("{seen:?}");
    // Each of these was tried.
    assert!(seen.cache.iter().all(|n| *n > 0), "{seen:?}");
}
