use titan_campaigns::Run;
use titan_campaigns::ime::Ime;

#[test]
fn histories_with_a_range_cache_are_as_the_model_says() {
    let run = Run::once(1);
    let small = Ime {
        operations: 90_000,
        rounds: 1,
    };
    small.run(&run);
    run.finish(90_000);
}
